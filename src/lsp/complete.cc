// Computes the completions at a cursor. The keys above the cursor in the YAML
// tree decide which values and keys are valid there. Names of axes, bundles and
// so on are taken from the last version of the file that compiled. So they are
// available while a line is incomplete. Here `|` is the cursor:
//
//   spec: [FS|  ->  logical axes, axis rules and mesh axes
#include "lsp/complete.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "devices/profiles.h"
#include "lint/rules/all.h"
#include "lint/rules/lint.h"
#include "lsp/position.h"
#include "parse/keys.h"
#include "source/file.h"
#include "target/choose.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
namespace {

using Kind = Completion::Kind;

class Collector {
 public:
  Collector(const Workspace& workspace, const Document& document, size_t offset)
      : scopes_(workspace.ScopesOf(document)),
        kind_(workspace.KindOf(document)),
        context_(ContextAt(document.text, offset)) {}

  Completions Run() {
    out_.begin = context_.begin;
    if (context_.at == Context::At::kIgnore) {
      Codes();
    } else if (context_.at != Context::At::kComment) {
      switch (kind_) {
        case FileKind::kRules:
          Rules();
          break;
        case FileKind::kMesh:
          MeshKeys(0);
          break;
        case FileKind::kProject:
          Project();
          break;
        case FileKind::kOther:
          break;
      }
    }
    return std::move(out_);
  }

 private:
  using Path = std::initializer_list<std::string_view>;

  bool IsKey() const { return context_.at == Context::At::kKey; }

  void Add(std::string_view label, Kind kind, std::string detail) {
    if (!seen_.insert(std::string(label)).second) return;
    out_.items.push_back({std::string(label), kind, std::move(detail)});
  }

  void Keys(const KeyTable& table, Path path) {
    if (!IsKey() || !context_.In(path)) return;
    for (const std::string_view key : table.keys) {
      Add(key, Kind::kProperty, std::string(table.what));
    }
  }

  template <class Names>
  void Values(Path path, const Names& names, Kind kind, std::string detail) {
    if (!context_.In(path)) return;
    for (const auto& name : names) Add(name, kind, detail);
  }

  void Codes() {
    for (const Lint* lint : AllLints()) {
      Add(lint->code.Id(), Kind::kEvent,
          std::string(lint->code.name) + ": " +
              std::string(lint->code.meaning));
    }
    for (const Lint* lint : AllLints()) {
      Add(lint->code.name, Kind::kEvent, lint->code.Id());
    }
  }

  void Packs(bool automatic) {
    for (const std::string& name : PackNames()) {
      if (name == "auto" && !automatic) continue;
      Add(name, Kind::kModule, "rule pack");
    }
  }

  std::vector<std::string> Modes() const {
    std::vector<std::string> out;
    for (const Mode mode : kAllModes) out.emplace_back(ModeName(mode));
    return out;
  }

  void Axes() {
    for (const NameScope& scope : scopes_) {
      for (const MeshAxis& axis : scope.resolver->mesh().axes) {
        Add(axis.name, Kind::kVariable,
            scope.compiled == nullptr
                ? "mesh axis"
                : "mesh axis of " + std::to_string(axis.size));
      }
    }
  }

  // Returns the text that explains an axis rule, such as
  // `batch: ["fsdp", "dp"]`: its name, and the mesh axes to which the first
  // target maps it.
  std::string Meaning(AxisRule rule) const {
    const AxisValue value = scopes_.empty()
                                ? AxisRules{}.Value(rule)
                                : scopes_[0].resolver->axes().Value(rule);
    return std::string(AxisRuleName(rule)) + ": " + GroupText(value.axes);
  }

  void AxisRuleNames() {
    for (size_t i = 0; i < kAxisRuleCount; ++i) {
      const auto rule = static_cast<AxisRule>(i);
      Add(AxisRuleName(rule), Kind::kValue, "axis rule, " + Meaning(rule));
    }
  }

