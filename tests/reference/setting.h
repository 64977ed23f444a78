// A random setting of the manager in two forms, for the native resolver and for
// the reference: axis rules, registered tokens, and lists of axes that use
// them. It is determined by its seed.
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

// Returns the first seed of a run over seeds: SHARDC_SEED, or 1.
uint64_t FirstSeed();

// A list of axes in two forms: as shardc and as the reference write it.
struct BothAxes {
  SpecList ours;
  std::vector<Value> theirs;
};

class Setting {
 public:
  // Draws axis rules and registrations.
  explicit Setting(const Draws& draws);

  // Returns all mesh axes that may be named.
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

  // Removes from groups all names that are registered with a null rule, because
  // the reference takes them for mesh axes there, and shardc for unsharded.
  void DropNullNames(std::vector<Value>& values) const;
  bool HasNullNames() const { return !null_names_.empty(); }

  // Returns axis rules and registrations, without rules for parameters.
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
  // The names that a rule may use without a cycle: tokens that keep their
  // meaning, and names that are already registered.
  std::vector<std::string> names_;
  std::set<std::string> null_names_;  // registered with a null rule
};

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_SETTING_H_
