// The figures of a step that a target's budget limits: the memory of a device,
// the bytes that a device sends, and the time of the step.
#ifndef SHARDC_COST_FIGURES_H_
#define SHARDC_COST_FIGURES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/inputs.h"
#include "cost/pipeline.h"
#include "cost/report.h"
#include "model/not_known.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::cost {

enum class BudgetFigure : uint8_t { kMemory, kSent, kTime };
inline constexpr std::array<std::string_view, 3> kBudgetFigureNames = {
    "memory", "sent", "time"};

// A part of a figure, such as {"activations", 4096}.
using FigurePart = std::pair<std::string, double>;

struct StepFigure {
  // Bytes or, for kTime, seconds; nullopt if nothing is known.
  std::optional<double> value;
  bool at_least = false;  // whether `value` is only a lower bound
  std::vector<FigurePart> parts;
  // Why the figure is not known or only a lower bound. It may be empty.
  std::vector<NotKnown> unknown;

  bool IsKnown() const { return value && !at_least; }
};

// Indexed by BudgetFigure.
using StepFigures = std::array<StepFigure, kBudgetFigureNames.size()>;

// Returns the figures that `cost` prints: the expected memory of the fullest
// device, the bytes that the busiest device sends, and the expected time of the
// step. Without an expected time, as in serving, the time is the one that the
// step takes if nothing overlaps.
StepFigures FiguresOf(const Report& report);
// Returns the figures of a pipeline, with those of the rank that uses the most
// memory and of the rank that sends the most bytes. `work` are the inputs of
// the complete model.
StepFigures FiguresOf(const PipelineCost& cost, const CostInputs& work);

// The figures that are committed next to a plan.
struct CostLock {
  std::string plan;  // the fingerprint of the plan that was written with them
  Mode mode = Mode::kTrain;
  StepFigures figures;
};
inline constexpr std::string_view kCostLockSchema = "shardc.cost-lock/v1";

// Reads the figures that WriteCostLock (emit/costs) wrote. Returns nullopt
// after the finding SHD022 (schema) if the document is not of this form.
std::optional<CostLock> ReadCostLock(const JsonDocument& document,
                                     Findings& findings);

// Returns the parts of `now`, the largest first. With `before`, returns the
// parts that grew and by how much.
std::vector<FigurePart> LargestParts(const StepFigure& now,
                                     const StepFigure* before = nullptr);

}  // namespace shardc::cost

#endif  // SHARDC_COST_FIGURES_H_
