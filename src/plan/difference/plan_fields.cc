// Compares all members of two plans except parameters and stages: mesh, modes,
// attention specs, the list of rules, totals. A member that follows from
// another member is compared only if the other member is equal. Otherwise one
// edit would be reported twice:
//
//   mesh dp=2 tp=4 -> dp=4 tp=4   "the mesh was dp=2 tp=4 and is dp=4 tp=4",
//                                 and no line for `devices`
#include "plan/difference/plan_difference.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "source/json.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string InBackticks(std::string_view text) {
  return "`" + std::string(text) + "`";
}

FieldChange& AddFieldChange(PlanDifference& to, const Place& place,
                            std::string field, std::string message) {
  FieldChange& change = to.fields.emplace_back();
  change.place = place;
  change.field = std::move(field);
  change.message = std::move(message);
  return change;
}

// Adds a change with a message such as "the mesh's `processes` was 1 and is 2".
FieldChange& AddValue(PlanDifference& to, const Place& place, std::string field,
                      const std::string& subject, const std::string& before,
                      const std::string& after) {
  FieldChange& change = AddFieldChange(to, place, std::move(field),
                                       subject + WasAndIs(before, after));
  if (before != "absent") change.before = before;
  if (after != "absent") change.after = after;
  return change;
}

std::string MeshAxesText(const JsonMembers& mesh) {
  std::string out;
  const auto axes = MemberAt(mesh, "axes");
  if (!axes || !axes->IsArray()) return out;
  for (const JsonValue axis : axes->items()) {
    const JsonMembers members = MembersOf(axis);
    const auto name = MemberAt(members, "name");
    if (!name || !name->IsString()) continue;
    AppendItem(
        out, " ",
        std::string(name->string()) + "=" + MemberText(members, "size", "?"));
  }
  return out;
}

std::map<std::string, std::string> AxisTypes(const JsonMembers& mesh) {
  std::map<std::string, std::string> out;
  const auto axes = MemberAt(mesh, "axes");
  if (!axes || !axes->IsArray()) return out;
  for (const JsonValue axis : axes->items()) {
    const JsonMembers members = MembersOf(axis);
    out[MemberText(members, "name", "")] =
        MemberText(members, "type", "\"auto\"");
  }
  return out;
}

void CompareModes(const PlanJson& before, const PlanJson& after,
                  PlanDifference& to) {
  const std::string a = MemberText(before.members, "modes", "[]");
  const std::string b = MemberText(after.members, "modes", "[]");
  if (a == b) return;
  FieldChange& change = AddFieldChange(to, before.PlaceOf("modes"), "modes",
                                       "the modes were " + a + " and are " + b);
  change.before = a;
  change.after = b;
}

// Returns the axes of an entry of a spec, or nullopt if the entry is invalid.
std::optional<AxisGroup> GroupOf(const JsonValue& entry) {
  AxisGroup out;
  if (entry.IsString()) {
    out.emplace_back(entry.string());
  } else if (entry.IsArray()) {
    for (const JsonValue axis : entry.items()) {
      if (!axis.IsString()) return std::nullopt;
      out.emplace_back(axis.string());
    }
  } else if (!entry.IsNull()) {
    return std::nullopt;
  }
  return out;
}

std::optional<Spec> SpecOf(const std::optional<JsonValue>& value) {
  if (!value || !value->IsArray()) return std::nullopt;
  Spec out;
  for (const JsonValue entry : value->items()) {
    auto group = GroupOf(entry);
    if (!group) return std::nullopt;
    out.push_back(std::move(*group));
  }
  return out;
}

// Returns for example "dimension 0 was "dp" and is null". Returns an empty text
// if a spec is missing or invalid, or if the specs have different lengths.
std::string DimensionsText(const std::optional<Spec>& before,
                           const std::optional<Spec>& after) {
  std::string out;
  if (!before || !after || before->size() != after->size()) return out;
  for (size_t i = 0; i < before->size(); ++i) {
    if ((*before)[i] == (*after)[i]) continue;
    out += (out.empty() ? "dimension " : ", dimension ") + std::to_string(i) +
           WasAndIs(GroupText((*before)[i]), GroupText((*after)[i]));
  }
  return out;
}

