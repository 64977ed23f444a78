// Finds shards that hold a part of a head. The dimension of heads is recognised
// by its size, which is heads times head size. If the number of shards divides
// this size but not the number of heads, some devices hold a part of a head.
// All projections with the same number of heads over the same axes are one
// finding. In a fused projection, query heads or KV heads may be divided in
// this way. If some layers have the configuration's number of heads, others may
// have another number, which is their size divided by the size of a head.
//
//   12 heads of size 64 over 8 shards: 8 divides 768, but does not divide 12
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kHeadSplit;

namespace {

// The dimension of heads of a projection in which a shard holds a part of a
// head. `key` is true for KV heads, and `count` is the number of heads.
struct HeadSplit {
  int64_t count = 0;
  bool key = false;
  int dim = -1;
};

// Names of groups of which some have the configuration's number of heads.
using FittingNames = std::set<std::string_view>;

// Returns how a group's heads are split, or nullopt if no head is. Adds the
// group's name to `fitting` if it has the configuration's number of heads. With
// another number, it is judged only if its name is in `fitting` and all layers
// have heads of one size.
std::optional<HeadSplit> HeadSplitOf(const Facts& facts, const Heads& heads,
                                     const LayerStacks& stacks,
                                     const ParameterGroup& group,
                                     FittingNames& fitting) {
  if (!facts.Judged(group) || group.role.expert ||
      group.role.leaf == Leaf::kBias) {
    return std::nullopt;
  }
  const Role role = group.role.module_role;
  const bool fused = role == Role::kFusedQkv;
  const bool query = role == Role::kQuery || role == Role::kOutput || fused;
  const bool key = role == Role::kKey || role == Role::kValue;
  if (!query && !key) return std::nullopt;
  const auto dims = MatrixDimsOf(facts, stacks, group);
  const int side =
      role == Role::kOutput ? InDim(group.role, 2) : OutDim(group.role, 2);
  if (!dims || side < 0) return std::nullopt;
  const int dim = (*dims)[static_cast<size_t>(side)];
  int64_t count = query ? heads.heads : heads.kv_heads;
  // A fused projection has query heads, KV heads for keys, and KV heads for
  // values.
  const int64_t all = fused ? count + 2 * heads.kv_heads : count;
  const int64_t size = (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
  if (size == all * heads.head_dim) {
    fitting.insert(group.name);
  } else if (!fused && size % heads.head_dim == 0 &&
             !facts.model()->full_head_dim &&
             !facts.model()->windowed_head_dim &&
             fitting.contains(group.name)) {
    count = size / heads.head_dim;
  } else if (!fused || size != 3 * count * heads.head_dim) {
    return std::nullopt;
  }
  const int64_t parts = facts.TensorParts(facts.AxesAt(group, dim));
  if (parts <= 1) return std::nullopt;
  if (count % parts != 0) {
    return HeadSplit{count, key && count != heads.heads, dim};
  }
  if (fused && size == all * heads.head_dim && heads.kv_heads % parts != 0) {
    return HeadSplit{heads.kv_heads, true, dim};
  }
  return std::nullopt;
}

LintFinding Report(const Facts& facts, const ParameterGroup& group,
                   const HeadSplit& cut, int64_t head_dim) {
  const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, cut.dim));
  const int64_t parts = facts.TensorParts(axes);
  const bool divides = cut.count * head_dim % parts == 0;
  const std::string heads =
      std::to_string(cut.count) + (cut.key ? " KV heads" : " heads") + " of " +
      std::to_string(head_dim) + ", " + AxesHave(facts, axes);
  const std::string after =
      heads +
      (divides ? ": the size divides, the number of heads does not ("
               : ": the number of heads does not divide (") +
      RemainderText(cut.count, parts) +
      "), so that a device holds part of a head";
  LintFinding finding =
      GroupFinding(facts, kHeadSplit.code, group, "",
                   cut.key ? "replicate the KV heads over the axis, or use an "
                             "axis size that divides them"
                           : "use an axis size that divides the heads");
  finding.subject = "dimension " + std::to_string(cut.dim) + " of " +
                    ParametersText(facts, group);
  finding.message = finding.subject + " holds " + after;
  finding.several = {heads, "", " hold " + after};
  // More shards than KV heads are common and only cost time, so the finding
  // about KV heads is a warning. The finding about query heads is an error.
  if (cut.key) finding.level = Level::kWarning;
  finding.reports = {HeadsTopic(cut.count, parts)};
  return finding;
}

void CheckHeadSplit(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  const LayerStacks& stacks = facts.stacks();
  FittingNames fitting;
  for (const ParameterGroup& group : facts.groups()) {
    HeadSplitOf(facts, *heads, stacks, group, fitting);
  }
  for (const ParameterGroup& group : facts.groups()) {
    const auto cut = HeadSplitOf(facts, *heads, stacks, group, fitting);
    if (cut) sink.push_back(Report(facts, group, *cut, heads->head_dim));
  }
}

}  // namespace

constinit const Lint kHeadSplit{
    .code = {220, "head-split", Level::kError,
             "an axis splits inside an attention head"},
    .needs = kNeedsShapes | kNeedsHeads,
    .what =
        "Finds attention projections whose size divides by the tensor parallel "
        "axes while the number of heads does not, in the layers that have "
        "another number of heads too. For KV heads it is a warning.",
    .why =
        "Frameworks accept the spec, since the size divides, and reshard parts "
        "of heads before attention in every layer.",
    .instead = "Use an axis size that divides the heads.",
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
    .check = CheckHeadSplit};

}  // namespace shardc
