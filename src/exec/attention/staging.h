// Staging: the inputs of an operation are scattered by their specs, in [batch,
// length, heads, dim] order. They are then resharded to the layouts that the
// operation needs, which the ledger records, and presented as one slice for
// each device.
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
  // The dtype of the computation, of the output and of the query. Key and value
  // have it too, except in pages, which keep their stored dtype.
  Dtype dtype = Dtype::kF32;
  AttentionOptions options;                                // the problem's
  ShardedTensor query;                                     // [B, T, H, D]
  ShardedTensor key;                                       // [B, S, K, D]
  ShardedTensor value;                                     // [B, S, K, Dv]
  std::optional<ShardedTensor> bias, mask, additive_mask;  // [B|1, H|1, T|1, S]
  std::optional<ShardedTensor> query_segments, key_segments;  // [B, T|S]
  std::optional<ShardedTensor> sinks;                         // [sinks, H|K]
  bool sinks_by_key_head = false;
  Spec output;  // spec of the output [B, T, H, Dv]

  // Positions [B, T|S], lengths and starts [B]. Every process knows these
  // arrays, so they are placed without a transfer.
  Buffer query_positions, key_positions;
  std::optional<Buffer> key_lengths, key_starts;
  // The index of the first batch row in the full batch, if the rows are only a
  // part of it. Dropout depends on a row's index in the full batch.
  int64_t first_row = 0;

  int64_t T() const { return query.shape[1]; }
  int64_t S() const { return key.shape[1]; }
  int64_t H() const { return query.shape[2]; }
  int64_t K() const { return key.shape[2]; }
};

// Returns settings.runtime_dtype, else the common dtype of query, key and value
// by JAX's promotion (promote.h): bfloat16 with float16 is float32. Returns
// nullopt if there is no common dtype.
std::optional<Dtype> ComputeDtype(const AttentionProblem& problem,
                                  const OperationSettings& settings);

// The properties of an operation that decide how its inputs are staged.
struct StageOptions {
  // If true, a query, key, value or output whose spec shards a dimension of
  // size 1 is reported as an error. If false, that dimension stays unsharded
  // and a remark is added.
  bool strict_length = false;
  bool narrow_softmax = false;    // supports settings.softmax_dtype
  bool quantised_matmul = false;  // supports settings.dot_bits
  bool heads_on_keys =
      false;  // key heads are sharded over the query's head axes
  // Whether key and value are pages. Pages are cast when they are read, so
  // reshards send them in the stored dtype.
  bool pages = false;
};

// Joins several errors into one without duplicates, so that a user sees at once
// all that must change. The result has the axis and place of the first error;
// it is nullopt for an empty list.
std::optional<LayoutError> Joined(std::vector<LayoutError> errors);

// Stages the inputs. Query, key and value are cast to the compute dtype before
// any transfer, except pages. Returns nullopt, and the reason, if a layout is
// illegal, a shape does not fit, the inputs have no common dtype, or the
// operation does not support a setting.
std::optional<Staged> Stage(const Machine& machine,
                            const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings,
                            StageOptions options, LayoutError& why,
                            std::vector<std::string>& remarks);

// Returns the reason if the operation does not support the settings of the
// softmax or of the products, else nullopt.
std::optional<LayoutError> CheckArithmetic(const OperationSettings& settings,
                                           const StageOptions& options);

// Reshards one input, unless it has the spec already. The ledger records the
// bytes.
void Move(Machine& machine, ShardedTensor& tensor, Spec spec,
          std::string_view what);
// Reshards bias, masks, sinks and segment ids so that each device has the parts
// for its slices of query and key, which must already have their final layouts.
// With `unsharded_keys`, bias and masks keep all keys, because the devices of a
// ring read them for every block.
void MoveExtras(Machine& machine, Staged& staged, bool unsharded_keys = false);

// Rewords an error of the key's head dimension, for operations that shard key
// heads as query heads (the MHA spec), and suggests a change. Other errors are
// unchanged.
void ExplainKeyHeads(const SimMesh& mesh, const AttentionProblem& problem,
                     const AttentionSpecs& specs, LayoutError& why);
// Reshards key and value over the axes of the query's heads (the MHA spec).
// Returns the reason if that is impossible.
std::optional<LayoutError> KeysOnQueryHeads(Machine& machine, Staged& staged);
// Stages the inputs of a local kernel that keeps the axes of batch and heads
// and needs all other dimensions unsharded. Returns nullopt if
// outcome.unsupported is set, or if the problem has shapes only.
std::optional<Staged> StageLocal(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings,
                                 StageOptions options,
                                 OperationOutcome& outcome);

