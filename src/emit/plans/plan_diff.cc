// Writes the difference of two plans as JSON (shardc.diff/v1). The members
// `mesh`, `stages`, `fields` and `steps` are written only if they have changed.
// `bytes_per_device` is written if anything has changed. For example, a
// difference begins with:
//
//   {"schema": "shardc.diff/v1",
//    "bytes_per_device": {"before": 8192, "after": 16384, "by_mode": [..]},
//    "params": [{"names": [..], .., "before": ["tp"], "after": [null], ..}],
#include "emit/plans/plan_diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "comm/collective.h"
#include "plan/difference/plan_difference.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Formats the parts of a difference of two plans, such as specs, bytes and
// summaries. If the sharding of a parameter changes differently for train and
// for decode, the parameter is in two groups of changes. The summary counts
// such a parameter only once.

int64_t CountNames(const auto& groups) {
  std::unordered_set<std::string_view> names;
  for (const auto& group : groups) {
    names.insert(group.names.begin(), group.names.end());
  }
  return static_cast<int64_t>(names.size());
}

// Calls take(owner, change) for each changed activation, where `owner` is the
// text before its name.
void ForActivations(const PlanDifference& diff,
                    const std::function<void(std::string_view,
                                             const ActivationChange&)>& take) {
  for (const ActivationChange& one : diff.attention) take("attention's ", one);
  for (const ActivationChange& one : diff.activations) take("activation ", one);
}

// Returns "[4096, 4096] BF16".
std::string DiffTypeText(const TensorType& type) {
  std::string out = type.shape ? ShapeText(*type.shape) : "of unknown shape";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  return out;
}

// Returns "train, prefill and decode" or "every mode".
std::string DiffModesText(const std::vector<Mode>& modes) {
  if (modes.size() == kAllModes.size()) return "every mode";
  return ListInWords(modes, ModeName);
}

// Returns "3.5 MiB", or "unknown" for nullopt.
std::string DiffBytesText(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "unknown";
}

// Returns "+8 KiB (+100.0 %)"; empty if a number is unknown or both are equal.
std::string DiffChangeText(const std::optional<int64_t>& before,
                           const std::optional<int64_t>& after) {
  if (!before || !after || *before == *after) return "";
  const bool more = *after > *before;
  std::string out = (more ? "+" : "-") +
                    BytesText(more ? *after - *before : *before - *after);
  if (*before == 0) return out;
  char percent[32];
  std::snprintf(
      percent, sizeof percent, " (%+.1f %%)",
      (static_cast<double>(*after) / static_cast<double>(*before) - 1) * 100);
  return out + percent;
}

// Returns "all_gather over `fsdp`, 24.5 MiB sent per device". Returns an empty
// text if no data moves or if the collective is not known.
std::string DiffMoveText(const SpecChange& change) {
  if (!change.move) return "";
  std::string axes;
  for (const std::string& axis : change.move->axes) {
    axes += (axes.empty() ? "`" : ", `") + axis + "`";
  }
  std::string out(CollectiveName(change.move->kind));
  if (!axes.empty()) out += " over " + axes;
  if (change.sent_bytes_per_device) {
    out += ", " + BytesText(*change.sent_bytes_per_device) + " sent per device";
  }
  return out;
}

// Returns whether both plans have pipeline stages and the bytes per device of
// at least one rank differ. A plan without stages has no ranks to compare.
bool DiffRanksDiffer(const PlanDifference& diff) {
  return !diff.by_rank_before.empty() && !diff.by_rank_after.empty() &&
         diff.by_rank_before != diff.by_rank_after;
}

// Returns the bytes on a device of a pipeline rank, or "nothing" if the plan
// has fewer ranks.
std::string DiffRankBytesText(const std::vector<std::optional<int64_t>>& bytes,
                              size_t rank) {
  return rank < bytes.size() ? DiffBytesText(bytes[rank]) : "nothing";
}

// Returns the pattern, or "no rule" if it is empty.
std::string DiffRuleText(const std::string& pattern) {
  return pattern.empty() ? "no rule" : Printable(pattern);
}

