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
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lint/analysis/facts.h"
#include "lsp/names.h"
#include "parse/spec_read.h"
#include "plan/compile.h"
#include "source/file.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

// Counts the parameters and bytes of each rule. Many parameters match the same
// set of rules and have the same layout. One pass over the parameters therefore
// counts how many match each set of rules. It also counts how many have the
// same layout and the same first matching rule. The bytes are computed from
// these few counts:
//
//   61 parameters with one layout of 16 KiB  ->  61 x 16 KiB, added once

struct RuleCount {
  int64_t won = 0;    // number of parameters whose first match is this rule
  int64_t found = 0;  // number of parameters that match the rule's pattern
  // The bytes of the `won` parameters, in total and on the fullest device in
  // train mode; nullopt if unknown.
  std::optional<int64_t> bytes = 0;
  std::optional<int64_t> bytes_per_device = 0;
};

void AddTo(std::optional<int64_t>& sum, std::optional<int64_t> each,
           int64_t count) {
  const auto all = each ? CheckedMul(*each, count) : std::nullopt;
  sum = sum && all ? CheckedAdd(*sum, *all) : std::nullopt;
}

// Returns one RuleCount for each rule, in the order of the rules.
std::vector<RuleCount> CountsOf(const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  const Matches& matches = compiled.matches;
  std::vector<RuleCount> out(compiled.rules.rules.size());
  std::vector<int64_t> of_set(matches.begin.size());
  // The number of parameters, keyed by first matching rule, layout and
  // coordinate. A placed parameter is held by the devices at one coordinate of
  // a mesh axis. The coordinate of other parameters is kNowhere. The rule is a
  // part of the key, because scalars that different rules match may share one
  // layout.
  constexpr int64_t kNowhere = -1;
  using Key = std::tuple<int32_t, uint32_t, int64_t>;
  std::map<Key, int64_t> of_layout;
  int64_t* last = nullptr;
  Key last_key;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    ++of_set[matches.set[i]];
    if (matches.first[i] < 0) continue;
    const PlannedParam& param = plan.params[i];
    const Key key(matches.first[i], param.layout,
                  plan.CoordinateOf(param).value_or(kNowhere));
    if (last == nullptr || key != last_key) last = &of_layout[key];
    last_key = key;
    ++*last;
  }
  for (size_t set = 0; set + 1 < matches.begin.size(); ++set) {
    for (uint32_t i = matches.begin[set]; i < matches.begin[set + 1]; ++i) {
      out[matches.rules[i]].found += of_set[set];
    }
  }
  // The bytes of the parameters that are placed at one coordinate of a mesh
  // axis, keyed by rule and coordinate.
  std::map<std::pair<int32_t, int64_t>, std::optional<int64_t>> placed;
  for (const auto& [key, count] : of_layout) {
    const auto& [first, layout_index, coordinate] = key;
    RuleCount& rule = out[AsIndex(first)];
    const ParamLayout& layout = plan.layouts[layout_index];
    rule.won += count;
    AddTo(rule.bytes, plan.types[layout.type].Bytes(), count);
    auto& held = coordinate == kNowhere
                     ? rule.bytes_per_device
                     : placed.try_emplace({first, coordinate}, 0).first->second;
    AddTo(held, layout.modes.front().bytes_per_device, count);
  }
  // A device has one coordinate on the mesh axis, and of the placed parameters
  // it holds only those at this coordinate. For each rule, the fullest device
  // therefore holds the largest of the sums in `placed`.
  for (auto at = placed.begin(); at != placed.end();) {
    const int32_t rule = at->first.first;
    std::optional<int64_t> most = 0;
    for (; at != placed.end() && at->first.first == rule; ++at) {
      most = most && at->second ? std::optional(std::max(*most, *at->second))
                                : std::nullopt;
    }
    AddTo(out[AsIndex(rule)].bytes_per_device, most, 1);
  }
  return out;
}

// Returns a text such as "4 of 6 parameters, 128 KiB".
std::string RuleCountText(const RuleCount& count) {
  std::string out =
      count.won == count.found
          ? Counted(count.won, "parameter")
          : CountText(count.won) + " of " + Counted(count.found, "parameter");
  if (count.won > 0 && count.bytes) out += ", " + BytesText(*count.bytes);
  return out;
}

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

// Computes the inlay hint of each rule: the text that an editor shows after the
// rule's pattern. A hint states the number of parameters of the rule and their
// bytes, as the last check found them. A rule has one hint, even if several
// targets read the file. If the numbers differ between the targets, the hint
// names the targets:
//
//   equal in all targets  ->  4 parameters, 128 KiB
//   different             ->  cpu: 4 parameters, 128 KiB; v5e: 0 parameters

