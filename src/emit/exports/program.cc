// Exports the step of a `model:` section as a traced program, for the option
// `--program` of other commands. The format is that of `python -m
// shardc.program`, whose keys are in the table of ops (program/read.h):
//
//   a dot of values 3 and 0  ->  {"op": "dot", "in": [3, 0], "out": [4],
//                                 "lhs_contract": [1], "rhs_contract": [0],
//                                 "lhs_batch": [], "rhs_batch": []}
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "emit/exports/exporter.h"
#include "model/dtype.h"
#include "program/read.h"
#include "source/json_writer.h"

namespace shardc::exports {
namespace {

using program::AttrForm;
using program::Op;

void WriteNumber(JsonWriter& json, double number) {
  if (std::isfinite(number)) return json.Real(number);
  json.String(std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

void WriteValue(JsonWriter& json, const program::Value& value) {
  json.Members("shape", value.shape, "dtype", DtypeName(*value.dtype));
  json.Member("integers", Given(value.integers));
  if (value.floats.empty()) return;
  json.Array("floats", value.floats,
             [&](double number) { WriteNumber(json, number); });
}

void WriteAttribute(JsonWriter& json, const program::AttrRow& row,
                    std::span<const int64_t> numbers) {
  json.Key(row.key);
  switch (row.form) {
    case AttrForm::kFlag:
      return json.Bool(numbers[0] != 0);
    case AttrForm::kDim:
    case AttrForm::kCount:
    case AttrForm::kNumber:
      return json.Integer(numbers[0]);
    default:
      return json.Array(numbers);
  }
}

void WriteOp(JsonWriter& json, const Op& op) {
  const program::OpRow& row = program::RowOf(op.kind);
  json.Members("op", row.name, "in", op.in, "out", op.out);
  if (op.at.known()) {
    json.Member("at", std::vector<int32_t>{op.at.file, op.at.line});
  }
  if (op.phase != program::Phase::kForward) {
    json.Member("phase", PhaseName(op.phase));
  }
  if (!row.word.empty()) json.Member(row.word, op.word);
  for (const program::AttrRow& attribute : row.attributes) {
    if (attribute.optional && op.Of(attribute.attr).empty()) continue;
    WriteAttribute(json, attribute, op.Of(attribute.attr));
  }
  if (op.kind == program::OpKind::kGather ||
      op.kind == program::OpKind::kScatter) {
    json.Member("mode", program::kIndexModeNames[static_cast<size_t>(op.mode)]);
  }
  if (op.fill) {
    json.Key("fill");
    WriteNumber(json, *op.fill);
  }
}

void WriteProgram(const Request& request, Sink& out, Findings&) {
  const program::Program& of = *request.step;
  WriteDocument(out, "shardc.program/v1", [&](JsonWriter& json) {
    json.Members("traced", Record("by", of.traced_by, "function", of.function),
                 "files", of.files);
    json.Rows("values", of.values,
              [&](const program::Value& value) { WriteValue(json, value); });
    json.Rows("inputs", of.inputs, [&](const program::Input& input) {
      json.Members("value", input.value, "kind",
                   program::kInputKindNames[static_cast<size_t>(input.kind)],
                   "name", input.name);
    });
    json.Rows("ops", of.ops, [&](const Op& op) { WriteOp(json, op); });
    json.Members("outputs", of.outputs, "assumptions", of.assumptions,
                 "unknown", std::vector<std::string>());
  });
}

}  // namespace

const Exporter kProgram = {
    .name = "program",
    .what = "the step of the model as a traced program, for `--program`",
    .formats = "json",
    .flags = "--mode --batch --seq",
    .write = WriteProgram,
    .of_step = true};

}  // namespace shardc::exports
