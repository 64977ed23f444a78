// A plan with its rules and attention specs, as a list of parameters (PlanView)
// or of classes (PlanTable). Parameters with the same entry in the JSON are one
// class. The layers of a model share classes, so comparing classes is faster
// than comparing parameters.
#ifndef SHARDC_PLAN_VIEW_H_
#define SHARDC_PLAN_VIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "plan/kv_layout.h"
#include "plan/read.h"
#include "source/json.h"
#include "source/source.h"

namespace shardc::program {
struct Facts;
}  // namespace shardc::program

namespace shardc {

struct PlanView {
  struct Correction {
    Mode mode = Mode::kTrain;
    // The dimension whose axes were changed; nullopt if the entire spec was
    // changed.
    std::optional<int64_t> dim;
    AxisGroup from;
    std::string reason;
    bool operator==(const Correction&) const = default;
  };
  ReadPlan plan;
  // The patterns of the rules, indexed by rule.
  std::vector<std::string> rules;
  // Indexed by rule: its file and line, such as `rules.yaml:12`; may be empty.
  std::vector<std::string> rule_sources;
  // Indexed by parameter: the rule that matched it; -1 if no rule did.
  std::vector<int32_t> rule_of;
  // The corrections of each parameter, indexed by parameter.
  std::vector<std::vector<Correction>> corrections;
  std::vector<ReadActivation> attention;
  // What the layers keep for each request; empty if the plan does not state it.
  std::vector<KvKind> kv;
  // What the description of the model's family states about parameters. A plan
  // does not have it: it is null unless a config.json is given as well.
  std::shared_ptr<const program::Facts> described;
};

// Reads a plan with its rules and attention specs. Returns nullopt and adds a
// finding if ParsePlan fails, or if a rule, the spec of an activation or `kv`
// is malformed (code schema).
std::optional<PlanView> ViewPlan(const JsonDocument& document,
                                 EditedPlan edited, Findings& findings);

// A plan whose parameters are grouped into classes. `classes` has one parameter
// for each class: the first parameter of the class in the file.
struct PlanTable {
  PlanView classes;
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
// nullopt and adds a finding if the text is not JSON or if ViewPlan fails.
std::optional<PlanTable> ReadPlanTable(const SourceRef& source,
                                       EditedPlan edited, Findings& findings);

// Returns the names of rules with these patterns, in the same order. The name
// of a rule is its pattern. If earlier rules have the same pattern, a number
// follows: `w`, `w (2)`, `w (3)`. Numbers are skipped if the name would be the
// pattern of another rule, so all names differ.
std::vector<std::string> RuleNames(std::span<const std::string_view> patterns);

// Finds the rule that a parameter of a plan's file names.
class RuleIndex {
 public:
  explicit RuleIndex(std::span<const std::string_view> patterns);
  // Returns the index of the rule, or nullopt if the plan has no such rule.
  // `rule` is a name or, in plans of earlier versions, an index.
  std::optional<int32_t> Find(const JsonValue& rule) const;

 private:
  int64_t count_ = 0;
  std::map<std::string, int32_t, std::less<>> by_name_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_VIEW_H_
