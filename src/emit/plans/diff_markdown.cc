// Writes the difference of two plans as a comment on a pull request. The totals
// come first. A table follows with a row for each change, which is folded if it
// has many rows. Messages about other changes, such as moved layers, come last.
// For example:
//
//   | | before | after | change |
//   |---|--:|--:|--:|
//   | bytes per device | 8 KiB | 16 KiB | +8 KiB (+100.0 %) |
//
//   | what | of | before | after | moves |
//   |---|--:|---|---|---|
//   | `*.w` | 4 | `["tp"]` 2 KiB | `[null]` 4 KiB in train | all_gather |
#include <algorithm>
#include <string>
#include <string_view>

#include "emit/plans/diff_words.h"
#include "emit/plans/plan_diff.h"
#include "plan/difference/stage_moves.h"
#include "source/wording.h"

namespace shardc {
namespace {

// A table with more rows than this is folded.
constexpr size_t kOpenRows = 12;

class DiffMarkdown {
 public:
  explicit DiffMarkdown(const PlanDifference& diff) : diff_(diff) {}

  std::string Text() {
    out_ = "**Sharding**: " + DiffSummaryText(diff_) + "\n";
    if (diff_.detailed && !diff_.empty()) AddTotals();
    AddRows();
    AddMessages();
    return std::move(out_);
  }

 private:
  void AddTotal(std::string_view what, const std::string& before,
                const std::string& after, const std::string& change) {
    out_ += "| " + std::string(what) + " | " + before + " | " + after + " | " +
            change + " |\n";
  }

  void AddTotals() {
    out_ += "\n| | before | after | change |\n|---|--:|--:|--:|\n";
    if (diff_.other_mesh) {
      AddTotal("mesh", CodeCell(MeshText(diff_.mesh_before)),
               CodeCell(MeshText(diff_.mesh_after)), "");
      AddTotal("devices", CountText(diff_.mesh_before.devices),
               CountText(diff_.mesh_after.devices), "");
    }
    if (diff_.params_before != diff_.params_after) {
      AddTotal("parameters", CountText(diff_.params_before),
               CountText(diff_.params_after), "");
    }
    for (const HeldChange& held : diff_.held) {
      const std::string modes =
          diff_.held.size() == 1 ? "" : ", " + DiffModesText(held.modes);
      AddTotal("bytes per device" + modes, DiffBytesText(held.before),
               DiffBytesText(held.after),
               DiffChangeText(held.before, held.after));
    }
    const size_t ranks =
        DiffRanksDiffer(diff_)
            ? std::max(diff_.by_rank_before.size(), diff_.by_rank_after.size())
            : 0;
    for (size_t r = 0; r < ranks; ++r) {
      const std::string before = DiffRankBytesText(diff_.by_rank_before, r);
      const std::string after = DiffRankBytesText(diff_.by_rank_after, r);
      if (before != after) {
        AddTotal("of rank " + std::to_string(r), before, after, "");
      }
    }
    const std::string devices = DiffDevicesText(diff_);
    if (!devices.empty()) out_ += "\n" + devices + "\n";
  }

  void Row(const std::string& what, size_t count, const std::string& before,
           const std::string& after, const std::string& moves) {
    rows_ += "| " + CodeCell(what) + " | " + std::to_string(count) + " | " +
             before + " | " + after + " | " + moves + " |\n";
    ++row_count_;
  }

  void AddRows() {
    for (const SpecChange& one : diff_.specs) {
      // A placed parameter is on the devices at one coordinate of an axis. If
      // that coordinate changes, no collective is known, and the column `moves`
      // has the old and the new coordinate.
      const std::string placed = PlacementChangeText(one);
      Row(one.shown, one.names.size(),
          CodeCell(SpecText(one.before)) + InPartsText(one.parts_before) + " " +
              DiffBytesText(one.held_before),
          CodeCell(SpecText(one.after)) + InPartsText(one.parts_after) + " " +
              DiffBytesText(one.held_after) + " in " + DiffModesText(one.modes),
          placed.empty() ? DiffMoveText(one) : "placed " + placed);
    }
    for (const TypeChange& one : diff_.reshaped) {
      Row(one.shown, one.names.size(), CodeCell(DiffTypeText(one.before)),
          CodeCell(DiffTypeText(one.type)), "");
    }
    for (const RuleChange& one : diff_.rules) {
      Row(one.shown, one.names.size(), CodeCell(DiffRuleText(one.before)),
          CodeCell(DiffRuleText(one.after)), "");
    }
    for (const NamedGroup& one : diff_.added) {
      Row(one.shown, one.names.size(), "", CodeCell(DiffTypeText(one.type)),
          "");
    }
    for (const NamedGroup& one : diff_.removed) {
      Row(one.shown, one.names.size(), CodeCell(DiffTypeText(one.type)), "",
          "");
    }
    for (const AttentionChange& one : diff_.attention) {
      Row("attention's " + one.tensor, 1, CodeCell(SpecText(one.before)),
          CodeCell(SpecText(one.after)) + " in " + DiffModesText(one.modes),
          "");
    }
    if (row_count_ == 0) return;
    const bool folded = row_count_ > kOpenRows;
    if (folded) {
      out_ += "\n<details><summary>" +
              Counted(static_cast<int64_t>(row_count_), "change") +
              ", layers folded</summary>\n";
    }
    out_ +=
        "\n| what | of | before | after | moves |\n|---|--:|---|---|---|\n" +
        rows_;
    if (folded) out_ += "\n</details>\n";
  }

  void AddMessages() {
    std::string list;
    for (const LayerMove& move : diff_.layers) {
      list += "- " + CodeSpan(LayerMoveText(move)) + "\n";
    }
    for (const FieldChange& field : diff_.fields) {
      if (!field.detailed) list += "- " + CodeSpan(field.message) + "\n";
    }
    for (const StepChange& step : diff_.steps) {
      list += "- " + CodeSpan(step.message) + "\n";
    }
    if (!list.empty()) out_ += "\n" + list;
  }

  const PlanDifference& diff_;
  std::string out_, rows_;
  size_t row_count_ = 0;
};

}  // namespace

void WriteDiffMarkdown(const PlanDifference& diff, Sink& out) {
  out.Append(DiffMarkdown(diff).Text());
}

}  // namespace shardc
