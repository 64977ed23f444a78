// The settings of training or serving that the plan does not define.
#ifndef SHARDC_COST_SETTINGS_H_
#define SHARDC_COST_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "devices/profiles.h"
#include "exec/operations/operation.h"
#include "model/dtype.h"
#include "model/loss_kind.h"
#include "model/rules.h"
#include "step/accumulate.h"
#include "step/remat.h"

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

struct Settings {
  Optimizer optimizer = Optimizer::kAdamW;
  // The optimizer's copy of the parameters. If not given, it is float32 for
  // narrower parameters.
  std::optional<Dtype> master;
  bool master_given = false;
  std::optional<Dtype> first_moment, second_moment;  // absent: float32
  std::optional<Dtype> gradients;  // nullopt: the parameters' dtype
  // The ZeRO stage: what data-parallel replicas divide in addition to the
  // plan's sharding. 1: the optimizer states, 2: gradients too, 3: parameters
  // too.
  int zero = 0;

  step::Remat remat;
  std::optional<int64_t> batch, length, kv_length;
  int64_t microbatches = 1;
  step::Reduction reduction = step::Reduction::kSharded;
  Dtype activations = Dtype::kBF16;
  Dtype cache = Dtype::kBF16;
  Dtype logits = Dtype::kF32;
  const exec::Operation* operation = nullptr;  // null: the mode's default

  // The dtype of the layers' matrix products. If not given, it is that of the
  // activations.
  std::optional<Dtype> products;
  const Stack* stack = nullptr;  // null: StackOf decides
  // The kind of loss. kStack: that of the rules' `model:` section, else that of
  // the software stack.
  LossKind loss = LossKind::kStack;
  // The tokens of a device whose logits are computed at once. If not given, it
  // is all of a micro-batch.
  std::optional<int64_t> loss_chunk;
  // Whether collectives of tensor parallelism overlap with matrix products.
  bool overlap_tensor = false;

  const DeviceProfile* profile = nullptr;
  // Owns the profile that `profile` points to if it was read from a file.
  std::shared_ptr<const DeviceProfile> read_profile;
  std::optional<int64_t> memory;  // bytes; overrides the mesh's device
};

// Returns the settings. If they have no loss, it is taken from the rules'
// `model:` section.
Settings WithLossOf(const RuleSet& rules, Settings settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SETTINGS_H_
