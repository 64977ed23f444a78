// Prints the difference of two plans as text. A changed entry is marked with
// `~`. An entry that only the second plan has is marked with `+`, and an entry
// that only the first plan has with `-`. For example, this entry is about 32
// parameters that change in the same way:
//
//   ~ layers.*.mlp.up_proj.weight [14336, 4096] BF16, 32 of them
//       spec   ["tp", "fsdp"] -> ["tp", null], in decode
//       holds  3.5 MiB -> 28 MiB per device of each, 112 MiB -> 896 MiB of all
//       moves  all_gather over `fsdp`, 24.5 MiB sent per device, of each
#include <algorithm>
#include <string>
#include <string_view>

#include "emit/plans/diff_words.h"
#include "emit/plans/plan_diff.h"
#include "plan/difference/stage_moves.h"
#include "source/wording.h"

namespace shardc {
namespace {

void Head(std::string_view mark, const NamedGroup& group, Sink& out) {
  const auto count = static_cast<int64_t>(group.names.size());
  out.Append(std::string(mark) + " " + Printable(group.shown) + " " +
             DiffTypeText(group.type) +
             (count == 1 ? "" : ", " + CountText(count) + " of them") + "\n");
}

void Line(std::string_view what, const std::string& text, Sink& out) {
  std::string line = "    " + std::string(what);
  line.resize(11, ' ');
  out.Append(line + text + "\n");
}

std::string Arrow(const std::string& before, const std::string& after) {
  return before == after ? before + ", unchanged" : before + " -> " + after;
}

std::string HeldText(const SpecChange& change) {
  std::string out = DiffBytesText(change.held_before) + " -> " +
                    DiffBytesText(change.held_after) + " per device";
  if (change.names.size() == 1) return out;
  return out + " of each, " + DiffBytesText(change.group_before) + " -> " +
         DiffBytesText(change.group_after) + " of all";
}

void WriteSpecs(const SpecChange& change, Sink& out) {
  Head("~", change, out);
  Line("spec",
       Arrow(SpecText(change.before) + InPartsText(change.parts_before),
             SpecText(change.after) + InPartsText(change.parts_after)) +
           ", in " + DiffModesText(change.modes),
       out);
  const std::string placed = PlacementChangeText(change);
  if (!placed.empty()) Line("placed", placed, out);
  const bool other_group =
      change.names.size() > 1 && change.group_before != change.group_after;
  if (change.held_before != change.held_after || other_group) {
    Line("holds", HeldText(change), out);
  }
  const std::string move = DiffMoveText(change);
  if (move.empty()) return;
  Line("moves", move + (change.names.size() == 1 ? "" : ", of each"), out);
}

std::string_view MarkOf(const StepChange& step) {
  if (step.count_before == step.count_after) return "~";
  if (step.count_before == 0) return "+";
  return step.count_after == 0 ? "-" : "~";
}

void WriteTotals(const PlanDifference& diff, Sink& out) {
  if (diff.other_mesh) {
    out.Append("mesh " + MeshText(diff.mesh_before) + " -> " +
               MeshText(diff.mesh_after) + "\n");
    const std::string devices = DiffDevicesText(diff);
    if (!devices.empty()) out.Append(devices + "\n");
  }
  for (const HeldChange& held : diff.held) {
    if (held.before == held.after) continue;
    const std::string change = DiffChangeText(held.before, held.after);
    out.Append("bytes per device " + DiffBytesText(held.before) + " -> " +
               DiffBytesText(held.after) +
               (change.empty() ? "" : ", " + change) + ", in " +
               DiffModesText(held.modes) + "\n");
  }
}

void WriteStages(const PlanDifference& diff, Sink& out) {
  for (const LayerMove& move : diff.layers) {
    out.Append("~ " + LayerMoveText(move) + "\n");
  }
  if (!DiffRanksDiffer(diff)) return;
  const size_t ranks =
      std::max(diff.by_rank_before.size(), diff.by_rank_after.size());
  for (size_t r = 0; r < ranks; ++r) {
    const std::string before = DiffRankBytesText(diff.by_rank_before, r);
    const std::string after = DiffRankBytesText(diff.by_rank_after, r);
    if (before == after) continue;
    out.Append("    rank " + std::to_string(r) + " holds " + before + " -> " +
               after + " per device\n");
  }
}

}  // namespace

void WriteDiffText(const PlanDifference& diff, Sink& out) {
  WriteTotals(diff, out);
  WriteStages(diff, out);
  for (const SpecChange& change : diff.specs) WriteSpecs(change, out);
  for (const TypeChange& change : diff.reshaped) {
    Head("~", change, out);
    Line("type",
         DiffTypeText(change.before) + " -> " + DiffTypeText(change.type), out);
  }
  for (const RuleChange& change : diff.rules) {
    Head("~", change, out);
    Line("rule",
         DiffRuleText(change.before) + " -> " + DiffRuleText(change.after),
         out);
  }
  for (const NamedGroup& group : diff.added) Head("+", group, out);
  for (const NamedGroup& group : diff.removed) Head("-", group, out);
  for (const AttentionChange& change : diff.attention) {
    out.Append("~ attention's " + Printable(change.tensor) + "\n");
    Line("spec",
         SpecText(change.before) + " -> " + SpecText(change.after) + ", in " +
             DiffModesText(change.modes),
         out);
  }
  for (const FieldChange& field : diff.fields) {
    if (!field.detailed) out.Append("~ " + Printable(field.message) + "\n");
  }
  for (const StepChange& step : diff.steps) {
    out.Append(std::string(MarkOf(step)) + " " + Printable(step.message) +
               "\n");
  }
  out.Append(DiffSummaryText(diff) + "\n");
}

}  // namespace shardc
