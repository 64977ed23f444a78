// Prints rules, one per line: number, pattern, spec and place. Patterns of up
// to 48 characters are aligned in a column. A longer pattern shifts the rest of
// its line to the right. Other settings of a rule are printed on a second line.
// For example:
//
//   0  wte  [[FSDP], TP]  (rules.yaml:3)
#include "emit/plans/rules_text.h"

#include <algorithm>

#include "emit/plans/rule_json.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
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
    out += (out.empty() ? "" : "; ") + text;
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
  json.Key("rules");
  json.BeginArray(JsonLayout::kLines);
  for (const Rule& rule : rules.rules) {
    json.BeginObject();
    WriteRuleMembers(json, rule, SpecForm::kAsWritten);
    json.Member("separator", std::string_view(&rule.separator, 1));
    json.Member("source", RulePlaceText(rule));
    json.EndObject();
  }
  json.EndArray();
  const Policy& policy = rules.policy;
  if (policy.kv_replicate) json.Member("kv_replicate", *policy.kv_replicate);
  json.Key("policy");
  json.BeginObject();
  json.Member(
      "unmatched",
      UnmatchedPolicyName(policy.unmatched.value_or(UnmatchedPolicy::kError)));
  json.Member("illegal", IllegalPolicyName(
                             policy.illegal.value_or(IllegalPolicy::kError)));
  json.Member("min_size", policy.min_size.value_or(0));
  json.Member("compat", CompatName(policy.compat.value_or(Compat::kNone)));
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
