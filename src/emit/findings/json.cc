#include "emit/findings/json.h"

#include <optional>

#include "emit/findings/formats.h"

namespace shardc {
namespace {

void WritePosition(JsonWriter& json, const Place& place) {
  LineColumn begin;
  LineColumn end;
  if (place.HasPosition()) {
    begin = place.source->At(place.begin);
    end = place.end == Place::kEntireFile ? begin : place.source->At(place.end);
  }
  const auto known = [](int number) {
    return number > 0 ? std::optional(number) : std::nullopt;
  };
  json.Key("file");
  if (place.source != nullptr) {
    json.String(place.source->name());
  } else {
    json.Null();
  }
  json.Member("line", known(begin.line));
  json.Member("column", known(begin.column));
  json.Member("end_line", known(end.line));
  json.Member("end_column", known(end.column));
}

}  // namespace

void WriteFinding(JsonWriter& json, const Finding& finding) {
  json.BeginObject();
  json.Member("code", finding.code->Id());
  json.Member("name", finding.code->name);
  json.Member("level", LevelName(finding.level));
  json.Member("message", MessageText(finding));
  WritePosition(json, finding.place);
  json.Member("help", finding.help);
  json.Key("params");
  json.Array(finding.params);
  if (!finding.targets.empty()) {
    json.Key("targets");
    json.Array(finding.targets);
  }
  json.EndObject();
}

void WriteFindings(JsonWriter& json, std::span<const Finding> findings) {
  json.BeginArray(JsonLayout::kLines);
  for (const Finding& finding : findings) WriteFinding(json, finding);
  json.EndArray();
}

}  // namespace shardc