// Returns "4 parameters resharded, 1 parameter added". Returns "another mesh"
// if only the meshes differ, and "no difference" if nothing differs.
std::string DiffSummaryText(const PlanDifference& diff) {
  std::string out;
  const auto add = [&](int64_t count, std::string_view noun,
                       std::string_view what) {
    if (count == 0) return;
    AppendItem(out, ", ", Counted(count, noun));
    out += what;
  };
  add(CountNames(diff.specs), "parameter", " resharded");
  add(CountNames(diff.reshaped), "parameter", " of another type");
  int64_t layers = 0;
  for (const LayerMove& move : diff.layers) layers += move.layers.count();
  add(layers, "layer", " in another stage");
  add(CountNames(diff.added), "parameter", " added");
  add(CountNames(diff.removed), "parameter", " removed");
  add(CountNames(diff.rules), "parameter", " under another rule");
  add(static_cast<int64_t>(diff.attention.size()), "attention spec", "");
  add(static_cast<int64_t>(diff.activations.size()), "activation", "");
  int64_t others = 0;
  for (const FieldChange& field : diff.fields) others += !field.detailed;
  add(others, "other field", "");
  add(static_cast<int64_t>(diff.steps.size()), "change",
      " of the step program");
  if (!out.empty()) return out;
  return diff.other_mesh ? "another mesh" : "no difference";
}

// If the meshes differ in their number of devices, returns the reason why no
// data movement is reported. Otherwise returns an empty text.
std::string DiffDevicesText(const PlanDifference& diff) {
  const int64_t before = diff.mesh_before.devices;
  const int64_t after = diff.mesh_after.devices;
  if (before == after) return "";
  return "the meshes have " + CountText(before) + " and " + CountText(after) +
         " devices: parameters move through a checkpoint (`shardc checkpoint "
         "reshard`)";
}

void WriteNames(JsonWriter& json, const NamedGroup& group) {
  json.Member("names", group.names);
}

void WriteModeNames(JsonWriter& json, const std::vector<Mode>& modes) {
  json.Array("modes", modes, ModeName);
}

void WriteModes(JsonWriter& json, const std::vector<Mode>& modes) {
  json.Member("mode", ModeName(modes.front()));
  WriteModeNames(json, modes);
}

// Writes a member with the text, or with null if the text is nullopt.
void WriteText(JsonWriter& json, std::string_view key,
               const std::optional<std::string>& text) {
  json.Member(key, text);
}

void WritePlacement(JsonWriter& json, std::string_view key,
                    const std::optional<ReadPlacement>& placement) {
  if (!placement) return;
  json.Member(key, Record("axis", placement->axis, "coordinate",
                          placement->coordinate));
}

void WriteSpecChange(JsonWriter& json, const SpecChange& change) {
  json.BeginObject();
  WriteNames(json, change);
  WriteModes(json, change.modes);
  json.Members("before", WrittenBy(WriteSpec, change.before), "after",
               WrittenBy(WriteSpec, change.after));
  json.Key("collective");
  if (change.move) {
    json.String(CollectiveName(change.move->kind));
    json.Member("axes", WrittenBy(WriteGroup, change.move->axes));
  } else {
    json.Null();
  }
  json.Members("bytes_per_device", change.sent_bytes_per_device, "held_before",
               change.held_before, "held_after", change.held_after,
               "group_held_before", change.group_before, "group_held_after",
               change.group_after);
  if (change.parts_before != change.parts_after) {
    json.Members("parts_before", WrittenBy(WriteDimParts, change.parts_before),
                 "parts_after", WrittenBy(WriteDimParts, change.parts_after));
  }
  WritePlacement(json, "placement_before", change.placed_before);
  WritePlacement(json, "placement_after", change.placed_after);
  json.EndObject();
}

void WriteType(JsonWriter& json, std::string_view key, const TensorType& type) {
  json.Member(key, Record("shape", type.shape, "dtype",
                          type.dtype ? std::optional(DtypeName(*type.dtype))
                                     : std::nullopt));
}

template <class Items, class Write>
void WriteList(JsonWriter& json, std::string_view key, const Items& items,
               const Write& write) {
  json.Lines(key, items, [&](const auto& item) { write(item); });
}

void WriteNamedList(JsonWriter& json, std::string_view key,
                    const std::vector<NamedGroup>& groups) {
  WriteList(json, key, groups, [&](const NamedGroup& group) {
    json.BeginObject();
    WriteNames(json, group);
    WriteType(json, "type", group.type);
    json.Member("held", group.held);
    json.EndObject();
  });
}

void WriteHeld(JsonWriter& json, const PlanDifference& diff) {
  if (diff.empty() || diff.held.empty()) return;
  json.Key("bytes_per_device");
  json.BeginObject();
  json.Members("before", diff.held.front().before, "after",
               diff.held.front().after);
  WriteList(json, "by_mode", diff.held, [&](const HeldChange& held) {
    json.BeginObject();
    WriteModeNames(json, held.modes);
    json.Members("before", held.before, "after", held.after);
    json.EndObject();
  });
  json.EndObject();
}

void WriteStageOf(JsonWriter& json, std::string_view key, int32_t stage,
                  const std::vector<int32_t>& ranks) {
  json.Member(key, Record("stage", stage, "ranks", ranks));
}

