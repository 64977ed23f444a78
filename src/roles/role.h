// Room: roles. Finds what each parameter of a model does (query projection,
// output head, scale of a norm), and which of its dimensions are the input and
// the output. Linting, suggested rules, cost, pictures and exports use the same
// roles.
// Includes: source, model.
//
// This file holds the roles, and the properties that follow from a role alone.
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
  kOutput,      // output projection of attention
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
  kBias,    // bias; the role of its module is ParameterRole::module_role
  kScale,   // scale or zero point of a quantised weight
  kVector,  // rank below 2 and unknown role
};

// Returns whether the role is a projection to or from attention heads.
bool IsAttention(Role role);
// Returns whether the role is an attention projection that has only KV heads.
bool IsKeyOrValue(Role role);
// Returns whether the role is a projection of a feed-forward block, including
// its gate.
bool IsMlp(Role role);
bool IsAdapter(Role role);
// Returns whether the role is the scale of a norm, including norms inside
// attention.
bool IsNorm(Role role);
// Returns whether the role is a vector with a number for each head, or for each
// column of the heads.
bool IsHeadVector(Role role);

// Return whether a projection of this role is known to read, or to write,
// activations of the model's width. Both return false for latent and fused
// key-value projections.
bool TakesWidth(Role role);
bool GivesWidth(Role role);

// How well a role is known.
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
