// Computes the code actions that an editor offers on the lines of a finding. A
// finding's fix (lint/fix.h) becomes an action, which is marked as preferred if
// the fix changes no spec. If the finding's help suggests a name or a pattern,
// an action replaces the text by this suggestion. In a rules file, an action
// inserts a comment that ignores the finding of a lint:
//
//   SHD105 at line 7  ->  `# shardc: ignore[SHD105]` before line 7, same indent
#include "lsp/actions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lint/rules/all.h"
#include "lsp/position.h"
#include "source/file.h"
#include "yaml/yaml.h"

namespace shardc::lsp {
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
