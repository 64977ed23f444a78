// Writes the tensors and the settings of a verified case (one operation in one
// mode), so that another program can compute the same case. The tensors are one
// safetensors file, each in its own dtype. The settings are JSON.
//
//   tensors:  query BF16, output BF16, reference F64
//   settings: {"causal": true, ...
#include "emit/verify/dump.h"

#include "emit/verify/settings_json.h"
#include "emit/verify/tensor_file.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseTensors;

void WriteSpecs(JsonWriter& json, const Case& test) {
  const auto add = [&](std::string_view tensor, const Spec& spec) {
    json.Key(tensor);
    WriteSpec(json, spec);
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
  json.Member("scale", o.scale);
  json.Member("causal", o.causal);
  json.Key("window");
  if (o.window) {
    json.BeginArray();
    json.Value(o.window->left);
    json.Value(o.window->right);
    json.EndArray();
  } else {
    json.Null();
  }
  json.Member("mask_value", exec::kMaskValue);
  json.Member("padding_segment", o.padding_segment);
  json.Member("masked_rows",
              o.masked_rows == exec::MaskedRows::kMean ? "mean" : "zero");
  // The seed is written as a string, because many JSON readers keep only 53
  // bits of an integer.
  json.Member("dropout_seed", std::to_string(o.dropout_seed));
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
  json.Key("case");
  WriteVerifyCase(json, test, result, metrics);
  if (!tensors.reference.shape.empty()) {
    json.Key("settings");
    WriteDumpSettings(json, test, tensors);
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