// How a query head on a device finds its key head.
enum class GroupMap : uint8_t {
  kGlobal,  // by global head number, as a compiler of global programs does
  kNaive,   // local head t reads t / (H_loc / K_loc), as a local kernel does
};
// The slices of all devices. Positions are sharded as query and key are.
// Lengths and starts are sharded as the key's batch dimension is.
struct Slices {
  std::vector<LocalSlice> at;  // indexed by device
  ShardedTensor query_positions, key_positions;
  std::optional<ShardedTensor> key_lengths, key_starts;
  std::vector<AttentionOptions> options;  // indexed by device
  std::deque<Buffer> replaced;            // buffers that a fault replaced
};
// Fills `out` with the slices of all devices. The slices point into `staged`
// and `out`, so neither may be moved afterwards.
void MakeSlices(const Machine& machine, const Staged& staged, GroupMap map,
                Slices& out);

// Calls the function `cut` of the machine's SliceSeam, if it is set, so that a
// test can change the slices. MakeSlices calls See. Code that builds slices
// without MakeSlices must call See itself.
void See(const Machine& machine, const Staged& staged, Slices& slices);

// Adds the sinks to the rows of a device, then divides the outputs by the sums
// of the weights and rounds them to `dtype`. Returns [B, T, H_loc, Dv].
Buffer FinishRows(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice, SoftmaxState& state, Dtype dtype);
// Rounds an output that was summed over devices in float32 to `dtype`.
void RoundOutput(ShardedTensor& output, Dtype dtype);

// Returns the sinks of a device, [sinks, H_loc].
Buffer LocalSinks(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice);

// Functions by which a test injects faults where unsharded tensors are divided
// into the slices of devices, and where slices are joined
// (exec/machine/seams.h). A function that is not set changes nothing.
struct SliceSeam {
  // Changes the slices of all devices before they attend.
  std::function<void(const Machine&, const Staged&, Slices&)> cut;
  // Changes a device's sinks, [sinks, H_loc].
  std::function<void(const Machine&, const Staged&, Buffer&)> sinks;
  // Changes a table of visible blocks after it is sharded.
  std::function<void(const Machine&, ShardedTensor&)> blocks;
  // Changes the output in the problem's layout.
  std::function<void(const Machine&, const Staged&, ShardedTensor&)> join;
};

// Checks that a local kernel can run on each device's slice: query, key and
// value need equally many batch rows, key and value equal lengths and heads,
// and key heads must divide query heads. If it cannot, returns the reasons,
// with the axis of the first.
std::optional<LayoutError> CheckLocalShapes(const SimMesh& mesh,
                                            const Staged& staged);

// Returns [B, T, H, Dv] without buffers, sharded by the query's batch, length
// and heads. Each device adds its buffer.
ShardedTensor EmptyOutput(const Machine& machine, const Staged& staged);
// Reshards the output to specs.output, converts it to the problem's layout, and
// passes it through the machine's SliceSeam.
ShardedTensor FinishOutput(Machine& machine, const Staged& staged,
                           ShardedTensor output);

// Return the problem's positions, I32 [B, T] and [B, S]. Without them query i
// is at length - T + i, where `length` is the row's key length, and key j at j.
Buffer QueryPositions(const AttentionProblem& problem, int64_t batch,
                      int64_t rows, int64_t keys);
Buffer KeyPositions(const AttentionProblem& problem, int64_t batch,
                    int64_t keys);

// Swaps dimensions 1 and 2 on every device: bthd to bhtd and back.
ShardedTensor SwapLengthAndHeads(const ShardedTensor& tensor);

// Returns the longest common prefix of the axis lists a and b after axes of
// size 1 are removed.
AxisGroup CommonPrefix(const SimMesh& mesh, const AxisGroup& a,
                       const AxisGroup& b);
bool SameAxes(const SimMesh& mesh, const AxisGroup& a, const AxisGroup& b);
bool Disjoint(const AxisGroup& a, const AxisGroup& b);
// Returns "`tp`" or "`fsdp`, `sp`" or "no axis", for messages.
std::string AxesText(const AxisGroup& axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_STAGING_H_
