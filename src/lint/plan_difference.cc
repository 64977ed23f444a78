// Both plans are read as JSON and walked side by side. Of a parameter, what
// follows from a change (sizes from a spec, an index from the list of rules)
// is told only where nothing it follows from has changed. Entries of the same
// two texts differ in the same way, which is worked out once; differences that
// read alike but for the numbers in a name are one:
//   layers.0.up, layers.1.up: spec ["tp"] -> [null]
//   `layers.*.up` (2 parameters): the spec was ["tp"] and is [null]
#include "lint/plan_difference.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "lint/analysis/phrase.h"
#include "model/name.h"
#include "source/json.h"
#include "source/json_members.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string MeshAxesText(const JsonMembers& mesh) {
  std::string out;
  const auto axes = MemberAt(mesh, "axes");
  if (!axes || !axes->IsArray()) return out;
  for (const JsonValue axis : axes->items()) {
    const JsonMembers members = MembersOf(axis);
    const auto name = MemberAt(members, "name");
    if (!name || !name->IsString()) continue;
    out += (out.empty() ? "" : " ") + std::string(name->string()) + "=" +
           MemberText(members, "size", "?");
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

// The patterns of a plan's rules, by index.
std::vector<std::string> PatternsOf(const std::optional<JsonValue>& rules) {
  std::vector<std::string> out;
  if (!rules || !rules->IsArray()) return out;
  for (const JsonValue rule : rules->items()) {
    out.push_back(MemberText(MembersOf(rule), "match", "null"));
  }
  return out;
}

// What the members of a parameter follow from.
constexpr std::array<std::string_view, 3> kStated = {"shape", "dtype", "spec"};
constexpr std::array<std::string_view, 3> kDerived = {
    "shard_shape", "bytes_per_device", "corrections"};

std::string Subject(std::string_view member) {
  if (member == "dtype") return "data type";
  if (member == "spec") return "the spec";
  if (member == "shape") return "shape";
  if (member == "weight_decay") return "weight decay";
  return "`" + std::string(member) + "`";
}

class Comparison {
 public:
  Comparison(JsonValue was, JsonValue given)
      : was_root_(was),
        given_root_(given),
        was_(MembersOf(was)),
        given_(MembersOf(given)) {}

  std::vector<PlanDifference> Run() {
    CompareMesh();
    CompareModes();
    CompareParams();
    CompareAttention();
    CompareRules();
    CompareRest();
    return Told();
  }

 private:
  // One difference, of all parameters that have it.
  struct Difference {
    Place place;
    std::string before_name, after_name;  // of the message, around the name
    std::string folded, example;
    std::vector<std::string> params;
  };

  std::vector<PlanDifference> Told() {
    std::vector<PlanDifference> out;
    for (Difference& one : differences_) {
      std::string name;
      if (one.params.size() == 1) {
        name = Quoted(one.example);
      } else if (one.params.size() > 1) {
        name = Quoted(one.folded) + " (" +
               Counted(static_cast<int64_t>(one.params.size()), "parameter") +
               ")";
      }
      out.push_back({std::move(one.place),
                     one.before_name + name + one.after_name,
                     std::move(one.params)});
    }
    return out;
  }

  void Say(const Place& place, std::string message) {
    differences_.push_back({place, std::move(message), "", "", "", {}});
  }

  // "`the spec of` NAME `was X and is Y`", once for all names alike.
  void SayOf(const std::string& param, const Place& place, std::string before,
             std::string after) {
    if (recorded_ != nullptr) {
      Said said{.of_value = place.begin >= entry_.begin,
                .before = before,
                .after = after};
      if (said.of_value) {
        said.begin = place.begin - entry_.begin;
        said.end = place.end - entry_.begin;
      }
      recorded_->push_back(std::move(said));
    }
    const char separator = SeparatorOf(param);
    std::string folded = NameTemplate(param, separator);
    const auto [at, fresh] = folded_.try_emplace(
        std::tuple(folded, before, after), differences_.size());
    if (fresh) {
      differences_.push_back({place,
                              std::move(before),
                              std::move(after),
                              std::move(folded),
                              param,
                              {}});
    }
    differences_[at->second].params.push_back(param);
  }

  static std::string WasAndIs(const std::string& before,
                              const std::string& after) {
    return " was " + before + " and is " + after;
  }

  Place PlaceOf(std::string_view member) const {
    const auto value = MemberAt(was_, member);
    return value ? value->place() : was_root_.place();
  }

  void CompareMesh() {
    const JsonMembers was = MembersOf(MemberAt(was_, "mesh"));
    const JsonMembers given = MembersOf(MemberAt(given_, "mesh"));
    const Place place = PlaceOf("mesh");
    const std::string before = MeshAxesText(was), now = MeshAxesText(given);
    if (before != now) {
      Say(place, "the mesh" + WasAndIs(before, now));
    }
    const auto types = AxisTypes(given);
    for (const auto& [axis, type] : AxisTypes(was)) {
      const auto at = types.find(axis);
      if (at == types.end() || at->second == type) continue;
      Say(place, "the type of mesh axis " + axis + WasAndIs(type, at->second));
    }
    for (std::string_view name :
         NamesOfEither(MemberAt(given_, "mesh"), MemberAt(was_, "mesh"))) {
      // The count of devices follows from the axes.
      if (name == "axes" || (name == "devices" && before != now)) continue;
      const bool one = name == "processes" || name == "slices";
      const std::string_view absent = one ? "1" : "absent";
      const std::string a = MemberText(was, name, absent);
      const std::string b = MemberText(given, name, absent);
      if (a != b) Say(place, "the mesh's " + Quoted(name) + WasAndIs(a, b));
    }
    if (differences_.empty() && was.contains("axes") &&
        NormalText(was.at("axes")) != NormalText(given.at("axes"))) {
      Say(place, "the mesh's axes" + WasAndIs(NormalText(was.at("axes")),
                                              NormalText(given.at("axes"))));
    }
  }

  void CompareModes() {
    const std::string before = MemberText(was_, "modes", "[]");
    const std::string now = MemberText(given_, "modes", "[]");
    if (before == now) return;
    Say(PlaceOf("modes"), "the modes were " + before + " and are " + now);
  }

  void CompareParams() {
    const auto was = MemberAt(was_, "params");
    if (!was || !was->IsObject()) {
      Say(was_root_.place(), "the committed plan has no `params`");
      return;
    }
    was_rules_ = PatternsOf(MemberAt(was_, "rules"));
    given_rules_ = PatternsOf(MemberAt(given_, "rules"));
    const auto all = MemberAt(given_, "params");
    if (SameNames(*was, *all)) {
      auto now = all->members().begin();
      for (const JsonMember member : was->members()) {
        CompareEntries(member, (*now).value);
        ++now;
      }
      return;
    }
    const JsonMembers given = MembersOf(all);
    std::set<std::string_view> seen;
    for (const JsonMember member : was->members()) {
      const auto now = given.find(member.name());
      seen.insert(member.name());
      if (now == given.end()) {
        SayOf(std::string(member.name()), member.key.place(), "",
              " is no longer there");
      } else {
        CompareEntries(member, now->second);
      }
    }
    for (const JsonMember member : all->members()) {
      if (seen.contains(member.name())) continue;
      SayOf(std::string(member.name()), was->place(), "", " is new");
    }
  }

  // In the same order: nothing need be looked up.
  static bool SameNames(const JsonValue& a, const JsonValue& b) {
    if (a.size() != b.size()) return false;
    auto other = b.members().begin();
    for (const JsonMember member : a.members()) {
      if (member.name() != (*other).name()) return false;
      ++other;
    }
    return true;
  }

  static std::string_view TextOf(const Place& place) {
    return place.source->text().substr(place.begin, place.end - place.begin);
  }

  void CompareEntries(const JsonMember& was, const JsonValue& given) {
    const Place place = was.value.place();
    const auto [at, fresh] =
        said_[TextOf(place)].try_emplace(TextOf(given.place()));
    const std::string name(was.name());
    if (fresh) {
      recorded_ = &at->second;
      entry_ = place;
      CompareParam(name, was, given);
      recorded_ = nullptr;
      return;
    }
    for (const Said& said : at->second) {
      const Place own = said.of_value
                            ? Place{place.source, place.begin + said.begin,
                                    place.begin + said.end}
                            : was.key.place();
      SayOf(name, own, said.before, said.after);
    }
  }

  // The members of one parameter, and where to say what differs.
  struct Pair {
    const std::string& name;
    Place key;
    JsonMembers was, given;
  };

  bool CompareMember(const Pair& pair, std::string_view member,
                     std::string_view absent) {
    const std::string before = MemberText(pair.was, member, absent);
    const std::string now = MemberText(pair.given, member, absent);
    if (before == now) return false;
    const auto value = MemberAt(pair.was, member);
    SayOf(pair.name, value ? value->place() : pair.key,
          Subject(member) + " of ", WasAndIs(before, now));
    return true;
  }

  void CompareParam(const std::string& name, const JsonMember& was,
                    const JsonValue& given) {
    const Pair pair{name, was.key.place(), MembersOf(was.value),
                    MembersOf(given)};
    if (!was.value.IsObject()) {
      SayOf(name, was.value.place(), "", " is no object in the plan");
      return;
    }
    bool stated = false;
    for (const std::string_view member : kStated) {
      stated = CompareMember(pair, member, "null") || stated;
    }
    stated = CompareModeSpecs(pair) || stated;
    CompareMember(pair, "placement", "absent");
    CompareMember(pair, "weight_decay", "absent");
    if (stated) return;
    CompareRule(pair, was_rules_, given_rules_);
    for (const std::string_view member : kDerived) {
      CompareMember(pair, member, "absent");
    }
    CompareModeSizes(pair);
    for (const std::string_view member : NamesOfEither(given, was.value)) {
      if (Known(member)) continue;
      CompareMember(pair, member, "absent");
    }
  }

  static bool Known(std::string_view member) {
    return member == "modes" || member == "rule" || member == "placement" ||
           member == "weight_decay" ||
           std::find(kStated.begin(), kStated.end(), member) != kStated.end() ||
           std::find(kDerived.begin(), kDerived.end(), member) !=
               kDerived.end();
  }

  // An index means its pattern: a rule that came above moves all below.
  void CompareRule(const Pair& pair, const std::vector<std::string>& was,
                   const std::vector<std::string>& given) {
    const auto pattern = [](const JsonMembers& members,
                            const std::vector<std::string>& rules) {
      const auto index = MemberAt(members, "rule");
      if (!index) return std::string("absent");
      if (index->kind() != JsonKind::kInteger || index->integer() < 0 ||
          static_cast<uint64_t>(index->integer()) >= rules.size()) {
        return NormalText(*index);
      }
      return rules[static_cast<size_t>(index->integer())];
    };
    const std::string before = pattern(pair.was, was);
    const std::string now = pattern(pair.given, given);
    if (before == now) return;
    SayOf(pair.name, pair.key, "the rule of ", WasAndIs(before, now));
  }

  // A mode without an entry has the train spec.
  bool CompareModeSpecs(const Pair& pair) {
    const JsonMembers was = MembersOf(MemberAt(pair.was, "modes"));
    const JsonMembers given = MembersOf(MemberAt(pair.given, "modes"));
    const std::string was_train = MemberText(pair.was, "spec", "null");
    const std::string given_train = MemberText(pair.given, "spec", "null");
    bool differ = false;
    for (const std::string_view mode : NamesOfEither(
             MemberAt(pair.given, "modes"), MemberAt(pair.was, "modes"))) {
      const std::string before =
          MemberText(MembersOf(MemberAt(was, mode)), "spec", was_train);
      const std::string now =
          MemberText(MembersOf(MemberAt(given, mode)), "spec", given_train);
      if (before == now) continue;
      // A change in train is said once.
      if (before == was_train && now == given_train) continue;
      const auto own = MemberAt(was, mode);
      SayOf(pair.name, own ? own->place() : pair.key,
            "the " + std::string(mode) + " spec of ", WasAndIs(before, now));
      differ = true;
    }
    return differ;
  }

  void CompareModeSizes(const Pair& pair) {
    const auto was = MemberAt(pair.was, "modes");
    const auto given = MemberAt(pair.given, "modes");
    const JsonMembers was_modes = MembersOf(was),
                      given_modes = MembersOf(given);
    for (const std::string_view mode : NamesOfEither(given, was)) {
      const auto a = MemberAt(was_modes, mode), b = MemberAt(given_modes, mode);
      const std::string before = a ? NormalText(*a) : "absent";
      const std::string now = b ? NormalText(*b) : "absent";
      if (before == now) continue;
      SayOf(pair.name, a ? a->place() : pair.key,
            "the " + std::string(mode) + " entry of ", WasAndIs(before, now));
    }
  }

  // An attention tensor's spec that differs, and the modes in which it does so.
  struct TensorChange {
    std::string tensor, before, now;
    std::string dimensions;  // that differ; empty: told whole
    Place place;
    std::string modes;
  };

  // "dimension 0 was "dp" and is null"; nothing where a spec is absent or has
  // another length.
  static std::string DimensionsText(const std::optional<JsonValue>& was,
                                    const std::optional<JsonValue>& given) {
    if (!was || !given || !was->IsArray() || !given->IsArray() ||
        was->size() != given->size()) {
      return {};
    }
    std::string out;
    size_t dimension = 0;
    auto next = given->items().begin();
    for (const JsonValue entry : was->items()) {
      const std::string before = NormalText(entry), now = NormalText(*next);
      if (before != now) {
        out += (out.empty() ? "dimension " : ", dimension ") +
               std::to_string(dimension) + WasAndIs(before, now);
      }
      ++dimension;
      ++next;
    }
    return out;
  }

  // A mode that one of the two lacks is told with the modes.
  std::vector<TensorChange> AttentionChanges(const JsonValue& was,
                                             const JsonValue& given) {
    std::vector<TensorChange> out;
    std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
    const JsonMembers was_modes = MembersOf(was),
                      given_modes = MembersOf(given);
    for (const std::string_view mode : NamesOfEither(given, was)) {
      const auto a = MemberAt(was_modes, mode), b = MemberAt(given_modes, mode);
      if (!a || !b) {
        if (MemberText(was_, "modes", "") != MemberText(given_, "modes", ""))
          continue;
        Say(a ? a->place() : was.place(), "`attention` " +
                                              std::string(a ? "has" : "lacks") +
                                              " mode " + Quoted(mode));
        continue;
      }
      const JsonMembers was_specs = MembersOf(a), given_specs = MembersOf(b);
      for (const std::string_view tensor : NamesOfEither(b, a)) {
        std::string before = MemberText(was_specs, tensor, "absent");
        std::string now = MemberText(given_specs, tensor, "absent");
        if (before == now) continue;
        const auto [at, fresh] =
            known.try_emplace({std::string(tensor), before, now}, out.size());
        if (fresh) {
          const auto value = MemberAt(was_specs, tensor);
          out.push_back({std::string(tensor), std::move(before), std::move(now),
                         DimensionsText(value, MemberAt(given_specs, tensor)),
                         value ? value->place() : a->place(),
                         std::string(mode)});
        } else {
          out[at->second].modes += ", " + std::string(mode);
        }
      }
    }
    return out;
  }

  // Told once for all modes in which a tensor's spec differs alike, and once
  // for all tensors of which the same dimensions do: a changed axis of `batch`
  // is in each of them.
  void CompareAttention() {
    const auto was = MemberAt(was_, "attention"),
               given = MemberAt(given_, "attention");
    if (!was || !given) return;
    const std::vector<TensorChange> changes = AttentionChanges(*was, *given);
    std::map<std::pair<std::string_view, std::string_view>,
             std::vector<std::string>>
        alike;
    for (const TensorChange& change : changes) {
      alike[{change.modes, change.dimensions}].push_back(Quoted(change.tensor));
    }
    for (const TensorChange& change : changes) {
      const auto& tensors = alike[{change.modes, change.dimensions}];
      if (change.dimensions.empty() || tensors.size() == 1) {
        Say(change.place, "the " + change.modes + " spec of attention tensor " +
                              Quoted(change.tensor) +
                              WasAndIs(change.before, change.now));
      } else if (tensors.front() == Quoted(change.tensor)) {
        Say(change.place,
            "the " + change.modes + " specs of attention tensors " +
                ListText(tensors, tensors.size()) + ": " + change.dimensions);
      }
    }
  }

  void CompareRules() {
    const auto was = MemberAt(was_, "rules"), given = MemberAt(given_, "rules");
    const std::vector<std::string> before = PatternsOf(was);
    const std::vector<std::string> now = PatternsOf(given);
    const Place place = PlaceOf("rules");
    if (before != now) {
      std::map<std::string_view, int64_t> counts;
      for (const std::string& pattern : before) --counts[pattern];
      for (const std::string& pattern : now) ++counts[pattern];
      bool members = false;
      for (const auto& [pattern, count] : counts) {
        if (count == 0) continue;
        members = true;
        Say(place, "the rule " + std::string(pattern) +
                       (count > 0 ? " is new" : " is no longer there"));
      }
      if (!members) Say(place, "the rules stand in another order");
      return;
    }
    if (!was || !was->IsArray() || !given || !differences_.empty()) return;
    auto next = given->items().begin();
    for (const JsonValue rule : was->items()) {
      CompareCounts(rule, *next);
      ++next;
    }
  }

  // Hits follow from parameters: told where those are the same.
  void CompareCounts(const JsonValue& was, const JsonValue& given) {
    const JsonMembers before = MembersOf(was), now = MembersOf(given);
    for (const std::string_view member : NamesOfEither(given, was)) {
      if (member == "source") continue;
      const std::string a = MemberText(before, member, "absent");
      const std::string b = MemberText(now, member, "absent");
      if (a == b) continue;
      Say(was.place(), Quoted(member) + " of the rule " +
                           MemberText(now, "match", "null") + WasAndIs(a, b));
    }
  }

  // Totals and digest follow from the rest.
  void CompareRest() {
    const JsonMembers was = MembersOf(MemberAt(was_, "summary"));
    const JsonMembers given = MembersOf(MemberAt(given_, "summary"));
    if (differences_.empty()) {
      for (const std::string_view member : NamesOfEither(
               MemberAt(given_, "summary"), MemberAt(was_, "summary"))) {
        const std::string a = MemberText(was, member, "absent");
        const std::string b = MemberText(given, member, "absent");
        if (a == b) continue;
        Say(PlaceOf("summary"),
            "the summary's " + Quoted(member) + WasAndIs(a, b));
      }
    }
    for (const JsonMember member : was_root_.members()) {
      if (given_.contains(member.name())) continue;
      Say(member.key.place(), Quoted(member.name()) +
                                  " is no part of the plan that the inputs "
                                  "give");
    }
    for (const JsonMember member : given_root_.members()) {
      if (was_.contains(member.name())) continue;
      Say(was_root_.place(),
          "the committed plan has no " + Quoted(member.name()));
    }
    const std::string a = MemberText(was_, "fingerprint", "absent");
    const std::string b = MemberText(given_, "fingerprint", "absent");
    if (differences_.empty() && a != b) {
      Say(PlaceOf("fingerprint"), "the fingerprint" + WasAndIs(a, b));
    }
  }

  // What is said of entries of two texts, with places from the start of the
  // first one's value, or of the name.
  struct Said {
    bool of_value = false;
    size_t begin = 0, end = 0;
    std::string before, after;
  };

  JsonValue was_root_, given_root_;
  JsonMembers was_, given_;
  std::vector<std::string> was_rules_, given_rules_;
  std::unordered_map<std::string_view,
                     std::unordered_map<std::string_view, std::vector<Said>>>
      said_;
  std::vector<Said>* recorded_ = nullptr;
  Place entry_;  // of the value that is being recorded
  std::vector<Difference> differences_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> folded_;
};

}  // namespace

std::optional<std::vector<PlanDifference>> ComparePlans(const SourceRef& was,
                                                        const SourceRef& given,
                                                        Findings& errors) {
  const auto before = JsonDocument::Parse(was, errors);
  if (before == nullptr) return std::nullopt;
  const JsonValue root = before->root();
  if (SchemaOf(root) != "shardc.plan/v1") {
    errors.Add(code::kSchema, root.place(), "this is not a plan of `shardc`",
               "write it with `shardc plan --write-locked`");
    return std::nullopt;
  }
  const auto now = JsonDocument::Parse(given, errors);
  if (now == nullptr) return std::nullopt;
  return Comparison(root, now->root()).Run();
}

}  // namespace shardc
