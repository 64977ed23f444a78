// Finds the layers that move between the stages of two plans. Ranges of layers
// are compared instead of stages, because the stages of two plans may begin at
// different layers:
//
//   [0, 8) [8, 16) -> [0, 9) [9, 16)   layer 8 moves from stage 1 to stage 0
#include "plan/difference/plan_difference.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns the stage that has a layer. Callers pass layers in ascending order,
// so the search starts at `from`, which is the stage of the previous layer.
int32_t StageOf(const PlanStages& stages, int64_t layer, int32_t from) {
  int32_t at = from;
  while (at + 1 < std::ssize(stages.of) &&
         stages.of[AsIndex(at)].layers.end <= layer) {
    ++at;
  }
  return at;
}

void AddValue(std::string_view member, const PlanJson& before,
              const JsonMembers& was, const JsonMembers& is,
              PlanDifference& to) {
  const std::string a = MemberText(was, member, "absent");
  const std::string b = MemberText(is, member, "absent");
  if (a == b) return;
  FieldChange& change = to.fields.emplace_back();
  const auto value = MemberAt(was, member);
  change.place = value ? value->place() : before.PlaceOf("stages");
  change.field = "stages." + std::string(member);
  change.message =
      "`" + std::string(member) + "` of the stages" + WasAndIs(a, b);
  if (a != "absent") change.before = a;
  if (b != "absent") change.after = b;
}

}  // namespace

std::vector<LayerMove> LayerMoves(const PlanStages& before,
                                  const PlanStages& after) {
  std::vector<LayerMove> out;
  const int64_t layers =
      std::min(before.of.back().layers.end, after.of.back().layers.end);
  int32_t was = 0, now = 0;
  for (int64_t layer = 0; layer < layers;) {
    was = StageOf(before, layer, was);
    now = StageOf(after, layer, now);
    const PlanStage& a = before.of[AsIndex(was)];
    const PlanStage& b = after.of[AsIndex(now)];
    const int64_t end = std::min({a.layers.end, b.layers.end, layers});
    if (was != now || a.ranks != b.ranks) {
      out.push_back({{}, {layer, end}, was, now, a.ranks, b.ranks});
    }
    layer = std::max(end, layer + 1);
  }
  return out;
}

std::string LayerMoveText(const LayerMove& move) {
  return LayersText(move.layers) +
         (move.layers.count() == 1 ? " moves" : " move") + " from stage " +
         std::to_string(move.stage_before) + " on " +
         RanksText(move.ranks_before) + " to stage " +
         std::to_string(move.stage_after) + " on " +
         RanksText(move.ranks_after);
}

bool IsExplained(const std::vector<LayerMove>& moves, const ParamStages& before,
                 const ParamStages& after) {
  if (before.dim || after.dim) return !moves.empty();
  if (before.of.size() != 1 || after.of.size() != 1) return false;
  return std::any_of(moves.begin(), moves.end(), [&](const LayerMove& move) {
    return move.stage_before == before.of[0].stage &&
           move.stage_after == after.of[0].stage;
  });
}

void CompareStageFields(const PlanJson& before, const PlanJson& after,
                        PlanDifference& to) {
  const auto was = MemberAt(before.members, "stages");
  const auto now = MemberAt(after.members, "stages");
  // If a plan lacks the member, CompareRemainingFields() reports that.
  if (!was || !now) return;
  for (LayerMove& move : to.layers) move.place = was->place();
  const size_t fields = to.fields.size();
  const JsonMembers a = MembersOf(*was), b = MembersOf(*now);
  for (const std::string_view member : NamesOfEither(*now, *was)) {
    if (member == "of" || member == "copies" || member == "table") continue;
    AddValue(member, before, a, b, to);
  }
  const bool stated = to.fields.size() > fields;
  // The member `table` is a digest of the pipeline schedule, which lists the
  // tasks of each rank in order. If the schedule's name or a number in the
  // other members differs, the digest usually differs too. It is therefore
  // compared only if these are equal. It may then differ because the schedule
  // is read from a file that was changed. LayerMoves() compares the layers of
  // stages, unless one of the plans is invalid.
  if (!stated) AddValue("table", before, a, b, to);
  if (!to.detailed) AddValue("of", before, a, b, to);
}

