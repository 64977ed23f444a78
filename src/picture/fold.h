// A plan's parameters, folded: those that differ only in whole numbers of
// their names, and lie alike, are one group.
#ifndef SHARDC_PICTURE_FOLD_H_
#define SHARDC_PICTURE_FOLD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/memory.h"
#include "model/axis_rules.h"
#include "plan/view.h"

namespace shardc::picture {

// What a parameter is for, as a reader sorts them.
enum class Kind : uint8_t {
  kEmbedding,
  kAttention,
  kMlp,
  kExperts,
  kSharedExperts,
  kRouter,
  kNorms,
  kScales,
  kHead,
  kOther,
};
inline constexpr std::string_view kKindNames[] = {
    "embedding", "attention", "mlp",    "experts", "shared experts",
    "router",    "norms",     "scales", "head",    "other"};

struct ParamGroup {
  // `layers.{0..31}.up`: `{0..60..6}` where numbers are apart by one step, up
  // to six are written out, else `{0,1,...,31}`; a brace of the name is `\{`.
  std::string shown;
  std::string folded;  // numbers as `*`
  Kind kind = Kind::kOther;
  int64_t count = 0;
  // More than `count` where not every mix of the numbers is there.
  int64_t possible = 0;
  uint32_t first = 0;                 // parameter
  uint32_t of_class = 0;              // its class
  std::string placed_along;           // axis of `placed`; empty: nowhere
  std::map<int64_t, int64_t> placed;  // how many, by coordinate
};

class FoldedPlan {
 public:
  explicit FoldedPlan(const PlanTable& table);

  const PlanTable& table() const { return table_; }
  const Mesh& mesh() const { return table_.classes.plan.mesh; }
  const std::vector<ParamGroup>& groups() const { return groups_; }
  const ReadParam& ParamOf(const ParamGroup& group) const {
    return table_.classes.plan.params[group.of_class];
  }
  int32_t RuleOf(const ParamGroup& group) const {
    return table_.classes.rule_of[group.of_class];
  }
  bool IsCorrected(const ParamGroup& group) const {
    return !table_.classes.corrections[group.of_class].empty();
  }
  // An entry per dimension where the rank is known.
  Spec SpecOf(const ParamGroup& group, Mode mode) const;

  // Bytes of one on a device that holds it; nothing where not known.
  std::optional<int64_t> Each(const ParamGroup& group, Mode mode) const;
  // ... of the whole group, on the fullest device of all.
  std::optional<int64_t> OnFullest(const ParamGroup& group, Mode mode) const;
  // Of all parameters. Those of unknown size are left out and counted.
  HeldBytes Held(Mode mode) const;
  int64_t UnknownSizes() const;
  // Bytes of the group in the model, each parameter once.
  std::optional<int64_t> Total(const ParamGroup& group) const;
  std::optional<int64_t> TotalBytes() const;
  std::optional<int64_t> TotalElements() const;

  // How many devices hold the same; as many as there are: whole everywhere.
  int64_t Copies(const ParamGroup& group, Mode mode) const;
  bool IsWhole(const ParamGroup& group, Mode mode) const {
    return mesh().devices > 1 && Copies(group, mode) == mesh().devices;
  }

 private:
  // The coordinate of each axis that most bytes are placed at.
  const std::map<std::string, int64_t>& Fullest(Mode mode) const;

  const PlanTable& table_;
  std::vector<ParamGroup> groups_;
  std::map<Mode, std::map<std::string, int64_t>> fullest_;
};

// Modes in which every spec is the same, in the order of the first.
std::vector<std::vector<Mode>> ModeGroups(const PlanView& classes);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_FOLD_H_
