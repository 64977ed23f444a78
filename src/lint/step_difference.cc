// Steps are matched by mode, collectives by all that they are but their bytes:
// the part of the model, the op, the value that moves, how it lies before and
// after. One that came, one that went and one that sends more are told each:
//
//   train, layer 0-31, linear q: all_gather fsdp of [d,n,h] is new
#include "lint/step_difference.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lint/analysis/phrase.h"
#include "source/json.h"
#include "source/json_members.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string TextAt(const JsonMembers& members, std::string_view name) {
  const auto value = MemberAt(members, name);
  if (!value) return "";
  return value->IsString() ? std::string(value->string()) : NormalText(*value);
}

int64_t NumberAt(const JsonMembers& members, std::string_view name) {
  const auto value = MemberAt(members, name);
  return value && value->kind() == JsonKind::kInteger ? value->integer() : 0;
}

// Of one mode, on either side.
struct Side {
  JsonValue step;
  JsonMembers members;
};

struct Moved {
  Place place;  // in the committed file
  std::string words;
  int64_t was = 0, given = 0;  // how many
  int64_t was_bytes = 0, given_bytes = 0;
};

constexpr std::array<std::string_view, 9> kSettings = {
    "status", "reason",        "mesh",   "batch",        "length",
    "layers", "element_bytes", "policy", "keep_gathered"};

class Comparison {
 public:
  Comparison(JsonValue was, JsonValue given) : was_(was), given_(given) {}

  std::vector<PlanDifference> Run() {
    const std::map<std::string, Side> was = StepsOf(was_);
    const std::map<std::string, Side> given = StepsOf(given_);
    for (const auto& [mode, side] : was) {
      const auto other = given.find(mode);
      if (other == given.end()) {
        Say(side.step.place(), mode + " is no longer a mode of the target");
      } else {
        CompareStep(mode, side, other->second);
      }
    }
    for (const auto& [mode, side] : given) {
      if (!was.contains(mode)) {
        Say(was_.place(), "the committed steps have no mode " + mode);
      }
    }
    return std::move(out_);
  }

 private:
  static std::map<std::string, Side> StepsOf(JsonValue root) {
    std::map<std::string, Side> out;
    const auto steps = MemberAt(MembersOf(root), "steps");
    if (!steps || !steps->IsArray()) return out;
    for (const JsonValue step : steps->items()) {
      JsonMembers members = MembersOf(step);
      std::string mode = TextAt(members, "mode");
      out.insert_or_assign(std::move(mode), Side{step, std::move(members)});
    }
    return out;
  }

  void Say(Place place, std::string message) {
    out_.push_back({std::move(place), std::move(message), {}});
  }

  void CompareStep(const std::string& mode, const Side& was,
                   const Side& given) {
    const size_t before = out_.size();
    for (std::string_view name : kSettings) {
      const std::string a = TextAt(was.members, name);
      const std::string b = TextAt(given.members, name);
      if (a == b) continue;
      const auto at = MemberAt(was.members, name);
      Say(at ? at->place() : was.step.place(),
          mode + ": " + Quoted(name) + " was " + a + " and is " + b);
    }
    CompareMoves(mode, was, given, out_.size() == before);
    if (out_.size() != before) return;
    for (std::string_view name : {"program", "clashes", "notes", "problems"}) {
      if (TextAt(was.members, name) == TextAt(given.members, name)) continue;
      const auto at = MemberAt(was.members, name);
      Say(at ? at->place() : was.step.place(),
          name == "program" ? mode + ": the collectives stand in another order"
                            : mode + ": " + Quoted(name) + " are others");
    }
  }

  // Bytes follow from settings: told where those are the same.
  void CompareMoves(const std::string& mode, const Side& was, const Side& given,
                    bool bytes) {
    std::map<std::string, size_t> index;
    std::vector<Moved> moved;
    Count(mode, was, true, index, moved);
    Count(mode, given, false, index, moved);
    // What is new is what review is for.
    for (const Moved& one : moved) {
      if (one.was > 0) continue;
      Say(was.step.place(),
          one.words + " is new, " + BytesText(one.given_bytes) + " a device");
    }
    for (const Moved& one : moved) {
      if (one.was == 0) continue;
      const Place& place = one.place;
      if (one.given == 0) {
        Say(place, one.words + " is no longer there");
      } else if (one.was != one.given) {
        Say(place, one.words + " was there " + std::to_string(one.was) +
                       " times and is " + std::to_string(one.given));
      } else if (bytes && one.was_bytes != one.given_bytes) {
        Say(place, one.words + " sent " + BytesText(one.was_bytes) +
                       " a device and sends " + BytesText(one.given_bytes));
      }
    }
  }

  static void Count(const std::string& mode, const Side& side, bool was,
                    std::map<std::string, size_t>& index,
                    std::vector<Moved>& moved) {
    const auto ops = MemberAt(side.members, "ops");
    if (!ops || !ops->IsArray()) return;
    for (const JsonValue op : ops->items()) {
      const JsonMembers members = MembersOf(op);
      std::string key;
      for (std::string_view name :
           {"phase", "part", "op", "result", "specs", "collective", "axes"}) {
        key += TextAt(members, name) + "|";
      }
      const auto [at, fresh] = index.try_emplace(key, moved.size());
      if (fresh) {
        moved.push_back({op.place(), WordsOf(mode, members), 0, 0, 0, 0});
      }
      Moved& one = moved[at->second];
      ++(was ? one.was : one.given);
      (was ? one.was_bytes : one.given_bytes) +=
          NumberAt(members, "bytes_per_device");
    }
  }

  static std::string WordsOf(const std::string& mode,
                             const JsonMembers& members) {
    std::string axes;
    const auto group = MemberAt(members, "axes");
    if (group && group->IsArray()) {
      for (const JsonValue axis : group->items()) {
        if (!axis.IsString()) continue;
        axes += (axes.empty() ? "" : "+") + std::string(axis.string());
      }
    }
    return mode + ", " + TextAt(members, "part") + ", " +
           TextAt(members, "op") + ": " + TextAt(members, "collective") + " " +
           axes + " of " + TextAt(members, "result") + " " +
           TextAt(members, "specs");
  }

  JsonValue was_, given_;
  std::vector<PlanDifference> out_;
};

}  // namespace

std::optional<std::vector<PlanDifference>> CompareSteps(const SourceRef& was,
                                                        const SourceRef& given,
                                                        Findings& errors) {
  const auto before = JsonDocument::Parse(was, errors);
  if (before == nullptr) return std::nullopt;
  const JsonValue root = before->root();
  if (SchemaOf(root) != "shardc.step/v1") {
    errors.Add(code::kSchema, root.place(),
               "this is no step program of `shardc`",
               "write it with `shardc plan --write-locked`");
    return std::nullopt;
  }
  const auto now = JsonDocument::Parse(given, errors);
  if (now == nullptr) return std::nullopt;
  return Comparison(root, now->root()).Run();
}

}  // namespace shardc
