// Writes rules as a file. Several rules files become one JSON file with the
// same meaning. This file states the value of every axis rule, so that it does
// not depend on defaults, and has every spec in its shortest form. Imported and
// suggested rules are written as JSON or YAML, and meshes as YAML.
//
// In YAML a name is quoted if YAML 1.1 or YAML 1.2 would not read it as a
// string. For example, `on` is a boolean in YAML 1.1, so it is quoted:
//
//   {batch: [fsdp], head: "on"}  ->  batch: fsdp, head: "on"
#include "emit/plans/rules_file.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "emit/not_known.h"
#include "emit/plans/rule_json.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Writes `null`, `"tp"` or `["fsdp", "dp"]`. An empty list stays an empty list.
void WriteAxisValue(JsonWriter& json, const AxisValue& value) {
  if (!value.is_null && value.axes.empty()) {
    json.Array(value.axes);
  } else {
    WriteGroup(json, value.is_null ? AxisGroup() : value.axes);
  }
}

void WriteRegistered(JsonWriter& json, const RegisteredRule& rule) {
  if (rule.is_null) {
    json.Null();
    return;
  }
  // A list of one name is written as a list, because a name without brackets
  // also sets the rule for decoding: `kv_head` implies `decode_kv_head`.
  const bool list = rule.is_list || rule.names.size() != 1;
  if (list) json.BeginArray();
  for (const auto& name : rule.names) {
    if (!name.forced_axis) {
      json.String(name.text);
      continue;
    }
    json.BeginObject();
    json.Member("axis", name.text);
    json.EndObject();
  }
  if (list) json.EndArray();
}

void WriteBundle(JsonWriter& json, const Bundle& bundle) {
  const auto* mode = std::get_if<Mode>(&bundle.mode);
  if (mode != nullptr && *mode == Mode::kTrain) {
    WriteSpecList(json, bundle.axes, SpecForm::kShortest);
    return;
  }
  json.BeginObject();
  json.Key("axes");
  WriteSpecList(json, bundle.axes, SpecForm::kShortest);
  if (mode != nullptr) {
    json.Member("mode", ModeName(*mode));
  } else {
    json.Member("mode", std::get<int>(bundle.mode));
  }
  json.EndObject();
}

void WriteRegistration(JsonWriter& json, const Registration& registration) {
  json.BeginObject();
  json.Key("rule");
  WriteRegistered(json, registration.rule);
  if (registration.generation) {
    json.Key("generation");
    WriteRegistered(json, *registration.generation);
  }
  if (registration.override_existing) json.Member("override", true);
  json.EndObject();
}

void WritePolicy(JsonWriter& json, const Policy& policy) {
  json.BeginObject();
  if (policy.unmatched) {
    json.Member("unmatched", UnmatchedPolicyName(*policy.unmatched));
  }
  if (policy.illegal) {
    json.Member("illegal", IllegalPolicyName(*policy.illegal));
  }
  if (policy.min_size) json.Member("min_size", *policy.min_size);
  if (policy.compat) json.Member("compat", CompatName(*policy.compat));
  json.EndObject();
}

// Returns the value of an axis rule. Returns nullopt if the value names an axis
// twice, because a file cannot contain such a value. For example, the default
// of `batch` is the axes of the rules fsdp and dp, which may name the same
// axis. The rule is then not written, and a reader of the file computes the
// default again.
std::optional<AxisValue> WritableValue(const RuleSet& rules, AxisRule rule) {
  AxisValue value = rules.axes.Value(rule);
  AxisGroup sorted = value.axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return std::nullopt;
  }
  return value;
}

// Writes the member "axes". `value_of` returns the value of an axis rule, or
// nullopt if the rule is omitted.
template <class Value>
void WriteAxes(JsonWriter& json, const Value& value_of) {
  json.Key("axes");
  json.BeginObject(JsonLayout::kLines);
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const std::optional<AxisValue> value = value_of(rule);
    if (!value) continue;
    json.Key(AxisRuleName(rule));
    WriteAxisValue(json, *value);
  }
  json.EndObject();
}

// The words, in lower case, that readers of YAML 1.1 or 1.2 read as null or a
// boolean. YAML 1.1 also has `y` and `n`. They are not listed, because readers
// such as PyYAML read them as strings and meshes have axes of these names.
constexpr std::string_view kYamlWords[] = {"null", "true", "false", "yes",
                                           "no",   "on",   "off"};

// Returns whether readers of YAML read the text as a string if it has no
// quotes. To be safe, returns false for a text that begins with a digit or has
// characters other than letters, digits and underscores.
bool IsPlainYaml(std::string_view text) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), fine)) {
    return false;
  }
  const bool digit = text[0] >= '0' && text[0] <= '9';
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return !digit && std::find(std::begin(kYamlWords), std::end(kYamlWords),
                             lower) == std::end(kYamlWords);
}

