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

#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/utf8.h"
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
    json.Object("axis", name.text);
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
  json.Member("axes",
              WrittenBy(WriteSpecList, bundle.axes, SpecForm::kShortest));
  if (mode != nullptr) {
    json.Member("mode", ModeName(*mode));
  } else {
    json.Member("mode", std::get<int>(bundle.mode));
  }
  json.EndObject();
}

void WriteRegistration(JsonWriter& json, const Registration& registration) {
  json.BeginObject();
  json.Member("rule", WrittenBy(WriteRegistered, registration.rule));
  if (registration.generation) {
    json.Member("generation",
                WrittenBy(WriteRegistered, *registration.generation));
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
  json.Member("min_size", Given(policy.min_size));
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

// Writes the members "spec" and "modes".
void WriteSpecs(JsonWriter& json, const SpecSource& spec,
                const std::map<Mode, SpecSource>& modes, SpecForm form);

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
    json.Member(AxisRuleName(rule), WrittenBy(WriteAxisValue, *value));
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
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsWordByte)) {
    return false;
  }
  const bool digit = IsDigit(text[0]);
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
  std::string out = Join(value.axes, ", ", YamlName);
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
    std::string names = Join(entry.names, ", ", [&](const SpecName& name) {
      return WrittenName(name, YamlName(name.text));
    });
    AppendItem(out, ", ",
               (entry.names.empty()       ? "null"
                : entry.names.size() == 1 ? names
                                          : "[" + names + "]"));
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
    AppendItem(out, ", ", std::string(key) + ": " + value);
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
    json.Member(registration.name, WrittenBy(WriteRegistration, registration));
  }
  json.EndObject();
  json.Key("bundles");
  json.BeginObject(JsonLayout::kLines);
  for (const Bundle& bundle : rules.bundles) {
    json.Member(bundle.name, WrittenBy(WriteBundle, bundle));
  }
  json.EndObject();
  if (!rules.activations.empty()) {
    json.Key("activations");
    json.BeginObject(JsonLayout::kLines);
    for (const ActivationRule& rule : rules.activations) {
      json.Key(rule.name);
      json.BeginObject();
      WriteSpecs(json, rule.spec, rule.modes, SpecForm::kShortest);
      json.EndObject();
    }
    json.EndObject();
  }
  json.Rows("rules", rules.rules, [&](const Rule& rule) {
    WriteRuleMembers(json, rule, SpecForm::kShortest);
  });
  json.Members("kv_replicate", Given(rules.policy.kv_replicate), "policy",
               WrittenBy(WritePolicy, rules.policy));
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
      AppendItem(modes, ", ",
                 std::string(ModeName(mode)) + ": " + SourceYaml(source));
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
      json.Member(one.name, WrittenBy(WriteRegistration, one));
    }
    json.EndObject();
  }
  if (!imported.rules.empty()) {
    json.Key("rules");
    json.BeginArray(JsonLayout::kLines);
    for (const ImportedRule& one : imported.rules) {
      Rule rule = one.rule;
      for (const std::string& line : one.comments) {
        AppendItem(rule.note, "\n", line);
      }
      json.BeginObject();
      WriteRuleMembers(json, rule, SpecForm::kShortest);
      json.EndObject();
    }
    json.EndArray();
  }
  if (imported.policy.unmatched) {
    json.Member("policy", WrittenBy(WritePolicy, imported.policy));
  }
  if (not_known != nullptr) WriteNotKnown(json, *not_known);
  json.EndObject();
  out.Put('\n');
}

std::string MeshFileYaml(const Mesh& mesh) {
  std::string axes, types;
  bool all_auto = true;
  for (const MeshAxis& axis : mesh.axes) {
    AppendItem(axes, ", ",
               YamlName(axis.name) + ": " + std::to_string(axis.size));
    AppendItem(
        types, ", ",
        YamlName(axis.name) + ": " + std::string(AxisTypeName(axis.type)));
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
    AppendItem(
        dcn, ", ",
        YamlName(mesh.axes[i].name) + ": " + std::to_string(mesh.dcn[i]));
  }
  return out + "slices: " + std::to_string(mesh.slices) + "\ndcn: {" + dcn +
         "}\n";
}

