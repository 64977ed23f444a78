// Chooses which label of an op each mesh axis shards.
#ifndef SHARDC_STEP_CHOOSE_H_
#define SHARDC_STEP_CHOOSE_H_

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "step/op_def.h"
#include "step/program.h"
#include "step/reshard.h"

namespace shardc::step {

enum class Policy : uint8_t { kPublished, kCost };

struct OperandView {
  const Value* value = nullptr;
  const Sharding* sharding = nullptr;  // of the first copy of the value
  // The shardings of all copies of the value.
  std::span<const Sharding* const> copies = {};
  bool weight = false;    // a parameter, or made of parameters only
  bool repeated = false;  // the same value as an earlier operand
};

struct ChoiceRequest {
  const Op* op = nullptr;
  const OpLabels* labels = nullptr;
  std::span<const OperandView> operands = {};
  const Value* result = nullptr;
  // The preferred sharding of the result, or null.
  const Sharding* wanted = nullptr;
  bool gradient = false;  // the result is a gradient, and counts as a weight
};

struct Choice {
  std::vector<Sharding> operands = {};
  Sharding result = {};
  AxisList maxima = {};  // axes of the all-reduce (max) that follows the op
  std::vector<ShardingConflict> conflicts = {};  // the caller sets `op` of each
};

struct ChoiceSettings {
  const Axes* axes = nullptr;
  const Sizes* sizes = nullptr;
  int64_t element_bytes = 2;
  AxisSet data = 0;
  Policy policy = Policy::kPublished;
  bool records_conflicts = true;
};

Choice Choose(const ChoiceSettings& settings, const ChoiceRequest& request);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CHOOSE_H_
