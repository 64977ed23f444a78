// Computes the text that an editor shows when the mouse is over a position of a
// file. At a pattern, the text states how many parameters the pattern matches
// in each target that reads the file. At a target's name, it states the size of
// the model and the bytes of one device. At a name in a spec, it lists the mesh
// axes that the name means in each mode. For example, the text at `KV_HEAD` may
// state:
//
//   train, prefill: "tp"
//   decode, insert: null
#include "lsp/hover.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "lint/analysis/facts.h"
#include "lsp/counts.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

constexpr size_t kTargetsShown = 4;
constexpr size_t kNamesShown = 5;
constexpr size_t kRulesShown = 5;

bool Covers(const Place& place, const FileId& file, size_t offset) {
  return place.HasPosition() && place.begin <= offset && offset <= place.end &&
         FileIdOf(place.source->name()) == file;
}

std::string Parameters(int64_t count) { return Counted(count, "parameter"); }

std::string RuleName(const Rule& rule) {
  std::string out = CodeSpan(rule.match);
  if (rule.match_place.HasPosition()) {
    const int line = rule.match_place.source->At(rule.match_place.begin).line;
    out += " (" + rule.source_name + ":" + std::to_string(line) + ")";
  }
  return out;
}

std::string FirstNames(const Compiled& compiled, int32_t rule) {
  std::string out;
  size_t shown = 0;
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    if (compiled.matches.first[i] != rule) continue;
    if (shown == kNamesShown) return out + "...\n";
    out += Printable(compiled.plan.names[i]) + "\n";
    ++shown;
  }
  return out;
}

// Lists the rules that match some of the same parameters as this rule. The
// first rule that matches a parameter wins it. The list has the earlier rules
// to which this rule loses parameters, and the later rules that lose parameters
// to this rule. It has at most kRulesShown rules.
std::string Shadows(const Facts& facts, size_t rule) {
  std::string out;
  size_t shown = 0;
  const auto line = [&](int64_t count, bool mine, size_t other) {
    if (++shown > kRulesShown) return;
    out +=
        "- " + std::string(mine ? "wins " : "loses ") + Parameters(count) +
        (mine ? " that a later rule matches too: " : " to an earlier rule: ") +
        RuleName(facts.rules()[other]) + "\n";
  };
  for (const LostTo& lost : facts.rule_facts()[rule].lost) {
    line(lost.count, false, lost.rule);
  }
  for (size_t later = rule + 1; later < facts.rules().size(); ++later) {
    for (const LostTo& lost : facts.rule_facts()[later].lost) {
      if (lost.rule == rule) {
        line(lost.count, true, later);
      }
    }
  }
  if (shown > kRulesShown) {
    out += "- " + std::to_string(shown - kRulesShown) + " more rules\n";
  }
  return out;
}

std::string PatternText(const NameScope& scope, size_t rule) {
  const Compiled& compiled = *scope.compiled;
  LintInputs inputs;
  inputs.compiled = &compiled;
  const Facts facts(inputs);
  const RuleFacts& own = facts.rule_facts()[rule];
  std::string out = scope.target.empty() ? "" : "**" + scope.target + "**: ";
  out += Parameters(own.won);
  if (own.found != own.won) {
    out += " of " + CountText(own.found) + " that it matches";
  }
  if (own.won > 0) {
    out += ", " + BytesText(own.bytes);
    const auto each = CountsOf(compiled)[rule].bytes_per_device;
    if (each) out += ", " + BytesText(*each) + " per device";
    out += "\n```text\n" + FirstNames(compiled, static_cast<int32_t>(rule)) +
           "```";
  }
  out += "\n";
  const std::string shadows = Shadows(facts, rule);
  return shadows.empty() ? out : out + "\n" + shadows;
}

std::string Joined(std::vector<std::string> parts) {
  constexpr std::string_view kBetween = "\n\n";
  const size_t more =
      parts.size() > kTargetsShown ? parts.size() - kTargetsShown : 0;
  parts.resize(parts.size() - more);
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += kBetween;
    out += part;
  }
  if (more > 0) {
    out += std::string(kBetween) + "and in " +
           Counted(static_cast<int64_t>(more), "more target");
  }
  return out;
}

std::optional<Hover> PatternAt(const std::vector<NameScope>& scopes,
                               const FileId& file, size_t offset) {
  Hover out;
  std::vector<std::string> parts;
  for (const NameScope& scope : scopes) {
    if (!scope.current || scope.compiled == nullptr) continue;
    const auto& rules = scope.rules->rules;
    for (size_t r = 0; r < rules.size(); ++r) {
      if (!Covers(rules[r].match_place, file, offset)) continue;
      out.begin = rules[r].match_place.begin;
      out.end = rules[r].match_place.end;
      parts.push_back(parts.size() < kTargetsShown ? PatternText(scope, r)
                                                   : "");
    }
  }
  if (parts.empty()) return std::nullopt;
  out.markdown = Joined(std::move(parts));
  return out;
}

