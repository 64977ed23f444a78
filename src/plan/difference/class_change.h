// Compares a class of parameters in one plan with a class in another plan. A
// class consists of all parameters that have the same entry in the plan's JSON.
#ifndef SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_
#define SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "plan/difference/entry_fields.h"
#include "plan/difference/moves.h"
#include "plan/difference/plan_difference.h"

namespace shardc {

struct ClassChange {
  // A member of the JSON that differs. Two fields with equal keys describe the
  // same difference.
  struct Field {
    EntryChange change;
    bool detailed = false;
    std::string key;
  };
  struct Specs {
    SpecChange change;  // The change, without the names of parameters.
    std::string key;
  };
  std::vector<Field> fields;
  std::vector<Specs> specs;
  // `type` identifies the difference of the types, and `rule` the difference of
  // the winning rules. Each is empty if there is no such difference.
  std::string type, rule;

  bool none() const {
    return fields.empty() && specs.empty() && type.empty() && rule.empty();
  }
};

// Compares the types, winning rules and specs of parameters of two valid plans.
class ClassComparison {
 public:
  ClassComparison(const PlanTable& before, const PlanTable& after);

  // Sets `type`, `rule` and `specs` of `out`. `before` and `after` are the
  // parameters' indices in the first and the second plan.
  void Compare(size_t before, size_t after, ClassChange& out);
  // Compares the spec of one parameter in one mode with its spec in another
  // mode.
  void CompareModes(size_t param, Mode before, Mode after, ClassChange& out);

  const PlanTable& before() const { return before_; }
  const PlanTable& after() const { return after_; }
  const Mesh& mesh_before() const { return before_.classes.plan.mesh; }
  const Mesh& mesh_after() const { return after_.classes.plan.mesh; }

  static const ReadParam& ParamOf(const PlanTable& table, size_t param);
  // Returns the pattern of the parameter's winning rule, or an empty text if no
  // rule matches.
  static std::string_view PatternOf(const PlanTable& table, size_t param);

 private:
  void AddSpecs(const ReadParam& was, const ReadParam& now, Mode mode_before,
                Mode mode, ClassChange& out);

  const PlanTable& before_;
  const PlanTable& after_;
  MoveCosts costs_;
  // True if the ranks of both plans' pipelines have the same layers and the
  // same devices, or if neither plan has stages.
  bool same_stages_;
};

// Returns the modes that both plans have, in the order of the second plan. A
// mode that only one plan has is reported once, as a change of the list of
// modes, and not for each parameter.
std::vector<Mode> ModesOfBoth(const PlanTable& before, const PlanTable& after);

// Sets `detailed` of each member of `fields` whose difference is also described
// by `type`, `rule` or `specs`. Reports omit these members, so that no
// difference is reported twice.
void MarkDetailed(bool same_axes, ClassChange& change);

// Returns for example "[4096, 4096] BF16", with `?` for an unknown shape or
// dtype.
std::string TypeKey(const TensorType& type);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_