std::string YamlName(const std::string& text) {
  return IsPlainYaml(text) ? text : JsonString(text);
}

std::string AxisValueYaml(const AxisValue& value) {
  if (value.is_null) return "null";
  if (value.axes.size() == 1) return YamlName(value.axes[0]);
  std::string out;
  for (const std::string& axis : value.axes) {
    out += (out.empty() ? "" : ", ") + YamlName(axis);
  }
  return "[" + out + "]";
}

// Returns the member "axes". If there are no axis rules, returns `axes: {}` if
// `always` is true, and an empty text if it is false.
std::string AxesYaml(const AxisRules& axes, bool always) {
  std::string out;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const auto& value = axes.Given(rule);
    if (!value) continue;
    out += "  " + std::string(AxisRuleName(rule)) + ": " +
           AxisValueYaml(*value) + "\n";
  }
  if (out.empty()) return always ? "axes: {}\n" : "";
  return "axes:\n" + out;
}

// Returns a comment line. Characters that would end the line are escaped.
std::string CommentYaml(const std::string& line, const std::string& indent) {
  return indent + "# " + Printable(line) + "\n";
}

// Returns the text as a quoted YAML scalar. Single quotes are used if no
// character needs an escape.
std::string QuotedYaml(const std::string& text) {
  if (Printable(text) != text) return JsonString(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c;
  }
  return out + "'";
}

std::string SourceYaml(const SpecSource& source) {
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return YamlName(bundle->name);
  }
  if (const auto* like = std::get_if<SpecLike>(&source)) {
    return "{like: " + QuotedYaml(like->rewrite) + "}";
  }
  std::string out;
  for (const SpecEntry& entry : std::get<SpecList>(source).entries) {
    std::string names;
    for (const SpecName& name : entry.names) {
      names +=
          (names.empty() ? "" : ", ") + WrittenName(name, YamlName(name.text));
    }
    out += (out.empty() ? "" : ", ") + (entry.names.empty() ? "null"
                                        : entry.names.size() == 1
                                            ? names
                                            : "[" + names + "]");
  }
  return "[" + out + "]";
}

// Returns the separator (`/` or `.`) of the first rule whose file or pattern
// determines one. Other rules have no separator in their pattern, and use that
// of the parameters' names. Returns nullopt if all rules are of this kind.
std::optional<char> OneSeparator(const RuleSet& rules) {
  for (const Rule& rule : rules.rules) {
    if (rule.separator_from != SeparatorFrom::kNames) return rule.separator;
  }
  return std::nullopt;
}

