// What changes stands with `~`, what comes with `+`, what goes with `-`:
//
//   ~ layers.*.mlp.up_proj.weight [14336, 4096] BF16, 32 of them
//       spec   ["tp", "fsdp"] -> [null, "tp"], in decode
//       holds  3.5 MiB -> 28 MiB per device, of each
//       moves  all_gather over `fsdp`, 24.5 MiB sent per device, of each
#include "emit/plans/plan_diff.h"

#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string TypeText(const TensorType& type) {
  std::string out = type.shape ? ShapeText(*type.shape) : "of unknown shape";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  return out;
}

std::string NumberText(const NamedGroup& group) {
  const auto count = static_cast<int64_t>(group.names.size());
  return count == 1 ? "" : ", " + CountText(count) + " of them";
}

std::string ModesText(const std::vector<Mode>& modes) {
  std::string out;
  for (size_t i = 0; i < modes.size(); ++i) {
    if (i > 0) out += i + 1 == modes.size() ? " and " : ", ";
    out += ModeName(modes[i]);
  }
  return out;
}

std::string BytesOr(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "unknown";
}

std::string PlacementText(const std::optional<ReadPlacement>& placement) {
  return placement ? "at " + placement->axis + " " +
                         std::to_string(placement->coordinate)
                   : "on all";
}

// "all_gather over `fsdp`, 24.5 MiB sent per device"; empty: nothing moves or
// it is not known.
std::string MoveText(const SpecChange& change) {
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

std::string EachText(const NamedGroup& group) {
  return group.names.size() == 1 ? "" : ", of each";
}

void Head(std::string_view mark, const NamedGroup& group, Sink& out) {
  out.Append(std::string(mark) + " " + Printable(group.shown) + " " +
             TypeText(group.type) + NumberText(group) + "\n");
}

void Line(std::string_view what, const std::string& text, Sink& out) {
  std::string line = "    " + std::string(what);
  line.resize(11, ' ');
  out.Append(line + text + "\n");
}

std::string RuleText(const std::string& pattern) {
  return pattern.empty() ? "no rule" : Printable(pattern);
}

int64_t Count(const auto& groups) {
  int64_t out = 0;
  for (const auto& group : groups) {
    out += static_cast<int64_t>(group.names.size());
  }
  return out;
}

std::string SummaryText(const PlanDiff& diff) {
  std::string out;
  const auto add = [&](int64_t count, std::string_view what) {
    if (count == 0) return;
    out +=
        (out.empty() ? "" : ", ") + CountText(count) + " " + std::string(what);
  };
  add(Count(diff.specs), "respecified");
  add(Count(diff.reshaped), "of another type");
  add(Count(diff.added), "added");
  add(Count(diff.removed), "removed");
  add(Count(diff.rules), "under another rule");
  add(static_cast<int64_t>(diff.attention.size()), "attention specs");
  if (out.empty()) return diff.other_mesh ? "another mesh" : "no difference";
  return out;
}

void WriteNames(JsonWriter& json, const NamedGroup& group) {
  json.Key("names");
  json.BeginArray();
  for (std::string_view name : group.names) json.String(name);
  json.EndArray();
}

void WriteModes(JsonWriter& json, const std::vector<Mode>& modes) {
  json.Member("mode", ModeName(modes.front()));
  json.Key("modes");
  json.BeginArray();
  for (Mode mode : modes) json.String(ModeName(mode));
  json.EndArray();
}

void WritePlacement(JsonWriter& json, std::string_view key,
                    const std::optional<ReadPlacement>& placement) {
  if (!placement) return;
  json.Key(key);
  json.BeginObject();
  json.Member("axis", placement->axis);
  json.Member("coordinate", placement->coordinate);
  json.EndObject();
}

void WriteSpecChange(JsonWriter& json, const SpecChange& change) {
  json.BeginObject();
  WriteNames(json, change);
  WriteModes(json, change.modes);
  json.Key("before");
  WriteSpec(json, change.before);
  json.Key("after");
  WriteSpec(json, change.after);
  json.Key("collective");
  if (change.move) {
    json.String(CollectiveName(change.move->kind));
    json.Key("axes");
    WriteGroup(json, change.move->axes);
  } else {
    json.Null();
  }
  json.Member("bytes_per_device", change.sent_bytes_per_device);
  json.Member("held_before", change.held_before);
  json.Member("held_after", change.held_after);
  WritePlacement(json, "placement_before", change.placed_before);
  WritePlacement(json, "placement_after", change.placed_after);
  json.EndObject();
}

void WriteType(JsonWriter& json, std::string_view key, const TensorType& type) {
  json.Key(key);
  json.BeginObject();
  json.Key("shape");
  if (type.shape) {
    json.Array(*type.shape);
  } else {
    json.Null();
  }
  json.Key("dtype");
  if (type.dtype) {
    json.String(DtypeName(*type.dtype));
  } else {
    json.Null();
  }
  json.EndObject();
}

template <class Items, class Write>
void WriteList(JsonWriter& json, std::string_view key, const Items& items,
               const Write& write) {
  json.Key(key);
  json.BeginArray(JsonLayout::kLines);
  for (const auto& item : items) write(item);
  json.EndArray();
}

void WriteNamedList(JsonWriter& json, std::string_view key,
                    const std::vector<NamedGroup>& groups) {
  WriteList(json, key, groups, [&](const NamedGroup& group) {
    json.BeginObject();
    WriteNames(json, group);
    WriteType(json, "type", group.type);
    json.EndObject();
  });
}

}  // namespace

