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
#include <utility>

#include "model/shard_range.h"
#include "source/index.h"

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

// Returns the parts that the dimensions have before and after. Returns nullopt
// if a dimension is sharded with some parts in one spec, and with other parts
// in the other one. The parts of a dimension that a spec does not shard mean
// nothing.
std::optional<DimParts> CommonParts(const SpecChange& change) {
  DimParts out;
  const size_t rank = std::max(change.before.size(), change.after.size());
  for (size_t dim = 0; dim < rank; ++dim) {
    const int64_t was = PartsAt(change.parts_before, dim);
    const int64_t now = PartsAt(change.parts_after, dim);
    const bool both = dim < change.before.size() && dim < change.after.size() &&
                      !change.before[dim].empty() && !change.after[dim].empty();
    if (both && was != now) return std::nullopt;
    out.push_back(std::max(was, now));
  }
  return out;
}

}  // namespace

std::string TypeKey(const TensorType& type) {
  return (type.shape ? ShapeText(*type.shape) : "?") + " " +
         (type.dtype ? std::string(DtypeName(*type.dtype)) : "?");
}

std::vector<Mode> ModesOfBoth(const PlanTable& before, const PlanTable& after) {
  const std::vector<Mode>& was = before.classes.plan.modes;
  std::vector<Mode> out = after.classes.plan.modes;
  std::erase_if(out, [&](Mode mode) {
    return std::find(was.begin(), was.end(), mode) == was.end();
  });
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
      same_stages_(SameStages(before.classes.plan, after.classes.plan)) {}

const ReadParam& ClassComparison::ParamOf(const PlanTable& table,
                                          size_t param) {
  return table.classes.plan.params[table.class_of[param]];
}

std::string_view ClassComparison::PatternOf(const PlanTable& table,
                                            size_t param) {
  const int32_t rule = table.classes.rule_of[table.class_of[param]];
  return rule < 0 ? std::string_view{} : table.classes.rules[AsIndex(rule)];
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
             DividesEvenly(mesh, SplitShape(*param.type.shape, parts),
                           SplitSpec(spec, parts))));
  };
  change.before = a;
  change.after = b;
  if (!was.placement && !now.placement && same_stages_ &&
      was.type.shape == now.type.shape &&
      divides(was, change.parts_before, mesh_before(), a) &&
      divides(now, change.parts_after, mesh_after(), b)) {
    const auto common = CommonParts(change);
    TensorType type = now.type;
    if (common && type.shape) type.shape = SplitShape(*type.shape, *common);
    const MoveCost cost =
        common ? costs_.Of(type, SplitSpec(a, *common), SplitSpec(b, *common))
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

}  // namespace shardc
