// Compares the JSON of two plans, including members that no other part of the
// program reads. Parameters are paired by name, and each pair has an entry in
// the first and an entry in the second plan. Many pairs have equal entries, so
// the differences are computed once for each combination of two entries:
//
//   layers.0.up has entry A before and B after   the differences are computed
//   layers.1.up has entry A before and B after   the same differences are used
//
// If both files are valid plans, the bytes that devices hold before and after,
// and the collectives that reshard parameters, are computed for the same pairs.
#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "plan/difference/class_change.h"
#include "plan/difference/plan_difference.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {
namespace {

std::string_view TextOf(const Place& place) {
  return place.source->text().substr(place.begin, place.end - place.begin);
}

std::vector<int64_t> CountsOf(const PlanTable& table) {
  std::vector<int64_t> counts(table.classes.params.size(), 0);
  for (const uint32_t of_class : table.class_of) ++counts[of_class];
  return counts;
}

// Returns, indexed by rank, the bytes of all parameters on the rank's fullest
// device. The plan must have stages. All elements are nullopt if a size is
// unknown, and an element is nullopt if its sum overflows.
std::vector<std::optional<int64_t>> HeldByRank(const PlanTable& table,
                                               Mode mode) {
  const ReadPlan& plan = table.classes;
  const auto counts = CountsOf(table);
  BytesByRank bytes(*plan.stages);
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ReadParam& param = plan.params[i];
    const auto& placed = param.placement;
    bytes.Add(param.stages,
              BytesHeld(plan.mesh, param.type, param.SpecOf(mode)), counts[i],
              placed ? &placed->axis : nullptr,
              placed ? placed->coordinate : 0);
  }
  return bytes.Fullest();
}

// Returns the bytes of all parameters on the fullest device, or nullopt if a
// size is unknown or the sum overflows.
std::optional<int64_t> HeldInAll(const PlanTable& table, Mode mode) {
  const auto& classes = table.classes.params;
  const auto counts = CountsOf(table);
  if (table.classes.stages) {
    return MostOf(HeldByRank(table, mode));
  }
  HeldBytes held;
  for (size_t i = 0; i < classes.size(); ++i) {
    const auto each =
        BytesHeld(table.classes.mesh, classes[i].type, classes[i].SpecOf(mode));
    const auto all = each ? CheckedMul(*each, counts[i]) : std::nullopt;
    if (!all) return std::nullopt;
    if (const auto& placed = classes[i].placement) {
      held.AddAt(placed->axis, placed->coordinate, *all);
    } else {
      held.Add(*all);
    }
  }
  return held.Fullest();
}

void FillTotals(const PlanTable& before, const PlanTable& after,
                PlanDifference& to) {
  to.detailed = true;
  to.mesh_before = before.classes.mesh;
  to.mesh_after = after.classes.mesh;
  to.other_mesh = !SameAxes(to.mesh_before, to.mesh_after);
  to.params_before = static_cast<int64_t>(before.names.size());
  to.params_after = static_cast<int64_t>(after.names.size());
  const auto& was = before.classes.stages;
  const auto& now = after.classes.stages;
  if (was && now) to.layers = LayerMoves(*was, *now);
  if (was) to.by_rank_before = HeldByRank(before, Mode::kTrain);
  if (now) to.by_rank_after = HeldByRank(after, Mode::kTrain);
}

void AddHeld(Mode mode, std::optional<int64_t> before,
             std::optional<int64_t> after, PlanDifference& to) {
  for (HeldChange& one : to.held) {
    if (one.before != before || one.after != after) continue;
    one.modes.push_back(mode);
    return;
  }
  to.held.push_back({{mode}, before, after});
}

// Returns whether both objects have the same names in the same order. If they
// do, the names need not be looked up.
bool SameNames(const JsonValue& a, const JsonValue& b) {
  if (a.size() != b.size()) return false;
  auto other = b.members().begin();
  for (const JsonMember member : a.members()) {
    if (member.name() != (*other).name()) return false;
    ++other;
  }
  return true;
}

std::set<std::string> ModesOf(const PlanJson& plan) {
  std::set<std::string> out;
  const auto modes = MemberAt(plan.members, "modes");
  if (!modes || !modes->IsArray()) return out;
  for (const JsonValue mode : modes->items()) {
    if (mode.IsString()) out.emplace(mode.string());
  }
  return out;
}

// Returns the modes that only one of the plans has.
std::vector<std::string> ModesOfOne(const PlanJson& before,
                                    const PlanJson& after) {
  const std::set<std::string> a = ModesOf(before), b = ModesOf(after);
  std::vector<std::string> out;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(),
                                std::back_inserter(out));
  return out;
}

