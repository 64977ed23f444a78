// Writes a rule as JSON, either as written or in its shortest form:
//
//   [[FSDP], TP]  ->  [["FSDP"], "TP"] as written, ["FSDP", "TP"] in short form
#include "emit/plans/rule_json.h"

namespace shardc {
namespace {

void WriteSource(JsonWriter& json, const SpecSource& source, SpecForm form) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    WriteSpecList(json, *list, form);
  } else if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    json.String(bundle->name);
  } else {
    json.BeginObject();
    json.Member("like", std::get<SpecLike>(source).rewrite);
    json.EndObject();
  }
}

}  // namespace

void WriteSpecList(JsonWriter& json, const SpecList& list, SpecForm form) {
  json.BeginArray();
  for (const SpecEntry& entry : list.entries) {
    if (entry.names.empty()) {
      json.Null();
      continue;
    }
    const bool group = entry.names.size() > 1 ||
                       (entry.is_group && form == SpecForm::kAsWritten);
    if (group) json.BeginArray();
    for (const SpecName& name : entry.names) {
      if (!NeedsAxisKey(name)) {
        json.String(name.text);
        continue;
      }
      json.BeginObject();
      json.Member("axis", name.text);
      json.EndObject();
    }
    if (group) json.EndArray();
  }
  json.EndArray();
}

void WriteRuleMembers(JsonWriter& json, const Rule& rule, SpecForm form) {
  json.Member("match", rule.match);
  json.Key("spec");
  WriteSource(json, rule.spec, form);
  if (!rule.modes.empty()) {
    json.Key("modes");
    json.BeginObject();
    for (const auto& [mode, source] : rule.modes) {
      json.Key(ModeName(mode));
      WriteSource(json, source, form);
    }
    json.EndObject();
  }
  if (!rule.parts.empty()) {
    json.Key("parts");
    WriteDimParts(json, rule.parts);
  }
  if (rule.illegal) {
    json.Member("illegal", IllegalPolicyName(*rule.illegal));
  }
  if (rule.min_size) json.Member("min_size", *rule.min_size);
  if (rule.placement) {
    json.Key("place");
    json.BeginObject();
    json.Member("axis", rule.placement->axis);
    json.Member("index", rule.placement->index_pattern);
    if (rule.placement->count > 0) {
      json.Member("count", rule.placement->count);
    }
    json.EndObject();
  }
  if (!rule.note.empty()) json.Member("note", rule.note);
}

}  // namespace shardc
