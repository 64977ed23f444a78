// What a kind's name says it is for: the roles that lints read, and words that
// only a suggestion needs.
#ifndef SHARDC_SUGGEST_WORDS_H_
#define SHARDC_SUGGEST_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "lint/analysis/roles.h"
#include "suggest/kinds.h"

namespace shardc::suggest {

enum class Part : uint8_t {
  kEmbedding,
  kHead,
  kPosition,
  kQuery,
  kKey,
  kValue,
  kKeyValue,  // both in one
  kQkv,
  kOutput,
  kLatent,    // down to a latent
  kLatentUp,  // from a latent to heads
  kRouter,
  kUp,  // a gate as well
  kGateUp,
  kDown,
  kInner,  // of no known name, between the width and something else
  kConvolution,
  kAdapter,
  kMixer,  // of a state space: packed
  kBias,
  kScale,
  kVector,
  kHeadVector,  // a number for each head, or for each column of the heads
  kOther
};

// A role that a name alone says; sizes may deny it.
struct Named {
  Part part = Part::kOther;
  GroupRole role;       // as lints read it
  bool known = false;   // some word of the name is known
  bool linted = false;  // and by lints as well
  bool blocks = false;  // packed blocks, whose last dimension is one
  bool below_experts = false;
  bool counted_experts = false;  // one tensor for each
  // What the parts of one block share: up to attention's part, or the parent
  // of the part that says the role.
  std::string family;
  std::string stem;  // the path to the weight: a bias and its weight share it
};

Named ReadName(const Kind& kind, char separator);

bool IsAttention(Part part);  // q, k, v, fused, output, from a latent
bool IsMlp(Part part);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_WORDS_H_
