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
#include "lint/rules/all.h"
#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc {
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

}  // namespace

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

}  // namespace shardc
