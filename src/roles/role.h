// Room: roles. What each parameter of a model does (query projection, output
// head, scale of a norm), and which of its dimensions enters and leaves its
// module. One vocabulary for everything above: linting, suggesting rules, cost,
// pictures, exports.
// Includes: source, model.
//
// The roles themselves, and what follows from a role alone.
#ifndef SHARDC_ROLES_ROLE_H_
#define SHARDC_ROLES_ROLE_H_

#include <cstdint>

namespace shardc {

enum class Role : uint8_t {
  kOther,      // unknown
  kEmbedding,  // token table, [vocabulary, width]
  kHead,       // output head, from the width to the vocabulary
  kPosition,
  kQuery,
  kKey,
  kValue,
  kFusedKeyValue,
  kFusedQkv,
  kOutput,      // of attention
  kLatentDown,  // latent attention, from the width to a latent
  kLatentUp,    // latent attention, from a latent to heads
  kRouter,
  kGate,
  kUp,
  kFusedGateUp,
  kDown,
  kProjection,  // between the width and something unknown; by sizes only
  kConvolution,
  kStateSpace,   // packed projections and convolutions of a state space mixer
  kAdapterDown,  // `lora_A`
  kAdapterUp,    // `lora_B`
  kNorm,
  kQueryNorm,
  kKeyNorm,
  kLatentNorm,
  kSink,    // attention sinks, one number for each head
  kBias,    // of a module whose own role is ParameterRole::module_role
  kScale,   // of a quantised weight, and its zero point
  kVector,  // rank below 2, of no known role
};

// Projections between the model's width and attention heads.
bool IsAttention(Role role);
// Attention projections that hold KV heads only.
bool IsKeyOrValue(Role role);
// Projections of a feed-forward block, a gate included.
bool IsMlp(Role role);
bool IsAdapter(Role role);
// Scales of norms, those inside attention included.
bool IsNorm(Role role);
// Vectors that hold a number for each head or for each column of the heads.
bool IsHeadVector(Role role);

// Projections that read activations of the model's width, and those that write
// them. Latent and fused key-value projections, whose other side is no
// activation that is comparable, are neither.
bool TakesWidth(Role role);
bool GivesWidth(Role role);

// How well a role is known. A finding or a byte count reads sure roles only; a
// suggestion, whose file states its assumptions, reads likely ones too.
enum class Confidence : uint8_t {
  kNone,
  kSizes,   // sizes agree with the role; the name does not contain one
  kLikely,  // words that a few frameworks use, some of them in other meanings
  kSure,    // words with one meaning in every framework that uses them
};

// The last part of a parameter's path.
enum class Leaf : uint8_t {
  kWeight,
  kKernel,
  kBias,
  kScale,
  kZeroPoint,
  kEmbeddingTable,
  kOther
};

}  // namespace shardc

#endif  // SHARDC_ROLES_ROLE_H_