  void Tokens() {
    for (const Token& token : BuiltinTokens()) {
      Add(token.short_name, Kind::kConstant,
          token.rule ? "logical axis, " + Meaning(*token.rule) : "unsharded");
    }
    for (const NameScope& scope : scopes_) {
      for (const Registration& one : scope.rules->registrations) {
        Add(one.name, Kind::kConstant, "registered");
      }
    }
  }

  void Bundles() {
    for (const NameScope& scope : scopes_) {
      for (const std::string& name : scope.resolver->BundleNames()) {
        Add(name, Kind::kStruct, "bundle");
      }
    }
    for (const Bundle& bundle : BuiltinBundles()) {
      Add(bundle.name, Kind::kStruct, "bundle");
    }
  }

  void SpecNames(Path path, bool bundles) {
    if (!context_.In(path)) return;
    // A bundle replaces an entire spec (`spec: ColumnWise`). An entry of a list
    // (`spec: [HEAD, tp]`) cannot be a bundle.
    if (bundles && context_.behind_colon) return Bundles();
    Tokens();
    Axes();
    AxisRuleNames();
  }

  void Rules() {
    Keys(keys::kRules, {});
    if (context_.In({"rules"})) Keys(keys::kRule, {"rules"});
    Keys(keys::kPolicy, {"policy"});
    Keys(keys::kWeightDecay, {"weight_decay"});
    Keys(keys::kStages, {"stages"});
    Keys(keys::kStacked, {"stages", "stacked"});
    Keys(keys::kLike, {"rules", "spec"});
    Keys(keys::kPlace, {"rules", "place"});
    Keys(keys::kRegistration, {"register", "*"});
    Keys(keys::kBundle, {"bundles", "*"});
    Keys(keys::kActivation, {"activations", "*"});
    if (context_.In({"extends"})) Packs(false);
    SpecNames({"rules", "spec"}, true);
    SpecNames({"rules", "modes", "*"}, true);
    SpecNames({"activations", "*"}, true);
    SpecNames({"activations", "*", "spec"}, true);
    SpecNames({"activations", "*", "modes", "*"}, true);
    SpecNames({"bundles", "*"}, false);
    SpecNames({"bundles", "*", "axes"}, false);
    SpecNames({"register", "*", "rule"}, false);
    SpecNames({"register", "*", "generation"}, false);
    if (context_.In({"axes"})) AxisRuleNames();
    if (context_.In({"axes", "*"}) || context_.In({"rules", "place", "axis"})) {
      Axes();
    }
    Values({"rules", "modes"}, Modes(), Kind::kProperty, "mode");
    Values({"activations", "*", "modes"}, Modes(), Kind::kProperty, "mode");
    Values({"bundles", "*", "mode"}, Modes(), Kind::kValue, "mode");
    constexpr std::array<std::string_view, 4> kIllegal = {"error", "drop",
                                                          "shrink", "pad"};
    constexpr std::array<std::string_view, 2> kUnmatched = {"error",
                                                            "replicate"};
    constexpr std::array<std::string_view, 3> kCompat = {"none", "eformer",
                                                         "fjformer"};
    Values({"rules", "illegal"}, kIllegal, Kind::kValue, "policy");
    Values({"policy", "illegal"}, kIllegal, Kind::kValue, "policy");
    Values({"policy", "unmatched"}, kUnmatched, Kind::kValue, "policy");
    Values({"policy", "compat"}, kCompat, Kind::kValue, "policy");
  }

