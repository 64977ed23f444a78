// Compares the types, winning rules and specs of two classes of parameters. A
// class consists of all parameters that have the same entry in a plan's JSON.
// All modes that have the same spec before and the same spec after are reported
// as one change. An equal spec may also be a change if the mesh differs,
// because a device may then hold another number of bytes or another block. For
// example, the spec is ["fsdp"] before and after:
//
//   fsdp=16 -> fsdp=32            a device held 2 KiB and now holds 1 KiB
//   dp=2 fsdp=16 -> fsdp=16 dp=2  the bytes are equal, but most devices need a
//                                 block that only other devices hold
#include "plan/difference/class_change.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/mesh_layout.h"
#include "model/name.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns the spec with nulls appended up to the rank, if the shape is known.
// Specs that differ only in trailing nulls then become equal.
Spec Padded(Spec spec, const TensorType& type) {
  if (type.shape && spec.size() < type.shape->size()) {
    spec.resize(type.shape->size());
  }
  return spec;
}

// Returns whether both plans have the same stages on the same ranks and
// devices, or neither plan has stages.
bool SameStages(const ReadPlan& before, const ReadPlan& after) {
  if (!before.stages && !after.stages) return true;
  if (!before.stages || !after.stages || !SameAxes(before.mesh, after.mesh) ||
      before.stages->axis != after.stages->axis) {
    return false;
  }
  return std::equal(before.stages->of.begin(), before.stages->of.end(),
                    after.stages->of.begin(), after.stages->of.end(),
                    [](const PlanStage& a, const PlanStage& b) {
                      return a.ranks == b.ranks && a.layers == b.layers &&
                             a.first == b.first && a.last == b.last;
                    });
}

// Returns a text that identifies a change. The text contains the earlier type
// `before`, because the bytes held before depend on it. It also contains
// whether the parameter is placed (held only at one coordinate of an axis),
// because the cost of resharding a placed parameter is not known.
std::string KeyOf(const SpecChange& change, const TensorType& before) {
  std::string out = SpecText(change.before) + InPartsText(change.parts_before) +
                    SpecText(change.after) + InPartsText(change.parts_after);
  for (const Mode mode : change.modes) out += ModeName(mode);
  out += TypeKey(before) + ">" + TypeKey(change.type);
  if (change.placed_before || change.placed_after) out += "placed";
  // Only the axis of the placement is part of the key, because the parameters
  // of a group have different coordinates.
  if (change.placed_before != change.placed_after) {
    out += change.placed_before ? change.placed_before->axis : "";
    out += ">";
    out += change.placed_after ? change.placed_after->axis : "";
  }
  return out;
}

// Returns false if a dimension is sharded with some parts in one spec, and with
// other parts in the other one. The parts of a dimension that a spec does not
// shard mean nothing.
bool SameParts(const SpecChange& change) {
  const size_t rank = std::max(change.before.size(), change.after.size());
  for (size_t dim = 0; dim < rank; ++dim) {
    const PartsOfDim& was = PartsAt(change.parts_before, dim);
    const PartsOfDim& now = PartsAt(change.parts_after, dim);
    const bool both = dim < change.before.size() && dim < change.after.size() &&
                      !change.before[dim].empty() && !change.after[dim].empty();
    if (both && was != now) return false;
  }
  return true;
}

