// Writes findings as a Markdown table. In a message, the text between two
// backticks becomes a code span, and other text is escaped. If the number of
// backticks in a message is odd, a name in it contains a backtick. The complete
// message is then escaped, without code spans. For example, a message with two
// backticks becomes:
//
//   axis `tp|x` in *.yaml  ->  axis `tp\|x` in \*.yaml
#include <algorithm>

#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Escapes a text outside of code spans: every character that has a meaning in
// Markdown or HTML is escaped by a backslash or an entity.
std::string Plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*_[]#|!~@").find(c) != std::string_view::npos) {
        out += '\\';
      }
      out += c;
    }
  }
  return out;
}

std::string Cell(std::string_view raw) {
  const std::string text = Printable(raw);
  size_t ticks = 0;
  for (char c : text) ticks += c == '`' ? 1 : 0;
  // An odd number of backticks means that a name contains one. It is then
  // unclear where code spans begin and end.
  if (ticks % 2 != 0) return Plain(text);
  std::string out;
  bool code = false;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find('`', begin), text.size());
    const std::string_view part =
        std::string_view(text).substr(begin, end - begin);
    if (!code) {
      out += Plain(part);
    } else if (!part.empty()) {
      out += CodeCell(part);
    }
    code = !code;
    begin = end + 1;
  }
  return out;
}

// Returns the place of a finding. An absolute path, which findings of compiled
// programs have, is made relative to the repository.
std::string Where(const FindingReport& report, const Finding& finding) {
  std::string out = finding.place.ToString();
  if (finding.place.source == nullptr) return out;
  const std::string name = finding.place.source->name();
  if (name.starts_with('/') && out.starts_with(name)) {
    out.replace(0, name.size(), report.repository.PathOf(name));
  }
  return out;
}

}  // namespace

void FindingsMarkdown(const FindingReport& report, Sink& out) {
  size_t counts[3] = {0, 0, 0};
  for (const Finding& finding : report.findings) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  out.Append("### shardc check\n\n");
  if (report.findings.empty()) {
    out.Append("Nothing found.\n");
    return;
  }
  out.Append(Counted(static_cast<int64_t>(counts[0]), "error") + ", " +
             Counted(static_cast<int64_t>(counts[1]), "warning") + ", " +
             Counted(static_cast<int64_t>(counts[2]), "note") + ".\n\n");
  out.Append("| level | code | where | what | help |\n|---|---|---|---|---|\n");
  for (const Finding& finding : report.findings) {
    out.Append("| " + std::string(LevelName(finding.level)) + " | " +
               finding.code->Id() + " " + std::string(finding.code->name) +
               " | " + Plain(Printable(Where(report, finding))) + " | " +
               Cell(MessageText(finding)) + " | " + Cell(finding.help) +
               " |\n");
  }
}

}  // namespace shardc
