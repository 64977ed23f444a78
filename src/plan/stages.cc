// Makes the request for a pipeline that a `stages:` section declares. The
// default schedule is 1f1b, with two micro-batches for each rank. Without
// `assign`, the stages get about equal sizes of weights. If the section lists
// tensors that hold several layers (`stacked`), the stages get about equal
// numbers of layers instead. For example, this section states only the axis:
//
//   stages: {axis: pp}  on pp:4  ->  1f1b on 4 ranks with 8 micro-batches
#include "plan/stages.h"

#include <string_view>

#include "plan/stage_schedule.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kUsualSchedule = "1f1b";

StageBalance BalanceOf(const StageDeclaration& declared) {
  const StageAssignment usual =
      declared.stacked ? StageAssignment::kEven : StageAssignment::kCost;
  return declared.assign.value_or(usual) == StageAssignment::kCost
             ? StageBalance::kWeights
             : StageBalance::kEven;
}

}  // namespace

std::optional<int32_t> StageRanks(const Mesh& mesh, const std::string& axis,
                                  const Place& place, Findings& findings) {
  if (!mesh.Find(axis)) {
    std::vector<std::string> names;
    for (const MeshAxis& one : mesh.axes) names.push_back(one.name);
    findings.Add(code::kUsage, place,
                 "the mesh has no axis " + ShortQuote(axis),
                 DidYouMean(axis, names, "its axes are " + MeshText(mesh)));
    return std::nullopt;
  }
  const int64_t ranks = mesh.SizeOf(axis);
  if (ranks > kMostStageRanks) {
    findings.Add(code::kLimit, place,
                 "a pipeline of " + CountText(ranks) + " ranks is more than " +
                     CountText(kMostStageRanks),
                 "take a smaller axis for the stages");
    return std::nullopt;
  }
  return static_cast<int32_t>(ranks);
}

std::optional<StageRequest> DeclaredRequest(const StageDeclaration& declared,
                                            const Mesh& mesh,
                                            std::optional<int32_t> microbatches,
                                            Findings& findings) {
  const auto ranks =
      StageRanks(mesh, declared.axis, declared.axis_place, findings);
  if (!ranks) return std::nullopt;
  ScheduleRequest schedule;
  schedule.name = declared.schedule.empty() ? std::string(kUsualSchedule)
                                            : declared.schedule;
  schedule.is_file = declared.schedule_is_file;
  schedule.ranks = ranks;
  schedule.virtual_stages = declared.virtual_stages;
  schedule.microbatches = microbatches ? microbatches : declared.microbatches;
  schedule.place =
      declared.schedule.empty() ? declared.place : declared.schedule_place;
  schedule.virtual_place = declared.virtual_place;
  schedule.declared = true;
  auto table = MakeScheduleTable(schedule, findings);
  if (!table) return std::nullopt;
  StageRequest out;
  out.axis = declared.axis;
  out.table = std::move(*table);
  out.layers = declared.listed;
  out.balance = BalanceOf(declared);
  out.copies = declared.copies.value_or(true);
  out.declared = declared;
  out.axis_place = declared.axis_place;
  out.layers_place = declared.assign_place;
  out.tied_place = declared.tied_place;
  out.layers_name = "`assign`";
  return out;
}

}  // namespace shardc
