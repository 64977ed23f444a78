// One case's tensors and settings as files, so that other tools can recompute
// it.
#ifndef SHARDC_VERIFY_JUDGE_DUMP_H_
#define SHARDC_VERIFY_JUDGE_DUMP_H_

#include <string>

#include "source/json_writer.h"
#include "verify/cases/case.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

// A safetensors file: query, key, value, output (the sharded result) and
// reference (F64, [B, T, H, D]), and bias, mask, additive_mask, softmax_aux,
// q_segment_ids, kv_segment_ids, q_positions, kv_positions, kv_lengths,
// kv_starts, blocks, and latent attention's latent, rope_key, up_key and
// up_value (key and value are then their expansion, rounded) where they took
// part. Each in its own dtype.
std::string DumpTensors(const CaseTensors& tensors);

// The settings as an object: layout, scale,
// causal, window, mask value, the dropout's seed, masked rows, all that a
// settings file may hold, specs by tensor.
void WriteDumpSettings(JsonWriter& json, const Case& test,
                       const CaseTensors& tensors);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_DUMP_H_
