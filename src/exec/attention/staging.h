// Declares the functions that prepare the inputs of an attention operation,
// which is called staging. The inputs are scattered by their specs, in the
// order [batch, length, heads, dim]. They are then resharded to the layouts
// that the operation needs. The ledger, the machine's record of bytes sent,
// counts these reshards. At the end, each device has one slice of every input.
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
  // are cast to it as well, unless they are pages, which keep their stored
  // dtype.
  Dtype dtype = Dtype::kF32;
  AttentionOptions options;                                // as in `problem`
  ShardedTensor query;                                     // [B, T, H, D]
  ShardedTensor key;                                       // [B, S, K, D]
  ShardedTensor value;                                     // [B, S, K, Dv]
  std::optional<ShardedTensor> bias, mask, additive_mask;  // [B|1, H|1, T|1, S]
  std::optional<ShardedTensor> query_segments, key_segments;  // [B, T|S]
  std::optional<ShardedTensor> sinks;                         // [sinks, H|K]
  // True if `sinks` has one column for each key head, false if for each query
  // head.
  bool sinks_by_key_head = false;
  Spec output;  // spec of the output [B, T, H, Dv]

  // Positions [B, T|S], lengths and starts [B]. Every process has these arrays
  // unsharded and takes the parts of its own devices from them, so nothing is
  // sent.
  Buffer query_positions, key_positions;
  std::optional<Buffer> key_lengths, key_starts;
  // The index of the inputs' first batch row in the full batch, on which
  // dropout depends. It is above 0 only if the inputs are a part of the full
  // batch.
  int64_t first_row = 0;

  int64_t T() const { return query.shape[1]; }
  int64_t S() const { return key.shape[1]; }
  int64_t H() const { return query.shape[2]; }
  int64_t K() const { return key.shape[2]; }
};

// Returns settings.runtime_dtype if it is set, else the common dtype of query,
// key and value by JAX's promotion: float32 for bfloat16 with float16. Returns
// nullopt if there is no common dtype.
std::optional<Dtype> ComputeDtype(const AttentionProblem& problem,
                                  const OperationSettings& settings);

// The properties of an operation that decide how its inputs are staged.
struct StageOptions {
  // If true, a query, key, value or output whose spec shards a dimension of
  // size 1 is reported as an error. If false, that dimension stays unsharded
  // and a remark is added.
  bool strict_length = false;
  // Whether the operation can compute its softmax in 16 bits, as
  // OperationSettings::softmax_dtype may require.
  bool narrow_softmax = false;
  // Whether the operation can compute with quantised matmuls, as
  // OperationSettings::dot_bits may require.
  bool quantised_matmul = false;
  // Whether key heads are resharded over the axes that shard the query's heads.
  bool heads_on_keys = false;
  // True if key and value are pages. Pages are cast when they are read, so
  // reshards send them in the stored dtype.
  bool pages = false;
};

// Joins several errors into one without duplicates, so that a user sees at once
// all that must change. The result has the axis and place of the first error.
// Returns nullopt if `errors` is empty.
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

// Returns an error if `settings` requests a softmax in 16 bits or quantised
// matmuls and the operation does not support them. Otherwise returns nullopt.
std::optional<LayoutError> CheckArithmetic(const OperationSettings& settings,
                                           const StageOptions& options);

// Reshards one input to `spec`, and records the bytes sent in the machine's
// ledger. Does nothing if the input already has this spec.
void Move(Machine& machine, ShardedTensor& tensor, Spec spec,
          std::string_view what);
// Reshards bias, masks, sinks and segment ids so that each device has the parts
// for its slices of query and key, which must already have their final layouts.
// With `unsharded_keys`, bias and masks keep all keys, because the devices of a
// ring read them for every block.
void MoveExtras(Machine& machine, Staged& staged, bool unsharded_keys = false);

// For operations with `heads_on_keys`, which shard key heads over the query's
// head axes: if `why` is an error of the key's head dimension, rewords it and
// suggests a change. Leaves other errors unchanged.
void ExplainKeyHeads(const SimMesh& mesh, const AttentionProblem& problem,
                     const AttentionSpecs& specs, LayoutError& why);
// Reshards the heads of key and value over the axes that shard the query's
// heads. Returns an error if these axes cannot divide the key heads evenly, or
// if one of the axes already shards another dimension of key or value.
std::optional<LayoutError> KeysOnQueryHeads(Machine& machine, Staged& staged);
// Prepares the shards of the inputs for a local kernel, which computes
// attention on each device without collectives. Query, key and value stay
// sharded over batch and heads, and are gathered over all other dimensions.
// Returns nullopt if this is not possible, with the reason in
// outcome.unsupported. Also returns nullopt if the inputs have shapes but no
// elements, which suffices to predict the bytes that are sent.
std::optional<Staged> StageLocal(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings,
                                 StageOptions options,
                                 OperationOutcome& outcome);

