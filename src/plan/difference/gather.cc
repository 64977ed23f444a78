// Gathers differences of single parameters into groups. Parameters are in one
// group if their names have the same template (numbers replaced by `*`) and if
// they differ in the same way:
//
//   layers.0.up, layers.1.up: ["tp"] -> [null]  ->  one group `layers.*.up`
#include "plan/difference/gather.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "model/name.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::optional<int64_t> Times(const std::optional<int64_t>& bytes,
                             int64_t count) {
  return bytes ? CheckedMul(*bytes, count) : std::nullopt;
}

std::optional<BytesByRank> RanksOfPlan(const PlanTable& table) {
  const auto& stages = table.classes.plan.stages;
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
  const auto held = BytesHeld(table.classes.plan.mesh, of.type, of.spec);
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
