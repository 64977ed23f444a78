// Finds the projections of a module, the halves of an adapter, and the
// dimensions of parameters that do not count scanned layers.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lint/analysis/facts.h"
#include "roles/layer_stacks.h"

namespace shardc {

// The weights (kernels) of one module, keyed by role. If several groups have
// the same role, the group with the most parameters is used. Groups of unknown
// role, adapters, and groups that lints cannot judge, are omitted. SiblingsOf
// returns the modules with two or more roles, in order of appearance.
struct Siblings {
  std::map<Role, const ParameterGroup*> roles;

  const ParameterGroup* Find(Role role) const {
    const auto at = roles.find(role);
    return at == roles.end() ? nullptr : at->second;
  }
};
std::vector<Siblings> SiblingsOf(const Facts& facts);

// One half of an adapter: the module that is adapted, and whether this half
// reads the module's input.
struct Adapter {
  std::string base;  // path of the module
  bool down = false;
};
std::optional<Adapter> AdapterOf(std::string_view name, char separator);
// The halves of all adapters, by their module.
class AdapterHalves {
 public:
  explicit AdapterHalves(const Facts& facts);

  // Returns the first other half of the same rank; null if there is none, or if
  // the group is no half of an adapter.
  const ParameterGroup* OtherOf(const Facts& facts,
                                const ParameterGroup& group) const;

 private:
  // The first half that reads the module's input (`down`) or gives its output,
  // of each rank: keyed by the path of the module, `down` and the rank.
  std::map<std::tuple<std::string, bool, int>, const ParameterGroup*> halves_;
};
// Returns the other half of an adapter, or null.
const ParameterGroup* OtherHalf(const Facts& facts,
                                const ParameterGroup& group);
// Returns whether a replicated half of an adapter is next to one that is split,
// which is the standard split of an adapter.
bool IsReplicatedHalf(const Facts& facts, const ParameterGroup& group);

bool IsWeight(const ParameterGroup& group);
// Returns whether one of `axes` shards a dimension of the group in train.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Returns whether a rule's `place` assigns each tensor of the group to the
// devices at one coordinate of an axis.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

// Returns the dimensions of a group's parameters that do not count scanned
// layers, in ascending order: 1 and 2 for [layers, in, out].
std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group);

// The dimensions of a stored matrix that correspond to dimensions 0 and 1 of
// the matrix of one layer.
using MatrixDims = std::array<int, 2>;

// Returns the dimensions of a matrix of one layer, or of the matrices of
// scanned layers: 0 and 2 for [in, layers, out], 2 and 3 for [blocks, layers,
// in, out]. Returns nullopt if the parameters are not matrices.
std::optional<MatrixDims> MatrixDimsOf(const Facts& facts,
                                       const LayerStacks& stacks,
                                       const ParameterGroup& group);

// Returns the dimension of a stored vector that is dimension 0 of the vector of
// one layer: 1 of [layers, size]. Returns nullopt if the parameters are not
// vectors.
std::optional<int> VectorDimOf(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group);

struct Vocabulary {
  const ParameterGroup* embedding = nullptr;
  const ParameterGroup* head = nullptr;
  int embedding_dim = 0;  // index of the dimension of the vocabulary
  int head_dim = 0;
};

// Finds the embedding and the output head among the parameters of rank 2 that
// lints can judge (Facts::Judged). A member is null if no group or several
// groups have the role.
inline Vocabulary VocabularyOf(const Facts& facts) {
  Vocabulary out;
  int embeddings = 0;
  int heads = 0;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 2 || !facts.Judged(group)) continue;
    if (group.role.module_role == Role::kEmbedding) {
      out.embedding = &group;
      out.embedding_dim = group.role.in_first.value_or(true) ? 0 : 1;
      embeddings += static_cast<int>(group.count());
    } else if (group.role.module_role == Role::kHead) {
      const int dim = OutDim(group.role, 2);
      if (dim < 0) continue;
      out.head = &group;
      out.head_dim = dim;
      heads += static_cast<int>(group.count());
    }
  }
  if (embeddings != 1) out.embedding = nullptr;
  if (heads != 1) out.head = nullptr;
  return out;
}

// Returns whether a mesh axis has the name of a pipeline's axis. Such an axis
// may shard the dimension of layers, because each stage has some of them.
inline bool IsPipelineAxis(std::string_view axis) {
  const AxisName* const name = FindAxisName(axis);
  return name != nullptr && !name->rule;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
