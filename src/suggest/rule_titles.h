// Writes the comment above each suggested rule: the role of its parameters, and
// the reason for its spec.
#ifndef SHARDC_SUGGEST_RULE_TITLES_H_
#define SHARDC_SUGGEST_RULE_TITLES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "suggest/choice.h"
#include "suggest/dims.h"

namespace shardc::suggest {

// The title of a suggested rule, which depends on the role of its parameters.
// The written rules file lists the rules in this order.
enum class Title : uint8_t {
  kEmbedding,
  kHead,
  kTable,
  kPosition,
  kQuery,
  kKeys,
  kToHeads,
  kQkv,
  kLatentUp,
  kOutput,
  kQkvBySizes,
  kHeadsBySizes,
  kLatent,
  kRouter,
  kExpertIn,
  kExpertOut,
  kExpertsBySizes,
  kUp,
  kGateUp,
  kDown,
  kInner,
  kMixer,
  kConvolution,
  kAdapter,
  kUnoriented,
  kOther,
  kScale,
  kBias,
  kHeadVector,
  kReplicated
};

Title TitleOf(const InferredDims& inferred, const Choice& choice);
std::string_view TitleText(Title title);

// Returns the text that explains a spec. If the spec is the usual one for its
// role, the text describes how tp shards the parameter; otherwise it states the
// reason. `tensor` is true if the mesh has a tensor-parallel axis. The text is
// empty if there is nothing to explain.
std::string ReasonText(const Choice& choice, Title title, bool tensor);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_RULE_TITLES_H_
