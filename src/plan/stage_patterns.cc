// Matches the patterns of a `stages:` section with names whose separator may
// differ from that of the patterns. A pattern with an escaped dot and no slash
// is written for names with dots. A pattern with a slash and no escaped dot is
// written for names with slashes:
//
//   `model\.layers\.(\d+)\.` and model/layers/5/up/kernel
//     ->  found in model.layers.5.up.kernel: layer 5
#include "plan/stage_patterns.h"

#include <algorithm>
#include <utility>

#include "plan/rule_patterns.h"

namespace shardc {

std::optional<StagePatterns> StagePatterns::Compile(
    const StageDeclaration* declared, char separator, Findings& findings) {
  StagePatterns out;
  out.separator_ = separator;
  if (declared == nullptr) return out;
  const size_t before = findings.errors();
  if (declared->layers) {
    out.Add(*declared->layers, out.layers_, findings);
    if (!out.layers_.empty() && out.layers_[0].regex.groups() < 1) {
      findings.Add(code::kRegexSemantic, declared->layers->place,
                   "`layers` has no group that captures the number of the "
                   "layer",
                   "put parentheses around the digits: "
                   "`model\\.layers\\.(\\d+)\\.`");
    }
  }
  if (declared->stacked) {
    for (const StackedLayers& stack : *declared->stacked) {
      out.Add(stack.match, out.stacks_, findings);
    }
  }
  const auto add_all = [&](const auto& patterns, Patterns& to, bool& given) {
    given = patterns.has_value();
    if (!given) return;
    for (const NamePattern& one : *patterns) out.Add(one, to, findings);
  };
  add_all(declared->first, out.first_, out.has_first_);
  add_all(declared->last, out.last_, out.has_last_);
  if (findings.errors() > before) return std::nullopt;
  return out;
}

void StagePatterns::Add(const NamePattern& pattern, Patterns& to,
                        Findings& findings) const {
  const char own = PatternSeparator(pattern.match);
  auto regex = Regex::Compile({pattern.match, pattern.place, '/'}, findings);
  if (!regex) return;
  to.push_back({std::move(*regex), own == separator_ ? '\0' : own});
}

std::string StagePatterns::Converted(const Pattern& pattern,
                                     std::string_view name) const {
  std::string out(name);
  if (pattern.separator != 0) {
    std::replace(out.begin(), out.end(), separator_, pattern.separator);
  }
  return out;
}

std::optional<size_t> StagePatterns::FirstFound(const Patterns& patterns,
                                                std::string_view name) const {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].regex.Found(Converted(patterns[i], name))) return i;
  }
  return std::nullopt;
}

std::optional<std::string> StagePatterns::LayerText(
    std::string_view name) const {
  if (layers_.empty()) return std::nullopt;
  const std::string own = Converted(layers_[0], name);
  const auto text = layers_[0].regex.Group1(own);
  if (!text) return std::nullopt;
  return std::string(*text);
}

std::optional<size_t> StagePatterns::StackOf(std::string_view name) const {
  return FirstFound(stacks_, name);
}

std::optional<bool> StagePatterns::IsFirst(std::string_view name) const {
  if (!has_first_) return std::nullopt;
  return FirstFound(first_, name).has_value();
}

std::optional<bool> StagePatterns::IsLast(std::string_view name) const {
  if (!has_last_) return std::nullopt;
  return FirstFound(last_, name).has_value();
}

}  // namespace shardc