// Which key head a query head on a device reads.
enum class GroupMap : uint8_t {
  kGlobal,  // global head h reads global key head h / (H / K)
  kNaive,   // local head t reads local key head t / (H_loc / K_loc)
};
// The slices of all devices. Positions are sharded as query and key are.
// Lengths and starts are sharded as the key's batch dimension is.
struct Slices {
  std::vector<LocalSlice> at;  // indexed by device
  ShardedTensor query_positions, key_positions;
  std::optional<ShardedTensor> key_lengths, key_starts;
  std::vector<AttentionOptions> options;  // indexed by device
  // Buffers that an injected fault made. Slices point to them.
  std::deque<Buffer> replaced;
};
// Fills `out` with the slices of all devices. The slices point into `staged`
// and `out`, so neither may be moved afterwards.
void MakeSlices(const Machine& machine, const Staged& staged, GroupMap map,
                Slices& out);

// Calls the function `cut` of the machine's SliceSeam, if it is set, so that a
// test can change the slices. MakeSlices calls this function. Code that builds
// slices without MakeSlices must call it as well.
void See(const Machine& machine, const Staged& staged, Slices& slices);

// Adds the sinks to the rows of a device, then divides the outputs by the sums
// of the weights and rounds them to `dtype`. Returns [B, T, H_loc, Dv].
Buffer FinishRows(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice, SoftmaxState& state, Dtype dtype);
// Rounds an output that was summed over devices in float32 to `dtype`.
void RoundOutput(ShardedTensor& output, Dtype dtype);

// Returns a device's sinks (extra logits without a value), [sinks, H_loc].
Buffer LocalSinks(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice);

// Functions by which a test injects faults where unsharded tensors are divided
// into the slices of devices, and where slices are joined
// (exec/machine/machine.h). A function that is not set changes nothing.
struct SliceSeam {
  // Changes the slices of all devices before attention runs on them.
  std::function<void(const Machine&, const Staged&, Slices&)> cut;
  // Changes a device's sinks, [sinks, H_loc].
  std::function<void(const Machine&, const Staged&, Buffer&)> sinks;
  // Changes blocksparse's table of visible blocks after the table is sharded.
  std::function<void(const Machine&, ShardedTensor&)> blocks;
  // Changes the output after it is converted to the problem's layout.
  std::function<void(const Machine&, const Staged&, ShardedTensor&)> join;
};

// Checks that a local kernel can run on each device's slice. Query, key and
// value need equally many batch rows; key and value need equal lengths and
// heads; key heads must divide query heads. Returns nullopt if the kernel can
// run. Otherwise returns one error whose message lists all violated conditions,
// and whose axis is that of the first.
std::optional<LayoutError> CheckLocalShapes(const SimMesh& mesh,
                                            const Staged& staged);

// Returns an output [B, T, H, Dv] whose buffers are still empty. Its batch,
// length and heads have the same axes as the query's. Each device then stores
// its own part.
ShardedTensor EmptyOutput(const Machine& machine, const Staged& staged);
// Reshards the output to specs.output, converts it to the problem's layout, and
// calls `join` of the machine's SliceSeam, with which tests can change it.
ShardedTensor FinishOutput(Machine& machine, const Staged& staged,
                           ShardedTensor output);

// Return the problem's positions, I32 [B, T] and [B, S]. If the problem has
// none, query i has position length - T + i, where `length` is the row's key
// length, and key j has position j.
Buffer QueryPositions(const AttentionProblem& problem, int64_t batch,
                      int64_t rows, int64_t keys);
Buffer KeyPositions(const AttentionProblem& problem, int64_t batch,
                    int64_t keys);

// Swaps dimensions 1 and 2 on every device: bthd to bhtd and back.
ShardedTensor SwapLengthAndHeads(const ShardedTensor& tensor);

// Returns the longest common prefix of a and b. Axes of size 1 are ignored.
AxisGroup CommonPrefix(const SimMesh& mesh, const AxisGroup& a,
                       const AxisGroup& b);
bool SameAxes(const SimMesh& mesh, const AxisGroup& a, const AxisGroup& b);
bool Disjoint(const AxisGroup& a, const AxisGroup& b);
// Returns "`tp`" or "`fsdp`, `sp`" or "no axis", for messages.
std::string AxesText(const AxisGroup& axes);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_STAGING_H_