// The members of a plan that have specs of activations by mode.
struct ActivationMember {
  std::string_view key, noun;
  std::vector<ActivationChange> PlanDifference::*changes;
};
constexpr ActivationMember kActivationMembers[] = {
    {"attention", "attention tensor", &PlanDifference::attention},
    {"activations", "activation", &PlanDifference::activations}};

// A change of the spec of one tensor of attention or of another activation,
// with all modes that have this change.
struct TensorChange {
  Place place;
  // The tensor's name, and its specs before and after as JSON.
  std::string tensor, before, after;
  std::optional<Spec> spec_before, spec_after;
  // The dimensions that differ, as the text of DimensionsText().
  std::string dimensions;
  std::vector<std::string> modes;

  std::string ModesText() const { return Join(modes, ", "); }
};

class ActivationComparison {
 public:
  ActivationComparison(const PlanJson& before, const PlanJson& after,
                       const ActivationMember& member, PlanDifference& to)
      : before_(before), after_(after), member_(member), to_(to) {}

  void Run() {
    const auto before = MemberAt(before_.members, member_.key);
    const auto after = MemberAt(after_.members, member_.key);
    if (!before || !after) return;
    CompareModes(*before, *after);
    for (const TensorChange& change : changes_) Interpret(change);
    AddFields();
  }

 private:
  void CompareModes(const JsonValue& before, const JsonValue& after) {
    const bool same_modes = MemberText(before_.members, "modes", "") ==
                            MemberText(after_.members, "modes", "");
    const JsonMembers modes_before = MembersOf(before);
    const JsonMembers modes_after = MembersOf(after);
    for (const std::string_view mode : NamesOfEither(after, before)) {
      const auto a = MemberAt(modes_before, mode);
      const auto b = MemberAt(modes_after, mode);
      if (a && b) {
        CompareTensors(mode, *a, *b);
      } else if (same_modes) {
        AddFieldChange(
            to_, a ? a->place() : before.place(), FieldOf(mode),
            "mode " + InBackticks(mode) + " of " + InBackticks(member_.key) +
                (a ? " is no longer in the plan" : " is new in the plan"));
      }
    }
  }

  void CompareTensors(std::string_view mode, const JsonValue& before,
                      const JsonValue& after) {
    const JsonMembers specs_before = MembersOf(before);
    const JsonMembers specs_after = MembersOf(after);
    for (const std::string_view tensor : NamesOfEither(after, before)) {
      const std::string a = MemberText(specs_before, tensor, "absent");
      const std::string b = MemberText(specs_after, tensor, "absent");
      if (a == b) continue;
      const auto [at, is_new] =
          index_.try_emplace({std::string(tensor), a, b}, changes_.size());
      if (is_new) {
        const auto value = MemberAt(specs_before, tensor);
        TensorChange& change = changes_.emplace_back();
        change.place = value ? value->place() : before.place();
        change.tensor = tensor;
        change.before = a;
        change.after = b;
        change.spec_before = SpecOf(value);
        change.spec_after = SpecOf(MemberAt(specs_after, tensor));
        change.dimensions =
            DimensionsText(change.spec_before, change.spec_after);
      }
      changes_[at->second].modes.emplace_back(mode);
    }
  }

  // Returns whether an ActivationChange can represent the change completely:
  // both specs are valid and differ, and all modes are known.
  static bool IsDetailed(const TensorChange& change) {
    return change.spec_before && change.spec_after &&
           *change.spec_before != *change.spec_after &&
           std::all_of(change.modes.begin(), change.modes.end(),
                       [](const std::string& mode) { return ParseMode(mode); });
  }

  void Interpret(const TensorChange& change) {
    if (!IsDetailed(change)) return;
    ActivationChange& out = (to_.*member_.changes).emplace_back();
    out.tensor = change.tensor;
    for (const std::string& mode : change.modes) {
      out.modes.push_back(*ParseMode(mode));
    }
    out.before = *change.spec_before;
    out.after = *change.spec_after;
  }