  // Adds the keys that a mesh may have at the cursor. `depth` is the number of
  // keys above the mesh: 0 in a mesh file, and more in a project file.
  void MeshKeys(size_t depth) {
    if (context_.keys.size() < depth) return;
    const std::vector<std::string> below(
        context_.keys.begin() + static_cast<std::ptrdiff_t>(depth),
        context_.keys.end());
    if (below.empty() && IsKey()) {
      for (const std::string_view key : keys::kMesh.keys) {
        Add(key, Kind::kProperty, std::string(keys::kMesh.what));
      }
    }
    if (below.empty()) return;
    if (below[0] == "axis_types") {
      for (const char* type : {"auto", "explicit", "manual"}) {
        Add(type, Kind::kValue, "axis type");
      }
    } else if (below[0] == "axes" && IsKey()) {
      for (const AxisRule rule : ParallelismRules()) {
        Add(AxisRules{}.Value(rule).axes[0], Kind::kVariable, "axis");
      }
    } else if (below[0] == "device" && below.size() == 1) {
      for (const std::string_view name : DeviceNames()) {
        Add(name, Kind::kValue, "device");
      }
    }
  }

  void Project() {
    Keys(keys::kProject, {});
    Keys(keys::kTarget, {"targets", "*"});
    Keys(keys::kLint, {"lint"});
    if (context_.In({"targets", "*", "rules"})) Packs(true);
    Values({"targets", "*", "modes"}, Modes(), Kind::kValue, "mode");
    Values({"targets", "*", "operations"}, Modes(), Kind::kProperty, "mode");
    for (const char* key : {"select", "ignore", "severity"}) {
      if (context_.In({"lint", key})) Codes();
    }
    constexpr std::array<std::string_view, 4> kLevels = {"error", "warning",
                                                         "note", "never"};
    Values({"lint", "fail_on"}, kLevels, Kind::kValue, "level");
    if (context_.In({"lint", "severity", "*"})) {
      Values({"lint", "severity", "*"}, std::span(kLevels).first(3),
             Kind::kValue, "level");
    }
    if (context_.keys.size() > 2 && context_.keys[0] == "targets" &&
        context_.keys[2] == "mesh") {
      MeshKeys(3);
    }
  }

  std::vector<NameScope> scopes_;
  FileKind kind_;
  Context context_;
  Completions out_;
  std::set<std::string> seen_;
};

}  // namespace

Completions CompletionsAt(const Workspace& workspace, const Document& document,
                          size_t offset) {
  return Collector(workspace, document, offset).Run();
}

// Computes the code actions that an editor offers on the lines of a finding. A
// finding's fix (lint/fix.h) becomes an action, which is marked as preferred if
// the fix changes no spec. If the finding's help suggests a name or a pattern,
// an action replaces the text by this suggestion. In a rules file, an action
// inserts a comment that ignores the finding of a lint:
//
//   SHD105 at line 7  ->  `# shardc: ignore[SHD105]` before line 7, same indent