void WriteStages(JsonWriter& json, const PlanDifference& diff) {
  if (diff.layers.empty() && diff.by_rank_before == diff.by_rank_after) return;
  json.Key("stages");
  json.BeginObject();
  WriteList(json, "layers", diff.layers, [&](const LayerMove& move) {
    json.BeginObject();
    json.Member("layers", std::array{move.layers.first, move.layers.end});
    WriteStageOf(json, "before", move.stage_before, move.ranks_before);
    WriteStageOf(json, "after", move.stage_after, move.ranks_after);
    json.EndObject();
  });
  json.Member("bytes_by_rank", Record("before", diff.by_rank_before, "after",
                                      diff.by_rank_after));
  json.EndObject();
}

void WriteFields(JsonWriter& json, const PlanDifference& diff) {
  std::vector<const FieldChange*> fields;
  for (const FieldChange& field : diff.fields) {
    if (!field.detailed) fields.push_back(&field);
  }
  if (fields.empty()) return;
  WriteList(json, "fields", fields, [&](const FieldChange* field) {
    json.BeginObject();
    json.Members("field", field->field, "names", field->names);
    WriteText(json, "before", field->before);
    WriteText(json, "after", field->after);
    json.Member("message", field->message);
    json.EndObject();
  });
}

void WriteSteps(JsonWriter& json, const PlanDifference& diff) {
  if (diff.steps.empty()) return;
  WriteList(json, "steps", diff.steps, [&](const StepChange& step) {
    json.Object("mode", step.mode, "subject", step.subject, "count_before",
                step.count_before, "count_after", step.count_after,
                "bytes_before", step.bytes_before, "bytes_after",
                step.bytes_after, "message", step.message);
  });
}

}  // namespace

void WriteDiffJson(const PlanDifference& diff, Sink& out) {
  WriteDocument(out, "shardc.diff/v1", [&](JsonWriter& json) {
    if (diff.other_mesh) {
      json.Member("mesh", Record("before", MeshText(diff.mesh_before), "after",
                                 MeshText(diff.mesh_after)));
    }
    WriteHeld(json, diff);
    WriteStages(json, diff);
    WriteList(json, "params", diff.specs,
              [&](const SpecChange& change) { WriteSpecChange(json, change); });
    WriteNamedList(json, "added", diff.added);
    WriteNamedList(json, "removed", diff.removed);
    WriteList(json, "reshaped", diff.reshaped, [&](const TypeChange& change) {
      json.BeginObject();
      WriteNames(json, change);
      WriteType(json, "before", change.before);
      WriteType(json, "after", change.type);
      json.Members("held_before", change.held_before, "held_after",
                   change.held);
      json.EndObject();
    });
    const auto write_change = [&](const ActivationChange& change) {
      json.BeginObject();
      json.Member("tensor", change.tensor);
      WriteModes(json, change.modes);
      json.Members("before", WrittenBy(WriteSpec, change.before), "after",
                   WrittenBy(WriteSpec, change.after));
      json.EndObject();
    };
    WriteList(json, "attention", diff.attention, write_change);
    if (!diff.activations.empty()) {
      WriteList(json, "activations", diff.activations, write_change);
    }
    WriteList(json, "rules", diff.rules, [&](const RuleChange& change) {
      json.BeginObject();
      WriteNames(json, change);
      json.Members("before", change.before, "after", change.after);
      json.EndObject();
    });
    WriteFields(json, diff);
    WriteSteps(json, diff);
  });
}

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
    ForActivations(diff_, [&](std::string_view owner,
                              const ActivationChange& one) {
      Row(std::string(owner) + one.tensor, 1, CodeCell(SpecText(one.before)),
          CodeCell(SpecText(one.after)) + " in " + DiffModesText(one.modes),
          "");
    });
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

// Prints the difference of two plans as text. A changed entry is marked with
// `~`. An entry that only the second plan has is marked with `+`, and an entry
// that only the first plan has with `-`. For example, this entry is about 32
// parameters that change in the same way:
//
//   ~ layers.*.mlp.up_proj.weight [14336, 4096] BF16, 32 of them
//       spec   ["tp", "fsdp"] -> ["tp", null], in decode
//       holds  3.5 MiB -> 28 MiB per device of each, 112 MiB -> 896 MiB of all
//       moves  all_gather over `fsdp`, 24.5 MiB sent per device, of each

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
  ForActivations(
      diff, [&](std::string_view owner, const ActivationChange& change) {
        out.Append("~ " + std::string(owner) + Printable(change.tensor) + "\n");
        Line("spec",
             SpecText(change.before) + " -> " + SpecText(change.after) +
                 ", in " + DiffModesText(change.modes),
             out);
      });
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
