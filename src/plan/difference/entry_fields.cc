// Compares a parameter's entries in two plans member by member. Members are
// compared as texts with normalised spacing and order. For example:
//
//   {"spec": ["tp"], "rule": "wq"}   {"spec": [null], "rule": "w.*"}
//
// Only the difference of "spec" is reported for these two entries. The
// difference of "rule" has the same cause, an edit of the rules.
#include "plan/difference/entry_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "source/index.h"
#include "source/json_members.h"

namespace shardc {
namespace {

// The compiler computes the members in kDerived from the mesh and the members
// in kStated.
constexpr std::array<std::string_view, 3> kStated = {"shape", "dtype", "spec"};
constexpr std::array<std::string_view, 3> kDerived = {
    "shard_shape", "bytes_per_device", "corrections"};

template <size_t n>
bool Contains(const std::array<std::string_view, n>& names,
              std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsKnown(std::string_view member) {
  return member == "modes" || member == "rule" || member == "parts" ||
         member == "placement" || member == "stages" || member == "slices" ||
         member == "uneven" || member == "weight_decay" ||
         Contains(kStated, member) || Contains(kDerived, member);
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
