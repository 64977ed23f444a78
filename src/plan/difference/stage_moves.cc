// Finds the layers that move between the stages of two plans. Ranges of layers
// are compared instead of stages, because the stages of two plans may begin at
// different layers:
//
//   [0, 8) [8, 16) -> [0, 9) [9, 16)   layer 8 moves from stage 1 to stage 0
#include "plan/difference/stage_moves.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "source/index.h"
#include "source/json_members.h"

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

}  // namespace shardc
