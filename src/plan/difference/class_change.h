// Compares a class of parameters in one plan with a class in another plan. A
// class consists of all parameters that have the same entry in the plan's JSON.
#ifndef SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_
#define SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/reshard.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "plan/difference/plan_difference.h"
#include "plan/plan_stages.h"
#include "plan/read.h"

namespace shardc {

// Returns the bytes that a device holds of one parameter, if it holds any.
// Returns nullopt if the shape or dtype is unknown, or if the number does not
// fit in 64 bits.
std::optional<int64_t> BytesHeld(const Mesh& mesh, const TensorType& type,
                                 const Spec& spec);

// The collective that reshards a parameter, and the bytes that the busiest
// device sends.
struct MoveCost {
  std::optional<SpecMove> move;
  std::optional<int64_t> sent_bytes_per_device;
};

// Computes the costs of resharding from one mesh to another. The cost of each
// combination of type and specs is computed once, because a model has many
// layers and few such combinations.
class MoveCosts {
 public:
  MoveCosts(const Mesh& before, const Mesh& after);

  // Returns the cost of resharding one parameter. Both members are nullopt in
  // these cases: every device already holds what it needs, the meshes have
  // different numbers of devices, the shape is unknown, or a spec has more
  // entries than the shape has dimensions. Only the bytes are nullopt if the
  // dtype is unknown or if the bytes overflow. Shards may be uneven.
  const MoveCost& Of(const TensorType& type, const Spec& before,
                     const Spec& after);
  // Returns the cost of resharding a parameter of which a dimension is sharded
  // with other parts (model/legal_sizes.h) before than after: a ppermute of
  // unknown bytes, or nothing if the numbers of devices differ.
  MoveCost OfOtherParts(const Spec& before, const Spec& after) const;

 private:
  MoveCost Compute(const TensorType& type, const Spec& before,
                   const Spec& after) const;
  // `joint` is true to classify over the joint mesh of two different meshes.
  std::optional<SpecMove> Classify(const Spec& before, const Spec& after,
                                   bool joint) const;

  const Mesh& before_;
  const Mesh& after_;
  bool same_mesh_;
  std::optional<JointMesh> joint_;
  std::unordered_map<std::string, MoveCost> known_;
};

// Returns whether both meshes have the same axes in the same order with the
// same sizes.
bool SameAxes(const Mesh& a, const Mesh& b);

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
  const Mesh& mesh_before() const { return before_.classes.mesh; }
  const Mesh& mesh_after() const { return after_.classes.mesh; }

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

// Assigns a number to each distinct text. A text that many parameters share is
// then stored only once and compared by its number.
class Numbers {
 public:
  uint32_t Of(const std::string& text) {
    const auto next = static_cast<uint32_t>(texts_.size());
    const auto [at, is_new] = numbers_.try_emplace(text, next);
    if (is_new) texts_.push_back(&at->first);
    return at->second;
  }
  const std::string& operator[](uint32_t number) const {
    return *texts_[number];
  }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;
};

// The key of a group: the number of the names' template, such as `layers.*.up`,
// and the number of the text that describes the difference. The class Numbers
// assigns both numbers.
struct GroupKey {
  uint32_t shown = 0;
  uint32_t difference = 0;
};

// Collects groups by their keys, in the order in which the groups were first
// added.
template <class Group>
class Groups {
 public:
  // Adds a name to the group of the key and returns the group. `make` creates
  // the group if it does not exist.
  template <class Make>
  Group& Add(GroupKey key, std::string_view name, const Make& make) {
    const uint64_t number = uint64_t{key.shown} << 32 | key.difference;
    const auto [at, is_new] = index_.try_emplace(number, groups_.size());
    if (is_new) {
      groups_.push_back(make());
      shown_.push_back(key.shown);
    }
    Group& group = groups_[at->second];
    group.names.emplace_back(name);
    return group;
  }

  std::vector<Group> Take(const Numbers& templates) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      group.shown =
          group.names.size() == 1 ? group.names.front() : templates[shown_[i]];
    }
    return std::move(groups_);
  }

 private:
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<Group> groups_;
  std::vector<uint32_t> shown_;
};

// Counts the parameters of a group on the device that holds the most parameters
// of the group.
class Copies {
 public:
  void Add(const std::optional<ReadPlacement>& placement) {
    if (placement) {
      ++placed_[placement->coordinate];
    } else {
      ++everywhere_;
    }
  }
  int64_t Most() const {
    int64_t placed = 0;
    for (const auto& [_, count] : placed_) placed = std::max(placed, count);
    return everywhere_ + placed;
  }

 private:
  int64_t everywhere_ = 0;
  std::map<int64_t, int64_t> placed_;
};

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

#endif  // SHARDC_PLAN_DIFFERENCE_CLASS_CHANGE_H_
