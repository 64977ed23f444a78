// Reports that the names of a large share of the model do not show what its
// matrices do, so that other lints cannot judge how they are split. For
// example, if these names had the words `qkv` and `up`, lints would compare the
// spec of the first with the heads, and that of the second with its siblings:
//
//   blocks/*/zorp/kernel [1024, 3072]  blocks/*/blick/kernel [1024, 4096]
#include "roles/unknown_roles.h"

#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kUnknownRoles;

namespace {

// Of a smaller model, every device could hold all matrices.
constexpr int64_t kLeastBytes = int64_t{16} << 20;

// Returns whether tensor parallelism splits a matrix of the group whose name
// does not show its role.
bool IsSplitUnknown(const Facts& facts, size_t g) {
  const ParameterGroup& group = facts.groups()[g];
  const TensorType& type = facts.TypeOf(group);
  if (!type.shape || !facts.Judged(group)) return false;
  int64_t parts = 1;
  for (int dim = 0; dim < facts.Rank(group); ++dim) {
    parts *= facts.TensorParts(facts.AxesAt(group, dim));
  }
  if (parts <= 1) return false;
  std::vector<int> layers;
  for (const ScannedDim& one : facts.stacks().dims[g])
    layers.push_back(one.dim);
  return IsUnknownByName(group.name, facts.separator(), *type.shape, layers);
}

void CheckUnknownRoles(const Facts& facts, FindingSink& sink) {
  // The section `model` of the rules names what each parameter does.
  const bool described = facts.compiled().rules.model != nullptr;
  if (described && facts.Step() != nullptr) return;
  int64_t params = 0;
  int64_t bytes = 0;
  const ParameterGroup* largest = nullptr;
  LintFinding finding = FindingAt(kUnknownRoles.code);
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    if (!IsSplitUnknown(facts, g)) continue;
    const ParameterGroup& group = facts.groups()[g];
    params += group.count();
    bytes = CheckedAdd(bytes, facts.TotalBytes(group)).value_or(INT64_MAX);
    facts.AddNames(facts.Members(group), finding);
    if (largest == nullptr ||
        facts.TotalBytes(group) > facts.TotalBytes(*largest)) {
      largest = &group;
    }
  }
  if (largest == nullptr || bytes < kLeastBytes ||
      static_cast<double>(bytes) <=
          kMostUnknownRoles * static_cast<double>(facts.total_bytes())) {
    return;
  }
  finding.place = facts.GroupPlace(*largest);
  finding.message =
      "tensor parallelism splits " + Counted(params, "matrix", "matrices") +
      " (" + PercentText(bytes, facts.total_bytes()) +
      ") of unknown role, such as " + GroupName(facts, *largest) +
      ": whether a split ends inside a head or a fused part, and whether "
      "projections agree, is not checked";
  finding.help =
      "describe the step in a `model:` section, whose lines name the "
      "parameters; or verify the heads and the parts of these matrices "
      "yourself and ignore this finding";
  sink.push_back(std::move(finding));
}

}  // namespace

constinit const Lint kUnknownRoles{
    .code = {120, "unknown-roles", Level::kWarning,
             "tensor parallelism splits matrices of unknown role"},
    .needs = kNeedsShapes,
    .what =
        "Finds models of which more than a tenth, and at least 16 MiB, are "
        "matrices that tensor parallelism splits and whose names do not show "
        "what they do: no word is one that frameworks use for a projection, an "
        "embedding or an output head.",
    .why =
        "The lints of heads, fused projections and pairs of projections read "
        "roles from names. Without roles they report nothing, which is not the "
        "same as finding nothing.",
    .instead =
        "Describe the step in a `model:` section, or compare the split with "
        "the heads and the fused parts of the model's code.",
    .bad = {.mesh = "tp:4",
            .rules = R"(version: 1
rules:
  - match: 'zorp/kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/zorp/kernel": {"shape": [4096, 12288], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: [null, HEAD]
)",
             .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [4096, 4096], "dtype": "BF16"}}}
)"},
    .check = CheckUnknownRoles};

}  // namespace shardc
