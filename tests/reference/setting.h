// A random setting of the manager, given to the native resolver and to the
// reference: axis rules, registered tokens, and lists of axes that use
// them. A function of its seed.
#ifndef SHARDC_TESTS_REFERENCE_SETTING_H_
#define SHARDC_TESTS_REFERENCE_SETTING_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "model/rules.h"
#include "reference/resolve.h"
#include "reference/values.h"

namespace shardc::reference {

// Where a run over seeds begins: SHARDC_SEED, or 1.
uint64_t FirstSeed();

// A list of axes, as shardc and as the reference write it.
struct BothAxes {
  SpecList ours;
  std::vector<Value> theirs;
};

class Setting {
 public:
  // Axis rules and registrations that are drawn.
  explicit Setting(const Draws& draws);

  // Every mesh axis that is ever named.
  static const std::vector<std::string>& Axes();

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  bool Chance(int percent) { return Below(100) < percent; }
  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }

  // Returns a random list of tokens and registered names.
  BothAxes RandomAxes();

  // Leaves out of groups the names that are registered with a null rule: the
  // reference takes them for mesh axes there, shardc for unsharded.
  void DropNullNames(std::vector<Value>& values) const;
  bool HasNullNames() const { return !null_names_.empty(); }

  // Axis rules and registrations; there are no rules in it.
  const RuleSet& ours() const { return ours_; }
  PartitionAxis axis() const { return PartitionAxis(given_); }
  const Registry& registry() const { return registry_; }

 private:
  void GiveAxisRule(AxisRule rule);
  // Returns a random rule, which may name the tokens and registrations in
  // `names`.
  std::pair<RegisteredRule, Value> RandomRule(
      const std::vector<std::string>& names);
  void Register(const std::string& name, bool override_existing);
  std::string Name(bool in_group);

  Draws random_;
  RuleSet ours_;
  PartitionAxis::Given given_;
  Registry registry_;
  // What a rule may name without a circle: tokens that keep their meaning, and
  // what is registered so far.
  std::vector<std::string> names_;
  std::set<std::string> null_names_;  // registered with a null rule
};

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_SETTING_H_
