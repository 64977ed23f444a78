// A norm over the model's width meets whole activations, so its scale must be
// whole where it is used. Norms of queries and keys are as wide as heads, and
// those inside a mixer as its inner width, which may be split: not told.
#include <algorithm>
#include <array>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"

namespace shardc {

extern const Lint kNormSplit;

namespace {

constexpr std::array<std::string_view, 14> kInner = {
    "q_norm",     "k_norm",   "q_layernorm",   "k_layernorm",
    "query_norm", "key_norm", "q_a_layernorm", "kv_a_layernorm",
    "ln_q",       "ln_k",     "mixer",         "mamba",
    "ssm",        "norm_q"};

bool IsInner(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return std::find(kInner.begin(), kInner.end(), part) != kInner.end();
  });
}

void Check(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.role != Role::kNorm || facts.Rank(group) != 1 ||
        !facts.Judged(group) || IsInner(group.name, facts.separator())) {
      continue;
    }
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, 0));
    if (facts.TensorParts(axes) <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kNormSplit.code, group,
        ParametersText(facts, group) + " is split over " + GroupText(axes) +
            ", and the activations that it scales are whole there: it is"
            " gathered in every layer, for " +
            std::to_string(facts.Elements(group)) + " numbers",
        "leave it whole: `spec: Replicated`"));
  }
}

}  // namespace

constinit const Lint kNormSplit{
    .code = {227, "norm-split", Level::kWarning,
             "a norm's scale is split over a tensor parallel axis"},
    .needs = kNeedsShapes,
    .what =
        "Finds scales and biases of norms over the model's width that are "
        "split over a tensor parallel axis. Norms of queries, keys and "
        "mixers are left alone, for they may be split with their heads.",
    .why =
        "Between blocks every device of the axis has whole activations, so "
        "the scale is gathered each time: a start of a transfer for a few "
        "kilobytes.",
    .instead = "Replicate norms.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'norm/scale'
    spec: [TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/input_norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'norm/scale'
    spec: Replicated
)"},
    .check = Check};

}  // namespace shardc