// Compares the entries in the member `params` of two plans.
class ParamsComparison {
 public:
  // `classes` must be null if one of the files is not a valid plan.
  ParamsComparison(const PlanJson& before, const PlanJson& after,
                   ClassComparison* classes,
                   const std::vector<LayerMove>& layers)
      : rules_before_(before.Patterns()),
        rules_after_(after.Patterns()),
        modes_of_one_(ModesOfOne(before, after)),
        classes_(classes),
        layers_(layers),
        same_axes_(classes == nullptr ||
                   SameAxes(classes->mesh_before(), classes->mesh_after())),
        gatherer_(classes) {}

  void Run(const JsonValue& before, const JsonValue& after,
           PlanDifference& to) {
    if (SameNames(before, after)) {
      size_t number = 0;
      auto now = after.members().begin();
      for (const JsonMember member : before.members()) {
        ComparePair(member, (*now).value, number, number);
        ++now;
        ++number;
      }
    } else {
      RunByName(before, after);
    }
    gatherer_.Take(to);
  }

 private:
  void RunByName(const JsonValue& before, const JsonValue& after) {
    std::unordered_map<std::string_view, std::pair<size_t, JsonValue>> known;
    size_t number = 0;
    for (const JsonMember member : after.members()) {
      known.try_emplace(member.name(), number++, member.value);
    }
    std::set<std::string_view> seen;
    number = 0;
    for (const JsonMember member : before.members()) {
      const auto now = known.find(member.name());
      seen.insert(member.name());
      if (now == known.end()) {
        gatherer_.AddRemoved(member.name(), member.key.place(), number);
      } else {
        ComparePair(member, now->second.second, number, now->second.first);
      }
      ++number;
    }
    // New parameters are reported at the first plan's object `params`. Its
    // place in the file is computed once, because finding it reads the entire
    // object.
    const Place all = before.place();
    number = 0;
    for (const JsonMember member : after.members()) {
      if (!seen.contains(member.name())) {
        gatherer_.AddNew(member.name(), all, number);
      }
      ++number;
    }
  }

  void ComparePair(const JsonMember& before, const JsonValue& after,
                   size_t number_before, size_t number_after) {
    const Place entry = before.value.place();
    const auto [at, is_new] =
        changes_[TextOf(entry)].try_emplace(TextOf(after.place()));
    ClassChange& change = at->second;
    if (is_new) {
      if (classes_ != nullptr) {
        classes_->Compare(number_before, number_after, change);
      }
      for (EntryChange& one :
           CompareEntries(before.value, after, rules_before_, rules_after_)) {
        if (IsOfOneMode(one.field)) continue;
        std::string key = one.subject + "\n" + one.verdict;
        change.fields.push_back({std::move(one), false, std::move(key)});
      }
      if (classes_ != nullptr) {
        MarkDetailed(same_axes_, change);
        MarkStages(number_before, number_after, change);
      }
    }
    gatherer_.Add(change, before.name(), {before.key.place(), entry},
                  number_before, number_after);
  }

  // Returns whether a field such as "modes.decode.spec" belongs to a mode that
  // only one of the plans has. Such a field is not reported, because the change
  // of the list of modes is reported.
  bool IsOfOneMode(std::string_view field) const {
    constexpr std::string_view kModes = "modes.";
    if (!field.starts_with(kModes)) return false;
    field.remove_prefix(kModes.size());
    return IsAmong(field.substr(0, field.find('.')), modes_of_one_);
  }

  // Sets `detailed` of a change of a parameter's stages if the list of moved
  // layers, or the change of the plans' member `stages`, already explains this
  // change. Reports then omit it.
  void MarkStages(size_t before, size_t after, ClassChange& change) const {
    const ReadParam& was = ClassComparison::ParamOf(classes_->before(), before);
    const ReadParam& now = ClassComparison::ParamOf(classes_->after(), after);
    for (ClassChange::Field& one : change.fields) {
      if (one.change.field == "stages" || one.change.field == "slices") {
        one.detailed = was.stages.of.empty() || now.stages.of.empty() ||
                       IsExplained(layers_, was.stages, now.stages);
      }
    }
  }

  RulePatterns rules_before_, rules_after_;
  std::vector<std::string> modes_of_one_;
  ClassComparison* classes_;
  const std::vector<LayerMove>& layers_;
  bool same_axes_;
  Gatherer gatherer_;
  std::unordered_map<std::string_view,
                     std::unordered_map<std::string_view, ClassChange>>
      changes_;
};

