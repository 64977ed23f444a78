// Directory: verify/step. Proves a step's program: reduced sizes that keep its
// structure, data that reveals mistakes, the run, and the checks.
// Its files include headers of these directories: source, model, comm,
// schedule, step, plan, dense, exec/machine, exec/operations, exec/step,
// verify/cases, verify/judge.
#ifndef SHARDC_VERIFY_STEP_STEP_REPORT_H_
#define SHARDC_VERIFY_STEP_STEP_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/collective.h"
#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/step_graph.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "source/finding.h"
#include "step/constraints.h"
#include "step/lower.h"
#include "step/macros.h"
#include "step/program.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/step/prove.h"
#include "verify/step/staged_step.h"

namespace shardc::verify {

std::string_view PhaseName(step::Phase phase);  // "forward"

// A collective, and the op whose operands or result it reshards or reduces.
struct StepRow {
  std::string part;  // such as "layer 0-31", "embed" or "optimizer"
  step::Phase phase = step::Phase::kForward;
  std::string op;      // name of the op, such as "linear q"
  std::string result;  // dimension labels of the result, "[b,t,n,h]"
  std::string specs;   // sharding of the result, "b:fsdp+dp n:tp"
  std::optional<Collective> collective;
  AxisGroup axes;
  // The largest number of bytes that a device sends for this row in one layer.
  int64_t bytes = 0;
  // The number of layers that the row describes. Consecutive layers with equal
  // rows share their rows.
  int64_t layers = 1;
  int32_t micro = -1;  // index of the micro-batch; -1: all micro-batches
  std::optional<double> error, allowed;
  bool operator==(const StepRow&) const = default;
};

struct StepConflict {
  std::string part, op, axis;
  std::vector<std::string> labels;
  // In a conflict, several `labels` are sharded over `axis`, and at most one
  // can keep the axis. `chosen` is the label that keeps it in the program. With
  // `cheapest`, a device would send the fewest bytes. The value "gathered"
  // means that no label keeps the axis.
  std::string chosen, cheapest;
  int64_t bytes = 0, least = 0;
  int64_t count = 1;
};

struct StepTraffic {
  step::Phase phase = step::Phase::kForward;
  Collective collective = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0, bytes = 0;
};

// The memory that a device needs in the step, as `cost` estimates it.
struct StepMemory {
  std::vector<std::pair<std::string_view, int64_t>> components = {};
  int64_t total = 0;
  // When the peak occurs: "loss" or "backward". Empty outside of training.
  std::string_view moment = {};
};

// The peak memory of a device at real sizes, as if no ops were fused.
struct StepPeak {
  step::HeldBytes bytes = {};
  int64_t instruction = 0, instructions = 0;
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  int64_t Total() const { return step::TotalOf(bytes); }
};

// A value of the run and its reference. For an input, both are equal.
struct StepTensor {
  std::string part, op, value;  // such as "layer 0", "linear q", "[b,t,n,h]"
  step::Phase phase = step::Phase::kForward;
  bool input = false;
  exec::Buffer made = {};
  std::vector<double> reference = {};
  std::optional<double> error = {}, allowed = {};
};

// The floating-point operations of a device at real sizes. All keys are counted
// in attention, including masked keys.
struct StepFlops {
  std::array<double, 3> by_phase = {};
  // The part of these operations that matmuls do.
  double matmuls = 0;
  double Total() const { return by_phase[0] + by_phase[1] + by_phase[2]; }
};

enum class StepStatus : uint8_t { kPass, kFail, kUnsupported };
std::string_view StepStatusName(StepStatus status);

struct StepReport {
  Mode mode = Mode::kTrain;
  // Name of the attention operation. Empty if none was requested: attention is
  // then computed by the ops in the model's description.
  std::string operation;
  Mesh mesh;
  int64_t batch = 0, length = 0, layers = 0;
  // Index of the encoder's first layer; -1: no encoder.
  int32_t encoder_layer = -1;
  Dtype dtype = Dtype::kF64;
  int64_t element_bytes = 2;
  step::Policy policy = step::Policy::kPublished;
  bool keep_gathered = false;
  // The policy that decides which values are rematerialised in training, as the
  // user wrote it.
  std::string remat;
  int64_t microbatches = 1;
  step::Reduction reduction = step::Reduction::kSharded;
  int zero = 0;
  // Set only by a caller that estimates the memory.
  std::optional<StepMemory> memory;
  StepPeak peak;
  StepFlops flops;
  StepStatus status = StepStatus::kPass;
  std::string reason;  // why the step is unsupported
  std::vector<StepRow> rows;
  std::vector<StepConflict> conflicts;
  std::vector<StepTraffic> traffic;
  std::vector<std::string> notes;
  // The SHA-256 digest, in hex digits, of a text that describes all collectives
  // of the program.
  std::string program;
  bool proved = false;
  Mesh reduced_mesh;
  std::vector<std::pair<std::string, int64_t>> reduced_sizes;
  std::vector<int32_t> reduced_layers;
  int64_t gradients = 0, updates = 0, caches = 0;
  double worst = 0, worst_allowed = 0;
  std::vector<std::string> problems;
  // The only part that is reported, such as "layer 3". Empty if all parts are
  // reported.
  std::string part;
  bool full = false;
  uint64_t seed = 0;
  std::vector<StepTensor> tensors;   // set if StepRequest::keep_tensors is true
  std::optional<StageProof> stages;  // absent if the step has no pipeline
  // Set if several ranks (processes) hold the devices: the bytes sent that the
  // ledger has recorded, the bytes that the simulation copied for these sends,
  // and the part of the copied bytes that went to another rank.
  int64_t sent_bytes = 0, moved_bytes = 0, crossed_bytes = 0;

