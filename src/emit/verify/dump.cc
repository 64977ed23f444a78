// Writes the tensors and the settings of a verified case (one operation in one
// mode), so that another program can compute the same case. The tensors are one
// safetensors file, each in its own dtype. The settings are JSON.
//
//   tensors:  query BF16, output BF16, reference F64
//   settings: {"causal": true, ...
#include "emit/verify/dump.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "emit/verify/step_json.h"
#include "emit/verify/verify_json.h"
#include "floats/convert.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseTensors;

void WriteSpecs(JsonWriter& json, const Case& test) {
  const auto add = [&](std::string_view tensor, const Spec& spec) {
    json.Member(tensor, WrittenBy(WriteSpec, spec));
  };
  json.Key("specs");
  json.BeginObject();
  add("query", test.specs.query);
  add("key", test.specs.key);
  add("value", test.specs.value);
  add("output", test.specs.output);
  add("bias", test.specs.bias);
  add("mask", test.specs.mask);
  add("q_segment_ids", test.specs.query_segments);
  add("kv_segment_ids", test.specs.key_segments);
  add("softmax_aux", test.specs.softmax_aux);
  json.EndObject();
}

// Writes the options of this run and all settings that a settings file may
// have.
void WriteDumpSettings(JsonWriter& json, const Case& test,
                       const CaseTensors& tensors) {
  const exec::AttentionOptions& o = tensors.problem.options;
  json.BeginObject();
  // Null means the default scale, 1 / sqrt(head dimension).
  json.Members("scale", o.scale, "causal", o.causal);
  json.Key("window");
  if (o.window) {
    json.BeginArray();
    json.Value(o.window->left);
    json.Value(o.window->right);
    json.EndArray();
  } else {
    json.Null();
  }
  // The seed is written as a string, because many JSON readers keep only 53
  // bits of an integer.
  json.Members("mask_value", exec::kMaskValue, "padding_segment",
               o.padding_segment, "masked_rows",
               o.masked_rows == exec::MaskedRows::kMean ? "mean" : "zero",
               "dropout_seed", std::to_string(o.dropout_seed));
  WriteSettingsMembers(json, test, true);
  WriteSpecs(json, test);
  json.EndObject();
}

}  // namespace

std::string DumpTensors(const CaseTensors& tensors) {
  TensorFile out;
  if (!tensors.trace.empty()) {
    for (const auto& [name, buffer] : tensors.trace) out.Add(name, buffer);
    return out.Take();
  }
  const exec::AttentionProblem& p = tensors.problem;
  out.Add("query", p.query);
  if (!p.latent) {
    out.Add("key", p.key);
    out.Add("value", p.value);
  }
  out.Add("output", tensors.output);
  out.Add("reference", tensors.reference.shape, tensors.reference.data);
  out.Add("bias", p.bias);
  out.Add("mask", p.mask);
  out.Add("additive_mask", p.additive_mask);
  out.Add("softmax_aux", p.softmax_aux);
  out.Add("q_segment_ids", p.query_segments);
  out.Add("kv_segment_ids", p.key_segments);
  out.Add("q_positions", p.query_positions);
  out.Add("kv_positions", p.key_positions);
  out.Add("kv_lengths", p.key_lengths);
  out.Add("kv_starts", p.key_starts);
  out.Add("blocks", p.blocks);
  if (p.latent) {
    out.Add("latent", p.latent->latent);
    out.Add("rope_key", p.latent->rope_key);
    out.Add("up_key", p.latent->up_key);
    out.Add("up_value", p.latent->up_value);
  }
  return out.Take();
}

void WriteDumpJson(const Case& test, const verify::CaseResult& result,
                   const CaseTensors& tensors, Metrics metrics, Sink& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Member("case", WrittenBy(WriteVerifyCase, test, result, metrics));
  if (!tensors.reference.shape.empty()) {
    json.Member("settings", WrittenBy(WriteDumpSettings, test, tensors));
  }
  json.EndObject();
  out.Put('\n');
}

// Writes the tensors of a verified step to a safetensors file, and describes
// them in JSON, so that another program can recompute the step. Results of ops
// are numbered in the order in which the step computes them. The file has two
// tensors for each result: the computed value and its reference. For example,
// result 12 has these two tensors and one entry in the JSON:
//
//   0012.output F32, 0012.reference F64
//   {"name": "0012", "part": "layer 0", "phase": "forward", "op": "linear q"
//   ...

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
  json.Member("step", WrittenBy(WriteStepReport, report));
  json.Key("settings");
  json.BeginObject();
  // The seed is written as a string, because many JSON readers keep only 53
  // bits of an integer.
  json.Members("seed", std::to_string(report.seed), "dtype",
               DtypeName(report.dtype));
  json.EndObject();
  json.Key("tensors");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < report.tensors.size(); ++i) {
    const verify::StepTensor& one = report.tensors[i];
    json.Object("name", DumpNumber(i), "part", one.part, "phase",
                verify::PhaseName(one.phase), "op", one.op, "value", one.value,
                "input", one.input, "error", one.error, "allowed", one.allowed);
  }
  json.EndArray();
  json.EndObject();
  out.Append("\n");
}

// Writes tensors to a safetensors file, as little-endian bytes:
//
//   1.0 in BF16  ->  80 3F     1.0 in F64, as in references  ->  00 ... F0 3F

namespace {

template <class T>
void AppendBytes(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    for (size_t i = sizeof(T); i > 0;) {
      --i;
      out += bytes[i];
    }
  } else {
    out.append(bytes, sizeof(T));
  }
}

std::string BytesOf(const std::vector<double>& data) {
  std::string out;
  out.reserve(data.size() * sizeof(double));
  for (double x : data) AppendBytes(out, x);
  return out;
}

std::string BytesOfBuffer(const exec::Buffer& buffer) {
  std::string out = BytesOf(buffer.wide);
  for (float x : buffer.real) {
    if (buffer.dtype == Dtype::kBF16) {
      AppendBytes(out, BFloat16Bits(x));
    } else if (buffer.dtype == Dtype::kF16) {
      AppendBytes(out, Float16Bits(x));
    } else {
      AppendBytes(out, x);
    }
  }
  for (int32_t x : buffer.integers) {
    if (buffer.dtype == Dtype::kI32) {
      AppendBytes(out, x);
    } else {
      AppendBytes(out, static_cast<int8_t>(x));
    }
  }
  return out;
}

}  // namespace

std::string DumpNumber(size_t index) {
  std::string out = std::to_string(index);
  out.insert(0, out.size() < 4 ? 4 - out.size() : 0, '0');
  return out;
}

void TensorFile::Add(std::string_view name, Dtype dtype, const Shape& shape,
                     const std::string& bytes) {
  entries_.push_back(
      {std::string(name), dtype, shape, static_cast<int64_t>(bytes.size())});
  data_ += bytes;
}

void TensorFile::Add(std::string_view name, const exec::Buffer& buffer) {
  Add(name, buffer.dtype, buffer.shape, BytesOfBuffer(buffer));
}

void TensorFile::Add(std::string_view name,
                     const std::optional<exec::Buffer>& buffer) {
  if (buffer) Add(name, *buffer);
}

void TensorFile::Add(std::string_view name, const Shape& shape,
                     const std::vector<double>& data) {
  Add(name, Dtype::kF64, shape, BytesOf(data));
}

std::string TensorFile::Take() {
  return SafetensorsHeaderText(entries_, {}) + data_;
}

}  // namespace shardc
