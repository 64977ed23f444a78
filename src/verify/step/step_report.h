// A model's step under a plan: its collectives, their bytes, and whether all
// its values equal the values of the dense model.
#ifndef SHARDC_VERIFY_STEP_STEP_REPORT_H_
#define SHARDC_VERIFY_STEP_STEP_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/operations/operation.h"
#include "model/manifest.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "source/finding.h"
#include "step/choose.h"
#include "step/liveness.h"
#include "verify/step/prove.h"
#include "verify/step/stage_proof.h"

namespace shardc::verify {

std::string_view PhaseName(step::Phase phase);  // "forward"

// A collective, and the op for which it runs.
struct StepRow {
  std::string part;  // "layer 0-31", "embed", "optimizer"
  step::Phase phase = step::Phase::kForward;
  std::string op;      // "linear q"
  std::string result;  // "[b,t,n,h]"
  std::string specs;   // "b:fsdp+dp n:tp"
  std::optional<Collective> collective;
  AxisGroup axes;
  int64_t bytes = 0;   // bytes that the busiest device sends, in one layer
  int64_t layers = 1;  // number of layers that have the same rows
  int32_t micro = -1;  // the micro-batch; -1: all micro-batches
  std::optional<double> error, allowed;
  bool operator==(const StepRow&) const = default;
};

struct StepConflict {
  std::string part, op, axis;
  std::vector<std::string> labels;
  std::string chosen, cheapest;  // labels, or "gathered" if there is none
  int64_t bytes = 0, least = 0;
  int64_t count = 1;
};

struct StepTraffic {
  step::Phase phase = step::Phase::kForward;
  Collective collective = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0, bytes = 0;
};

// The memory of a device as `cost` estimates it.
struct StepMemory {
  std::vector<std::pair<std::string_view, int64_t>> components = {};
  int64_t total = 0;
  std::string_view moment = {};  // when the peak occurs; empty outside training
};

// The peak memory of a device at real sizes if no op were fused.
struct StepPeak {
  step::HeldBytes bytes = {};
  int64_t instruction = 0, instructions = 0;
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  int64_t Total() const { return step::TotalOf(bytes); }
};

// A value of the run and its reference. For an input, both are the input.
struct StepTensor {
  std::string part, op, value;  // "layer 0", "linear q", "[b,t,n,h]"
  step::Phase phase = step::Phase::kForward;
  bool input = false;
  exec::Buffer made = {};
  std::vector<double> reference = {};
  std::optional<double> error = {}, allowed = {};
};

// The floating-point operations of a device at real sizes. Attention counts all
// keys, including masked ones.
struct StepFlops {
  std::array<double, 3> by_phase = {};
  double products = 0;  // the part of all operations in matrix products
  double Total() const { return by_phase[0] + by_phase[1] + by_phase[2]; }
};

enum class StepStatus : uint8_t { kPass, kFail, kUnsupported };
std::string_view StepStatusName(StepStatus status);

struct StepReport {
  Mode mode = Mode::kTrain;
  std::string operation;  // the attention's; empty: as the model describes it
  Mesh mesh;
  int64_t batch = 0, length = 0, layers = 0;
  int32_t encoder_layer = -1;  // the encoder's first layer; -1: there is none
  Dtype dtype = Dtype::kF64;
  int64_t element_bytes = 2;
  step::Policy policy = step::Policy::kPublished;
  bool keep_gathered = false;
  std::string remat;  // what layers rematerialise in training
  int64_t microbatches = 1;
  step::Reduction reduction = step::Reduction::kSharded;
  int zero = 0;
  std::optional<StepMemory> memory;  // set by the caller that estimates it
  StepPeak peak;
  StepFlops flops;
  StepStatus status = StepStatus::kPass;
  std::string reason;  // why the step is unsupported
  std::vector<StepRow> rows;
  std::vector<StepConflict> conflicts;
  std::vector<StepTraffic> traffic;
  std::vector<std::string> notes;
  std::string program;  // sha256 of the program's text
  bool proved = false;
  Mesh reduced_mesh;
  std::vector<std::pair<std::string, int64_t>> reduced_sizes;
  std::vector<int32_t> reduced_layers;
  int64_t gradients = 0, updates = 0, caches = 0;
  double worst = 0, worst_allowed = 0;
  std::vector<std::string> problems;
  std::string part;  // the part of the step that is reported; empty: all
  bool full = false;
  uint64_t seed = 0;
  std::vector<StepTensor> tensors;   // with StepRequest::keep_tensors
  std::optional<StageProof> stages;  // set only for a pipeline
  // If several ranks hold the devices: the bytes that devices sent by the
  // ledger, the bytes that were copied in the simulation of these sends, and
  // how many of the copied bytes went to another rank.
  int64_t sent_bytes = 0, moved_bytes = 0, crossed_bytes = 0;

  int64_t Sent(step::Phase phase) const;
};

// The number of devices to which meshes are reduced for a proof, and the
// largest number on which a full proof runs.
inline constexpr int64_t kMostProofDevices = 64;

struct StepRequest : StepInputs {
  const exec::Operation* operation = nullptr;  // null: the model's own
  Dtype dtype = Dtype::kF64;                   // dtype of the proof
  bool numbers = true;  // run the proof; else static checks and bytes only
  uint64_t seed = 0;
  int threads = 1;
  // A mesh of more devices is reduced for the proof; axes of several devices
  // keep at least two. The reported program is for the real mesh.
  int64_t most_devices = kMostProofDevices;
  // Limits rows, conflicts and totals to one part: "layer 3", "model" or
  // "optimizer". A layer is then proved without the other layers, between the
  // first and the last ops of the model.
  std::string part = {};
  bool full = false;         // the proof at real sizes on the real mesh
  int64_t memory_bytes = 0;  // limit for a full proof on each rank
  exec::Transport* transport = nullptr;  // null if there is one rank
  bool keep_tensors = false;
  const StageSettings* stages = nullptr;  // null if the step has no pipeline
};

// Returns nullopt after findings about the inputs.
std::optional<StepReport> VerifyStep(const StepRequest& request,
                                     Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_REPORT_H_
