// Chooses a spec for each parameter group of a model on a mesh.
#ifndef SHARDC_SUGGEST_CHOOSE_H_
#define SHARDC_SUGGEST_CHOOSE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Returns the choices for all groups, in the order of `tree.groups`. Never
// fails: a dimension that no axis divides stays unsharded.
Choices Choose(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
               const Preferences& preferences);

// Sets Choices::axes, the `axes:` section of the rules file, and the members
// that describe it.
void SetAxisRules(const ModelDims& dims, const MeshAxes& mesh, Choices& out);

// What tensor parallelism shards in the projections of one block. All
// projections of a block share one strategy, because the output of one is the
// input of the next.
enum class TensorParallelStrategy : uint8_t {
  // Shards the inner dimension: heads or a feed-forward width.
  kInner,
  // Divides the experts over tp: the dimension that counts them, or the
  // separate tensors of the experts.
  kExpertsOverTp,
  // Shards the width. Each weight is gathered before use.
  kWidthSlices
};

// Returns whether the inner dimension can be sharded into `parts` equal shards.
// No unit (a head, a column) and no quantisation block may be split.
bool ShardsInner(const InferredDims& inferred, int64_t parts);

class SpecChooser {
 public:
  // The arguments must outlive the chooser.
  SpecChooser(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
              const Preferences& preferences);

  // Returns the spec of group `k`, and the reason if the spec is not the first
  // choice for its role. Norms and most small groups are replicated. Another
  // group gets the legal spec with the most parts. `strategy` is used only for
  // projections of attention and of feed-forward blocks.
  Choice Choose(size_t k, TensorParallelStrategy strategy) const;

  // Returns whether a group is so small that it stays replicated, unless its
  // role requires sharding.
  bool IsSmall(size_t k) const;
  // Returns the bytes as thousandths of the model's bytes.
  double Thousandths(int64_t bytes) const;

 private:
  struct Option;
  struct DataAxis;

  std::vector<Option> Options(size_t k, TensorParallelStrategy strategy) const;
  std::vector<Option> AnyDim(const InferredDims& inferred) const;
  std::vector<int> DataDims(const InferredDims& inferred) const;
  std::vector<DataAxis> DataAxes(const InferredDims& inferred,
                                 bool experts_sharded,
                                 const std::string& placed) const;
  AxisSpec AddDataAxes(const InferredDims& inferred, const AxisSpec& base,
                       const std::vector<DataAxis>& axes) const;
  void PlaceExperts(const InferredDims& inferred,
                    TensorParallelStrategy strategy, Choice& out) const;
  void SetReason(const InferredDims& inferred,
                 const std::vector<DataAxis>& axes, Choice& out) const;
  bool HasSibling(const InferredDims& inferred) const;

  const Tree& tree_;
  const std::vector<InferredDims>& dims_;
  const MeshAxes& mesh_;
  const Preferences& preferences_;
  int64_t key_bytes_ = 0;  // bytes of all key and value projections
  // The number of elements of the model, where each tensor is counted with at
  // most kSmallElements. Large tensors therefore do not raise the limit below
  // which IsSmall() returns true.
  int64_t elements_ = 0;
  // The modules with projections that linting compares. They are keyed by
  // sibling path, in which `?` replaces the role: `attn.?.weight` for
  // `attn.q_proj.weight`. `first` is the role of the first projection.
  // `several` is true if the module also has projections of other roles.
  struct Siblings {
    Role first = Role::kOther;
    bool several = false;
  };
  std::unordered_map<std::string_view, Siblings> siblings_;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_CHOOSE_H_
