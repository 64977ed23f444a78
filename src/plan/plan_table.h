// A plan whose parameters are grouped into classes. Parameters with the same
// entry in the JSON are one class. The layers of a model share classes, so
// comparing classes is faster than comparing parameters.
#ifndef SHARDC_PLAN_PLAN_TABLE_H_
#define SHARDC_PLAN_PLAN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/read.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// `classes` has one parameter for each class: the first parameter of the class
// in the file.
struct PlanTable {
  ReadPlan classes;
  // The names of all parameters, in the file's order.
  std::vector<std::string_view> names;
  // Indexed by parameter: the index of its class in `classes`.
  std::vector<uint32_t> class_of;
  SourceRef source;  // The plan's text, of which names may be views.

  PlanTable() = default;
  // A table cannot be copied, because names may be views into strings of
  // `classes`.
  PlanTable(const PlanTable&) = delete;
  PlanTable& operator=(const PlanTable&) = delete;
  PlanTable(PlanTable&&) = default;
  PlanTable& operator=(PlanTable&&) = default;
};

// Reads a plan, and groups parameters with the same entry into classes. Returns
// nullopt and adds a finding if the text is not JSON or if ParsePlan fails.
std::optional<PlanTable> ReadPlanTable(const SourceRef& source,
                                       EditedPlan edited, Findings& findings);

// Returns the plan with all its parameters, one for each name.
ReadPlan AllParams(const PlanTable& table);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_TABLE_H_
