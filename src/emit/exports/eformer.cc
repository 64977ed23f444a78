// Exports axis rules as a PartitionAxis of the library eformer. Every axis rule
// is written with its effective value, so that the result does not depend on
// eformer's defaults. The format requires a rules file, because a plan file
// does not contain axis rules. For example:
//
//   axes: {head: tp}  ->  {"paxis": {..., "head_axis": "tp", ...}}
#include "emit/exports/exporter.h"
#include "source/json_writer.h"

namespace shardc::exports {
namespace {

void WriteValue(JsonWriter& json, const AxisValue& value) {
  if (value.is_null) {
    json.Null();
  } else if (value.axes.size() == 1) {
    json.String(value.axes[0]);
  } else {
    json.Array(value.axes);
  }
}

void WriteEformer(const Request& request, Sink& out, Findings& findings) {
  if (request.rules == nullptr) {
    findings.Add(
        code::kUsage, {}, "a plan file does not contain the axis rules",
        "give `--rules`, `--mesh` and `--manifest` instead of `--plan`");
    return;
  }
  if (!request.rules->registrations.empty()) {
    const Registration& first = request.rules->registrations.front();
    findings.Add(code::kInexpressible, first.place,
                 "`" + first.name +
                     "` is registered, and the JSON of a PartitionManager "
                     "holds no registrations",
                 "remove `register` from the rules, and call "
                 "`PartitionAxis.register` where the JSON is loaded");
    return;
  }
  if (!EvenShards(request.plan,
                  {"eformer", "eformer drops axes that do not divide"},
                  findings)) {
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("paxis");
  json.BeginObject(JsonLayout::kLines);
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    json.Member(AxisFieldName(rule),
                WrittenBy(WriteValue, request.rules->axes.Value(rule)));
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kEformer{
    "eformer",
    "eformer's PartitionAxis with the axis rules, as a manager's JSON", "json",
    "", WriteEformer};

}  // namespace shardc::exports
