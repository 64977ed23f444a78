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
    AxisGroup names;
    for (const SpecName& name : entry.names) names.push_back(name.text);
    if (entry.is_group && names.size() == 1 && form == SpecForm::kAsWritten) {
      json.Array(names);
    } else {
      WriteGroup(json, names);
    }
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
