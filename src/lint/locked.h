// Compares a committed plan or step program with the plan or program of the
// current inputs.
#ifndef SHARDC_LINT_LOCKED_H_
#define SHARDC_LINT_LOCKED_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "plan/difference/plan_difference.h"
#include "source/sink.h"
#include "source/source.h"

namespace shardc {

using WritePlan = std::function<void(Sink& out)>;

// The kind of a committed file: a plan or a step program.
enum class Committed : uint8_t { kPlan, kStep };

// Compares the `committed` file with the current plan or step program, which
// `give` writes. Returns nullopt after a finding in `errors` if the file cannot
// be read.
std::optional<PlanDifference> DifferenceFrom(const WritePlan& give,
                                             const SourceRef& committed,
                                             Findings& errors,
                                             Committed kind = Committed::kPlan);

// Compares the files as DifferenceFrom does. Returns one finding for each
// difference, at its place in the committed file. Parameters that differ only
// in layer numbers share a finding. If the bytes differ but the meaning does
// not, returns one note. Returns an empty list if the bytes are equal or the
// file cannot be read. If there are more than `limit` differences, one more
// finding counts the remaining ones.
FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind = Committed::kPlan,
                          size_t limit = 20);

}  // namespace shardc

#endif  // SHARDC_LINT_LOCKED_H_