// Writes a rule as JSON, either as written or in its shortest form:
//
//   [[FSDP], TP]  ->  [["FSDP"], "TP"] as written, ["FSDP", "TP"] in short form

namespace {

void WriteSource(JsonWriter& json, const SpecSource& source, SpecForm form) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    WriteSpecList(json, *list, form);
  } else if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    json.String(bundle->name);
  } else {
    json.Object("like", std::get<SpecLike>(source).rewrite);
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
      json.Object("axis", name.text);
    }
    if (group) json.EndArray();
  }
  json.EndArray();
}

namespace {

void WriteSpecs(JsonWriter& json, const SpecSource& spec,
                const std::map<Mode, SpecSource>& modes, SpecForm form) {
  json.Member("spec", WrittenBy(WriteSource, spec, form));
  if (modes.empty()) return;
  json.Key("modes");
  json.BeginObject();
  for (const auto& [mode, source] : modes) {
    json.Member(ModeName(mode), WrittenBy(WriteSource, source, form));
  }
  json.EndObject();
}

}  // namespace

void WriteRuleMembers(JsonWriter& json, const Rule& rule, SpecForm form) {
  json.Member("match", rule.match);
  WriteSpecs(json, rule.spec, rule.modes, form);
  if (!rule.parts.empty()) {
    json.Member("parts", WrittenBy(WriteDimParts, rule.parts));
  }
  if (rule.illegal) {
    json.Member("illegal", IllegalPolicyName(*rule.illegal));
  }
  json.Member("min_size", Given(rule.min_size));
  if (rule.placement) {
    json.Member("place", Record("axis", rule.placement->axis, "index",
                                rule.placement->index_pattern, "count",
                                Given(rule.placement->count)));
  }
  json.Member("note", Given(rule.note));
}

// Prints rules, one per line: number, pattern, spec and place. Patterns of up
// to 48 characters are aligned in a column. A longer pattern shifts the rest of
// its line to the right. Other settings of a rule are printed on a second line.
// For example:
//
//   0  wte  [[FSDP], TP]  (rules.yaml:3)

namespace {

std::string ListText(const SpecList& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.entries.size(); ++i) {
    if (i > 0) out += ", ";
    const SpecEntry& entry = list.entries[i];
    if (entry.names.empty()) {
      out += "null";
      continue;
    }
    if (entry.is_group) out += '[';
    for (size_t k = 0; k < entry.names.size(); ++k) {
      if (k > 0) out += ", ";
      out += WrittenName(entry.names[k], entry.names[k].text);
    }
    if (entry.is_group) out += ']';
  }
  return out + "]";
}

// Returns the settings of a rule other than pattern and spec.
std::string Extras(const Rule& rule) {
  std::string out;
  const auto add = [&](const std::string& text) {
    AppendItem(out, "; ", text);
  };
  for (const auto& [mode, source] : rule.modes) {
    add(std::string(ModeName(mode)) + ": " + SpecSourceText(source));
  }
  if (!rule.parts.empty()) add("parts: " + DimPartsText(rule.parts));
  if (rule.illegal) {
    add("illegal: " + std::string(IllegalPolicyName(*rule.illegal)));
  }
  if (rule.min_size) add("min_size: " + std::to_string(*rule.min_size));
  if (rule.placement) {
    add("placed along " + rule.placement->axis + " by `" +
        rule.placement->index_pattern + "`, " +
        (rule.placement->count == 0
             ? "as many as exist"
             : std::to_string(rule.placement->count) + " in all"));
  }
  if (!rule.note.empty()) add(rule.note);
  return out;
}

}  // namespace

std::string SpecSourceText(const SpecSource& source) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    return ListText(*list);
  }
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return bundle->name;
  }
  return "like: " + std::get<SpecLike>(source).rewrite;
}

std::string RulePlaceText(const Rule& rule) {
  std::string out = rule.source_name;
  if (rule.place.HasPosition()) {
    out += ":" + std::to_string(rule.place.source->At(rule.place.begin).line);
  }
  return out;
}

