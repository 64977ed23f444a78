// A suite for each file, in the order of first findings; only errors fail.
// Control characters are visible already (Printable), so what XML forbids is
// two code points more:
//
//   `a<b` of one error  ->  <failure ... message="`a&lt;b` ...">
#include <map>
#include <vector>

#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Printable has made control characters and invalid UTF-8 visible; what XML
// 1.0 still forbids are U+FFFE and U+FFFF.
std::string Xml(std::string_view raw) {
  const std::string text = Printable(raw);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\xEF\xBF") == 0 && i + 2 < text.size() &&
        (text[i + 2] == '\xBE' || text[i + 2] == '\xBF')) {
      out += text[i + 2] == '\xBE' ? "\\ufffe" : "\\uffff";
      i += 2;
      continue;
    }
    switch (text[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += text[i];
    }
  }
  return out;
}

std::string FileOf(const Finding& finding) {
  return finding.place.source == nullptr ? "shardc"
                                         : finding.place.source->name();
}

void WriteCase(Sink& out, const Finding& finding) {
  out.Append("    <testcase name=\"" +
             Xml(finding.code->Id() + " " + std::string(finding.code->name)) +
             "\" classname=\"" + Xml(FileOf(finding)) + "\"");
  if (finding.place.HasPosition()) {
    const LineColumn at = finding.place.source->At(finding.place.begin);
    out.Append(" line=\"" + std::to_string(at.line) + "\"");
  }
  out.Append(">\n");
  std::string text = Xml(finding.message);
  const std::string place = finding.place.ToString();
  if (!place.empty()) text = Xml(place) + ": " + text;
  if (!finding.help.empty()) text += "\nhelp: " + Xml(finding.help);
  if (finding.level == Level::kError) {
    out.Append("      <failure type=\"error\" message=\"" +
               Xml(finding.message) + "\">" + text + "</failure>\n");
  } else {
    out.Append("      <system-out>" + std::string(LevelName(finding.level)) +
               ": " + text + "</system-out>\n");
  }
  out.Append("    </testcase>\n");
}

}  // namespace

void FindingsJunit(const FindingReport& report, Sink& out) {
  // Suites in the order of their first finding.
  std::vector<std::string> files;
  std::map<std::string, std::vector<const Finding*>> suites;
  size_t failures = 0;
  for (const Finding& finding : report.findings) {
    const std::string file = FileOf(finding);
    if (suites.find(file) == suites.end()) files.push_back(file);
    suites[file].push_back(&finding);
    if (finding.level == Level::kError) ++failures;
  }
  out.Append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  if (report.findings.empty()) {
    // Some readers take an empty document for a crash.
    out.Append(
        "<testsuites name=\"shardc\" tests=\"1\" failures=\"0\">\n"
        "  <testsuite name=\"shardc\" tests=\"1\" failures=\"0\">\n"
        "    <testcase name=\"check\" classname=\"shardc\"/>\n"
        "  </testsuite>\n</testsuites>\n");
    return;
  }
  const auto counts = [](size_t tests, size_t failed) {
    return " tests=\"" + std::to_string(tests) + "\" failures=\"" +
           std::to_string(failed) + "\">\n";
  };
  out.Append("<testsuites name=\"shardc\"" +
             counts(report.findings.size(), failures));
  for (const std::string& file : files) {
    size_t failed = 0;
    for (const Finding* finding : suites[file]) {
      if (finding->level == Level::kError) ++failed;
    }
    out.Append("  <testsuite name=\"" + Xml(file) + "\"" +
               counts(suites[file].size(), failed));
    for (const Finding* finding : suites[file]) WriteCase(out, *finding);
    out.Append("  </testsuite>\n");
  }
  out.Append("</testsuites>\n");
}

}  // namespace shardc