  // Adds one field for all tensors whose specs differ in the same way, that is,
  // in the same modes and dimensions. For example, a change of the batch axes
  // changes the spec of every tensor.
  void AddFields() {
    std::map<std::pair<std::string, std::string>, std::vector<std::string>>
        tensors_of;
    for (const TensorChange& change : changes_) {
      tensors_of[{change.ModesText(), change.dimensions}].push_back(
          InBackticks(change.tensor));
    }
    for (const TensorChange& change : changes_) {
      const std::string modes = change.ModesText();
      const auto& tensors = tensors_of[{modes, change.dimensions}];
      const bool alone = change.dimensions.empty() || tensors.size() == 1;
      const bool detailed = IsDetailed(change);
      const std::string field =
          FieldOf(change.modes.front() + "." + change.tensor);
      if (alone) {
        AddValue(to_, change.place, field,
                 "the " + modes + " spec of " + std::string(member_.noun) +
                     " " + InBackticks(change.tensor),
                 change.before, change.after)
            .detailed = detailed;
      } else if (tensors.front() == InBackticks(change.tensor)) {
        std::string list;
        for (size_t i = 0; i < tensors.size(); ++i) {
          const bool last = i + 1 == tensors.size();
          list += (i == 0 ? "" : last ? " and " : ", ") + tensors[i];
        }
        AddFieldChange(to_, change.place, field,
                       "the " + modes + " specs of " +
                           std::string(member_.noun) + "s " + list + ": " +
                           change.dimensions)
            .detailed = detailed;
      }
    }
  }

  std::string FieldOf(std::string_view path) const {
    return std::string(member_.key) + "." + std::string(path);
  }

  const PlanJson& before_;
  const PlanJson& after_;
  const ActivationMember& member_;
  PlanDifference& to_;
  std::vector<TensorChange> changes_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> index_;
};

// Compares the members of one rule except `source`, for example `params`, the
// number of parameters for which the rule was the first match. In a correct
// plan these members follow from the parameters. This function is therefore
// called only if nothing else differs. A difference then shows that one of the
// plans was edited.
void CompareCounts(const JsonValue& before, const JsonValue& after,
                   PlanDifference& to) {
  const JsonMembers a = MembersOf(before), b = MembersOf(after);
  for (const std::string_view member : NamesOfEither(after, before)) {
    if (member == "source") continue;
    // Plans of earlier versions of shardc have no member `matched`.
    const bool both = MemberAt(a, member) && MemberAt(b, member);
    if (member == "matched" && !both) continue;
    const std::string was = MemberText(a, member, "absent");
    const std::string is = MemberText(b, member, "absent");
    if (was == is) continue;
    AddValue(
        to, before.place(), "rules." + std::string(member),
        InBackticks(member) + " of the rule " + MemberText(b, "match", "null"),
        was, is);
  }
}

void CompareSummaries(const PlanJson& before, const PlanJson& after,
                      PlanDifference& to) {
  const auto a = MemberAt(before.members, "summary");
  const auto b = MemberAt(after.members, "summary");
  const JsonMembers members_before = MembersOf(a), members_after = MembersOf(b);
  for (const std::string_view member : NamesOfEither(b, a)) {
    const std::string was = MemberText(members_before, member, "absent");
    const std::string is = MemberText(members_after, member, "absent");
    if (was == is) continue;
    AddValue(to, before.PlaceOf("summary"), "summary." + std::string(member),
             "the summary's " + InBackticks(member), was, is);
  }
}

}  // namespace

Place PlanJson::PlaceOf(std::string_view member) const {
  const auto value = MemberAt(members, member);
  return value ? value->place() : root.place();
}

RulePatterns PlanJson::Patterns() const {
  RulePatterns out;
  const auto rules = MemberAt(members, "rules");
  if (!rules || !rules->IsArray()) return out;
  for (const JsonValue rule : rules->items()) {
    out.push_back(MemberText(MembersOf(rule), "match", "null"));
  }
  return out;
}

void CompareMeshFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to) {
  const auto mesh_before = MemberAt(before.members, "mesh");
  const auto mesh_after = MemberAt(after.members, "mesh");
  const JsonMembers a = MembersOf(mesh_before), b = MembersOf(mesh_after);
  const Place place = before.PlaceOf("mesh");
  const std::string axes_before = MeshAxesText(a), axes_after = MeshAxesText(b);
  if (axes_before != axes_after) {
    AddValue(to, place, "mesh.axes", "the mesh", axes_before, axes_after)
        .detailed = to.detailed;
  }
  const auto types = AxisTypes(b);
  for (const auto& [axis, type] : AxisTypes(a)) {
    const auto at = types.find(axis);
    if (at == types.end() || at->second == type) continue;
    AddValue(to, place, "mesh.axes", "the type of mesh axis " + axis, type,
             at->second);
  }
  for (const std::string_view name : NamesOfEither(mesh_after, mesh_before)) {
    // The number of devices follows from the axes. If the axes differ, only
    // they are reported. If they are equal, the number differs only if one of
    // the plans was edited.
    if (name == "axes" || (name == "devices" && axes_before != axes_after)) {
      continue;
    }
    const bool is_count = name == "processes" || name == "slices";
    const std::string_view absent = is_count ? "1" : "absent";
    const std::string was = MemberText(a, name, absent);
    const std::string is = MemberText(b, name, absent);
    if (was == is) continue;
    AddValue(to, place, "mesh." + std::string(name),
             "the mesh's " + InBackticks(name), was, is);
  }
  const std::string was = MemberText(a, "axes", "absent");
  const std::string is = MemberText(b, "axes", "absent");
  if (to.fields.empty() && was != is && was != "absent") {
    AddValue(to, place, "mesh.axes", "the mesh's axes", was, is);
  }
  CompareModes(before, after, to);
}

void CompareActivationFields(const PlanJson& before, const PlanJson& after,
                             PlanDifference& to) {
  for (const ActivationMember& member : kActivationMembers) {
    ActivationComparison(before, after, member, to).Run();
  }
}

void CompareRuleFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to) {
  const RulePatterns was = before.Patterns(), is = after.Patterns();
  const Place place = before.PlaceOf("rules");
  if (was != is) {
    std::map<std::string_view, int64_t> counts;
    for (const std::string& pattern : was) --counts[pattern];
    for (const std::string& pattern : is) ++counts[pattern];
    bool same_rules = true;
    for (const auto& [pattern, count] : counts) {
      if (count == 0) continue;
      same_rules = false;
      AddFieldChange(to, place, "rules",
                     "the rule " + std::string(pattern) +
                         (count > 0 ? " is new" : " is no longer in the plan"));
    }
    if (same_rules) {
      AddFieldChange(to, place, "rules", "the order of the rules differs");
    }
    return;
  }
  const auto a = MemberAt(before.members, "rules");
  const auto b = MemberAt(after.members, "rules");
  if (!a || !a->IsArray() || !b || !to.fields.empty()) return;
  auto next = b->items().begin();
  for (const JsonValue rule : a->items()) {
    CompareCounts(rule, *next, to);
    ++next;
  }
}