std::vector<std::string> InferredSeparators(const RuleSet& rules) {
  std::vector<std::string> out;
  const Source* last = nullptr;
  for (const Rule& rule : rules.rules) {
    const bool patterns = rule.separator_from == SeparatorFrom::kPatterns;
    if (!patterns && rule.separator_from != SeparatorFrom::kNames) continue;
    if (rule.place.source.get() == last) continue;
    last = rule.place.source.get();
    out.push_back("`" + std::string(1, rule.separator) + "` for " +
                  rule.source_name +
                  (patterns ? ", inferred from its patterns"
                            : ", inferred from the names"));
  }
  return out;
}

std::string RulesText(const RuleSet& rules) {
  size_t widest = 0;
  for (const Rule& rule : rules.rules) {
    widest = std::max(widest, rule.match.size());
  }
  widest = std::min<size_t>(widest, 48);
  std::string out;
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    const Rule& rule = rules.rules[i];
    std::string index = std::to_string(i);
    if (index.size() < 3) index.insert(0, 3 - index.size(), ' ');
    out += index + "  " + Printable(rule.match);
    if (rule.match.size() < widest) {
      out.append(widest - rule.match.size(), ' ');
    }
    out += "  " + Printable(SpecSourceText(rule.spec)) + "  (" +
           Printable(RulePlaceText(rule)) + ")\n";
    const std::string extras = Extras(rule);
    if (!extras.empty()) out += "     " + Printable(extras) + "\n";
  }
  return out;
}

void WriteRulesJson(const RuleSet& rules, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Rows("rules", rules.rules, [&](const Rule& rule) {
    WriteRuleMembers(json, rule, SpecForm::kAsWritten);
    json.Members("separator", std::string_view(&rule.separator, 1), "source",
                 RulePlaceText(rule));
  });
  const Policy& policy = rules.policy;
  json.Members(
      "kv_replicate", Given(policy.kv_replicate), "policy",
      Record("unmatched",
             UnmatchedPolicyName(
                 policy.unmatched.value_or(UnmatchedPolicy::kError)),
             "illegal",
             IllegalPolicyName(policy.illegal.value_or(IllegalPolicy::kError)),
             "min_size", policy.min_size.value_or(0), "compat",
             CompatName(policy.compat.value_or(Compat::kNone))));
  json.EndObject();
  out.Put('\n');
}

// Prints rules with facts that were proven about them. Each rule has a line
// with its number, pattern and place. The facts follow on the next lines. For
// example, rule 1 never wins, because rule 0 comes first and matches every name
// that rule 1 matches. The line shows one such name:
//
//   1  mlp/.*/kernel$  (rules.yaml:5)
//      never wins: [0] matches all its names, such as `mlp//kernel`

namespace {

std::string_view KindName(RuleProof::Kind kind) {
  switch (kind) {
    case RuleProof::Kind::kWins:
      return "wins";
    case RuleProof::Kind::kNeverWins:
      return "never_wins";
    case RuleProof::Kind::kMatchesNothing:
      return "matches_nothing";
    case RuleProof::Kind::kNotProven:
      break;
  }
  return "not_proven";
}

std::string CoversText(std::span<const Cover> covers) {
  return Join(covers, ", ", [&](const Cover& cover) {
    return ("[" + std::to_string(cover.rule)) +
           (covers.size() == 1 ? "] matches all its names, such as "
                               : "] matches names such as ") +
           ShortQuote(cover.name);
  });
}

std::string ProofText(const RuleProof& proof) {
  switch (proof.kind) {
    case RuleProof::Kind::kWins:
      return "wins names such as " + ShortQuote(proof.name);
    case RuleProof::Kind::kNeverWins:
      return "never wins: " + CoversText(proof.covers);
    case RuleProof::Kind::kMatchesNothing:
      return "matches no possible name";
    case RuleProof::Kind::kNotProven:
      break;
  }
  return "not proven: the pattern is too large";
}

// Returns ascending numbers as text. Three or more consecutive numbers are
// written as a range:
//
//   0, 1, 2, 5  ->  [0] to [2], [5]
std::string RangesText(std::span<const uint32_t> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i == 2) end = i + 1;
    out += (out.empty() ? "[" : ", [") + std::to_string(numbers[i]) + "]";
    if (end - i > 1) out += " to [" + std::to_string(numbers[end - 1]) + "]";
    i = end;
  }
  return out;
}