namespace {

// The largest number of fixes that are checked for one request, because a check
// may compile every target. Further fixes are not offered, unless the user
// selects fewer lines.
constexpr int kMostProven = 16;

bool Touches(const Place& place, const Lines& lines, size_t begin, size_t end) {
  if (!place.HasPosition()) return begin == 0;
  // The cursor may be anywhere on the lines of the finding, and not only inside
  // its place.
  const size_t first = lines.Begin(lines.LineOf(place.begin));
  const size_t last = lines.End(lines.LineOf(std::max(place.begin, place.end)));
  return first <= end && begin <= last;
}

std::string TitleOf(const Code& code) {
  const std::pair<const Code*, const char*> titles[] = {
      {&kDuplicateRule.code, "Remove the duplicate rule"},
      {&kCatchAllNotLast.code, "Move the catch-all to the end"},
      {&kUnanchoredPattern.code, "Match the pattern only at the end of a word"},
      {&kUnescapedDot.code, "Escape the dots of the pattern"},
      {&kRedundantWildcard.code, "Remove the leading `.*`"},
      {&kAnchoredMissesStates.code, "Remove the leading `^`"},
      {&kDeadRule.code, "Remove the rule"},
      {&kCaseMismatch.code, "Write the pattern in the case of the names"},
      {&kUnusedDefinition.code, "Remove the definition"},
      {&kUnusedIgnore.code, "Remove the ignore"},
  };
  for (const auto& [known, title] : titles) {
    if (known == &code) return title;
  }
  return "Fix " + std::string(code.name);
}

// Returns whether the document has the same text as the checked file in every
// range that the fix replaces. The texts differ where an entry with an error
// was left out of the checked file (lsp/recover.h). The fix would then change
// that entry.
bool Applies(const RuleFix& fix, const Document& document) {
  const std::string_view checked = fix.source->text();
  const std::string_view own = document.text;
  return std::all_of(
      fix.edits.begin(), fix.edits.end(), [&](const TextEdit& edit) {
        const size_t size = edit.end - edit.begin;
        return edit.end <= std::min(checked.size(), own.size()) &&
               checked.substr(edit.begin, size) == own.substr(edit.begin, size);
      });
}

// Returns whether the file is valid YAML after the fix. It is not valid if the
// fix removes the node that defines `&a` and another entry has the alias `*a`.
bool LeavesYaml(const RuleFix& fix) {
  Findings ignored;
  const SourceRef after =
      MakeSource(fix.source->name(), Fixed(fix.source->text(), {&fix, 1}));
  return YamlDocument::Parse(after, ignored).has_value();
}

// Adds an action for each fix of one finding (lint/fix.h). `left` is the number
// of fixes that may still be checked for this request.
void AddFixes(const Workspace& workspace, const Document& document,
              const Finding& finding, int& left, std::vector<Action>& out) {
  const FileId file = FileIdOf(document.name());
  for (const CheckedProject* project : workspace.ProjectsOf(document)) {
    for (const CheckedTarget& target : project->targets) {
      for (const RuleFix& fix : target.fixes) {
        if (fix.code != finding.code || fix.file != file ||
            fix.place.begin != finding.place.begin || !Applies(fix, document)) {
          continue;
        }
        const bool known = std::any_of(
            out.begin(), out.end(),
            [&](const Action& other) { return other.edits == fix.edits; });
        if (known || left == 0) continue;
        --left;
        if (!LeavesYaml(fix)) continue;
        const bool safe = workspace.checker().IsSafe(fix, *project);
        out.push_back({TitleOf(*fix.code) + (safe ? "" : " (changes specs)"),
                       &finding, safe && !fix.by_hand, fix.edits});
      }
    }
  }
}

// If the finding's help suggests a name, adds an action that replaces the text
// at the finding's place by this name.
void AddReplacement(const Document& document, const Finding& finding,
                    std::vector<Action>& out) {
  const auto meant = MeantIn(finding.help);
  if (!meant || !finding.place.HasPosition() ||
      finding.place.end > document.text.size()) {
    return;
  }
  constexpr size_t kLongest = 200;
  size_t begin = finding.place.begin;
  size_t end = std::max(begin, finding.place.end);
  std::string_view text = document.text;
  if (end > begin + 1 && (text[begin] == '"' || text[begin] == '\'') &&
      text[end - 1] == text[begin]) {
    ++begin;
    --end;
  }
  text = text.substr(begin, end - begin);
  if (text.empty() || text.size() > kLongest ||
      text.find_first_of("\n\r'\"[]{}, ") != text.npos) {
    return;
  }
  out.push_back(
      {"Replace by `" + *meant + "`", &finding, false, {{begin, end, *meant}}});
}

// For a rule that matches no parameter (SHD105), adds actions that replace its
// pattern by a pattern that the finding's help suggests.
void AddPatterns(const Document& document, const Finding& finding,
                 std::vector<Action>& out) {
  if (finding.code->number != kDeadRule.code.number ||
      !finding.place.HasPosition() ||
      finding.place.end > document.text.size()) {
    return;
  }
  const std::string_view text =
      std::string_view(document.text)
          .substr(finding.place.begin, finding.place.end - finding.place.begin);
  // Only a pattern in single quotes is replaced, because backslashes need no
  // escape there.
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') return;
  for (const std::string& pattern : WrittenIn(finding.help)) {
    if (pattern.find('\'') != pattern.npos) continue;
    out.push_back(
        {"Replace by `" + pattern + "`",
         &finding,
         false,
         {{finding.place.begin + 1, finding.place.end - 1, pattern}}});
  }
}

void AddIgnore(const Document& document, const Lines& lines,
               const Finding& finding, std::vector<Action>& out) {
  const Lint* const lint = FindLint(*finding.code);
  if (lint == nullptr || !finding.place.HasPosition() ||
      finding.code == &kUnusedIgnore.code) {
    return;
  }
  const std::string id = finding.code->Id();
  Action action{
      "Ignore " + id + " (" + std::string(finding.code->name) + ") here",
      &finding,
      false,
      {}};
  const size_t line = lines.LineOf(finding.place.begin);
  constexpr std::string_view kMark = "# shardc: ignore[";
  const std::string_view above =
      line == 0 ? std::string_view() : lines.Text(line - 1);
  const size_t mark = above.find(kMark);
  const size_t close = mark == above.npos ? above.npos : above.find(']', mark);
  if (close != above.npos && above.find_first_not_of(" \t") == mark) {
    const size_t at = lines.Begin(line - 1) + close;
    action.edits = {{at, at, ", " + id}};
  } else {
    const std::string_view own = lines.Text(line);
    const size_t indent = std::min(own.find_first_not_of(' '), own.size());
    const size_t at = lines.Begin(line);
    action.edits = {{at, at,
                     std::string(indent, ' ') + std::string(kMark) + id + "]" +
                         std::string(BreakOf(document.text))}};
  }
  out.push_back(std::move(action));
}

}  // namespace