void WriteDiffText(const PlanDiff& diff, Sink& out) {
  if (diff.other_mesh) {
    out.Append("mesh " + MeshText(diff.mesh_before) + " -> " +
               MeshText(diff.mesh_after) + "\n");
  }
  for (const SpecChange& change : diff.specs) {
    Head("~", change, out);
    Line("spec",
         SpecText(change.before) + " -> " + SpecText(change.after) + ", in " +
             ModesText(change.modes),
         out);
    if (change.placed_before != change.placed_after) {
      Line("placed",
           PlacementText(change.placed_before) + " -> " +
               PlacementText(change.placed_after),
           out);
    }
    if (change.held_before != change.held_after) {
      Line("holds",
           BytesOr(change.held_before) + " -> " + BytesOr(change.held_after) +
               " per device" + EachText(change),
           out);
    }
    const std::string move = MoveText(change);
    if (!move.empty()) Line("moves", move + EachText(change), out);
  }
  for (const TypeChange& change : diff.reshaped) {
    Head("~", change, out);
    Line("type", TypeText(change.before) + " -> " + TypeText(change.type), out);
  }
  for (const RuleChange& change : diff.rules) {
    Head("~", change, out);
    Line("rule", RuleText(change.before) + " -> " + RuleText(change.after),
         out);
  }
  for (const NamedGroup& group : diff.added) Head("+", group, out);
  for (const NamedGroup& group : diff.removed) Head("-", group, out);
  for (const AttentionChange& change : diff.attention) {
    out.Append("~ attention's " + Printable(change.tensor) + "\n");
    Line("spec",
         SpecText(change.before) + " -> " + SpecText(change.after) + ", in " +
             ModesText(change.modes),
         out);
  }
  out.Append(SummaryText(diff) + "\n");
}

void WriteDiffJson(const PlanDiff& diff, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.diff/v1");
  if (diff.other_mesh) {
    json.Key("mesh");
    json.BeginObject();
    json.Member("before", MeshText(diff.mesh_before));
    json.Member("after", MeshText(diff.mesh_after));
    json.EndObject();
  }
  WriteList(json, "params", diff.specs,
            [&](const SpecChange& change) { WriteSpecChange(json, change); });
  WriteNamedList(json, "added", diff.added);
  WriteNamedList(json, "removed", diff.removed);
  WriteList(json, "reshaped", diff.reshaped, [&](const TypeChange& change) {
    json.BeginObject();
    WriteNames(json, change);
    WriteType(json, "before", change.before);
    WriteType(json, "after", change.type);
    json.EndObject();
  });
  WriteList(json, "attention", diff.attention,
            [&](const AttentionChange& change) {
              json.BeginObject();
              json.Member("tensor", change.tensor);
              WriteModes(json, change.modes);
              json.Key("before");
              WriteSpec(json, change.before);
              json.Key("after");
              WriteSpec(json, change.after);
              json.EndObject();
            });
  WriteList(json, "rules", diff.rules, [&](const RuleChange& change) {
    json.BeginObject();
    WriteNames(json, change);
    json.Member("before", change.before);
    json.Member("after", change.after);
    json.EndObject();
  });
  json.EndObject();
  out.Put('\n');
}

void WriteDiffMarkdown(const PlanDiff& diff, Sink& out) {
  out.Append("**Sharding**: " + SummaryText(diff) + "\n");
  if (diff.other_mesh) {
    out.Append("\nThe mesh was " + CodeSpan(MeshText(diff.mesh_before)) +
               " and is " + CodeSpan(MeshText(diff.mesh_after)) + ".\n");
  }
  const bool rows = !diff.specs.empty() || !diff.reshaped.empty() ||
                    !diff.added.empty() || !diff.removed.empty() ||
                    !diff.rules.empty() || !diff.attention.empty();
  if (!rows) return;
  out.Append(
      "\n| what | of | before | after | moves |\n|---|--:|---|---|---|\n");
  const auto row = [&](const std::string& what, size_t count,
                       const std::string& before, const std::string& after,
                       const std::string& moves) {
    out.Append("| " + CodeCell(what) + " | " + std::to_string(count) + " | " +
               before + " | " + after + " | " + moves + " |\n");
  };
  for (const SpecChange& change : diff.specs) {
    std::string after =
        CodeCell(SpecText(change.after)) + " " + BytesOr(change.held_after);
    row(change.shown, change.names.size(),
        CodeCell(SpecText(change.before)) + " " + BytesOr(change.held_before),
        after + " in " + ModesText(change.modes), MoveText(change));
  }
  for (const TypeChange& change : diff.reshaped) {
    row(change.shown, change.names.size(), CodeCell(TypeText(change.before)),
        CodeCell(TypeText(change.type)), "");
  }
  for (const RuleChange& change : diff.rules) {
    row(change.shown, change.names.size(), CodeCell(RuleText(change.before)),
        CodeCell(RuleText(change.after)), "");
  }
  for (const NamedGroup& group : diff.added) {
    row(group.shown, group.names.size(), "", CodeCell(TypeText(group.type)),
        "");
  }
  for (const NamedGroup& group : diff.removed) {
    row(group.shown, group.names.size(), CodeCell(TypeText(group.type)), "",
        "");
  }
  for (const AttentionChange& change : diff.attention) {
    row("attention's " + change.tensor, 1, CodeCell(SpecText(change.before)),
        CodeCell(SpecText(change.after)) + " in " + ModesText(change.modes),
        "");
  }
}

}  // namespace shardc
