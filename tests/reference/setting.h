// A random setting of the manager, told to the native resolver and to the
// reference alike: axis rules, registered tokens, and lists of axes that use
// them. A function of its seed.
#ifndef SHARDC_TESTS_REFERENCE_SETTING_H_
#define SHARDC_TESTS_REFERENCE_SETTING_H_

#include <cstdint>
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

// One list of axes as both write it.
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

  // Of tokens and registered names.
  BothAxes RandomAxes();

  // Axis rules and registrations; there are no rules in it.
  const RuleSet& ours() const { return ours_; }
  PartitionAxis axis() const { return PartitionAxis(given_); }
  const Registry& registry() const { return registry_; }

 private:
  void GiveAxisRule(AxisRule rule);
  std::pair<RegisteredRule, Value> RandomRule();
  void Register(const std::string& name);
  std::string Name(bool in_group);

  Draws random_;
  RuleSet ours_;
  PartitionAxis::Given given_;
  Registry registry_;
};

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_SETTING_H_
