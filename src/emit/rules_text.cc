#include "emit/rules_text.h"

#include <algorithm>

#include "emit/json_text.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string ListText(const SpecList& list, bool json) {
  const auto name = [json](const std::string& text) {
    return json ? JsonString(text) : text;
  };
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
      out += name(entry.names[k].text);
    }
    if (entry.is_group) out += ']';
  }
  return out + "]";
}

std::string SourceJson(const SpecSource& source) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    return ListText(*list, true);
  }
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return JsonString(bundle->name);
  }
  return "{\"like\": " + JsonString(std::get<SpecLike>(source).rewrite) + "}";
}

std::string Where(const Rule& rule) {
  std::string out = rule.source_name;
  if (rule.place.HasPosition()) {
    out += ":" + std::to_string(rule.place.source->At(rule.place.begin).line);
  }
  return out;
}

// Settings of a rule beyond pattern and spec.
std::string Extras(const Rule& rule) {
  std::string out;
  const auto add = [&](const std::string& text) {
    out += (out.empty() ? "" : "; ") + text;
  };
  for (const auto& [mode, source] : rule.modes) {
    add(std::string(ModeName(mode)) + ": " + SpecSourceText(source));
  }
  if (rule.illegal) {
    add("illegal: " + std::string(IllegalPolicyName(*rule.illegal)));
  }
  if (rule.min_size) add("min_size: " + std::to_string(*rule.min_size));
  if (rule.placement) {
    add("placed along " + rule.placement->axis + " by `" +
        rule.placement->index_pattern + "`, " +
        std::to_string(rule.placement->count) + " in all");
  }
  if (!rule.note.empty()) add(rule.note);
  return out;
}

void AppendRuleJson(std::string& out, const Rule& rule) {
  out += "{\"match\": ";
  AppendJsonString(out, rule.match);
  out += ", \"spec\": " + SourceJson(rule.spec);
  if (!rule.modes.empty()) {
    out += ", \"modes\": {";
    bool first = true;
    for (const auto& [mode, source] : rule.modes) {
      if (!first) out += ", ";
      first = false;
      AppendKey(out, ModeName(mode));
      out += SourceJson(source);
    }
    out += '}';
  }
  if (rule.illegal) {
    out += ", \"illegal\": " + JsonString(IllegalPolicyName(*rule.illegal));
  }
  if (rule.min_size) {
    out += ", \"min_size\": " + std::to_string(*rule.min_size);
  }
  if (rule.placement) {
    out += ", \"place\": {\"axis\": " + JsonString(rule.placement->axis) +
           ", \"index\": " + JsonString(rule.placement->index_pattern) +
           ", \"count\": " + std::to_string(rule.placement->count) + "}";
  }
  if (!rule.note.empty()) out += ", \"note\": " + JsonString(rule.note);
  out += ", \"separator\": " + JsonString(std::string(1, rule.separator));
  out += ", \"source\": " + JsonString(Where(rule)) + "}";
}

}  // namespace

std::string SpecSourceText(const SpecSource& source) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    return ListText(*list, false);
  }
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return bundle->name;
  }
  return "like: " + std::get<SpecLike>(source).rewrite;
}

std::string SpecListJson(const SpecList& list) { return ListText(list, true); }

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
           Printable(Where(rule)) + ")\n";
    const std::string extras = Extras(rule);
    if (!extras.empty()) out += "     " + Printable(extras) + "\n";
  }
  return out;
}

std::string RulesJson(const RuleSet& rules) {
  std::string out = "{\n  \"rules\": [";
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    out += i == 0 ? "\n    " : ",\n    ";
    AppendRuleJson(out, rules.rules[i]);
  }
  out += rules.rules.empty() ? "]" : "\n  ]";
  out += ",\n  \"policy\": {\"unmatched\": ";
  AppendJsonString(out, UnmatchedPolicyName(rules.policy.unmatched.value_or(
                            UnmatchedPolicy::kError)));
  out += ", \"illegal\": ";
  AppendJsonString(
      out,
      IllegalPolicyName(rules.policy.illegal.value_or(IllegalPolicy::kError)));
  out += ", \"min_size\": " + std::to_string(rules.policy.min_size.value_or(0));
  out += ", \"compat\": ";
  AppendJsonString(out,
                   CompatName(rules.policy.compat.value_or(Compat::kNone)));
  out += "}\n}\n";
  return out;
}

}  // namespace shardc
