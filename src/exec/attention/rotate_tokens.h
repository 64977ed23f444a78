// Rotary embedding of a sharded tensor, [batch, length, heads, dim].
#ifndef SHARDC_EXEC_ATTENTION_ROTATE_TOKENS_H_
#define SHARDC_EXEC_ATTENTION_ROTATE_TOKENS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

enum class RotaryStyle : uint8_t { kHalves, kInterleaved };
enum class RotaryOf : uint8_t { kQuery, kKey };

// The rotation that one device applies to its tokens. Fault injection may
// change it through RotarySeam.
struct Rotation {
  RotaryOf what;
  RotaryStyle style;
  RopeFrequencies frequencies;
  int64_t shift = 0;  // offset of the device's slice in the sequence
};
struct RotarySeam {
  std::function<void(Rotation&)> device;
};

// Rotates the tokens [B, length, heads, D] in place and rounds them to their
// dtype. Token t of row b of the unsharded tensor is at position first[b] + t.
// D must be unsharded, because the two elements of a pair may be D/2 apart.
void RotateTokens(const Machine& machine, ShardedTensor& tokens,
                  const std::vector<int64_t>& first,
                  const RopeFrequencies& frequencies, RotaryStyle style,
                  RotaryOf what);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ROTATE_TOKENS_H_
