// Lints about the stages of pipelines: their lengths, their order in the mesh
// and the number of micro-batches.
//
//   stages of 9, 8, 8 and 7 layers and a head  ->  every rank waits for the
//   first
#include <algorithm>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/memory.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

void CheckStagesUneven(const Facts& facts, FindingSink& sink) {
  const auto uneven = UnevenStagesOf(facts);
  if (!uneven) return;
  std::string layers = Join(uneven->better, ", ");
  LintFinding finding = FindingAt(kStagesUneven.code, StagesPlace(facts));
  finding.message =
      "stage " + std::to_string(uneven->stage) + " with " +
      Counted(uneven->layers, "layer") + " takes " + TimesText(uneven->times) +
      " times the mean of the stages, and every rank waits for it";
  finding.help = "write `assign: [" + layers +
                 "]`, whose longest stage takes " +
                 TimesText(uneven->better_times) + " times the mean";
  sink.push_back(std::move(finding));
}

void CheckBubbleLarge(const Facts& facts, FindingSink& sink) {
  const auto bubble = LargeBubbleOf(facts);
  if (!bubble) return;
  LintFinding finding = FindingAt(kBubbleLarge.code, StagesPlace(facts));
  finding.message =
      PartText(bubble->part) +
      " of the step is bubble: " + Quoted(bubble->schedule) + " on " +
      Counted(bubble->ranks, "rank") + " with " +
      Counted(bubble->microbatches, "micro-batch", "micro-batches") +
      ", if forward and backward tasks take the same time";
  finding.help = bubble->better.empty()
                     ? "use more micro-batches"
                     : "use more micro-batches, or " + Quoted(bubble->better) +
                           " with " + PartText(bubble->better_part) +
                           " in the same memory of " +
                           Counted(bubble->held, "activation");
  sink.push_back(std::move(finding));
}

// Reports a stage axis (the mesh axis of the pipeline's stages) that is inside
// a host while another axis crosses hosts. Stages send the fewest bytes, so the
// stage axis should cross hosts. Devices are numbered with the last axis
// fastest, and each host has consecutive numbers, so the last axes are inside a
// host. For example:
//
//   fsdp 8, pp 4 on hosts of 8 devices: pp is inside a host, and a group along
//   fsdp has two devices of each of four hosts
namespace {

bool IsUsed(const Facts& facts, const std::string& axis) {
  const auto& layouts = facts.plan().layouts;
  return std::any_of(
      layouts.begin(), layouts.end(), [&](const ParamLayout& layout) {
        const Spec& spec = layout.modes.front().spec;
        return std::any_of(
            spec.begin(), spec.end(),
            [&](const AxisGroup& axes) { return IsAmong(axis, axes); });
      });
}

}  // namespace

void CheckStageAxisInsideHost(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  const int64_t per_host = DevicesPerHost(mesh);
  const auto stages = mesh.Find(StageAxis(facts));
  if (!stages || mesh.processes <= 1 || mesh.axes[*stages].size <= 1 ||
      CrossesHosts(mesh, *stages)) {
    return;
  }
  for (size_t i = 0; i < *stages; ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (!CrossesHosts(mesh, i) || !IsUsed(facts, axis.name)) continue;
    // If a tensor-parallel axis crosses hosts but could be inside a host,
    // another lint reports that.
    if (per_host % axis.size == 0 && !facts.TensorAxes({axis.name}).empty()) {
      continue;
    }
    LintFinding finding =
        FindingAt(kStageAxisInsideHost.code, StagesPlace(facts));
    finding.message = "the stages are over " + Quoted(mesh.axes[*stages].name) +
                      ", which is inside a host, and collectives over " +
                      Quoted(axis.name) + " cross hosts";
    finding.help = "write " + Quoted(mesh.axes[*stages].name) + " before " +
                   Quoted(axis.name) +
                   " in the mesh: a pipeline sends least, so that it can "
                   "cross hosts";
    sink.push_back(std::move(finding));
  }
}

// Reports interleaved stages whose number of micro-batches is no multiple of
// the number of ranks. The schedule runs the micro-batches in rounds. PyTorch
// accepts a longer round, but other systems accept only rounds with one
// micro-batch for each rank:
//
//   6 micro-batches on 4 ranks with 2 stages each  ->  Megatron-LM refuses
void CheckMicrobatchesInRounds(const Facts& facts, FindingSink& sink) {
  const auto rounds = UnevenRoundsOf(facts);
  if (!rounds) return;
  const int32_t ranks = rounds->ranks, micro = rounds->microbatches;
  LintFinding finding =
      FindingAt(kMicrobatchesInRounds.code, StagesPlace(facts));
  finding.message =
      Quoted(rounds->schedule) + " with " + Counted(rounds->stages, "stage") +
      " on " + Counted(ranks, "rank") + " has " +
      Counted(micro, "micro-batch", "micro-batches") + ", and " +
      (rounds->schedule == "interleaved" ? "Megatron-LM and MaxText accept"
                                         : "MaxText accepts") +
      " only a multiple of the ranks";
  finding.help = "write `microbatches: " +
                 std::to_string((micro + ranks - 1) / ranks * ranks) + "`";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
