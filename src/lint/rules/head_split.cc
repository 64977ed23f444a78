// The dimension that counts heads is found by its size, heads times width;
// where that divides and the heads do not, a device holds a part of a head.
//
//   768 = 12 * 64 over 8: 768 % 8 = 0, 12 % 8 = 4
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

void Check(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  for (const ParameterGroup& group : facts.groups()) {
    const int rank = facts.Rank(group);
    if (rank != 2 || !facts.Judged(group) || group.role.expert ||
        group.role.leaf == Leaf::kBias) {
      continue;
    }
    const Role role = group.role.role;
    const bool query = role == Role::kQuery || role == Role::kOutput;
    const bool key = role == Role::kKey || role == Role::kValue;
    if (!query && !key) continue;
    const int dim = role == Role::kOutput ? InDim(group.role, rank)
                                          : OutDim(group.role, rank);
    if (dim < 0) continue;
    const int64_t count = query ? heads->heads : heads->kv_heads;
    const int64_t size = (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
    if (size != count * heads->head_dim) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    const int64_t parts = facts.TensorParts(axes);
    if (parts <= 1 || count % parts == 0) continue;
    LintFinding finding = GroupFinding(
        facts, kHeadSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " is " + std::to_string(count) +
            (key ? " KV heads" : " heads") + " of " +
            std::to_string(heads->head_dim) + ", " + AxesHave(facts, axes) +
            ": the width divides, the heads do not (" + std::to_string(count) +
            " % " + std::to_string(parts) + " = " +
            std::to_string(count % parts) + "), so a device gets part of one",
        key ? "replicate the KV heads over part of the axis, or take an axis"
              " size that divides them"
            : "take an axis size that divides the heads");
    // Fewer KV heads than devices is common, and costs; heads that do not
    // divide are a mistake.
    if (key) finding.level = Level::kWarning;
    finding.tells = {HeadsTopic(count, parts)};
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kHeadSplit{
    .code = {220, "head-split", Level::kError,
             "an axis splits inside an attention head"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds projections of attention whose width divides by the tensor "
        "parallel axes while the number of heads does not. For KV heads "
        "it is a warning.",
    .why =
        "Nothing complains, as the width divides. Each layer then moves "
        "parts of heads between devices before attention.",
    .instead = "Take a size that divides the heads.",
    .bad = {.mesh = "tp:8",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [768, 768], "dtype": "BF16"}}}
)",
            .model = R"({"num_attention_heads": 12, "hidden_size": 768}
)"},
    .good = {.mesh = "tp:4"},
    .check = Check};

}  // namespace shardc