// Returns the spec of a name in a mode; nullopt if the name has no meaning. A
// name that is a complete value of `spec:` (`at.whole`) is looked up first as a
// bundle. Any other name is looked up first as an entry of a list.
std::optional<Resolved> Resolve(const Resolver& resolver, const NameAt& at,
                                Mode mode) {
  Findings none;
  SpecList list;
  list.entries.push_back({{SpecName{at.name, {}}}, false});
  if (!at.whole) {
    if (auto resolved = resolver.Resolve(list, mode, none)) return resolved;
  }
  if (resolver.FindBundle(at.name) != nullptr) {
    return resolver.Resolve(SpecSource(SpecBundle{at.name, {}}), mode, none);
  }
  return resolver.Resolve(list, mode, none);
}

std::string KindText(const Resolved& resolved) {
  if (!resolved.bundle.empty()) return "bundle";
  if (resolved.traces.empty() || resolved.traces[0].empty()) return "name";
  return std::string(resolved.traces[0][0].kind);
}

// Returns a Markdown list with the spec of a name in each mode. Modes with the
// same spec share an item. Returns an empty string if the name has no meaning.
std::string NameText(const NameScope& scope, const NameAt& at) {
  // Each pair is the text of a spec and the list of the modes that have it.
  std::vector<std::pair<std::string, std::string>> rows;
  std::string kind;
  for (const Mode mode : kAllModes) {
    const auto resolved = Resolve(*scope.resolver, at, mode);
    if (!resolved) return {};
    kind = KindText(*resolved);
    const bool single = resolved->bundle.empty() && resolved->spec.size() == 1;
    const std::string spec =
        single ? GroupText(resolved->spec[0]) : SpecText(resolved->spec);
    const auto known =
        std::find_if(rows.begin(), rows.end(),
                     [&](const auto& row) { return row.first == spec; });
    if (known == rows.end()) {
      rows.emplace_back(spec, ModeName(mode));
    } else {
      known->second += ", " + std::string(ModeName(mode));
    }
  }
  std::string out = kind + " " + CodeSpan(at.name);
  if (!scope.target.empty()) out += " in **" + scope.target + "**";
  out += ":\n";
  for (const auto& [spec, modes] : rows) {
    out += "- " + (rows.size() == 1 ? "every mode" : modes) + ": " +
           CodeSpan(spec) + "\n";
  }
  return out;
}

// Describes the target whose name is at the cursor in a project file. Returns
// nullopt if no target's name is at the cursor, or if the target did not
// compile.
std::optional<Hover> TargetAt(const CheckedProject& project, const FileId& file,
                              size_t offset) {
  for (const CheckedTarget& target : project.targets) {
    if (!Covers(target.target.place, file, offset)) continue;
    if (target.compiled == nullptr) return std::nullopt;
    const PlanSummary& summary = target.compiled->plan.summary;
    std::string text = Parameters(summary.params);
    if (summary.bytes) text += ", " + BytesText(*summary.bytes);
    if (summary.bytes_per_device) {
      text += ", " + BytesText(*summary.bytes_per_device) + " per device";
    }
    text += " on " + Counted(target.compiled->mesh.devices, "device");
    return Hover{std::move(text), target.target.place.begin,
                 target.target.place.end};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NameAt> SpecNameAt(const Document& document, size_t offset) {
  const std::string_view text = document.text;
  const Word word = WordAt(text, offset);
  if (word.begin == word.end) return std::nullopt;
  const Context context = ContextAt(text, word.begin);
  if (context.at == Context::At::kComment ||
      context.at == Context::At::kIgnore || context.keys.empty()) {
    return std::nullopt;
  }
  const std::string& top = context.keys.front();
  const bool spec = context.In({"rules", "spec"}) ||
                    context.In({"rules", "modes", "*"}) ||
                    context.In({"rules", "place", "axis"});
  const bool key = text.substr(word.end).starts_with(":");
  const bool named = top == "bundles" || top == "axes" || top == "register";
  if (!spec && !named) return std::nullopt;
  if (key && (!named || context.keys.size() > 1)) return std::nullopt;
  return NameAt{std::string(text.substr(word.begin, word.end - word.begin)),
                word.begin, word.end,
                (spec && context.behind_colon) || (key && top == "bundles")};
}

std::optional<Hover> HoverAt(const Workspace& workspace,
                             const Document& document, size_t offset) {
  const FileId file = FileIdOf(document.name());
  for (const CheckedProject* project : workspace.ProjectsOf(document)) {
    if (auto hover = TargetAt(*project, file, offset)) return hover;
  }
  const auto scopes = workspace.ScopesOf(document);
  if (auto hover = PatternAt(scopes, file, offset)) return hover;
  if (workspace.KindOf(document) != FileKind::kRules) return std::nullopt;
  const auto name = SpecNameAt(document, offset);
  if (!name) return std::nullopt;
  std::vector<std::string> parts;
  for (const NameScope& scope : scopes) {
    std::string part = NameText(scope, *name);
    if (!part.empty()) parts.push_back(std::move(part));
  }
  if (parts.empty()) return std::nullopt;
  return Hover{Joined(std::move(parts)), name->begin, name->end};
}

}  // namespace shardc::lsp