void CompareRemainingFields(const PlanJson& before, const PlanJson& after,
                            PlanDifference& to) {
  if (to.fields.empty()) CompareSummaries(before, after, to);
  const std::string kv_before = MemberText(before.members, "kv", "absent");
  const std::string kv_after = MemberText(after.members, "kv", "absent");
  if (kv_before != kv_after && kv_before != "absent" && kv_after != "absent") {
    AddValue(to, before.PlaceOf("kv"), "kv", "`kv`", kv_before, kv_after);
  }
  // What the axes are for shows in the specs, unless only figures use it.
  const std::string axes_before = MemberText(before.members, "axes", "absent");
  const std::string axes_after = MemberText(after.members, "axes", "absent");
  if (to.fields.empty() && axes_before != axes_after &&
      axes_before != "absent" && axes_after != "absent") {
    AddValue(to, before.PlaceOf("axes"), "axes", "`axes`", axes_before,
             axes_after);
  }
  // Earlier versions wrote no activations, and not what the axes are for. What
  // follows from the axis rules is no difference then.
  const auto is_derived = [&](std::string_view name) {
    if (name == "axes") return true;
    const bool stated = before.members.contains("activations_stated") ||
                        after.members.contains("activations_stated");
    const bool both = before.members.contains("activations") &&
                      after.members.contains("activations");
    return !stated && !both && name.starts_with("activation");
  };
  for (const JsonMember member : before.root.members()) {
    if (after.members.contains(member.name())) continue;
    if (is_derived(member.name())) continue;
    AddFieldChange(to, member.key.place(), std::string(member.name()),
                   InBackticks(member.name()) + " is no longer in the plan");
  }
  for (const JsonMember member : after.root.members()) {
    if (before.members.contains(member.name())) continue;
    if (is_derived(member.name())) continue;
    AddFieldChange(to, before.root.place(), std::string(member.name()),
                   InBackticks(member.name()) + " is new in the plan");
  }
  const std::string was = MemberText(before.members, "fingerprint", "absent");
  const std::string is = MemberText(after.members, "fingerprint", "absent");
  if (to.fields.empty() && was != is) {
    AddValue(to, before.PlaceOf("fingerprint"), "fingerprint",
             "the fingerprint", was, is);
  }
}

// Compares a parameter's entries in two plans member by member. Members are
// compared as texts with normalised spacing and order. For example:
//
//   {"spec": ["tp"], "rule": "wq"}   {"spec": [null], "rule": "w.*"}
//
// Only the difference of "spec" is reported for these two entries. The
// difference of "rule" has the same cause, an edit of the rules.

namespace {

// The compiler computes the members in kDerived from the mesh and the members
// in kStated.
constexpr std::array<std::string_view, 3> kStated = {"shape", "dtype", "spec"};
constexpr std::array<std::string_view, 3> kDerived = {
    "shard_shape", "bytes_per_device", "corrections"};

bool IsKnown(std::string_view member) {
  return member == "modes" || member == "rule" || member == "parts" ||
         member == "placement" || member == "stages" || member == "slices" ||
         member == "uneven" || member == "weight_decay" ||
         IsAmong(member, kStated) || IsAmong(member, kDerived);
}

std::string Subject(std::string_view member) {
  if (member == "dtype") return "the dtype of ";
  if (member == "spec") return "the spec of ";
  if (member == "shape") return "the shape of ";
  if (member == "weight_decay") return "the weight decay of ";
  return "`" + std::string(member) + "` of ";
}

std::optional<std::string> TextOf(const std::optional<JsonValue>& value) {
  return value ? std::optional(NormalText(*value)) : std::nullopt;
}

class EntryComparison {
 public:
  EntryComparison(const JsonValue& before, const JsonValue& after)
      : begin_(before.place().begin),
        before_value_(before),
        after_value_(after),
        before_(MembersOf(before)),
        after_(MembersOf(after)) {}

  std::vector<EntryChange> Run(const RulePatterns& rules_before,
                               const RulePatterns& rules_after) {
    if (!before_value_.IsObject()) {
      Add("", {}, {}, before_value_, "", " is not an object in the plan");
      return std::move(changes_);
    }
    for (const std::string_view member : kStated) Compare(member, "null");
    CompareModeSpecs();
    const bool stated = !changes_.empty();
    Compare("parts", "absent");
    Compare("placement", "absent");
    Compare("stages", "absent");
    Compare("slices", "absent");
    Compare("weight_decay", "absent");
    Compare("uneven", "absent");
    if (stated) return std::move(changes_);
    CompareRule(rules_before, rules_after);
    for (const std::string_view member : kDerived) Compare(member, "absent");
    CompareModeEntries();
    for (const std::string_view member :
         NamesOfEither(after_value_, before_value_)) {
      if (!IsKnown(member)) Compare(member, "absent");
    }
    return std::move(changes_);
  }

