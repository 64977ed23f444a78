// A plan's parameters folded into groups. The names of a group's parameters
// differ only in whole numbers, and the parameters have the same type, rule,
// specs, corrections and placement axis.
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
#include "plan/without_stages.h"

namespace shardc::picture {

// The part of the model that a parameter belongs to.
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
  // The name, where more than one number at a position is written as a range:
  // `layers.{0..31}.up`, or `{0..60..6}` for a constant step above 1. Two
  // numbers, and numbers without a constant step, are listed. More than six are
  // shortened to `{0,1,…,31}`. Braces of the name itself are written `\{` and
  // `\}`.
  std::string shown;
  std::string folded;  // the name with its numbers as `*`
  Kind kind = Kind::kOther;
  int64_t count = 0;
  // The number of combinations of the numbers in `shown`. It exceeds `count` if
  // the plan lacks some combinations.
  int64_t possible = 0;
  uint32_t first = 0;     // index of the group's first parameter
  uint32_t of_class = 0;  // index of its class in PlanView::plan.params
  // The axis on which the keys of `placed` are coordinates, which may be the
  // stage axis. Empty if the parameters are not placed.
  std::string placed_along;
  // Maps a coordinate to the number of parameters there. If the group's tensors
  // are layer stacks that pipeline stages divide, maps a coordinate to the
  // number of layers there.
  std::map<int64_t, int64_t> placed;
  // The layers in each tensor of the group; 1 if stages do not divide tensors.
  int64_t layers = 1;
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
  // Returns the first parameter of the group for a drawing without stages. In a
  // plan with stages, the stages are converted to a placement or a sharding, or
  // the parameter is drawn for one rank (plan/without_stages.h).
  DrawnParam WithoutStages(const ParamGroup& group) const;
  int32_t RuleOf(const ParamGroup& group) const {
    return table_.classes.rule_of[group.of_class];
  }
  bool IsCorrected(const ParamGroup& group) const {
    return !table_.classes.corrections[group.of_class].empty();
  }
  // Returns the spec, with an entry for each dimension if the rank is known.
  Spec SpecOf(const ParamGroup& group, Mode mode) const;

  // Returns the bytes of one parameter, with all its layers, on a device that
  // holds it; nullopt if its size is unknown.
  std::optional<int64_t> Each(const ParamGroup& group, Mode mode) const;
  // Returns the bytes of all parameters of the group on the fullest device;
  // nullopt if they are unknown or do not fit in 64 bits.
  std::optional<int64_t> OnFullest(const ParamGroup& group, Mode mode) const;
  // Returns the bytes of parameters on devices: a total for unplaced
  // parameters, and a value for each coordinate for placed parameters.
  // Parameters of unknown size are left out; UnknownSizes() counts them.
  HeldBytes Held(Mode mode) const;
  int64_t UnknownSizes() const;
  // Return the bytes of the group or of all parameters, or the elements of all
  // parameters. Each parameter counts once, however many devices hold it.
  // Return nullopt if a size is unknown or the sum does not fit in 64 bits.
  std::optional<int64_t> Total(const ParamGroup& group) const;
  std::optional<int64_t> TotalBytes() const;
  std::optional<int64_t> TotalElements() const;

  // Returns the number of devices that hold the same shard of a parameter. For
  // a placed parameter, only the devices of one coordinate count.
  int64_t Copies(const ParamGroup& group, Mode mode) const;
  bool IsReplicated(const ParamGroup& group, Mode mode) const {
    return mesh().devices > 1 && Copies(group, mode) == mesh().devices;
  }

 private:
  // Returns, for each axis with placed parameters, the coordinate with the most
  // bytes.
  const std::map<std::string, int64_t>& Fullest(Mode mode) const;

  const PlanTable& table_;
  std::vector<ParamGroup> groups_;
  std::map<Mode, std::map<std::string, int64_t>> fullest_;
};

// Groups the modes that have the same specs for every parameter. The groups are
// in the order of their first mode.
std::vector<std::vector<Mode>> ModeGroups(const PlanView& classes);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_FOLD_H_
