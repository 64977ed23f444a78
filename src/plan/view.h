// A plan read back with its rules and attention specs, and the same by
// classes: parameters whose entries are one text are one class, so that a plan
// of many layers is compared as fast as it is read.
#ifndef SHARDC_PLAN_VIEW_H_
#define SHARDC_PLAN_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/spec.h"
#include "plan/read.h"
#include "source/json.h"
#include "source/source.h"

namespace shardc {

struct PlanView {
  struct Attention {
    Mode mode = Mode::kTrain;
    std::string tensor;
    Spec spec;
  };
  struct Correction {
    Mode mode = Mode::kTrain;
    std::optional<int64_t> dim;  // nothing: the spec as a whole
    AxisGroup from;
    std::string reason;
    bool operator==(const Correction&) const = default;
  };
  ReadPlan plan;
  std::vector<std::string> rules;         // patterns
  std::vector<std::string> rule_sources;  // `rules.yaml:12`; may be empty
  std::vector<int32_t> rule_of;           // by parameter; -1: none
  std::vector<std::vector<Correction>> corrections;  // by parameter
  std::vector<Attention> attention;
};

// Findings: those of ParsePlan, and schema.
std::optional<PlanView> ViewPlan(const JsonDocument& document,
                                 Findings& findings);

// `classes` has one parameter of each class, the first of it.
struct PlanTable {
  PlanView classes;
  std::vector<std::string_view> names;  // of all parameters, the file's order
  std::vector<uint32_t> class_of;       // by parameter
  SourceRef source;                     // what names may be views into

  PlanTable() = default;
  // Names may be views into the classes' own, which a copy would not hold.
  PlanTable(const PlanTable&) = delete;
  PlanTable& operator=(const PlanTable&) = delete;
  PlanTable(PlanTable&&) = default;
  PlanTable& operator=(PlanTable&&) = default;
};

// As ViewPlan, and the findings of JSON.
std::optional<PlanTable> ReadPlanTable(const SourceRef& source,
                                       Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_VIEW_H_