 private:
  void Add(std::string field, std::optional<std::string> before,
           std::optional<std::string> after,
           const std::optional<JsonValue>& place, std::string subject,
           std::string verdict) {
    EntryChange& change = changes_.emplace_back();
    change.field = std::move(field);
    change.before = std::move(before);
    change.after = std::move(after);
    change.subject = std::move(subject);
    change.verdict = std::move(verdict);
    if (place) {
      change.begin = place->place().begin - begin_;
      change.end = place->place().end - begin_;
    }
  }

  void Compare(std::string_view member, std::string_view absent) {
    const std::string before = MemberText(before_, member, absent);
    const std::string after = MemberText(after_, member, absent);
    if (before == after) return;
    const auto value = MemberAt(before_, member);
    Add(std::string(member), TextOf(value), TextOf(MemberAt(after_, member)),
        value, Subject(member), WasAndIs(before, after));
  }

  // Compares the specs of modes. The spec of a mode without an entry is the
  // train spec.
  void CompareModeSpecs() {
    const auto all_before = MemberAt(before_, "modes");
    const auto all_after = MemberAt(after_, "modes");
    const JsonMembers modes_before = MembersOf(all_before);
    const JsonMembers modes_after = MembersOf(all_after);
    const std::string train_before = MemberText(before_, "spec", "null");
    const std::string train_after = MemberText(after_, "spec", "null");
    for (const std::string_view mode : NamesOfEither(all_after, all_before)) {
      const auto own = MemberAt(modes_before, mode);
      const std::string before =
          MemberText(MembersOf(own), "spec", train_before);
      const std::string after = MemberText(
          MembersOf(MemberAt(modes_after, mode)), "spec", train_after);
      // If the mode has the train spec in both plans, the change is reported
      // for train only.
      if (before == after || (before == train_before && after == train_after)) {
        continue;
      }
      Add("modes." + std::string(mode) + ".spec", before, after, own,
          "the " + std::string(mode) + " spec of ", WasAndIs(before, after));
    }
  }

  void CompareModeEntries() {
    const auto all_before = MemberAt(before_, "modes");
    const auto all_after = MemberAt(after_, "modes");
    const JsonMembers modes_before = MembersOf(all_before);
    const JsonMembers modes_after = MembersOf(all_after);
    for (const std::string_view mode : NamesOfEither(all_after, all_before)) {
      const auto own = MemberAt(modes_before, mode);
      const auto before = TextOf(own);
      const auto after = TextOf(MemberAt(modes_after, mode));
      if (before == after) continue;
      Add("modes." + std::string(mode), before, after, own,
          "the " + std::string(mode) + " entry of ",
          WasAndIs(before.value_or("absent"), after.value_or("absent")));
    }
  }

  // Returns the name of the entry's rule, which is its pattern, as JSON. Plans
  // of earlier versions have an index in place of the name; it is returned as
  // text if the plan has no rule with this index. Returns "absent" if the entry
  // has no rule.
  static std::string PatternOf(const JsonMembers& members,
                               const RulePatterns& rules) {
    const auto index = MemberAt(members, "rule");
    if (!index) return "absent";
    if (index->kind() != JsonKind::kInteger || index->integer() < 0 ||
        static_cast<uint64_t>(index->integer()) >= rules.size()) {
      return NormalText(*index);
    }
    return rules[AsIndex(index->integer())];
  }

  void CompareRule(const RulePatterns& rules_before,
                   const RulePatterns& rules_after) {
    const std::string before = PatternOf(before_, rules_before);
    const std::string after = PatternOf(after_, rules_after);
    if (before == after) return;
    Add("rule", before, after, std::nullopt, "the rule of ",
        WasAndIs(before, after));
  }

  size_t begin_;
  JsonValue before_value_, after_value_;
  JsonMembers before_, after_;
  std::vector<EntryChange> changes_;
};

}  // namespace

std::string WasAndIs(const std::string& before, const std::string& after) {
  return " was " + before + " and is " + after;
}

std::vector<EntryChange> CompareEntries(const JsonValue& before,
                                        const JsonValue& after,
                                        const RulePatterns& rules_before,
                                        const RulePatterns& rules_after) {
  return EntryComparison(before, after).Run(rules_before, rules_after);
}

}  // namespace shardc
