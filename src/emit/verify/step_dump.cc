// Writes the tensors of a verified step to a safetensors file, and describes
// them in JSON, so that another program can recompute the step. Results of ops
// are numbered in the order in which the step computes them. The file has two
// tensors for each result: the computed value and its reference. For example,
// result 12 has these two tensors and one entry in the JSON:
//
//   0012.output F32, 0012.reference F64
//   {"name": "0012", "part": "layer 0", "phase": "forward", "op": "linear q"
//   ...
#include "emit/verify/step_dump.h"

#include <string_view>

#include "emit/verify/step_json.h"
#include "emit/verify/tensor_file.h"
#include "source/json_writer.h"

namespace shardc {

std::string StepDumpTensors(const verify::StepReport& report) {
  TensorFile out;
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const verify::StepTensor& one = report.tensors[i];
    const std::string name = DumpNumber(i);
    out.Add(name + (one.input ? ".input" : ".output"), one.made);
    out.Add(name + ".reference", one.made.shape, one.reference);
  }
  return out.Take();
}

void WriteStepDumpJson(const verify::StepReport& report, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("step");
  WriteStepReport(json, report);
  json.Key("settings");
  json.BeginObject();
  // The seed is written as a string, because many JSON readers keep only 53
  // bits of an integer.
  json.Member("seed", std::to_string(report.seed));
  json.Member("dtype", DtypeName(report.dtype));
  json.EndObject();
  json.Key("tensors");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const verify::StepTensor& one = report.tensors[i];
    json.BeginObject();
    json.Member("name", DumpNumber(i));
    json.Member("part", one.part);
    json.Member("phase", verify::PhaseName(one.phase));
    json.Member("op", one.op);
    json.Member("value", one.value);
    json.Member("input", one.input);
    json.Member("error", one.error);
    json.Member("allowed", one.allowed);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Append("\n");
}

}  // namespace shardc