std::optional<std::string> MeantIn(std::string_view help) {
  constexpr std::string_view kBegin = "did you mean `";
  constexpr std::string_view kEnd = "`?";
  if (!help.starts_with(kBegin)) return std::nullopt;
  help.remove_prefix(kBegin.size());
  const size_t end = help.find(kEnd);
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  return std::string(help.substr(0, end));
}

std::vector<std::string> WrittenIn(std::string_view help) {
  std::vector<std::string> out;
  constexpr std::string_view kOr = " or `";
  size_t at = help.find("write `");
  if (at == help.npos) return out;
  at += std::string_view("write `").size();
  for (;;) {
    const size_t end = help.find('`', at);
    if (end == help.npos) return out;
    out.emplace_back(help.substr(at, end - at));
    if (!help.substr(end + 1).starts_with(kOr)) return out;
    at = end + 1 + kOr.size();
  }
}

std::vector<Action> ActionsAt(const Workspace& workspace,
                              const Document& document, size_t begin,
                              size_t end) {
  std::vector<Action> out;
  const auto found = workspace.found().find(document.name());
  if (found == workspace.found().end()) return out;
  const Lines lines(document.text);
  const bool rules = workspace.KindOf(document) == FileKind::kRules;
  int left = kMostProven;
  for (const Finding& finding : found->second) {
    if (!Touches(finding.place, lines, begin, end)) continue;
    AddPatterns(document, finding, out);
    AddFixes(workspace, document, finding, left, out);
    AddReplacement(document, finding, out);
    if (rules) AddIgnore(document, lines, finding, out);
  }
  return out;
}

std::vector<NewText> FixAll(const Workspace& workspace,
                            const Document& document) {
  std::vector<NewText> out;
  for (const CheckedProject* project : workspace.ProjectsOf(document)) {
    for (NewText& text : workspace.checker().SafeFixes(*project)) {
      const bool known = std::any_of(
          out.begin(), out.end(),
          [&](const NewText& other) { return other.path == text.path; });
      if (!known) out.push_back(std::move(text));
    }
  }
  return out;
}

}  // namespace shardc::lsp