  int64_t Sent(step::Phase phase) const;
};

// The number of devices to which meshes are reduced for a proof. It is also the
// largest number of devices for a full proof.
inline constexpr int64_t kMostProofDevices = 64;

struct StepRequest : StepInputs {
  // The attention operation. Null if none was requested: attention is then
  // computed by the ops in the model's description.
  const exec::Operation* operation = nullptr;
  Dtype dtype = Dtype::kF64;  // dtype of the proof
  // True: run the proof; false: only static checks and bytes.
  bool numbers = true;
  uint64_t seed = 0;
  int threads = 1;
  // If the mesh has more devices than this number, the mesh is reduced for the
  // proof. Axes with several devices keep at least two. The reported program is
  // for the real mesh.
  int64_t most_devices = kMostProofDevices;
  // If not empty, rows, conflicts and totals are limited to this part: "layer
  // 3", "model" or "optimizer". If it is a layer, the proof runs a model that
  // has no other layers, but has the ops before them (such as the embedding)
  // and after them (such as the output head).
  std::string part = {};
  bool full = false;  // true: proves the step at real sizes on the real mesh
  int64_t memory_bytes = 0;  // most bytes that a full proof may need on a rank
  exec::Transport* transport = nullptr;  // null if there is one rank
  bool keep_tensors = false;
  const StageSettings* stages = nullptr;  // null if the step has no pipeline
};

// Reports and proves the step. Returns nullopt after an error in the inputs was
// added to `findings`.
std::optional<StepReport> VerifyStep(const StepRequest& request,
                                     Findings& findings);

// The place of an op: its layer, its phase and its index among the ops of this
// layer and phase. An op has the same place in the graph of all layers and in a
// graph of a few layers.
using OpPlace = std::tuple<int32_t, step::Phase, int32_t>;
std::vector<OpPlace> PlacesOf(const step::Graph& graph);  // indexed by op

// Sets in `out` the rows, conflicts, traffic, notes, peak, flops and the digest
// of the program. If the request names a part, rows, conflicts and traffic are
// limited to this part. Returns, for each row, the index of its op in the
// graph. The index is -1 if the row belongs to no op, but to a reduction at the
// end of the step.
std::vector<int32_t> DescribeProgram(const StepRequest& request,
                                     const LoweredStep& full, StepReport& out);

// Joins consecutive layers with equal rows into one block of rows. The errors
// of the block are the largest errors of these layers.
void FoldLayers(std::vector<StepRow>& rows);

// The prefix of the name of a layer of the encoder, such as "encoder 3".
inline constexpr std::string_view kEncoderPrefix = "encoder ";

// IsLayerPart returns true if a part is a layer, such as "layer 3" or "encoder
// 3". LayerNumber returns the number of this layer.
bool IsLayerPart(std::string_view part);
int LayerNumber(const std::string& part);

// Decides how a step computes attention if an attention operation is requested.
// The form is the global view, a kernel on slices, or a ring. Other functions
// return the axes that the operation requires, and the bytes that it sends.

// Returns how attention is computed: in the global view, as a compiler does, by
// a kernel on slices, or by a ring. Returns nullopt, and sets `why`, if the
// operation cannot run in this step with the plan's specs on the mesh. Returns
// the global view if the request has no operation, or if the model's
// description cannot be built; building all layers reports that error.
std::optional<step::AttentionForm> FormOf(const StepRequest& request,
                                          const Mesh& mesh, std::string& why);

// Returns the axes that the request's operation requires for query, key and
// output. The list is empty if the request has no operation.
std::vector<step::ShardingConstraintOverride> OverridesOf(
    const StepRequest& request);

// Returns the bytes that devices send for the attention of one layer in the
// forward pass, by the formula of the request's operation. Returns nullopt if
// the model's description cannot be built.
std::optional<exec::SentBytes> FormulaOf(const StepRequest& request,
                                         const Mesh& mesh);

// Returns small sizes at which `program` shards every dimension in the same way
// as at its real sizes. `program` was lowered at the sizes `real` and has the
// axes of the reduced mesh. Returns nullopt, and sets `why`, if there are no
// such sizes.
std::optional<step::Sizes> ReducedSizes(const step::Graph& graph,
                                        const step::Sizes& real,
                                        const step::Program& program,
                                        std::string& why);

// Returns one layer of each kind, separately for the decoder and the encoder.
// If a decoder or encoder has two layers, at least two of its layers are
// returned. Layers are of the same kind if their forward ops are equal.
std::vector<int32_t> ReducedLayers(const step::Graph& graph);

// How a step uses one parameter: the ops that read it, the collectives on it
// and on its gradient, and their bytes.

// An op that reads the parameter, or a value that depends only on the
// parameter.
struct ParameterUse {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  // Sharding of the operand that the op reads, such as "n:tp".
  std::string sharding;
  // Labels and sharding of the result, "[b,t,n,h] b:fsdp n:tp".
  std::string result;
};

struct ParameterMove {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  // True if the collective runs on the parameter's gradient, false if it runs
  // on the parameter.
  bool gradient = false;
  std::string specs;  // sharding before and after, "d:fsdp n:tp -> n:tp"
  Collective collective = Collective::kAllGather;
  AxisGroup axes = {};
  int64_t bytes = 0;  // bytes sent by the device that sends most
};

struct ParameterStep {
  Mode mode = Mode::kTrain;
  Mesh mesh = {};
  int64_t batch = 0, length = 0;
  step::Policy policy = step::Policy::kPublished;
  std::string unsupported = {};  // reason why there is no program, or empty
  bool takes_part = false;       // true: the step has the parameter
  std::string role = {};         // such as "q of layer 3"
  std::string labels = {};       // dimension labels, such as "[(n h),d]"
  std::string sharding = {};     // such as "(n h):tp d:fsdp"
  bool stacked = false;          // true: the parameter stacks several tensors
  std::string gradient = {};     // the gradient's sharding before it is reduced
  std::vector<ParameterUse> uses = {};
  std::vector<ParameterMove> moves = {};

  int64_t Sent() const;
};

// Returns how the step uses the tensor in row `row` of the manifest. Returns
// nullopt after an error was added to `findings`.
std::optional<ParameterStep> FollowParameter(const StepInputs& request,
                                             int64_t row, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_REPORT_H_
