#include "emit/rules_file.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "emit/json_text.h"
#include "source/wording.h"

namespace shardc {
namespace {

// `null`, `"tp"`, `["fsdp", "dp"]`; an empty list is not null.
std::string AxisValueJson(const AxisValue& value) {
  if (value.is_null) return "null";
  return value.axes.empty() ? "[]" : GroupText(value.axes);
}

std::string RegisteredJson(const RegisteredRule& rule) {
  if (rule.is_null) return "null";
  std::string out;
  for (const auto& name : rule.names) {
    if (!out.empty()) out += ", ";
    out += name.forced_axis ? "{\"axis\": " + JsonString(name.text) + "}"
                            : JsonString(name.text);
  }
  // A decode rule is inferred from one name, in a list or not.
  return rule.names.size() == 1 ? out : "[" + out + "]";
}

std::string ListJson(const SpecList& list) {
  std::string out = "[";
  for (size_t i = 0; i < list.entries.size(); ++i) {
    if (i > 0) out += ", ";
    const SpecEntry& entry = list.entries[i];
    AxisGroup names;
    for (const SpecName& name : entry.names) names.push_back(name.text);
    out += GroupText(names);
  }
  return out + "]";
}

std::string SourceJson(const SpecSource& source) {
  if (const auto* list = std::get_if<SpecList>(&source)) {
    return ListJson(*list);
  }
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return JsonString(bundle->name);
  }
  return "{\"like\": " + JsonString(std::get<SpecLike>(source).rewrite) + "}";
}

std::string BundleJson(const Bundle& bundle) {
  const std::string axes = ListJson(bundle.axes);
  if (const auto* mode = std::get_if<Mode>(&bundle.mode)) {
    if (*mode == Mode::kTrain) return axes;
    return "{\"axes\": " + axes + ", \"mode\": " + JsonString(ModeName(*mode)) +
           "}";
  }
  return "{\"axes\": " + axes +
         ", \"mode\": " + std::to_string(std::get<int>(bundle.mode)) + "}";
}

std::string RegistrationJson(const Registration& registration) {
  std::string out = "{\"rule\": " + RegisteredJson(registration.rule);
  if (registration.generation) {
    out += ", \"generation\": " + RegisteredJson(*registration.generation);
  }
  if (registration.override_existing) out += ", \"override\": true";
  return out + "}";
}

std::string RuleJson(const Rule& rule) {
  std::string out = "{\"match\": " + JsonString(rule.match);
  out += ", \"spec\": " + SourceJson(rule.spec);
  if (!rule.modes.empty()) {
    std::string modes;
    for (const auto& [mode, source] : rule.modes) {
      if (!modes.empty()) modes += ", ";
      AppendKey(modes, ModeName(mode));
      modes += SourceJson(source);
    }
    out += ", \"modes\": {" + modes + "}";
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
  return out + "}";
}

std::string PolicyJson(const Policy& policy) {
  std::string out;
  auto add = [&out](std::string_view key, const std::string& value) {
    if (!out.empty()) out += ", ";
    AppendKey(out, key);
    out += value;
  };
  if (policy.unmatched) {
    add("unmatched", JsonString(UnmatchedPolicyName(*policy.unmatched)));
  }
  if (policy.illegal) {
    add("illegal", JsonString(IllegalPolicyName(*policy.illegal)));
  }
  if (policy.min_size) add("min_size", std::to_string(*policy.min_size));
  if (policy.compat) add("compat", JsonString(CompatName(*policy.compat)));
  return "{" + out + "}";
}

// A member of the file: one entry a line inside.
class Section {
 public:
  Section(char open, char close) : close_(close), out_(1, open) {}
  void Add(std::string_view key, const std::string& value) {
    AddItem(JsonString(key) + ": " + value);
  }
  void AddItem(const std::string& value) {
    out_ += (empty_ ? "\n    " : ",\n    ") + value;
    empty_ = false;
  }
  std::string Text() const { return out_ + (empty_ ? "" : "\n  ") + close_; }

 private:
  char close_;
  std::string out_;
  bool empty_ = true;
};

template <class Value>
std::string AxesJson(Value value_of) {
  Section section('{', '}');
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const std::optional<AxisValue> value = value_of(rule);
    if (value) section.Add(AxisRuleName(rule), AxisValueJson(*value));
  }
  return section.Text();
}

// A name that YAML reads as a string without quotes.
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
  return !digit && lower != "null" && lower != "true" && lower != "false";
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

}  // namespace

bool HasMixedSeparators(const RuleSet& rules) {
  return std::any_of(rules.rules.begin(), rules.rules.end(),
                     [&](const Rule& rule) {
                       return rule.separator != rules.rules[0].separator;
                     });
}

std::string RulesFileJson(const RuleSet& rules) {
  std::string out = "{\n  \"version\": 1";
  auto add = [&out](std::string_view key, const std::string& value) {
    out += ",\n  ";
    AppendKey(out, key);
    out += value;
  };
  if (!rules.rules.empty()) {
    add("separator", JsonString(std::string(1, rules.rules[0].separator)));
  }
  add("axes", AxesJson([&](AxisRule rule) {
        return std::optional(rules.axes.Value(rule));
      }));
  Section registrations('{', '}');
  for (const Registration& registration : rules.registrations) {
    registrations.Add(registration.name, RegistrationJson(registration));
  }
  add("register", registrations.Text());
  Section bundles('{', '}');
  for (const Bundle& bundle : rules.bundles) {
    bundles.Add(bundle.name, BundleJson(bundle));
  }
  add("bundles", bundles.Text());
  Section list('[', ']');
  for (const Rule& rule : rules.rules) list.AddItem(RuleJson(rule));
  add("rules", list.Text());
  add("policy", PolicyJson(rules.policy));
  return out + "\n}\n";
}

std::string AxesFileYaml(const AxisRules& axes) {
  std::string out = "version: 1\naxes:";
  bool any = false;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const auto& value = axes.Given(rule);
    if (!value) continue;
    any = true;
    out +=
        "\n  " + std::string(AxisRuleName(rule)) + ": " + AxisValueYaml(*value);
  }
  return out + (any ? "\n" : " {}\n");
}

std::string AxesFileJson(const AxisRules& axes) {
  return "{\n  \"version\": 1,\n  \"axes\": " +
         AxesJson([&](AxisRule rule) { return axes.Given(rule); }) + "\n}\n";
}

}  // namespace shardc
