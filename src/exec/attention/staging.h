// How an operation meets the mesh: its inputs scattered as the specs say, in
// [batch, length, heads, dim] order, then moved to what the operation itself
// asks for (charged), then seen as one slice per device.
#ifndef SHARDC_EXEC_ATTENTION_STAGING_H_
#define SHARDC_EXEC_ATTENTION_STAGING_H_

#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/attention/attention_loops.h"
#include "exec/attention/attention_problem.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

struct Staged {
  const AttentionProblem* problem = nullptr;
  // What is computed in and given. Query has it; key and value too, unless
  // pages keep the width that they are stored in.
  Dtype dtype = Dtype::kF32;
  AttentionOptions options;                                // the problem's
  ShardedTensor query;                                     // [B, T, H, D]
  ShardedTensor key;                                       // [B, S, K, D]
  ShardedTensor value;                                     // [B, S, K, Dv]
  std::optional<ShardedTensor> bias, mask, additive_mask;  // [B|1, H|1, T|1, S]
  std::optional<ShardedTensor> query_segments, key_segments;  // [B, T|S]
  std::optional<ShardedTensor> sinks;                         // [sinks, H|K]
  bool sinks_by_key_head = false;
  Spec output;  // of [B, T, H, Dv]

  // Whole on every host, so placed without a transfer: [B, T|S], [B].
  Buffer query_positions, key_positions;
  std::optional<Buffer> key_lengths, key_starts;
  // Where the rows lie in a larger batch, which dropout counts by.
  int64_t first_row = 0;

  int64_t T() const { return query.shape[1]; }
  int64_t S() const { return key.shape[1]; }
  int64_t H() const { return query.shape[2]; }
  int64_t K() const { return key.shape[2]; }
};

// settings.runtime_dtype, else the common dtype of query, key and value by
// JAX's promotion (promote.h): bfloat16 with float16 is float32. Nothing
// where they have none.
std::optional<Dtype> ComputeDtype(const AttentionProblem& problem,
                                  const OperationSettings& settings);

// What an operation can do beside float32 softmax of plain products.
struct StageOptions {
  // A query of length 1 is not split over its length axes; where that was
  // asked for a remark says so, or it is a complaint if strict.
  bool strict_length = false;
  bool narrow_softmax = false;    // settings.softmax_dtype
  bool quantised_matmul = false;  // settings.dot_bits
  bool heads_on_keys = false;     // key heads on the query's axes
  // Key and value are pages: cast when read, so that they move as stored.
  bool pages = false;
};

// Several as one, so that all that must change is known at once; what is said
// twice is said once. The first one's axis and place. Nothing of none.
std::optional<Complaint> Joined(std::vector<Complaint> complaints);

// Nothing, and a complaint, where an input's layout is illegal, its shape
// fits nothing, or a setting is not for this operation. Inputs are cast to
// the dtype computed in before anything moves.
std::optional<Staged> Stage(const Machine& machine,
                            const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings,
                            StageOptions options, Complaint& why,
                            std::vector<std::string>& remarks);

// Why softmax or products cannot be as the settings say.
std::optional<Complaint> CheckArithmetic(const OperationSettings& settings,
                                         const StageOptions& options);

// Moves one input to another layout, and charges it.
void Move(Machine& machine, ShardedTensor& tensor, Spec spec,
          std::string_view what);
// Bias, masks, sinks and segment ids to layouts that nest in those of query
// and key: after those two have theirs.
// A ring's devices read bias and masks at every key: `whole_keys`.
void MoveExtras(Machine& machine, Staged& staged, bool whole_keys = false);

// Says of a key whose heads do not divide, that arrived in the MHA spec, what
// to do; leaves other complaints as they are.
void ExplainKeyHeads(const SimMesh& mesh, const AttentionProblem& problem,
                     const AttentionSpecs& specs, Complaint& why);
// Key and value over the axes of the query's heads (the MHA spec), or why
// that cannot be.
std::optional<Complaint> KeysOnQueryHeads(Machine& machine, Staged& staged);
// The wrapper of a local kernel that keeps batch and head axes only. Nothing
// where outcome.unsupported says why, or for shapes alone.
std::optional<Staged> StageLocal(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings,
                                 StageOptions options,
                                 OperationOutcome& outcome);

// Which key head a device's query head reads.
enum class GroupMap : uint8_t {
  kGlobal,  // by global head number, as a compiler of global programs does
  kNaive,   // local head t reads t / (H_loc / K_loc), as a local kernel does
};
// What a device sees. Positions, lengths and starts are cut as query and key.
struct Slices {
  std::vector<LocalSlice> at;  // by device
  ShardedTensor query_positions, key_positions;
  std::optional<ShardedTensor> key_lengths, key_starts;
  std::vector<AttentionOptions> options;  // by device
  std::deque<Buffer> replaced;            // what a seam made a slice point to
};
// `staged` and the result stay where they are: slices point into both.
void MakeSlices(const Machine& machine, const Staged& staged, GroupMap map,
                Slices& out);

// What devices see, through the machine's SliceSeam: of slices that were made
// otherwise.
void See(const Machine& machine, const Staged& staged, Slices& slices);

// The end of a device's rows: sinks, then out / sum, [B, T, H_loc, Dv].
Buffer FinishRows(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice, SoftmaxState& state, Dtype dtype);
// Values that were added over devices in float32, rounded to `dtype`.
void RoundOutput(ShardedTensor& output, Dtype dtype);

// [sinks, H_loc] for a device.
Buffer LocalSinks(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice);

// Between whole tensors and what devices have of them.
struct SliceSeam {
  // What devices see, before they attend to it.
  std::function<void(const Machine&, const Staged&, Slices&)> cut;
  // A device's sinks, [sinks, H_loc].
  std::function<void(const Machine&, const Staged&, Buffer&)> sinks;
  // A table of visible blocks, as it is laid out.
  std::function<void(const Machine&, ShardedTensor&)> blocks;
  // The output as it leaves, in the problem's layout.
  std::function<void(const Machine&, const Staged&, ShardedTensor&)> join;
};

// Local shapes that a local kernel can run with: equal batch rows, key heads
// that divide query heads. Else why not, with the axis at fault.
std::optional<Complaint> CheckLocalShapes(const SimMesh& mesh,
                                          const Staged& staged);

// [B, T, H, Dv] by the query's batch, length and heads, nothing in it yet.
ShardedTensor EmptyOutput(const Machine& machine, const Staged& staged);
// To specs.output and the problem's layout, and through the machine's
// SliceSeam.
ShardedTensor FinishOutput(Machine& machine, const Staged& staged,
                           ShardedTensor output);

// I32 [B, T] and [B, S]: kv_len - T + i and j, or what the problem says.
Buffer QueryPositions(const AttentionProblem& problem, int64_t batch,
                      int64_t rows, int64_t keys);
Buffer KeyPositions(const AttentionProblem& problem, int64_t batch,
                    int64_t keys);

// The dimensions exchanged, on every device: bthd to bhtd and back.
ShardedTensor SwapLengthAndHeads(const ShardedTensor& tensor);

// Axes of a and b that agree from the beginning.
AxisGroup CommonPrefix(const SimMesh& mesh, const AxisGroup& a,
                       const AxisGroup& b);
bool SameAxes(const SimMesh& mesh, const AxisGroup& a, const AxisGroup& b);
bool Disjoint(const AxisGroup& a, const AxisGroup& b);
// `tp` or `fsdp, sp`, in backquotes, or no axis, for messages.
std::string AxesText(const AxisGroup& axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_STAGING_H_