void CompareParams(const PlanJson& before, const PlanJson& after,
                   ClassComparison* classes, PlanDifference& to) {
  const auto was = MemberAt(before.members, "params");
  const auto now = MemberAt(after.members, "params");
  // If a plan lacks the member, CompareRemainingFields() reports that.
  if (!was || !now) return;
  if (was->IsObject() && now->IsObject()) {
    const std::vector<LayerMove> layers = to.layers;
    ParamsComparison(before, after, classes, layers).Run(*was, *now, to);
    return;
  }
  FieldChange& change = to.fields.emplace_back();
  change.place = was->place();
  change.field = "params";
  change.message = "`params` is not an object";
}

// Compares two plans. Both tables must be null if one of the files is not a
// valid plan.
std::optional<PlanDifference> CompareTexts(const SourceRef& before,
                                           const SourceRef& after,
                                           const PlanTable* table_before,
                                           const PlanTable* table_after,
                                           Findings& errors) {
  const auto was = JsonDocument::Parse(before, errors);
  if (was == nullptr) return std::nullopt;
  const auto schema = SchemaOf(was->root());
  if (schema != "shardc.plan/v1" && schema != "shardc.plan/v2") {
    errors.Add(code::kSchema, was->root().place(),
               "this is not a plan of `shardc`",
               "write it with `shardc plan --write-locked`");
    return std::nullopt;
  }
  const auto now = JsonDocument::Parse(after, errors);
  if (now == nullptr) return std::nullopt;
  PlanDifference out;
  std::optional<ClassComparison> classes;
  if (table_before != nullptr && table_after != nullptr) {
    FillTotals(*table_before, *table_after, out);
    for (const Mode mode : ModesOfBoth(*table_before, *table_after)) {
      AddHeld(mode, HeldInAll(*table_before, mode),
              HeldInAll(*table_after, mode), out);
    }
    classes.emplace(*table_before, *table_after);
  }
  if (before->text() == after->text()) return out;
  const PlanJson json_before(was->root()), json_after(now->root());
  CompareMeshFields(json_before, json_after, out);
  CompareStageFields(json_before, json_after, out);
  CompareParams(json_before, json_after, classes ? &*classes : nullptr, out);
  CompareActivationFields(json_before, json_after, out);
  CompareRuleFields(json_before, json_after, out);
  if (out.fields.empty() && out.layers.empty()) {
    CompareStageLists(json_before, json_after, out);
  }
  CompareRemainingFields(json_before, json_after, out);
  return out;
}

}  // namespace

std::optional<PlanDifference> ComparePlans(const SourceRef& before,
                                           const SourceRef& after,
                                           Findings& errors) {
  // The errors in `doubts` are not reported. They show that a file is not a
  // valid plan, and then only the members of the JSON are compared.
  Findings doubts;
  const auto table_before = ReadPlanTable(before, EditedPlan::kAllowed, doubts);
  const auto table_after = ReadPlanTable(after, EditedPlan::kAllowed, doubts);
  return CompareTexts(before, after, table_before ? &*table_before : nullptr,
                      table_after ? &*table_after : nullptr, errors);
}

std::optional<PlanDifference> ComparePlans(const PlanTable& before,
                                           const PlanTable& after,
                                           Findings& errors) {
  return CompareTexts(before.source, after.source, &before, &after, errors);
}

PlanDifference CompareModes(const PlanTable& plan, Mode before, Mode after) {
  PlanDifference out;
  FillTotals(plan, plan, out);
  AddHeld(after, HeldInAll(plan, before), HeldInAll(plan, after), out);
  ClassComparison classes(plan, plan);
  Gatherer gatherer(&classes);
  std::vector<std::optional<ClassChange>> changes(plan.classes.params.size());
  for (size_t i = 0; i < plan.names.size(); ++i) {
    auto& change = changes[plan.class_of[i]];
    if (!change) classes.CompareModes(i, before, after, change.emplace());
    gatherer.Add(*change, plan.names[i], {}, i, i);
  }
  gatherer.Take(out);
  const auto compare = [&](const std::vector<ReadActivation>& specs,
                           std::vector<ActivationChange>& to) {
    for (const ReadActivation& now : specs) {
      if (now.mode != after) continue;
      for (const ReadActivation& was : specs) {
        if (was.mode != before || was.tensor != now.tensor ||
            was.spec == now.spec) {
          continue;
        }
        to.push_back({now.tensor, {after}, was.spec, now.spec});
      }
    }
  };
  compare(plan.classes.attention, out.attention);
  compare(plan.classes.activations, out.activations);
  return out;
}

}  // namespace shardc