std::string PolicyYaml(const Policy& policy) {
  std::string out;
  for (const auto& [key, value] : PolicyMembers(policy)) {
    out += (out.empty() ? "" : ", ") + std::string(key) + ": " + value;
  }
  if (!out.empty()) out = "policy: {" + out + "}\n";
  if (policy.kv_replicate) {
    out += "kv_replicate: " +
           std::string(*policy.kv_replicate ? "true" : "false") + "\n";
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string_view, std::string>> PolicyMembers(
    const Policy& policy) {
  std::vector<std::pair<std::string_view, std::string>> out;
  if (policy.unmatched) {
    out.emplace_back("unmatched", UnmatchedPolicyName(*policy.unmatched));
  }
  if (policy.illegal) {
    out.emplace_back("illegal", IllegalPolicyName(*policy.illegal));
  }
  if (policy.min_size) {
    out.emplace_back("min_size", std::to_string(*policy.min_size));
  }
  if (policy.compat) out.emplace_back("compat", CompatName(*policy.compat));
  return out;
}

bool HasMixedSeparators(const RuleSet& rules) {
  const auto separator = OneSeparator(rules);
  return std::any_of(rules.rules.begin(), rules.rules.end(),
                     [&](const Rule& rule) {
                       return rule.separator_from != SeparatorFrom::kNames &&
                              rule.separator != separator;
                     });
}

void WriteRulesFileJson(const RuleSet& rules, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("version", 1);
  if (const auto separator = OneSeparator(rules)) {
    json.Member("separator", std::string_view(&*separator, 1));
  }
  WriteAxes(json, [&](AxisRule rule) { return WritableValue(rules, rule); });
  json.Key("register");
  json.BeginObject(JsonLayout::kLines);
  for (const Registration& registration : rules.registrations) {
    json.Key(registration.name);
    WriteRegistration(json, registration);
  }
  json.EndObject();
  json.Key("bundles");
  json.BeginObject(JsonLayout::kLines);
  for (const Bundle& bundle : rules.bundles) {
    json.Key(bundle.name);
    WriteBundle(json, bundle);
  }
  json.EndObject();
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (const Rule& rule : rules.rules) {
    json.BeginObject();
    WriteRuleMembers(json, rule, SpecForm::kShortest);
    json.EndObject();
  }
  json.EndArray();
  if (rules.policy.kv_replicate) {
    json.Member("kv_replicate", *rules.policy.kv_replicate);
  }
  json.Key("policy");
  WritePolicy(json, rules.policy);
  if (rules.weight_decay_exclude) {
    json.Key("weight_decay");
    json.BeginObject();
    json.Key("exclude");
    json.Array(*rules.weight_decay_exclude, &NamePattern::match);
    json.EndObject();
  }
  json.EndObject();
  out.Put('\n');
}

std::string ImportedFileYaml(const Imported& imported) {
  std::string out;
  for (const std::string& line : imported.comments)
    out += CommentYaml(line, "");
  out += "version: 1\n";
  if (imported.separator != 0) {
    out += "separator: \"" + std::string(1, imported.separator) + "\"\n";
  }
  out += AxesYaml(imported.axes,
                  imported.rules.empty() && imported.registrations.empty());
  if (!imported.registrations.empty()) out += "register:\n";
  for (const Registration& one : imported.registrations) {
    out += "  " + YamlName(one.name) + ": " +
           JsonText([&](JsonWriter& json) { WriteRegistration(json, one); }) +
           "\n";
  }
  if (!imported.rules.empty()) out += "rules:\n";
  for (const ImportedRule& one : imported.rules) {
    for (const std::string& line : one.comments) out += CommentYaml(line, "  ");
    out += "  - match: " + QuotedYaml(one.rule.match) +
           "\n    spec: " + SourceYaml(one.rule.spec) + "\n";
    if (!one.rule.parts.empty()) {
      out += "    parts: " + DimPartsText(one.rule.parts) + "\n";
    }
    if (const auto& place = one.rule.placement) {
      out += "    place: {axis: " + YamlName(place->axis) +
             ", index: " + QuotedYaml(place->index_pattern) +
             ", count: " + std::to_string(place->count) + "}\n";
    }
    if (one.rule.modes.empty()) continue;
    std::string modes;
    for (const auto& [mode, source] : one.rule.modes) {
      modes += (modes.empty() ? "" : ", ") + std::string(ModeName(mode)) +
               ": " + SourceYaml(source);
    }
    out += "    modes: {" + modes + "}\n";
  }
  return out + PolicyYaml(imported.policy);
}

void WriteImportedFileJson(const Imported& imported, Sink& out,
                           const std::vector<NotKnown>* not_known) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("version", 1);
  if (imported.separator != 0) {
    json.Member("separator", std::string_view(&imported.separator, 1));
  }
  WriteAxes(json, [&](AxisRule rule) { return imported.axes.Given(rule); });
  if (!imported.registrations.empty()) {
    json.Key("register");
    json.BeginObject(JsonLayout::kLines);
    for (const Registration& one : imported.registrations) {
      json.Key(one.name);
      WriteRegistration(json, one);
    }
    json.EndObject();
  }
  if (!imported.rules.empty()) {
    json.Key("rules");
    json.BeginArray(JsonLayout::kLines);
    for (const ImportedRule& one : imported.rules) {
      Rule rule = one.rule;
      for (const std::string& line : one.comments) {
        rule.note += (rule.note.empty() ? "" : "\n") + line;
      }
      json.BeginObject();
      WriteRuleMembers(json, rule, SpecForm::kShortest);
      json.EndObject();
    }
    json.EndArray();
  }
  if (imported.policy.unmatched) {
    json.Key("policy");
    WritePolicy(json, imported.policy);
  }
  if (not_known != nullptr) WriteNotKnown(json, *not_known);
  json.EndObject();
  out.Put('\n');
}

std::string MeshFileYaml(const Mesh& mesh) {
  std::string axes, types;
  bool all_auto = true;
  for (const MeshAxis& axis : mesh.axes) {
    axes += (axes.empty() ? "" : ", ") + YamlName(axis.name) + ": " +
            std::to_string(axis.size);
    types += (types.empty() ? "" : ", ") + YamlName(axis.name) + ": " +
             std::string(AxisTypeName(axis.type));
    all_auto = all_auto && axis.type == AxisType::kAuto;
  }
  std::string out =
      "axes: {" + axes + "}\ndevices: " + std::to_string(mesh.devices) + "\n";
  if (!all_auto) out += "axis_types: {" + types + "}\n";
  if (mesh.processes > 1) {
    out += "processes: " + std::to_string(mesh.processes) + "\n";
  }
  if (mesh.slices == 1) return out;
  std::string dcn;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    dcn += (dcn.empty() ? "" : ", ") + YamlName(mesh.axes[i].name) + ": " +
           std::to_string(mesh.dcn[i]);
  }
  return out + "slices: " + std::to_string(mesh.slices) + "\ndcn: {" + dcn +
         "}\n";
}

}  // namespace shardc
