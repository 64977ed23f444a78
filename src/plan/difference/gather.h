// Gathers the changes of single parameters into groups of equal changes.
#ifndef SHARDC_PLAN_DIFFERENCE_GATHER_H_
#define SHARDC_PLAN_DIFFERENCE_GATHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "plan/difference/class_change.h"
#include "plan/difference/groups.h"
#include "plan/difference/plan_difference.h"
#include "plan/plan_stages.h"

namespace shardc {

// The places of a parameter's name and of its entry in the first plan.
struct EntryPlace {
  Place name, entry;
};

class Gatherer {
 public:
  // `classes` is null if one of the two files is not a valid plan.
  explicit Gatherer(const ClassComparison* classes) : classes_(classes) {}

  // Adds the change of a parameter that both plans have. `before` and `after`
  // are the parameter's indices in the two plans.
  void Add(const ClassChange& change, std::string_view name,
           const EntryPlace& place, size_t before, size_t after);
  // Add a parameter that only one plan has.
  void AddNew(std::string_view name, const Place& place, size_t after);
  void AddRemoved(std::string_view name, const Place& place, size_t before);

  void Take(PlanDifference& to);

 private:
  struct GatheredField : FieldChange {
    // The beginning of the message, before the name of the parameter.
    std::string subject;
  };
  struct GatheredSpecs : SpecChange {
    Copies copies_before, copies_after;
    // The bytes of the group on the devices of each pipeline rank. Set only for
    // a plan with stages, because its ranks hold different parameters.
    std::optional<BytesByRank> ranks_before, ranks_after;
  };

  uint32_t Shown(std::string_view name);
  void AddOfOnePlan(std::string_view name, const Place& place,
                    std::string_view verdict);
  void AddNamed(Groups<NamedGroup>& groups, const PlanTable& table,
                size_t param);
  void AddField(const ClassChange::Field& field, uint32_t shown,
                std::string_view name, const EntryPlace& place);
  void AddType(GroupKey key, std::string_view name, size_t before,
               size_t after);
  void AddRule(GroupKey key, std::string_view name, size_t before,
               size_t after);
  void AddSpecs(GroupKey key, std::string_view name, const SpecChange& change,
                size_t before, size_t after);

  const ClassComparison* classes_;
  std::string template_;
  Numbers templates_, keys_;
  Groups<NamedGroup> added_, removed_;
  Groups<TypeChange> reshaped_;
  Groups<RuleChange> rules_;
  Groups<GatheredSpecs> specs_;
  Groups<GatheredField> fields_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_GATHER_H_
