// Parts that stand one behind the other are cut as one dimension. No device
// has its share of each part, however the sizes divide:
//
//   queries | keys | values of 1600 over tp 4
//     -> 0 to 1199, all of queries | 1200 to 2399 ...
//
// Families that interleave their parts (a head's query, key and value side by
// side; gate and up row by row) are cut well, and are not told.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kFusedContiguous;

namespace {

// BLOOM, GPT-NeoX and Falcon interleave by head, ChatGLM does not.
constexpr std::string_view kByHead = "query_key_value";
constexpr std::array<std::string_view, 2> kContiguousFamilies = {"chatglm",
                                                                 "glm"};
// Every other column is a gate's.
constexpr std::string_view kInterleavedGates = "gpt_oss";

bool Interleaves(const Facts& facts, const ParameterGroup& group) {
  const std::string_view family =
      facts.model() == nullptr ? ""
                               : std::string_view(facts.model()->model_type);
  if (group.role.role == Role::kFusedGateUp) return family == kInterleavedGates;
  const auto parts = SplitName(group.name, facts.separator());
  return std::find(parts.begin(), parts.end(), kByHead) != parts.end() &&
         std::find(kContiguousFamilies.begin(), kContiguousFamilies.end(),
                   family) == kContiguousFamilies.end();
}

bool PartsDivide(const Fused& fused, int64_t shards) {
  return std::all_of(
      fused.parts.begin(), fused.parts.end(),
      [&](const FusedPart& part) { return part.size % shards == 0; });
}

void Check(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group) || Interleaves(facts, group)) continue;
    const auto fused = FusedOf(facts, group);
    if (!fused) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, fused->dim));
    const int64_t shards = facts.TensorParts(axes);
    // Where a part does not divide, SHD221 speaks.
    if (shards <= 1 || !PartsDivide(*fused, shards)) continue;
    const TensorType& type = facts.TypeOf(group);
    const int64_t width = (*type.shape)[static_cast<size_t>(fused->dim)];
    if (!type.dtype) continue;
    const auto row = BytesOf(width / shards * (shards - 1), *type.dtype);
    if (!row) continue;
    sink.push_back(GroupFinding(
        facts, kFusedContiguous.code, group,
        "dimension " + std::to_string(fused->dim) + " of " +
            ParametersText(facts, group) +
            " packs parts one behind the other, and is cut in one over " +
            GroupText(axes) +
            ": no shard is a share of each part, and a compiler gathers what "
            "leaves it, " +
            BytesText(*row) + " a token and layer, in training once more back",
        "cut part by part when weights are loaded, make parameters of the"
        " parts, or leave the dimension whole"));
  }
}

}  // namespace

constinit const Lint kFusedContiguous{
    .code = {230, "fused-contiguous", Level::kNote,
             "a fused projection is cut across its parts"},
    .needs = kNeedsShapes,
    .what =
        "Finds fused query-key-value and gate-up projections whose parts "
        "stand one behind the other and whose width is split over a tensor "
        "parallel axis, though each part divides by it.",
    .why =
        "A contiguous cut of queries, keys and values gives the first device "
        "queries only. A compiler that sees the whole program moves the "
        "activations so that each device has its part of each; Megatron-LM "
        "and vLLM cut part by part instead, when weights are loaded, so there "
        "the spec is right and means something else (pytorch/pytorch#140069).",
    .instead =
        "Make parameters of the parts, or ignore this where the loader cuts "
        "part by part.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'c_attn/kernel'
    spec: [FSDP, HEAD]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "h/0/attn/c_attn/kernel": {"shape": [1600, 4800], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'c_attn/kernel'
    spec: [FSDP, null]
)"},
    .check = Check};

}  // namespace shardc
