// Writes the difference of two plans as JSON (shardc.diff/v1). The members
// `mesh`, `stages`, `fields` and `steps` are written only if they have changed.
// `bytes_per_device` is written if anything has changed. For example, a
// difference begins with:
//
//   {"schema": "shardc.diff/v1",
//    "bytes_per_device": {"before": 8192, "after": 16384, "by_mode": [..]},
//    "params": [{"names": [..], .., "before": ["tp"], "after": [null], ..}],
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "emit/plans/plan_diff.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

void WriteNames(JsonWriter& json, const NamedGroup& group) {
  json.Key("names");
  json.BeginArray();
  for (const std::string& name : group.names) json.String(name);
  json.EndArray();
}

void WriteModeNames(JsonWriter& json, const std::vector<Mode>& modes) {
  json.Key("modes");
  json.BeginArray();
  for (const Mode mode : modes) json.String(ModeName(mode));
  json.EndArray();
}

void WriteModes(JsonWriter& json, const std::vector<Mode>& modes) {
  json.Member("mode", ModeName(modes.front()));
  WriteModeNames(json, modes);
}

// Writes a member with the text, or with null if the text is nullopt.
void WriteText(JsonWriter& json, std::string_view key,
               const std::optional<std::string>& text) {
  json.Key(key);
  if (text) {
    json.String(*text);
  } else {
    json.Null();
  }
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
  json.Member("group_held_before", change.group_before);
  json.Member("group_held_after", change.group_after);
  if (change.parts_before != change.parts_after) {
    json.Key("parts_before");
    WriteDimParts(json, change.parts_before);
    json.Key("parts_after");
    WriteDimParts(json, change.parts_after);
  }
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
    json.Member("held", group.held);
    json.EndObject();
  });
}

void WriteHeld(JsonWriter& json, const PlanDifference& diff) {
  if (diff.empty() || diff.held.empty()) return;
  json.Key("bytes_per_device");
  json.BeginObject();
  json.Member("before", diff.held.front().before);
  json.Member("after", diff.held.front().after);
  WriteList(json, "by_mode", diff.held, [&](const HeldChange& held) {
    json.BeginObject();
    WriteModeNames(json, held.modes);
    json.Member("before", held.before);
    json.Member("after", held.after);
    json.EndObject();
  });
  json.EndObject();
}

void WriteStageOf(JsonWriter& json, std::string_view key, int32_t stage,
                  const std::vector<int32_t>& ranks) {
  json.Key(key);
  json.BeginObject();
  json.Member("stage", stage);
  json.Key("ranks");
  json.Array(ranks);
  json.EndObject();
}

void WriteStages(JsonWriter& json, const PlanDifference& diff) {
  if (diff.layers.empty() && diff.by_rank_before == diff.by_rank_after) return;
  json.Key("stages");
  json.BeginObject();
  WriteList(json, "layers", diff.layers, [&](const LayerMove& move) {
    json.BeginObject();
    json.Key("layers");
    json.Array(std::array{move.layers.first, move.layers.end});
    WriteStageOf(json, "before", move.stage_before, move.ranks_before);
    WriteStageOf(json, "after", move.stage_after, move.ranks_after);
    json.EndObject();
  });
  json.Key("bytes_by_rank");
  json.BeginObject();
  json.Key("before");
  json.Array(diff.by_rank_before);
  json.Key("after");
  json.Array(diff.by_rank_after);
  json.EndObject();
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
    json.Member("field", field->field);
    json.Key("names");
    json.BeginArray();
    for (const std::string& name : field->names) json.String(name);
    json.EndArray();
    WriteText(json, "before", field->before);
    WriteText(json, "after", field->after);
    json.Member("message", field->message);
    json.EndObject();
  });
}

void WriteSteps(JsonWriter& json, const PlanDifference& diff) {
  if (diff.steps.empty()) return;
  WriteList(json, "steps", diff.steps, [&](const StepChange& step) {
    json.BeginObject();
    json.Member("mode", step.mode);
    json.Member("subject", step.subject);
    json.Member("count_before", step.count_before);
    json.Member("count_after", step.count_after);
    json.Member("bytes_before", step.bytes_before);
    json.Member("bytes_after", step.bytes_after);
    json.Member("message", step.message);
    json.EndObject();
  });
}

}  // namespace

void WriteDiffJson(const PlanDifference& diff, Sink& out) {
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
    json.Member("held_before", change.held_before);
    json.Member("held_after", change.held);
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
  WriteFields(json, diff);
  WriteSteps(json, diff);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
