// Writes findings as JUnit XML, with one test suite per file, in the order of
// the files' first findings. Each finding is a test case, and only errors are
// failures. Programs that read JUnit XML identify test cases by name. The name
// of a test case therefore includes the place of the finding, and a repeated
// name gets a number.
//
// Printable() shows control characters of a text as escapes. Xml() also shows
// U+FFFE and U+FFFF as escapes, because XML forbids them. For example, an error
// about `a<b` becomes:
//
//   <failure ... message="`a&lt;b` ...">
#include <map>
#include <vector>

#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Escapes a text for XML 1.0.
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

struct Case {
  const Finding* finding = nullptr;
  std::string file, name;
  std::string where;  // the place, relative to the repository; may be empty
};

std::string FileOf(const FindingReport& report, const Finding& finding) {
  const Place& place = FilePlace(finding);
  return place.source == nullptr
             ? "shardc"
             : report.repository.PathOf(place.source->name());
}

std::vector<Case> Named(const FindingReport& report) {
  std::vector<Case> out;
  std::map<std::string, int> seen;
  for (const Finding& finding : report.findings) {
    Case one{&finding, FileOf(report, finding), finding.code->Id(), {}};
    const Place& place = finding.place;
    if (place.source != nullptr) {
      one.where = IsFile(place) ? one.file : place.ToString();
    }
    if (IsFile(place) && place.HasPosition()) {
      const LineColumn at = place.source->At(place.begin);
      one.where +=
          ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
    }
    one.name += " " + std::string(finding.code->name) + " at " +
                (one.where.empty() ? one.file : one.where);
    const int count = ++seen[one.name];
    if (count > 1) one.name += " (" + std::to_string(count) + ")";
    out.push_back(std::move(one));
  }
  return out;
}

void WriteCase(Sink& out, const Case& one) {
  const Finding& finding = *one.finding;
  out.Append("    <testcase name=\"" + Xml(one.name) + "\" classname=\"" +
             Xml(one.file) + "\"");
  const Place& place = FilePlace(finding);
  if (place.HasPosition()) {
    const LineColumn at = place.source->At(place.begin);
    out.Append(" line=\"" + std::to_string(at.line) + "\"");
  }
  out.Append(">\n");
  const std::string message = MessageText(finding);
  std::string text = Xml(message);
  if (!one.where.empty()) text = Xml(one.where) + ": " + text;
  if (!finding.help.empty()) text += "\nhelp: " + Xml(finding.help);
  if (finding.level == Level::kError) {
    out.Append("      <failure type=\"error\" message=\"" + Xml(message) +
               "\">" + text + "</failure>\n");
  } else {
    out.Append("      <system-out>" + std::string(LevelName(finding.level)) +
               ": " + text + "</system-out>\n");
  }
  out.Append("    </testcase>\n");
}

}  // namespace

void FindingsJunit(const FindingReport& report, Sink& out) {
  // The suites are in the order of their first finding.
  std::vector<std::string> files;
  std::map<std::string, std::vector<const Case*>> suites;
  size_t failures = 0;
  const std::vector<Case> cases = Named(report);
  for (const Case& one : cases) {
    if (suites.find(one.file) == suites.end()) files.push_back(one.file);
    suites[one.file].push_back(&one);
    if (one.finding->level == Level::kError) ++failures;
  }
  out.Append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  if (report.findings.empty()) {
    // Some programs report a document without test cases as an error.
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
    for (const Case* one : suites[file]) {
      if (one->finding->level == Level::kError) ++failed;
    }
    out.Append("  <testsuite name=\"" + Xml(file) + "\"" +
               counts(suites[file].size(), failed));
    for (const Case* one : suites[file]) WriteCase(out, *one);
    out.Append("  </testsuite>\n");
  }
  out.Append("</testsuites>\n");
}

}  // namespace shardc
