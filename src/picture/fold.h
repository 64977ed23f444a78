// Folds the parameters of a plan into groups. The names of a group's parameters
// differ only in whole numbers. Its parameters have the same type, rule, specs
// and corrections of illegal specs. If they are placed (each is held only by
// the devices at one coordinate of a mesh axis), this axis is the same as well.
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
#include "plan/plan_table.h"
#include "plan/staged_plan.h"

namespace shardc::picture {

// The part of the model to which a parameter belongs.
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
  // The name of the group. A position at which the numbers differ is written as
  // a range: `layers.{0..31}.up`, or `{0..60..6}` if the step is constant and
  // above 1. Two numbers, and numbers without a constant step, are listed. A
  // list of more than six is shortened to `{0,1,…,31}`. Braces in the name
  // itself are written `\{` and `\}`.
  std::string shown;
  std::string folded;  // the name with `*` in place of its numbers
  Kind kind = Kind::kOther;
  // The number of parameters in the group.
  int64_t count = 0;
  // The number of combinations of the numbers in `shown`. This number exceeds
  // `count` if the plan does not have all combinations.
  int64_t possible = 0;
  uint32_t first = 0;     // index in the plan of the group's first parameter
  uint32_t of_class = 0;  // index of the group's entry in ReadPlan::plan.params
  // The mesh axis whose coordinates are the keys of `placed`. It may be the
  // axis of pipeline stages. Empty if all devices hold shards of the
  // parameters.
  std::string placed_along;
  // Maps a coordinate to the number of parameters that the devices at this
  // coordinate hold. If pipeline stages divide the layers of the group's
  // tensors, the layers that these devices hold are counted instead.
  std::map<int64_t, int64_t> placed;
  // The number of layers in each tensor of the group; 1 if stages do not divide
  // tensors.
  int64_t layers = 1;
};

class FoldedPlan {
 public:
  explicit FoldedPlan(const PlanTable& table);

  const PlanTable& table() const { return table_; }
  const Mesh& mesh() const { return table_.classes.mesh; }
  const std::vector<ParamGroup>& groups() const { return groups_; }
  const ReadParam& ParamOf(const ParamGroup& group) const {
    return table_.classes.params[group.of_class];
  }
  // Returns the first parameter of the group, for a drawing that has no
  // pipeline stages (plan/staged_plan.h). If only one rank of the pipeline
  // holds the parameter, it is placed on this rank. A layer stack is sharded
  // over the ranks. In cases where this is not possible, such as an uneven
  // division of the layers, only the part on the first rank that holds the
  // parameter is returned.
  DrawnParam WithoutStages(const ParamGroup& group) const;
  int32_t RuleOf(const ParamGroup& group) const { return ParamOf(group).rule; }
  bool IsCorrected(const ParamGroup& group) const {
    return !ParamOf(group).corrections.empty();
  }
  // Returns the spec; it has an entry for each dimension if the rank is known.
  Spec SpecOf(const ParamGroup& group, Mode mode) const;
  // Returns the parts of the dimensions that the spec shards.
  DimParts PartsOf(const ParamGroup& group, Mode mode) const;

  // Returns the bytes of one parameter, with all its layers, on a device that
  // holds it; nullopt if the size is unknown.
  std::optional<int64_t> Each(const ParamGroup& group, Mode mode) const;
  // Returns the bytes of all parameters of the group on the device that holds
  // the most bytes; nullopt if they are unknown or do not fit in 64 bits.
  std::optional<int64_t> OnFullest(const ParamGroup& group, Mode mode) const;
  // Returns the bytes of parameters on devices: for each mesh axis, one sum for
  // each coordinate at which parameters are placed, and one sum for all
  // parameters that are not placed. Parameters of unknown size are left out;
  // UnknownSizes() returns their number.
  HeldBytes Held(Mode mode) const;
  int64_t UnknownSizes() const;
  // Return the bytes of the group, the bytes of all parameters, and the
  // elements of all parameters. Each parameter is counted once, however many
  // devices hold it. Return nullopt if a size is unknown or the sum does not
  // fit in 64 bits.
  std::optional<int64_t> Total(const ParamGroup& group) const;
  std::optional<int64_t> TotalBytes() const;
  std::optional<int64_t> TotalElements() const;

  // Returns the number of devices that hold the same shard of a parameter. A
  // placed parameter is held only at one coordinate of an axis, for example by
  // one pipeline stage. Of it, only these devices are counted.
  int64_t Copies(const ParamGroup& group, Mode mode) const;
  bool IsReplicated(const ParamGroup& group, Mode mode) const {
    return mesh().devices > 1 && Copies(group, mode) == mesh().devices;
  }

 private:
  // Returns, for each mesh axis along which parameters are placed, the
  // coordinate whose devices hold the most bytes of these parameters.
  const std::map<std::string, int64_t>& Fullest(Mode mode) const;

  const PlanTable& table_;
  std::vector<ParamGroup> groups_;
  std::map<Mode, std::map<std::string, int64_t>> fullest_;
};

// Groups the modes in which every parameter has the same specs. The groups are
// in the order of their first modes.
std::vector<std::vector<Mode>> ModeGroups(const ReadPlan& classes);

struct RuleLine {
  std::string match, source;
  // The number of parameters that the rule wins: no earlier rule matches them.
  int64_t won = 0;
  // Bytes of the `won` parameters; an unknown size is counted as 0.
  int64_t bytes = 0;
  // `found` is the number of parameters that the pattern matches; nullopt if
  // the names were not searched. `shadowed_by` is set if the rule matches
  // parameters but wins none of them. `shadowed_by` is then the index of the
  // rule that wins most of these parameters.
  std::optional<int64_t> found;
  std::optional<size_t> shadowed_by;
};

struct Coverage {
  std::vector<RuleLine> rules;  // in the order of the plan
  int64_t no_rule = 0;          // number of parameters that no rule matches
  // Bytes of the parameters that no rule matches.
  int64_t no_rule_bytes = 0;
  int64_t bytes = 0;  // bytes of all parameters
  int64_t most = 0;   // the largest number of bytes that one rule wins

  // Returns the number of rules that match no parameter. If RuleLine::found is
  // nullopt, a rule is counted if it is the first match of no parameter.
  int64_t Dead() const;
  // Returns the number of rules that match parameters, each of which an earlier
  // rule matches too.
  int64_t Shadowed() const;
};

Coverage CoverageOf(const FoldedPlan& plan);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_FOLD_H_