// Returns whether the axes of the spec divide each part of each dimension.
bool DividesParts(const Mesh& mesh, const Shape& shape, const Spec& spec,
                  const DimParts& parts) {
  if (!DividesEvenly(mesh, shape, spec)) return false;
  for (size_t dim = 0; dim < parts.size() && dim < spec.size(); ++dim) {
    const auto sizes = SizesOfParts(parts[dim], shape[dim]);
    if (!sizes || std::ranges::any_of(*sizes, [&](int64_t size) {
          return !DividesEvenly(mesh, {size}, {spec[dim]});
        })) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string TypeKey(const TensorType& type) {
  return (type.shape ? ShapeText(*type.shape) : "?") + " " +
         (type.dtype ? std::string(DtypeName(*type.dtype)) : "?");
}

std::vector<Mode> ModesOfBoth(const PlanTable& before, const PlanTable& after) {
  const std::vector<Mode>& was = before.classes.modes;
  std::vector<Mode> out = after.classes.modes;
  std::erase_if(out, [&](Mode mode) { return !IsAmong(mode, was); });
  return out;
}

std::string PlacementChangeText(const SpecChange& change) {
  const auto& before = change.placed_before;
  const auto& after = change.placed_after;
  if (before == after) return "";
  const bool several = change.names.size() > 1;
  if (several && before && after && before->axis == after->axis) {
    return "at other coordinates of " + after->axis;
  }
  const auto text = [&](const std::optional<ReadPlacement>& placement) {
    if (!placement) return std::string("on all devices");
    if (several) return "along " + placement->axis;
    return "at " + placement->axis + " " +
           std::to_string(placement->coordinate);
  };
  return text(before) + " -> " + text(after);
}

ClassComparison::ClassComparison(const PlanTable& before,
                                 const PlanTable& after)
    : before_(before),
      after_(after),
      costs_(mesh_before(), mesh_after()),
      same_stages_(SameStages(before.classes, after.classes)) {}

const ReadParam& ClassComparison::ParamOf(const PlanTable& table,
                                          size_t param) {
  return table.classes.params[table.class_of[param]];
}

std::string_view ClassComparison::PatternOf(const PlanTable& table,
                                            size_t param) {
  const int32_t rule = ParamOf(table, param).rule;
  return rule < 0 ? std::string_view{}
                  : table.classes.rules[AsIndex(rule)].match;
}

void ClassComparison::AddSpecs(const ReadParam& was, const ReadParam& now,
                               Mode mode_before, Mode mode, ClassChange& out) {
  const Spec a = Padded(was.SpecOf(mode_before), was.type);
  const Spec b = Padded(now.SpecOf(mode), now.type);
  SpecChange change;
  change.parts_before = ShardedParts(was.parts, a);
  change.parts_after = ShardedParts(now.parts, b);
  for (ClassChange::Specs& specs : out.specs) {
    if (specs.change.before != a || specs.change.after != b ||
        specs.change.parts_before != change.parts_before ||
        specs.change.parts_after != change.parts_after) {
      continue;
    }
    specs.change.modes.push_back(mode);
    return;
  }
  change.held_before = BytesHeld(mesh_before(), was.type, a);
  change.held_after = BytesHeld(mesh_after(), now.type, b);
  // With pipeline stages, only the devices of some ranks (coordinates of the
  // pipeline's axis) hold a parameter. If both plans have the same stages on
  // the same ranks, each rank reshards the parameter among its own devices. No
  // cost is computed for a parameter that gets another shape, because no device
  // holds its new elements, nor for an illegal spec.
  const auto divides = [](const ReadParam& param, const DimParts& parts,
                          const Mesh& mesh, const Spec& spec) {
    return !param.type.shape ||
           (PartsDivide(parts, *param.type.shape) &&
            (param.uneven ||
             DividesParts(mesh, *param.type.shape, spec, parts)));
  };
  change.before = a;
  change.after = b;
  if (!was.placement && !now.placement && same_stages_ &&
      was.type.shape == now.type.shape &&
      divides(was, change.parts_before, mesh_before(), a) &&
      divides(now, change.parts_after, mesh_after(), b)) {
    // A device has the same share of each part as it would have of a dimension
    // of one part, so that it also sends as much.
    const MoveCost cost = SameParts(change) ? costs_.Of(now.type, a, b)
                                            : costs_.OfOtherParts(a, b);
    change.move = cost.move;
    change.sent_bytes_per_device = cost.sent_bytes_per_device;
  }
  const bool same_spec = a == b && was.placement == now.placement &&
                         change.parts_before == change.parts_after;
  // If the type changed, the TypeChange reports the bytes, so a difference of
  // the bytes alone is not reported as a change of the spec.
  const bool same_bytes =
      was.type != now.type || change.held_before == change.held_after;
  if (same_spec && same_bytes && !change.move) return;
  change.type = now.type;
  change.modes = {mode};
  change.placed_before = was.placement;
  change.placed_after = now.placement;
  out.specs.push_back({std::move(change), {}});
}

void ClassComparison::Compare(size_t before, size_t after, ClassChange& out) {
  const ReadParam& was = ParamOf(before_, before);
  const ReadParam& now = ParamOf(after_, after);
  if (was.type != now.type) {
    out.type = TypeKey(was.type) + ">" + TypeKey(now.type);
  }
  const std::string_view a = PatternOf(before_, before);
  const std::string_view b = PatternOf(after_, after);
  if (a != b) out.rule = std::string(a) + "\n" + std::string(b);
  for (const Mode mode : ModesOfBoth(before_, after_)) {
    AddSpecs(was, now, mode, mode, out);
  }
  for (ClassChange::Specs& specs : out.specs) {
    specs.key = KeyOf(specs.change, was.type);
  }
}

void ClassComparison::CompareModes(size_t param, Mode before, Mode after,
                                   ClassChange& out) {
  const ReadParam& of = ParamOf(after_, param);
  AddSpecs(of, of, before, after, out);
  for (ClassChange::Specs& specs : out.specs) {
    specs.key = KeyOf(specs.change, of.type);
  }
}

void MarkDetailed(bool same_axes, ClassChange& change) {
  for (ClassChange::Field& one : change.fields) {
    const std::string& field = one.change.field;
    const bool spec = field == "spec" || field.ends_with(".spec");
    const bool sizes = field == "shard_shape" || field == "bytes_per_device" ||
                       (field.starts_with("modes.") && !spec);
    if (field == "shape" || field == "dtype") {
      one.detailed = !change.type.empty();
    } else if (field == "rule") {
      one.detailed = !change.rule.empty();
    } else if (spec || field == "parts" || field == "placement" ||
               (sizes && !same_axes)) {
      one.detailed = !change.specs.empty();
    }
  }
}

// Finds the collective that reshards a parameter. If the two meshes differ,
// both specs are first expressed over a joint mesh (comm/reshard.h). Each
// axis of the two meshes is a product of axes of the joint mesh. The collective
// is named by axes of the first mesh. If no joint mesh exists, or if shards are
// uneven, every transfer of data is a ppermute.
//
// For example, the mesh dp=2 fsdp=16 becomes fsdp=32, with the spec ["fsdp"].
// Over the joint axes dp and fsdp, the spec changes from [fsdp] to
// [[dp, fsdp]]. Most devices do not hold their new shard, so the collective is
// a ppermute over dp and fsdp.

namespace {

// Returns the axes that at least one of the specs uses, without duplicates and
// without axes of size 1.
AxisGroup AxesOf(const Mesh& mesh, const Spec& before, const Spec& after) {
  AxisGroup out;
  for (const Spec* spec : {&before, &after}) {
    for (const AxisGroup& group : *spec) {
      for (const std::string& axis : DropTrivial(mesh, group)) {
        AddOnce(out, axis);
      }
    }
  }
  return out;
}

}  // namespace

bool SameAxes(const Mesh& a, const Mesh& b) {
  return std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [](const MeshAxis& one, const MeshAxis& other) {
                      return one.name == other.name && one.size == other.size;
                    });
}

std::optional<int64_t> BytesHeld(const Mesh& mesh, const TensorType& type,
                                 const Spec& spec) {
  if (!type.shape || !type.dtype) return std::nullopt;
  const auto elements = CheckedProduct(ShardShape(mesh, *type.shape, spec));
  return elements ? BytesOf(*elements, *type.dtype) : std::nullopt;
}

MoveCosts::MoveCosts(const Mesh& before, const Mesh& after)
    : before_(before),
      after_(after),
      // Two meshes with equal axes may have their devices in different orders.
      // If a mesh consists of several slices (pods), the order depends on the
      // axes along which the slices are arranged.
      same_mesh_(SameAxes(before, after) &&
                 DeviceOrder(before) == DeviceOrder(after)) {
  if (!same_mesh_) joint_ = JointMesh::Of(before, after);
}

std::optional<SpecMove> MoveCosts::Classify(const Spec& before,
                                            const Spec& after,
                                            bool joint) const {
  if (same_mesh_) return ClassifyMove(before_, before, after);
  if (!joint) return SpecMove{Collective::kPpermute, {}};
  auto move = ClassifyMove(joint_->mesh(), joint_->OfBefore(before),
                           joint_->OfAfter(after));
  if (move) move->axes = joint_->NamesBefore(move->axes);
  return move;
}

MoveCost MoveCosts::Compute(const TensorType& type, const Spec& before,
                            const Spec& after) const {
  MoveCost out;
  if (!type.shape || before_.devices != after_.devices ||
      before.size() > type.shape->size() || after.size() > type.shape->size()) {
    return out;
  }
  if (HasSubAxis(before) || HasSubAxis(after)) {
    const std::vector<Spec> specs = {before, after};
    const auto all = std::span(specs);
    const auto from = RefinedMesh(before_, same_mesh_ ? all : all.first(1));
    const auto to = RefinedMesh(after_, same_mesh_ ? all : all.last(1));
    if (!from || !to) return out;
    out =
        MoveCosts(*from, *to)
            .Compute(type, RefinedSpec(*from, before), RefinedSpec(*to, after));
    if (out.move) out.move->axes = JoinedGroup(out.move->axes);
    return out;
  }
  // The joint mesh divides a dimension first over a factor of an axis. Uneven
  // shards over the complete axis may begin at other elements.
  const bool even = DividesEvenly(before_, *type.shape, before) &&
                    DividesEvenly(after_, *type.shape, after);
  const bool joint = !same_mesh_ && joint_ && even;
  auto move = Classify(before, after, joint);
  if (!move) return out;
  const std::vector<int64_t> sent =
      same_mesh_ ? SentElements(before_, *type.shape, before, after)
                 : SentElements(before_, after_, *type.shape, before, after);
  const int64_t most = *std::max_element(sent.begin(), sent.end());
  // Shards may be the same although the axes differ, for example if only the
  // first device has elements.
  if (most == 0 && (!even || (!same_mesh_ && !joint))) return out;
  if (!same_mesh_ && !joint) {
    move->axes = AxesOf(before_, before, after);
  }
  out.move = std::move(move);
  if (type.dtype) out.sent_bytes_per_device = BytesOf(most, *type.dtype);
  return out;
}

MoveCost MoveCosts::OfOtherParts(const Spec& before, const Spec& after) const {
  if (before_.devices != after_.devices) return {};
  return {SpecMove{Collective::kPpermute, AxesOf(before_, before, after)},
          std::nullopt};
}

const MoveCost& MoveCosts::Of(const TensorType& type, const Spec& before,
                              const Spec& after) {
  std::string key = type.shape ? ShapeText(*type.shape) : "?";
  if (type.dtype) key += DtypeName(*type.dtype);
  key += SpecText(before) + SpecText(after);
  const auto [at, is_new] = known_.try_emplace(std::move(key));
  if (is_new) at->second = Compute(type, before, after);
  return at->second;
}

// Gathers differences of single parameters into groups. Parameters are in one
// group if their names have the same template (numbers replaced by `*`) and if
// they differ in the same way:
//
//   layers.0.up, layers.1.up: ["tp"] -> [null]  ->  one group `layers.*.up`

namespace {

std::optional<int64_t> Times(const std::optional<int64_t>& bytes,
                             int64_t count) {
  return bytes ? CheckedMul(*bytes, count) : std::nullopt;
}

std::optional<BytesByRank> RanksOfPlan(const PlanTable& table) {
  const auto& stages = table.classes.stages;
  return stages ? std::optional(BytesByRank(*stages)) : std::nullopt;
}

void AddTo(std::optional<BytesByRank>& ranks, const ReadParam& param,
           std::optional<int64_t> held) {
  if (!ranks) return;
  const auto& placed = param.placement;
  ranks->Add(param.stages, held, 1, placed ? &placed->axis : nullptr,
             placed ? placed->coordinate : 0);
}

}  // namespace

uint32_t Gatherer::Shown(std::string_view name) {
  template_.clear();
  AppendTemplate(name, SeparatorOf(name), template_);
  return templates_.Of(template_);
}

void Gatherer::Add(const ClassChange& change, std::string_view name,
                   const EntryPlace& place, size_t before, size_t after) {
  if (change.none()) return;
  const uint32_t shown = Shown(name);
  for (const ClassChange::Field& field : change.fields) {
    AddField(field, shown, name, place);
  }
  if (!change.type.empty()) {
    AddType({shown, keys_.Of(change.type)}, name, before, after);
  }
  if (!change.rule.empty()) {
    AddRule({shown, keys_.Of(change.rule)}, name, before, after);
  }
  for (const ClassChange::Specs& specs : change.specs) {
    AddSpecs({shown, keys_.Of(specs.key)}, name, specs.change, before, after);
  }
}

void Gatherer::AddNew(std::string_view name, const Place& place, size_t after) {
  AddOfOnePlan(name, place, " is new");
  if (classes_ != nullptr) AddNamed(added_, classes_->after(), after);
}

void Gatherer::AddRemoved(std::string_view name, const Place& place,
                          size_t before) {
  AddOfOnePlan(name, place, " is no longer in the plan");
  if (classes_ != nullptr) AddNamed(removed_, classes_->before(), before);
}

void Gatherer::AddOfOnePlan(std::string_view name, const Place& place,
                            std::string_view verdict) {
  fields_.Add({Shown(name), keys_.Of(std::string(verdict))}, name, [&] {
    GatheredField made;
    made.place = place;
    made.message = verdict;
    made.detailed = classes_ != nullptr;
    return made;
  });
}

void Gatherer::AddNamed(Groups<NamedGroup>& groups, const PlanTable& table,
                        size_t param) {
  const ReadParam& of = ClassComparison::ParamOf(table, param);
  const auto held = BytesHeld(table.classes.mesh, of.type, of.spec);
  const std::string key = TypeKey(of.type) + std::to_string(held.value_or(-1));
  const std::string_view name = table.names[param];
  groups.Add({Shown(name), keys_.Of(key)}, name, [&] {
    return NamedGroup{{}, {}, of.type, held};
  });
}

void Gatherer::AddField(const ClassChange::Field& field, uint32_t shown,
                        std::string_view name, const EntryPlace& place) {
  fields_.Add({shown, keys_.Of(field.key)}, name, [&] {
    const EntryChange& change = field.change;
    GatheredField made;
    made.place = place.name;
    if (change.begin) {
      made.place = {place.entry.source, place.entry.begin + *change.begin,
                    place.entry.begin + *change.end};
    }
    made.field = change.field;
    made.before = change.before;
    made.after = change.after;
    made.subject = change.subject;
    made.message = change.verdict;
    made.detailed = field.detailed;
    return made;
  });
}

void Gatherer::AddType(GroupKey key, std::string_view name, size_t before,
                       size_t after) {
  reshaped_.Add(key, name, [&] {
    const ReadParam& was = ClassComparison::ParamOf(classes_->before(), before);
    const ReadParam& now = ClassComparison::ParamOf(classes_->after(), after);
    TypeChange out;
    out.type = now.type;
    out.before = was.type;
    out.held_before = BytesHeld(classes_->mesh_before(), was.type, was.spec);
    out.held = BytesHeld(classes_->mesh_after(), now.type, now.spec);
    return out;
  });
}

void Gatherer::AddRule(GroupKey key, std::string_view name, size_t before,
                       size_t after) {
  rules_.Add(key, name, [&] {
    RuleChange out;
    out.type = ClassComparison::ParamOf(classes_->after(), after).type;
    out.before = ClassComparison::PatternOf(classes_->before(), before);
    out.after = ClassComparison::PatternOf(classes_->after(), after);
    return out;
  });
}

void Gatherer::AddSpecs(GroupKey key, std::string_view name,
                        const SpecChange& change, size_t before, size_t after) {
  const ReadParam& was = ClassComparison::ParamOf(classes_->before(), before);
  const ReadParam& now = ClassComparison::ParamOf(classes_->after(), after);
  GatheredSpecs& group = specs_.Add(key, name, [&] {
    GatheredSpecs made;
    static_cast<SpecChange&>(made) = change;
    // `change` was computed once for all parameters of the class. The
    // placements are set here, because the parameters of a class may have
    // different placements.
    made.placed_before = was.placement;
    made.placed_after = now.placement;
    made.ranks_before = RanksOfPlan(classes_->before());
    made.ranks_after = RanksOfPlan(classes_->after());
    return made;
  });
  AddTo(group.ranks_before, was, change.held_before);
  AddTo(group.ranks_after, now, change.held_after);
  group.copies_before.Add(was.placement);
  group.copies_after.Add(now.placement);
}

void Gatherer::Take(PlanDifference& to) {
  to.added = added_.Take(templates_);
  to.removed = removed_.Take(templates_);
  to.reshaped = reshaped_.Take(templates_);
  to.rules = rules_.Take(templates_);
  for (GatheredSpecs& group : specs_.Take(templates_)) {
    group.group_before =
        group.ranks_before
            ? MostOf(group.ranks_before->Fullest())
            : Times(group.held_before, group.copies_before.Most());
    group.group_after =
        group.ranks_after ? MostOf(group.ranks_after->Fullest())
                          : Times(group.held_after, group.copies_after.Most());
    to.specs.push_back(std::move(group));
  }
  for (GatheredField& field : fields_.Take(templates_)) {
    std::string name = "`" + field.shown + "`";
    const auto count = static_cast<int64_t>(field.names.size());
    if (count > 1) name += " (" + Counted(count, "parameter") + ")";
    field.message = field.subject + name + field.message;
    to.fields.push_back(std::move(field));
  }
}

}  // namespace shardc
