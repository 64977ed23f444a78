// Checks the sizes in a config.json. One of them is the rotary dimension, which
// is the number of elements of a head that are rotated. `rotary_dim` states
// this number. `partial_rotary_factor`, or an older name of this field, states
// it as a fraction of the head. Latent attention states it as
// `qk_rope_head_dim`. Without these fields, a model with rotary embeddings
// rotates the full head.
//
//   head_dim 80, partial_rotary_factor 0.4  ->  32 elements
//   head_dim 63, rope_theta 10000           ->  63: odd, refused at head_dim
#include "parse/check_model_sizes.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model/legal_sizes.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 4> kRotaryPart = {
    "rotary_dim", "partial_rotary_factor", "rotary_pct", "rope_percent"};

// Returns the rotary dimension and the place of the field that sets it. Returns
// an empty field if the model has no rotary embeddings or if the size of its
// heads is unknown.
ConfigField RotaryField(const ModelConfig& config, const SizeFields& read,
                        bool rotates, ConfigFields& fields) {
  if (config.latent_rank) return fields.Size("qk_rope_head_dim");
  if (!config.head_dim) return {};
  auto parameters = fields.Find("rope_parameters");
  if (parameters && !parameters->IsObject()) parameters.reset();
  for (const std::string_view key : kRotaryPart) {
    auto json = parameters ? parameters->Find(key) : std::nullopt;
    if (!json) json = fields.Find(key);
    const auto part = json ? fields.RealOf(*json, key) : std::nullopt;
    if (!part) continue;
    // A value above 1 is a number of elements, not a fraction.
    const int64_t rotated = *part > 1 ? static_cast<int64_t>(*part)
                                      : RotaryDim(*config.head_dim, *part);
    return {rotated, json->place(), false};
  }
  rotates = rotates || config.rope;
  if (!rotates || fields.IsTrue("alibi").value_or(false)) return {};
  ConfigField out = read.head_dim.value ? read.head_dim : read.heads;
  out.value = config.head_dim;
  return out;
}

// Checks that the number of heads divides the hidden size, unless the config
// states the size of a head.
void CheckHeadDim(const ModelConfig& config, const SizeFields& read,
                  Findings& findings) {
  // Only sizes of the same config are compared. In a multimodal model the outer
  // config may describe the image encoder.
  const bool known = read.hidden.value && read.heads.value &&
                     read.hidden.nested == read.heads.nested;
  if (config.head_dim || !known) return;
  findings.Add(code::kNumber, read.heads.place,
               "a hidden size of " + std::to_string(*read.hidden.value) +
                   " does not divide into " +
                   std::to_string(*read.heads.value) + " attention heads",
               "write a divisor, or the width of a head as `head_dim`");
}

// Checks that the config states both parts of a head of latent attention, the
// rotated and the unrotated part. The unrotated part does not follow from
// `head_dim`, because transformers writes the rotated part under this name.
void CheckLatentHead(const ModelConfig& config, ConfigFields& fields,
                     Findings& findings) {
  if (!config.latent_rank || !config.latent_rope_dim) return;
  if (fields.Find("qk_nope_head_dim")) return;
  findings.Add(code::kNumber, fields.Find("qk_rope_head_dim")->place(),
               "latent attention has `qk_rope_head_dim` but no "
               "`qk_nope_head_dim`",
               "add `qk_nope_head_dim`, the part of a head that is not rotated "
               "(128 in DeepSeek-V3)");
}

}  // namespace

void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings) {
  CheckHeadDim(config, read, findings);
  CheckLatentHead(config, fields, findings);
  const ConfigField rotary = RotaryField(config, read, rotates, fields);
  ModelSizes sizes;
  sizes.heads = config.heads;
  if (read.heads.nested == read.kv_heads.nested) {
    sizes.kv_heads = read.kv_heads.value;
  }
  sizes.head_dim = config.latent_rank ? rotary.value : config.head_dim;
  sizes.rotary_dim = rotary.value;
  sizes.experts = config.experts;
  sizes.experts_per_token = read.experts_per_token.value;
  for (IllegalSize& one : IllegalSizes(sizes)) {
    const ConfigField* field = &rotary;
    if (one.which == IllegalSize::Which::kKvHeads) field = &read.kv_heads;
    if (one.which == IllegalSize::Which::kExpertsPerToken) {
      field = &read.experts_per_token;
    }
    findings.Add(code::kNumber, field->place, std::move(one.message),
                 std::move(one.help));
  }
}

}  // namespace shardc
