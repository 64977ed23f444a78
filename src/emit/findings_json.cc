#include "emit/findings_json.h"

#include "source/wording.h"

namespace shardc {
namespace {

void AppendPosition(std::string& out, const Place& place) {
  const auto add = [&](std::string_view key, int value) {
    out += ", \"";
    out += key;
    out += "\": ";
    out += value > 0 ? std::to_string(value) : "null";
  };
  LineColumn begin;
  LineColumn end;
  if (place.HasPosition()) {
    begin = place.source->At(place.begin);
    end = place.end == Place::kWhole ? begin : place.source->At(place.end);
  }
  out += ", \"file\": ";
  if (place.source != nullptr) {
    AppendJsonString(out, place.source->name());
  } else {
    out += "null";
  }
  add("line", begin.line);
  add("column", begin.column);
  add("end_line", end.line);
  add("end_column", end.column);
}

void AppendFinding(std::string& out, const Finding& finding) {
  out += "{\"code\": ";
  AppendJsonString(out, finding.code->Id());
  out += ", \"name\": ";
  AppendJsonString(out, finding.code->name);
  out += ", \"level\": ";
  AppendJsonString(out, LevelName(finding.level));
  out += ", \"message\": ";
  AppendJsonString(out, finding.message);
  AppendPosition(out, finding.place);
  out += ", \"help\": ";
  AppendJsonString(out, finding.help);
  out += ", \"params\": [";
  for (size_t i = 0; i < finding.params.size(); ++i) {
    if (i > 0) out += ", ";
    AppendJsonString(out, finding.params[i]);
  }
  out += "]}";
}

}  // namespace

void AppendFindingsJson(std::string& out, std::span<const Finding> findings,
                        std::string_view indent) {
  out += '[';
  for (size_t i = 0; i < findings.size(); ++i) {
    out += i == 0 ? "\n" : ",\n";
    out += indent;
    out += "  ";
    AppendFinding(out, findings[i]);
  }
  if (!findings.empty()) {
    out += '\n';
    out += indent;
  }
  out += ']';
}

}  // namespace shardc
