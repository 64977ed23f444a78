// Rotary embedding of tokens that devices share.
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

// What a device is told of the tokens that it rotates.
struct Rotation {
  RotaryOf what;
  RotaryStyle style;
  RopeFrequencies frequencies;
  int64_t shift = 0;  // of its first token from the rows' first
};
struct RotarySeam {
  std::function<void(Rotation&)> device;
};

// Rotates [B, n, N, D] in place and rounds to its dtype: token t of row b is
// at position first[b] + t, wherever the device's part of the length begins.
// D is whole: pairs lie half of it apart.
void RotateTokens(const Machine& machine, ShardedTensor& tokens,
                  const std::vector<int64_t>& first,
                  const RopeFrequencies& frequencies, RotaryStyle style,
                  RotaryOf what);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ROTATE_TOKENS_H_