void CompareStageLists(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to) {
  const auto was = MemberAt(before.members, "stages");
  const auto now = MemberAt(after.members, "stages");
  if (!was || !now) return;
  const JsonMembers a = MembersOf(*was), b = MembersOf(*now);
  for (const std::string_view member : {"of", "copies"}) {
    AddValue(member, before, a, b, to);
  }
}

// Compares the settings and the steps of two step programs. Steps are matched
// by mode. Collectives are matched by the part of the model, the op, the value
// that is resharded, and its sharding before and after. A collective is
// reported as one change if only one program has it, or if its number of runs
// or its bytes differ. For example, only the second program gathers the result
// of `lookup embed`:
//
//   train, model, lookup embed: all_gather tp of [b,t,d] b:fsdp d:tp -> b:fsdp
//      is new, 128 MiB a device

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

// The step of one mode in one of the programs.
struct Step {
  JsonValue json;
  JsonMembers members;
};

constexpr std::array<std::string_view, 9> kSettings = {
    "status", "reason",        "mesh",   "batch",        "length",
    "layers", "element_bytes", "policy", "keep_gathered"};
// Settings that step programs of earlier versions of shardc do not have.
constexpr std::array<std::string_view, 5> kLaterSettings = {
    "operation", "remat", "microbatches", "reduction", "zero"};

class StepComparison {
 public:
  StepComparison(JsonValue before, JsonValue after)
      : before_(before), after_(after) {}

  std::vector<StepChange> Run() {
    const std::map<std::string, Step> before = StepsOf(before_);
    const std::map<std::string, Step> after = StepsOf(after_);
    for (const auto& [mode, step] : before) {
      const auto other = after.find(mode);
      if (other == after.end()) {
        Add(step.json.place(), mode, "mode " + mode,
            " is no longer in the step program");
      } else {
        CompareStep(mode, step, other->second);
      }
    }
    for (const auto& [mode, step] : after) {
      if (before.contains(mode)) continue;
      Add(before_.place(), mode, "mode " + mode, " is new");
    }
    return std::move(out_);
  }

 private:
  static std::map<std::string, Step> StepsOf(JsonValue root) {
    std::map<std::string, Step> out;
    const auto steps = MemberAt(MembersOf(root), "steps");
    if (!steps || !steps->IsArray()) return out;
    for (const JsonValue step : steps->items()) {
      JsonMembers members = MembersOf(step);
      std::string mode = TextAt(members, "mode");
      out.insert_or_assign(std::move(mode), Step{step, std::move(members)});
    }
    return out;
  }

  void Add(Place place, const std::string& mode, std::string subject,
           const std::string& verdict) {
    StepChange& change = out_.emplace_back();
    change.place = std::move(place);
    change.mode = mode;
    change.message = subject + verdict;
    change.subject = std::move(subject);
  }

  void CompareStep(const std::string& mode, const Step& before,
                   const Step& after) {
    const size_t known = out_.size();
    for (std::string_view name : kSettings) {
      CompareSetting(mode, before, after, name);
    }
    for (std::string_view name : kLaterSettings) {
      if (!MemberAt(before.members, name) || !MemberAt(after.members, name)) {
        continue;
      }
      CompareSetting(mode, before, after, name);
    }
    CompareCollectives(mode, before, after, out_.size() == known);
    if (out_.size() != known) return;
    for (std::string_view name : {"program", "clashes", "notes", "problems"}) {
      if (TextAt(before.members, name) == TextAt(after.members, name)) continue;
      const auto at = MemberAt(before.members, name);
      const bool order = name == "program";
      Add(at ? at->place() : before.json.place(), mode,
          mode + (order ? ": the order of the collectives"
                        : ": `" + std::string(name) + "`"),
          order ? " differs" : " differ");
    }
    // The members `totals`, `flops` and `memory` follow from the other members.
    // Earlier versions of shardc did not write them, so they are compared only
    // if both programs have them.
    for (std::string_view name : {"totals", "flops", "memory"}) {
      const auto at = MemberAt(before.members, name);
      if (!at || !MemberAt(after.members, name)) continue;
      if (TextAt(before.members, name) == TextAt(after.members, name)) continue;
      Add(at->place(), mode, mode + ": `" + std::string(name) + "`",
          name == "memory" ? " differs" : " differ");
    }
  }

