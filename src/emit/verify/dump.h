// Writes the tensors and settings of one case (an operation in a mode), so that
// another program can recompute it.
#ifndef SHARDC_EMIT_VERIFY_DUMP_H_
#define SHARDC_EMIT_VERIFY_DUMP_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/verify/verify_json.h"
#include "exec/machine/buffer.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "source/sink.h"
#include "verify/cases/case.h"
#include "verify/judge/run_case.h"
#include "verify/step/step_report.h"

namespace shardc {

// Returns a safetensors file, each tensor in its own dtype: query, key, value,
// output (the sharded result) and reference (F64, [B, T, H, D]). The inputs
// that the case uses are added: bias, mask, additive_mask, softmax_aux,
// q_segment_ids, kv_segment_ids, q_positions, kv_positions, kv_lengths,
// kv_starts and blocks. Latent attention has latent, rope_key, up_key and
// up_value in place of key and value. For a cache or pages the file has, for
// each step, the contents before and after the step, the tokens that were
// written, and their slots (`step-0003/before/key`).
std::string DumpTensors(const verify::CaseTensors& tensors);

// Writes {"case": ..., "settings": {...}}. `settings` is written only if the
// case has exactly one reference result. A case that did not run has none. A
// case that is verified call by call over a KV cache has several. The settings
// are all settings of a settings file, the spec of each tensor, and the options
// of the call: scale (null: computed from the head dimension), causal, window,
// mask value, padding segment, dropout seed, and the output of masked rows.
void WriteDumpJson(const verify::Case& test, const verify::CaseResult& result,
                   const verify::CaseTensors& tensors, Metrics metrics,
                   Sink& out);

// Returns a safetensors file. An input with number 3 has two tensors:
// `0003.input` in its own dtype and `0003.reference` in float64. A compared
// value with number 12 has `0012.output`, gathered from the devices, and
// `0012.reference`.
std::string StepDumpTensors(const verify::StepReport& report);

// Writes {"step": ..., "settings": {...}, "tensors": [...]}. `step` is the
// object that WriteStepReport() writes. `settings` has the other options of the
// run. `tensors` describes the tensor that each number of StepDumpTensors
// names.
void WriteStepDumpJson(const verify::StepReport& report, Sink& out);

// Returns a number with leading zeros (`0007`), so that names sort by number.
std::string DumpNumber(size_t index);

class TensorFile {
 public:
  void Add(std::string_view name, const exec::Buffer& buffer);
  void Add(std::string_view name, const std::optional<exec::Buffer>& buffer);
  // Adds a tensor of float64 values.
  void Add(std::string_view name, const Shape& shape,
           const std::vector<double>& data);

  std::string Take();

 private:
  void Add(std::string_view name, Dtype dtype, const Shape& shape,
           const std::string& bytes);

  std::vector<HeaderEntry> entries_;
  std::string data_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_DUMP_H_
