// Writes the comment above each suggested rule: what its parameters do, and the
// reason for its spec.
#ifndef SHARDC_SUGGEST_RULE_TITLES_H_
#define SHARDC_SUGGEST_RULE_TITLES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "suggest/choice.h"
#include "suggest/dims.h"

namespace shardc::suggest {

// What the parameters of a rule do, in the order in which the file lists the
// rules.
enum class Title : uint8_t {
  kEmbedding,
  kHead,
  kPosition,
  kQuery,
  kKeys,
  kQkv,
  kLatentUp,
  kOutput,
  kLatent,
  kRouter,
  kExpertIn,
  kExpertOut,
  kUp,
  kGateUp,
  kDown,
  kInner,
  kMixer,
  kConvolution,
  kAdapter,
  kOther,
  kScale,
  kBias,
  kHeadVector,
  kReplicated
};

Title TitleOf(const InferredDims& inferred, const Choice& choice);
std::string_view TitleText(Title title);

// The reason for a spec, or what the first choice for its role does. `tensor`
// is whether the mesh has tensor parallelism. Empty if there is nothing to
// explain.
std::string ReasonText(const Choice& choice, Title title, bool tensor);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_RULE_TITLES_H_
