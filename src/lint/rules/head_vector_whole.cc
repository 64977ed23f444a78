// Vectors with a number for each head, or for each column of the query or key:
//
//   sinks [64] beside q_proj split over tp 8    ->  8 of them on each device
//   q_norm [4096], a mean over all heads        ->  each device has 512 columns
//
// A norm over one head's width is used by every head, so it is whole rightly.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"

namespace shardc {

extern const Lint kHeadVectorWhole;

namespace {

constexpr std::array<std::string_view, 4> kSinks = {
    "sinks", "sink", "attention_sinks", "attn_sink"};
constexpr std::array<std::string_view, 4> kQueryNorms = {
    "q_norm", "query_norm", "q_layernorm", "norm_q"};
constexpr std::array<std::string_view, 4> kKeyNorms = {"k_norm", "key_norm",
                                                       "k_layernorm", "norm_k"};

enum class Vector { kSink, kQueryNorm, kKeyNorm };

struct Named {
  Vector vector;
  std::string block;  // the path before the part that names it
};

template <size_t N>
bool Holds(const std::array<std::string_view, N>& names,
           std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Before(std::string_view name, std::string_view part) {
  return std::string(
      name.substr(0, static_cast<size_t>(part.data() - name.data())));
}

std::optional<Named> VectorOf(const ParameterGroup& group, char separator) {
  for (std::string_view part : SplitName(group.name, separator)) {
    std::optional<Vector> vector;
    if (Holds(kSinks, part)) vector = Vector::kSink;
    if (Holds(kQueryNorms, part)) vector = Vector::kQueryNorm;
    if (Holds(kKeyNorms, part)) vector = Vector::kKeyNorm;
    if (vector) return Named{*vector, Before(group.name, part)};
  }
  return std::nullopt;
}

// A projection of a block, whose output is split over `axes`.
struct Projection {
  int64_t width = 0;
  AxisGroup axes;
};

using Blocks = std::map<std::string, Projection, std::less<>>;

// Projections of this role with a split output, by block.
Blocks SplitOnes(const Facts& facts, Role role) {
  Blocks out;
  for (const ParameterGroup& group : facts.groups()) {
    const int rank = facts.Rank(group);
    const int dim = OutDim(group.role, rank);
    if (group.role.role != role || rank != 2 || !IsWeight(group) || dim < 0 ||
        !facts.Judged(group)) {
      continue;
    }
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    const size_t end = group.role.siblings.find('?');
    out.try_emplace(
        group.role.siblings.substr(0, end),
        Projection{(*facts.TypeOf(group).shape)[static_cast<size_t>(dim)],
                   axes});
  }
  return out;
}

LintFinding Say(const Facts& facts, const ParameterGroup& group,
                const Named& named, const Projection& projection) {
  const int64_t size = facts.Elements(group);
  const bool sinks = named.vector == Vector::kSink;
  const std::string of = named.vector == Vector::kKeyNorm ? "key" : "query";
  return GroupFinding(
      facts, kHeadVectorWhole.code, group,
      ParametersText(facts, group) +
          (sinks ? " holds a number for each of " + std::to_string(size) +
                       " heads"
                 : " norms all " + std::to_string(size) + " columns of the " +
                       of + " together") +
          " and is whole, while the " + of + "'s projection is split over " +
          GroupText(projection.axes) + ": a device has " +
          std::to_string(size / facts.TensorParts(projection.axes)) +
          " of them" +
          (sinks ? "" : ", and the mean needs a sum over the axis"),
      sinks ? "split it as the heads are"
            : "split it as the columns are, and let the norm sum over the "
              "axis; or leave the projection whole");
}

// Blocks whose query is normed head by head. Their key is too, though one KV
// head is as wide as all of them.
std::set<std::string> NormedByHead(const Facts& facts, const Blocks& queries) {
  std::set<std::string> out;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 1) continue;
    const auto named = VectorOf(group, facts.separator());
    if (!named || named->vector != Vector::kQueryNorm) continue;
    const auto query = queries.find(named->block);
    if (query == queries.end()) continue;
    if (facts.Elements(group) != query->second.width) out.insert(named->block);
  }
  return out;
}

void Check(const Facts& facts, FindingSink& sink) {
  const Blocks queries = SplitOnes(facts, Role::kQuery);
  const Blocks keys = SplitOnes(facts, Role::kKey);
  const std::set<std::string> by_head = NormedByHead(facts, queries);
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 1 || !facts.Judged(group)) continue;
    if (facts.TensorParts(facts.AxesAt(group, 0)) > 1) continue;
    const auto named = VectorOf(group, facts.separator());
    if (!named) continue;
    const Blocks& blocks = named->vector == Vector::kKeyNorm ? keys : queries;
    const auto at = blocks.find(named->block);
    if (at == blocks.end()) continue;
    const int64_t size = facts.Elements(group);
    const bool whole_width =
        size == at->second.width &&
        !(named->vector == Vector::kKeyNorm && by_head.contains(named->block));
    const bool of_heads = facts.model() != nullptr && facts.model()->heads
                              ? size == *facts.model()->heads
                              : size > 1 && size < at->second.width &&
                                    at->second.width % size == 0;
    if (named->vector == Vector::kSink ? of_heads : whole_width) {
      sink.push_back(Say(facts, group, *named, at->second));
    }
  }
}

}  // namespace

constinit const Lint kHeadVectorWhole{
    .code = {231, "head-vector-whole", Level::kWarning,
             "a vector of all heads is whole while the heads are split"},
    .needs = kNeedsShapes,
    .what =
        "Finds attention sinks, and norms over the whole width of the query "
        "or key, that are whole while the projection beside them is split "
        "over a tensor parallel axis. Norms of one head's width are left "
        "alone.",
    .why =
        "A device has the activations of its own heads, and a vector for all "
        "of them: shapes disagree where code is written for one device "
        "(lightseekorg/tokenspeed#254), and a mean taken over the own heads "
        "only is another number (EleutherAI/gpt-neox#1424, "
        "huggingface/transformers#44668).",
    .instead = "Split the vector over the axis of its heads.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: [FSDP, HEAD]
  - match: 'sinks'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [2880, 4096], "dtype": "BF16"},
  "layers/0/attn/sinks": {"shape": [64], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: [FSDP, HEAD]
  - match: 'sinks'
    spec: [HEAD]
)"},
    .check = Check};

}  // namespace shardc
