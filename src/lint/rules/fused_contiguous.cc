// Reports fused projections whose parts are stored one after the other and are
// sharded as one dimension. A device then has one piece of the dimension and
// not its share of each part. This holds even if the number of shards divides
// the size of each part:
//
//   queries | keys | values of 1600 over tp 4
//     -> 0 to 1199, queries only | 1200 to 2399, queries and keys | ...
//
// Some families interleave the parts (query, key and value of each head;
// alternating columns of gate and up). Their fused projections are sharded
// correctly, and not reported. Nothing is reported if the `model:` section has
// `fused: by_part`, and of a mixer whose output projection reads unsharded
// activations, because its projections are then gathered in any case.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "model/model_description.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Tensors of these names are interleaved by head: `query_key_value` in BLOOM,
// GPT-NeoX and Falcon (in ChatGLM it is not), `linear_qkv` in Megatron-Core,
// and the others in Qwen3-Next.
constexpr std::array<std::string_view, 4> kByHead = {
    "query_key_value", "linear_qkv", "in_proj_qkvz", "in_proj_ba"};
constexpr std::array<std::string_view, 2> kContiguousFamilies = {"chatglm",
                                                                 "glm"};
// The model family in which the columns of gate and up alternate.
constexpr std::string_view kInterleavedGates = "gpt_oss";

bool Interleaves(const Facts& facts, const ParameterGroup& group) {
  const std::string_view family =
      facts.model() == nullptr ? ""
                               : std::string_view(facts.model()->model_type);
  if (group.role.module_role == Role::kFusedGateUp)
    return family == kInterleavedGates;
  const auto parts = SplitName(group.name, facts.separator());
  return std::find_first_of(parts.begin(), parts.end(), kByHead.begin(),
                            kByHead.end()) != parts.end() &&
         std::find(kContiguousFamilies.begin(), kContiguousFamilies.end(),
                   family) == kContiguousFamilies.end();
}

bool PartsDivide(const Fused& fused, int64_t shards) {
  return std::all_of(
      fused.parts.begin(), fused.parts.end(),
      [&](const FusedPart& part) { return part.size % shards == 0; });
}

}  // namespace

void CheckFusedContiguous(const Facts& facts, FindingSink& sink) {
  const auto& model = facts.compiled().rules.model;
  if (model != nullptr && model->IsFusedByPart()) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group) || Interleaves(facts, group)) continue;
    const Fused* const fused = facts.blocks().Of(group);
    if (fused == nullptr || fused->mixer || IsGathered(facts, group)) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t shards = facts.TensorParts(axes);
    // SHD221 reports the projection if the shards do not divide each part.
    if (shards <= 1 || !PartsDivide(*fused, shards)) continue;
    const TensorType& type = facts.TypeOf(group);
    const int64_t width = (*type.shape)[static_cast<size_t>(fused->dim)];
    if (!type.dtype) continue;
    const auto row = BytesOf(width / shards * (shards - 1), *type.dtype);
    if (!row) continue;
    const std::string parts_text =
        PartsText(*fused) +
        (fused->evidence.empty() ? "" : "; " + fused->evidence);
    sink.push_back(GroupFinding(
        facts, kFusedContiguous.code, group,
        "dimension " + std::to_string(fused->dim) + " of " +
            ParametersText(facts, group) +
            (fused->evidence.empty()
                 ? " stores several parts one after the other ("
                 : " holds several parts (") +
            parts_text + ") and is split as one over " + GroupText(axes) +
            (fused->evidence.empty() ? ": "
                                     : ": unless they are interleaved, ") +
            "no shard has its share of each part, so that a compiler gathers "
            "the output, " +
            BytesText(*row) +
            // Several experts compute a token, so bytes are given for one
            // expert.
            (group.role.expert ? " for each token of an expert"
                               : " a token and layer") +
            ", and in training the same backward",
        "shard each part when weights are loaded (`fused: by_part` in the "
        "`model:` section), store the parts as separate parameters, or leave "
        "the dimension unsharded"));
  }
}

}  // namespace shardc
