// The option `--attention`, which gives the sizes of attention without a
// model's config.json:
//
//   --attention heads=32,kv_heads=8,head_dim=128,batch=4,q_len=128,kv_len=4096
#ifndef SHARDC_CLI_ATTENTION_FLAG_H_
#define SHARDC_CLI_ATTENTION_FLAG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "source/finding.h"

namespace shardc::cli {

struct AttentionFlag {
  std::optional<int64_t> heads, kv_heads, head_dim, value_dim, batch, q_len,
      kv_len, window, latent, rope_dim;
};

// Parses the sizes. Each key may occur once; each value is a positive integer
// of at most 2^31. Returns nullopt after a finding.
std::optional<AttentionFlag> ParseAttention(const std::string& text,
                                            Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_ATTENTION_FLAG_H_