namespace {

constexpr size_t kInlayTargets = 3;

struct TargetHint {
  std::string target, text, more;
};

std::string LabelOf(const std::vector<TargetHint>& all) {
  const bool same = std::all_of(
      all.begin(), all.end(),
      [&](const TargetHint& one) { return one.text == all.front().text; });
  if (same) return all.front().text;
  const std::string out =
      Join(First(all, kInlayTargets), "; ",
           [](const TargetHint& one) { return one.target + ": " + one.text; });
  return all.size() > kInlayTargets ? out + "; ..." : out;
}

std::string TooltipOf(const std::vector<TargetHint>& all) {
  std::string out;
  for (const TargetHint& one : all) {
    if (!out.empty()) out += "\n";
    if (!one.target.empty()) out += one.target + ": ";
    out += one.more;
  }
  return out;
}

// Returns the offset after the pattern. If the pattern has a closing quote, it
// is the offset after the quote.
size_t EndOf(std::string_view text, const Place& pattern) {
  const bool quote = pattern.end < text.size() && pattern.end > 0 &&
                     (text[pattern.end] == '\'' || text[pattern.end] == '"') &&
                     text[pattern.end - 1] != text[pattern.end];
  return pattern.end + (quote ? 1 : 0);
}

}  // namespace

std::vector<InlayHint> InlayHintsIn(const Workspace& workspace,
                                    const Document& document, size_t begin,
                                    size_t end) {
  std::map<size_t, std::vector<TargetHint>> by_place;
  const FileId file = FileIdOf(document.name());
  for (const NameScope& scope : workspace.ScopesOf(document)) {
    if (!scope.current || scope.compiled == nullptr) continue;
    const auto counts = CountsOf(*scope.compiled);
    std::map<const Source*, bool> own;
    for (size_t r = 0; r < counts.size(); ++r) {
      const Place& place = scope.rules->rules[r].match_place;
      if (!place.HasPosition()) continue;
      const auto [known, fresh] = own.try_emplace(place.source.get(), false);
      if (fresh) known->second = FileIdOf(place.source->name()) == file;
      const size_t at = EndOf(document.text, place);
      if (!known->second || at < begin || at > end) continue;
      TargetHint one{scope.target, RuleCountText(counts[r]), {}};
      one.more = one.text;
      if (counts[r].won > 0 && counts[r].bytes_per_device) {
        one.more +=
            ", " + BytesText(*counts[r].bytes_per_device) + " per device";
      }
      by_place[at].push_back(std::move(one));
    }
  }
  std::vector<InlayHint> out;
  for (const auto& [at, all] : by_place) {
    out.push_back({at, LabelOf(all), TooltipOf(all)});
  }
  return out;
}

// Computes the semantic tokens of a file, by which an editor colours names and
// patterns. Each token is a pattern or a use of a name (lsp/names.h). It has a
// line, a column, a length, a type and modifiers. LSP counts a token's line
// from the line of the previous token. If both tokens are on one line, the
// column is counted from the previous token too. For example, line 2 is
// `spec: [BATCH, tp]`, and the previous token is on line 1:
//
//   BATCH  ->  1 line further, column 7, length 5, enum member, built in
//   tp     ->  same line, 7 columns further, length 2, variable

namespace {

constexpr std::array<std::string_view, 6> kTypes = {
    "regexp", "struct", "enumMember", "type", "property", "variable"};
constexpr std::array<std::string_view, 2> kModifiers = {"declaration",
                                                        "defaultLibrary"};
constexpr int64_t kDeclaration = 1, kBuiltIn = 2;

int64_t TypeOf(NameKind kind) {
  switch (kind) {
    case NameKind::kPattern:
      return 0;
    case NameKind::kBundle:
      return 1;
    case NameKind::kLogicalAxis:
      return 2;
    case NameKind::kRegistered:
      return 3;
    case NameKind::kAxisRule:
      return 4;
    case NameKind::kMeshAxis:
      return 5;
  }
  return 5;
}

int64_t ModifiersOf(const NameUse& use) {
  return (use.definition ? kDeclaration : 0) |
         (use.kind == NameKind::kLogicalAxis ? kBuiltIn : 0);
}

}  // namespace

std::span<const std::string_view> TokenTypes() { return kTypes; }
std::span<const std::string_view> TokenModifiers() { return kModifiers; }

std::vector<int64_t> SemanticTokensOf(const Workspace& workspace,
                                      const Document& document,
                                      Encoding encoding) {
  std::vector<int64_t> out;
  const FileKind kind = workspace.KindOf(document);
  if (kind == FileKind::kOther) return out;
  const auto tree = TreeOf(MakeSource(document.name(), document.text));
  if (!tree) return out;
  const RegisteredNames registered = RegisteredIn(workspace.ScopesOf(document));
  const Lines lines(document.text);
  Position last;
  for (const NameUse& use : NamesIn(*tree, kind, registered)) {
    const Range range = lines.RangeOf(use.begin, use.end, encoding);
    // Skip a pattern over several lines: a token must be within one line.
    if (range.start.line != range.end.line) continue;
    const int64_t line = range.start.line - last.line;
    out.insert(out.end(), {line,
                           line == 0 ? range.start.character - last.character
                                     : range.start.character,
                           range.end.character - range.start.character,
                           TypeOf(use.kind), ModifiersOf(use)});
    last = range.start;
  }
  return out;
}

}  // namespace shardc::lsp
