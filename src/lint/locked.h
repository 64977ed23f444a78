// A committed plan or step program, compared with what the inputs give now.
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

// The kind of the committed file.
enum class Committed : uint8_t { kPlan, kStep };

// Compares the `committed` file with the plan that the inputs `give`. Nothing,
// and a finding in `errors`, if the file cannot be read.
std::optional<PlanDifference> DifferenceFrom(const WritePlan& give,
                                             const SourceRef& committed,
                                             Findings& errors,
                                             Committed kind = Committed::kPlan);

// Compares as DifferenceFrom does, and returns findings: one for each
// difference, folded over layers, at its place in the committed file; one note
// if the file has the same meaning in another spelling; none if the bytes are
// equal. At most `limit` findings, and a last one that counts the rest.
FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind = Committed::kPlan,
                          size_t limit = 20);

}  // namespace shardc

#endif  // SHARDC_LINT_LOCKED_H_
