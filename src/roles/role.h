// Directory: roles. Finds what each parameter of a model does (query
// projection, output head, scale of a norm), and which of its dimensions are
// the input and the output. Linting, suggested rules, cost, pictures and
// exports use these roles.
// Its files include headers of these directories: source, model.
//
// This header declares the roles, and the properties that depend only on a
// role.
#ifndef SHARDC_ROLES_ROLE_H_
#define SHARDC_ROLES_ROLE_H_

#include <cstdint>

namespace shardc {

enum class Role : uint8_t {
  kOther,      // unknown
  kEmbedding,  // token embedding, [vocabulary, width]
  kHead,       // output head, from hidden states to logits
  kPosition,
  kQuery,
  kKey,
  kValue,
  kFusedKeyValue,
  kFusedQkv,
  kOutput,      // output projection of attention
  kLatentDown,  // latent attention (MLA): hidden states to the latent
  kLatentUp,    // latent attention (MLA): latent to the heads
  kRouter,
  kGate,
  kUp,
  kFusedGateUp,
  kDown,
  // A matrix that has the model's width on one side, and whose name does not
  // show what it does.
  kProjection,
  kConvolution,
  // A parameter of a state-space mixer (Mamba) or of linear attention, such as
  // `in_proj`, `conv1d` or `A_log`.
  kStateSpace,
  kAdapterDown,  // `lora_A`
  kAdapterUp,    // `lora_B`
  kNorm,
  kQueryNorm,
  kKeyNorm,
  kLatentNorm,
  kSink,    // attention sinks: one logit for each head
  kBias,    // a bias; ParameterRole::module_role is its module's role
  kScale,   // the scale or zero point of a quantised weight
  kVector,  // has rank 0 or 1 and an unknown role
};

// Returns whether the role is a projection to or from attention heads.
bool IsAttention(Role role);
// Returns whether the role is an attention projection whose outputs are only
// keys and values, so that its heads are KV heads.
bool IsKeyOrValue(Role role);
// Returns whether the role is a projection of a feed-forward block, such as a
// gate.
bool IsMlp(Role role);
bool IsAdapter(Role role);
// Returns whether the role is the scale of a norm, inside attention or
// elsewhere.
bool IsNorm(Role role);
// Returns whether the role is a vector of attention with one number for each
// head (sinks), or with numbers for the columns of heads (norms of queries or
// keys).
bool IsHeadVector(Role role);

// TakesWidth() returns whether a projection of this role is known to read
// activations of the model's width, and GivesWidth() whether it writes them.
// Both return false for latent and fused key-value projections.
bool TakesWidth(Role role);
bool GivesWidth(Role role);

// How certain it is that a parameter has a role.
enum class Confidence : uint8_t {
  kNone,
  kSizes,  // sizes agree with the role, but the name does not show it
  // The name has a word that a few frameworks use, some with other meanings.
  kLikely,
  kSure,  // the name has a word with one meaning in every framework
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