  void CompareSetting(const std::string& mode, const Step& before,
                      const Step& after, std::string_view name) {
    const std::string a = TextAt(before.members, name);
    const std::string b = TextAt(after.members, name);
    if (a == b) return;
    const auto at = MemberAt(before.members, name);
    const auto shown = [](const std::string& text) {
      return text.empty() ? "absent" : text;
    };
    Add(at ? at->place() : before.json.place(), mode,
        mode + ": `" + std::string(name) + "`", WasAndIs(shown(a), shown(b)));
  }

  // Compares the collectives of a mode. If a setting such as the batch differs,
  // the bytes of most collectives differ too. `compare_bytes` is then false,
  // and the bytes are not compared.
  void CompareCollectives(const std::string& mode, const Step& before,
                          const Step& after, bool compare_bytes) {
    std::map<std::string, size_t> index;
    std::vector<StepChange> all;
    Count(mode, before, true, index, all);
    Count(mode, after, false, index, all);
    // New collectives come first, because reviewers look for them.
    for (StepChange& one : all) {
      if (one.count_before > 0) continue;
      one.place = before.json.place();
      one.message =
          one.subject + " is new, " + BytesText(one.bytes_after) + " a device";
      out_.push_back(std::move(one));
    }
    for (StepChange& one : all) {
      if (one.count_before == 0) continue;
      std::string verdict;
      if (one.count_after == 0) {
        verdict = " is no longer in the step program";
      } else if (one.count_before != one.count_after) {
        verdict = " ran " + Counted(one.count_before, "time") + " and runs " +
                  Counted(one.count_after, "time");
      } else if (compare_bytes && one.bytes_before != one.bytes_after) {
        verdict = " sent " + BytesText(one.bytes_before) +
                  " a device and sends " + BytesText(one.bytes_after);
      }
      if (verdict.empty()) continue;
      one.message = one.subject + verdict;
      out_.push_back(std::move(one));
    }
  }

  static void Count(const std::string& mode, const Step& step, bool before,
                    std::map<std::string, size_t>& index,
                    std::vector<StepChange>& all) {
    const auto ops = MemberAt(step.members, "ops");
    if (!ops || !ops->IsArray()) return;
    for (const JsonValue op : ops->items()) {
      const JsonMembers members = MembersOf(op);
      std::string key;
      for (std::string_view name :
           {"phase", "part", "op", "result", "specs", "collective", "axes"}) {
        key += TextAt(members, name) + "|";
      }
      const auto [at, is_new] = index.try_emplace(key, all.size());
      if (is_new) {
        StepChange& change = all.emplace_back();
        change.place = op.place();
        change.mode = mode;
        change.subject = SubjectOf(mode, members);
      }
      StepChange& one = all[at->second];
      ++(before ? one.count_before : one.count_after);
      (before ? one.bytes_before : one.bytes_after) +=
          NumberAt(members, "bytes_per_device");
    }
  }

  static std::string SubjectOf(const std::string& mode,
                               const JsonMembers& members) {
    std::string axes;
    const auto group = MemberAt(members, "axes");
    if (group && group->IsArray()) {
      for (const JsonValue axis : group->items()) {
        if (!axis.IsString()) continue;
        AppendItem(axes, "+", axis.string());
      }
    }
    return mode + ", " + TextAt(members, "part") + ", " +
           TextAt(members, "op") + ": " + TextAt(members, "collective") + " " +
           axes + " of " + TextAt(members, "result") + " " +
           TextAt(members, "specs");
  }

  JsonValue before_, after_;
  std::vector<StepChange> out_;
};

}  // namespace

std::optional<PlanDifference> CompareSteps(const SourceRef& before,
                                           const SourceRef& after,
                                           Findings& errors) {
  const auto was = JsonDocument::Parse(before, errors);
  if (was == nullptr) return std::nullopt;
  if (SchemaOf(was->root()) != "shardc.step/v1") {
    errors.Add(code::kSchema, was->root().place(),
               "this is not a step program of `shardc`",
               "write it with `shardc plan --write-locked`");
    return std::nullopt;
  }
  const auto now = JsonDocument::Parse(after, errors);
  if (now == nullptr) return std::nullopt;
  PlanDifference out;
  out.steps = StepComparison(was->root(), now->root()).Run();
  return out;
}

}  // namespace shardc
