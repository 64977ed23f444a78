// A committed plan, or step program, against the one that the inputs give now.
#ifndef SHARDC_LINT_LOCKED_H_
#define SHARDC_LINT_LOCKED_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lint/analysis/topic.h"
#include "lint/plan_difference.h"
#include "lint/rules/lint.h"
#include "source/sink.h"
#include "source/source.h"

namespace shardc {

using WritePlan = std::function<void(Sink& out)>;

// What is committed.
enum class Committed : uint8_t { kPlan, kStep };

// What differs in the plan that the inputs `give` from the `committed` file.
// Empty where both say the same; nothing where the file cannot be read, which
// goes to `errors`.
std::optional<std::vector<PlanDifference>> DifferencesFrom(
    const WritePlan& give, const SourceRef& committed, Findings& errors,
    Committed kind = Committed::kPlan);

// Compares the `committed` file with the plan that the inputs `give`. One
// finding for each thing that differs, folded over layers, at its place in the
// committed file; one note where the file says the same in other words; none
// where the bytes are the same. At most `limit`, and a last one that counts
// the rest. Errors in reading the file go to `errors`.
FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind = Committed::kPlan,
                          size_t limit = 20);

}  // namespace shardc

#endif  // SHARDC_LINT_LOCKED_H_
