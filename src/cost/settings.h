// The settings of training or serving that a plan does not contain, such as the
// batch and the optimizer, and whether a plan is legal with them.
#ifndef SHARDC_COST_SETTINGS_H_
#define SHARDC_COST_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/inputs.h"
#include "devices/profiles.h"
#include "exec/operations/operation.h"
#include "model/dtype.h"
#include "model/model_description.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "step/accumulate.h"
#include "step/recompute.h"

namespace shardc::cost {

struct Stack;

using step::Candidate;
using step::Keeps;
using step::Made;

enum class Optimizer : uint8_t {
  kAdamW,
  kAdafactor,
  kLion,
  kMomentum,
  kMuon,
  kSgd
};
inline constexpr std::string_view kOptimizerNames[] = {
    "adamw", "adafactor", "lion", "momentum", "muon", "sgd"};

// The software that sends tokens to the devices of their experts. kAllToAll
// sends a copy of a token for each of its experts. kDeepEp and kHybridEp send a
// token once to a device and once to a host.
enum class Dispatcher : uint8_t { kAllToAll, kDeepEp, kHybridEp };
inline constexpr std::string_view kDispatcherNames[] = {"alltoall", "deepep",
                                                        "hybridep"};
// The kernels that the host starts together, as a CUDA graph: none, those of
// attention and of the router, or those of the whole step.
enum class Graphs : uint8_t { kNone, kPartial, kStep };
inline constexpr std::string_view kGraphsNames[] = {"none", "partial", "step"};
// Whether all experts get equally many tokens, as benchmarks force it, or as
// many as a trained router sends them.
enum class Routing : uint8_t { kBalanced, kNatural };
inline constexpr std::string_view kRoutingNames[] = {"balanced", "natural"};
// The numbers that share a scale in 8-bit matmuls: those of a tensor, blocks
// of 32 (mxfp8), or blocks of 128 by 128. With kNv, matmuls have operands of 4
// bits with a scale of 8 bits for each 16 numbers (nvfp4), 0.5625 bytes each.
enum class Scaling : uint8_t { kTensor, kMx, kBlocks, kNv };
inline constexpr std::string_view kScalingNames[] = {"float8_e4m3fn", "mxfp8",
                                                     "fp8_blocks", "nvfp4"};

struct Settings {
  Optimizer optimizer = Optimizer::kAdamW;
  // The dtype of the optimizer's copy of the parameters. By default the copy is
  // float32, and exists only if the parameters' dtype is narrower.
  std::optional<Dtype> master;
  bool master_given = false;
  std::optional<Dtype> first_moment, second_moment;  // nullopt: float32
  std::optional<Dtype> gradients;  // nullopt: the parameters' dtype
  // True if the optimizer's states are in the memory of the host, which updates
  // the parameters: a device sends its gradients and gets the parameters back.
  // The profile must then have a host_memory_rate.
  bool offloads_optimizer = false;
  // The ZeRO stage. Stage 1 divides the optimizer states over data-parallel
  // replicas in addition to the plan's sharding, stage 2 the gradients too,
  // stage 3 the parameters too.
  int zero = 0;

  step::Remat remat;
  std::optional<int64_t> batch, length, kv_length;
  int64_t microbatches = 1;
  step::Reduction reduction = step::Reduction::kSharded;
  // True if weights that are sharded over axes of tokens are gathered once a
  // step and held until its end. Otherwise each micro-batch gathers them layer
  // by layer. StageSettings sets the member for pipelines.
  bool gathers_once = false;
  Dtype activations = Dtype::kBF16;
  Dtype cache = Dtype::kBF16;
  Dtype logits = Dtype::kF32;
  const exec::Operation* operation = nullptr;  // null: the mode's default

  // The dtype of the layers' matmuls; nullopt: the dtype of the
  // activations.
  std::optional<Dtype> matmuls;
  const Stack* stack = nullptr;  // null: StackOf chooses the stack
  // The kind of loss. kStack means the loss of the rules' `model:` section or,
  // if the section has none, the loss of the software stack.
  LossKind loss = LossKind::kStack;
  // The number of tokens of a device whose logits are computed at once; nullopt
  // for all tokens of a micro-batch.
  std::optional<int64_t> loss_chunk;
  // True if collectives of tensor parallelism overlap with matmuls.
  bool overlap_tensor = false;
  // How the operands of matmuls in 8 or 4 bits are scaled.
  Scaling scaling = Scaling::kTensor;

  // The settings of models with experts. Without a value, the dispatcher and
  // the graphs are those of the software stack.
  std::optional<Dispatcher> dispatcher;
  std::optional<Graphs> graphs;
  // True if tokens are sent while another micro-batch is computed.
  bool overlap_experts = false;
  // The rows that an expert computes at most, as a multiple of its equal part
  // of all rows. Further rows are dropped, and missing ones are padded.
  std::optional<double> capacity_factor;
  Routing routing = Routing::kBalanced;

  const DeviceProfile* profile = nullptr;
  // Owns the profile if it was read from a file. The pointer `profile` then
  // points to this object.
  std::shared_ptr<const DeviceProfile> read_profile;
  // The bytes of memory of a device. The value takes precedence over the memory
  // that the mesh file states.
  std::optional<int64_t> memory;
};

// Returns the settings with the loss of the rules' `model:` section. Values in
// `settings` take precedence: the kind of the loss is set only if it is kStack,
// and the chunk only if it is nullopt.
Settings WithLossOf(const RuleSet& rules, Settings settings);

// Decides whether a plan is legal for a model, its batch and its lengths.

// A number of heads that the axes which shard the heads do not divide.
struct UnevenHeads {
  bool kv = false;  // true if `heads` are KV heads
  int64_t heads = 0;
  AxisGroup axes;
  int64_t parts = 1;  // the product of the axes' sizes
};

// Returns up to two entries: one for the query heads if the axes that shard
// them do not divide the number of query heads, and one for the KV heads if the
// axes that shard them do not divide the number of KV heads. Returns no entries
// without a model, or if the model does not define its heads.
std::vector<UnevenHeads> UnevenHeadsOf(const CostInputs& work);

// Returns for example `"tp" of 8 does not divide the 2 KV heads`.
std::string UnevenText(const UnevenHeads& one);

// Drops or shrinks axes that do not divide the heads in the specs of attention,
// as the policy for illegal specs requires. The policies `error` and `pad`
// change nothing.
void DropUnevenHeads(const Compiled& compiled, CostInputs& work);
// Drops axes that do not divide the heads in the specs of attention. The plan
// was read from a file, which does not contain the policy for illegal specs.
// Adds a note if query heads are affected, and a note if KV heads are affected.
void DropUnevenHeadsOfFile(CostInputs& work);

// Returns a text for each number of rows or tokens that its axes or the
// micro-batches do not divide, such as `9 rows are not divisible by 8`.
std::vector<std::string> UnevenTokensOf(const CostInputs& work,
                                        const Settings& settings);

// Returns why a mesh is illegal for a target; empty if it is legal.
std::vector<std::string> ReasonsAgainst(const Compiled& compiled,
                                        const CostInputs& work,
                                        const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SETTINGS_H_
