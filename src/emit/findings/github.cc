// Writes findings as GitHub workflow commands: `::error
// file=a,line=1,title=t::message`. GitHub requires that `%`, CR and LF are
// escaped. In properties such as `title`, `:` and `,` are escaped as well.
#include "emit/findings/formats.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string Data(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '%') {
      out += "%25";
    } else if (c == '\r') {
      out += "%0D";
    } else if (c == '\n') {
      out += "%0A";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Property(std::string_view text) {
  std::string out;
  for (char c : Data(text)) {
    if (c == ':') {
      out += "%3A";
    } else if (c == ',') {
      out += "%2C";
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view Command(Level level) {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kWarning:
      return "warning";
    case Level::kNote:
      break;
  }
  return "notice";
}

std::string Properties(const FindingReport& report, const Finding& finding) {
  std::string out;
  if (const Place& place = FilePlace(finding); IsFile(place)) {
    const Source& source = *place.source;
    const std::string path = report.repository.PathOf(source.name());
    out += "file=" + Property(Printable(path)) + ",";
    if (place.HasPosition()) {
      const LineColumn begin = source.At(place.begin);
      out += "line=" + std::to_string(begin.line) + ",";
      if (place.end != Place::kEntireFile) {
        const LineColumn end = source.At(place.end);
        out += "endLine=" + std::to_string(end.line) + ",";
        // GitHub accepts columns only for findings within one line.
        if (end.line == begin.line) {
          out += "col=" + std::to_string(begin.column) +
                 ",endColumn=" + std::to_string(end.column) + ",";
        }
      }
    }
  }
  return out + "title=" +
         Property(finding.code->Id() + " " + std::string(finding.code->name));
}

void WriteLevel(Sink& out, const FindingReport& report, Level level) {
  for (const Finding& finding : report.findings) {
    if (finding.level != level) continue;
    std::string text = Printable(PlacedMessageText(finding));
    if (!finding.help.empty()) text += "\nhelp: " + Printable(finding.help);
    out.Append("::" + std::string(Command(level)) + " " +
               Properties(report, finding) + "::" + Data(text) + "\n");
  }
}

}  // namespace

void FindingsGithub(const FindingReport& report, Sink& out) {
  WriteLevel(out, report, Level::kError);
  WriteLevel(out, report, Level::kWarning);
  WriteLevel(out, report, Level::kNote);
}

}  // namespace shardc