// Returns how the names that a rule matches are related to the names that
// earlier rules match. An earlier rule that matches all names of this rule is
// left out, because the line "never wins" already names the earlier rule. For
// example:
//
//   covers all names of [0], [2]
//   shares names with [1], such as `q_proj.bias`
std::string RelatedText(uint32_t rule, const RelatedRules& related) {
  std::vector<uint32_t> within;
  std::string shared;
  for (const auto& pair : related.pairs) {
    if (pair.second != rule) continue;
    if (pair.proof.kind == PairProof::Kind::kWithin) {
      within.push_back(pair.first);
    } else if (pair.proof.kind == PairProof::Kind::kOverlap) {
      shared += (shared.empty() ? "[" : "; [") + std::to_string(pair.first) +
                "], such as " + ShortQuote(pair.proof.both);
    }
  }
  std::string out;
  if (!within.empty()) {
    out += "     covers all names of " + RangesText(within) + "\n";
  }
  if (!shared.empty()) out += "     shares names with " + shared + "\n";
  return out;
}

std::string_view RelationName(PairProof::Kind kind) {
  switch (kind) {
    case PairProof::Kind::kApart:
      return "apart";
    case PairProof::Kind::kSame:
      return "same";
    case PairProof::Kind::kContains:
      return "contains";
    case PairProof::Kind::kWithin:
      return "within";
    case PairProof::Kind::kOverlap:
      return "overlap";
    case PairProof::Kind::kNotProven:
      break;
  }
  return "not_proven";
}

void WriteProof(JsonWriter& json, const Rule& rule, const RuleProof& proof) {
  json.BeginObject();
  json.Members("match", rule.match, "source", RulePlaceText(rule), "proof",
               KindName(proof.kind), "name", Given(proof.name));
  if (!proof.covers.empty()) {
    json.Records("covers", proof.covers, [&](const Cover& cover) {
      json.Members("rule", cover.rule, "name", cover.name);
    });
  }
  json.EndObject();
}

void WritePair(JsonWriter& json, const RelatedRules::Pair& pair) {
  json.Object("first", pair.first, "second", pair.second, "relation",
              RelationName(pair.proof.kind), "both", pair.proof.both,
              "only_first", Given(pair.proof.only_first), "only_second",
              Given(pair.proof.only_second));
}

}  // namespace

std::string RuleProofsText(const RuleSet& rules, const RuleProofs& proofs) {
  std::string out =
      "proven for all possible names, not only for one manifest's\n";
  for (size_t i = 0; i < proofs.of_rules.size(); ++i) {
    std::string number = std::to_string(i);
    if (number.size() < 3) number.insert(0, 3 - number.size(), ' ');
    out += number + "  " + Printable(rules.rules[i].match) + "  (" +
           Printable(RulePlaceText(rules.rules[i])) + ")\n     " +
           ProofText(proofs.of_rules[i]) + "\n" +
           RelatedText(static_cast<uint32_t>(i), proofs.related);
  }
  const int64_t open = proofs.related.pairs_not_proven;
  if (open > 0) {
    out += Counted(open, "pair") +
           " of rules not compared: too many pairs, or too large patterns\n";
  }
  return out;
}

void WriteRuleProofsJson(const RuleSet& rules, const RuleProofs& proofs,
                         Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < proofs.of_rules.size(); ++i) {
    WriteProof(json, rules.rules[i], proofs.of_rules[i]);
  }
  json.EndArray();
  json.Lines("pairs", proofs.related.pairs,
             [&](const auto& pair) { WritePair(json, pair); });
  json.Members("pairs_apart", proofs.related.pairs_apart, "pairs_not_proven",
               proofs.related.pairs_not_proven);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
