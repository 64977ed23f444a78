// One case's tensors and settings as files, so that other tools can recompute
// it.
#ifndef SHARDC_EMIT_VERIFY_DUMP_H_
#define SHARDC_EMIT_VERIFY_DUMP_H_

#include <string>

#include "emit/verify/verify_json.h"
#include "source/sink.h"
#include "verify/cases/case.h"
#include "verify/judge/run_case.h"

namespace shardc {

// A safetensors file: query, key, value, output (the sharded result) and
// reference (F64, [B, T, H, D]), and bias, mask, additive_mask, softmax_aux,
// q_segment_ids, kv_segment_ids, q_positions, kv_positions, kv_lengths,
// kv_starts, blocks, and latent attention's latent, rope_key, up_key and
// up_value (key and value are then their expansion, rounded) where they took
// part. Each in its own dtype.
std::string DumpTensors(const verify::CaseTensors& tensors);

// {"case": ..., "settings": {...}}: the settings where it was run, with
// layout, scale (null: by the head dim), causal, window, mask value, the
// dropout's seed, masked rows, all that a settings file may hold, and specs by
// tensor.
void WriteDumpJson(const verify::Case& test, const verify::CaseResult& result,
                   const verify::CaseTensors& tensors, Metrics metrics,
                   Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_DUMP_H_
