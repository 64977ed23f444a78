// Chooses a spec for each parameter group of a model on a mesh.
#ifndef SHARDC_SUGGEST_CHOOSE_H_
#define SHARDC_SUGGEST_CHOOSE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/axis_rules.h"
#include "model/legal_sizes.h"
#include "model/mesh.h"
#include "program/facts.h"
#include "roles/layer_stacks.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// The types in which the suggested sharding of each parameter group is
// recorded: its spec, and the reason for the spec.

struct Preferences {
  // If true, a vocabulary whose size tp does not divide stays replicated over
  // tp. This takes more memory, but sends fewer bytes.
  bool prefer_traffic = false;
  ScanAxis scan_axis = {};
  // If true, fsdp preferably shards the dimension of experts. Experts that are
  // separate tensors are distributed over fsdp, or over ep if the mesh has an
  // ep axis.
  bool place_experts = false;
  // The user's program. If it is given, roles and specs follow from its facts,
  // and not from names and sizes.
  const program::TracedProgram* traced = nullptr;
  // If true, a dimension that holds equal parts one after the other may be
  // sharded part by part (`parts` of a rule), which few runtimes can express.
  // The program shows such parts, or else the description of the model's
  // family.
  bool divides_parts = false;
  // The factors that tensor parallelism shards, as indices into Facts::factors;
  // those with the best ratio if nullopt (suggest/by_program.h).
  std::optional<std::set<uint32_t>> tensor_factors = {};
};

// A logical axis in a spec, such as FSDP or HEAD, spelled as in the rules file,
// and the size of the mesh axis to which it resolves.
struct AxisAssignment {
  std::string axis;
  int64_t size = 1;
};

// The kind of parallelism of the mesh axis to which a logical axis resolves.
enum class AxisPurpose : uint8_t { kData, kExpert, kTensor };
AxisPurpose PurposeOf(std::string_view logical_axis);

// The axes that shard each dimension. The first axis of a dimension is the
// outermost.
using AxisSpec = std::vector<std::vector<AxisAssignment>>;

// Returns the number of shards: the product of the sizes of all axes.
int64_t PartsOf(const std::vector<AxisAssignment>& assigned);
int64_t PartsOf(const AxisSpec& spec);
bool IsReplicated(const AxisSpec& spec);

// The reason why a spec differs from the first choice for its role.
enum class Reason : uint8_t {
  kUsual,
  // tp shards the width (hidden size) instead of the inner dimension. The
  // weight is gathered before use.
  kSlices,
  // The inner dimension holds parts that a contiguous shard does not divide, or
  // a latent that is read as a whole, so tp shards the width as in kSlices.
  kUndivided,
  // tp shards the width as in kSlices, because that is the strategy of the
  // block: tp cannot shard another projection of the block by its inner
  // dimension, or the width has more shards.
  kBlockSlices,
  // The number of heads is unknown, so tp shards the width as in kSlices.
  kHeadsUnknown,
  // Nothing shows whether the inner dimension counts the columns of heads, so
  // tp shards the width as in kSlices.
  kRoleUnknown,
  kReplicatedKeys,  // the few KV heads are replicated over tp
  kExpertsOverTp,   // tp shards the experts instead of their inner dimension
  // tp shards the experts of a program, whose layout has the lowest cost of
  // those that were compared.
  kWholeExperts,
  kNotOverTensor,  // tp shards no dimension
  kDataOnInner,    // data axes shard the same dimension as tp
  kLessData        // at least one data axis shards no dimension
};

struct Choice {
  AxisSpec spec;     // one entry for each dimension; empty if replicated
  EqualParts parts;  // of the sharded dimensions
  // Whether a dimension is sharded because it counts the heads of the queries
  // in the same block.
  bool by_heads = false;
  // If each expert is a separate tensor, the logical axis over which the
  // experts are distributed; empty if they are not distributed.
  std::string place_axis;
  // The number of experts that are distributed.
  int64_t place_count = 0;
  int64_t place_size = 1;  // size of the mesh axis of `place_axis`
  Reason reason = Reason::kUsual;
  // Whether tp shards the inner dimension: heads, an MLP's width, a vocabulary.
  bool inner_sharded = false;
  bool width_slices = false;
  // Whether the rule gets a comment that suppresses SHD214. That lint would
  // report the spec, although no better spec exists.
  bool ignore_reshard = false;

  bool replicated() const { return IsReplicated(spec); }
  int64_t Parts() const { return place_size * PartsOf(spec); }
};

struct Choices {
  // The choice for each parameter group, indexed as Tree::groups.
  std::vector<Choice> groups;
  AxisRules axes;  // the `axes:` section of the rules file
  bool heads_unsharded = false;
  // Whether tp divides the heads that are unsharded: other dimensions have been
  // chosen in place of them.
  bool heads_divide = false;
  bool kv_heads_unsharded = false;
  bool batch_over_experts = false;
};

// The sizes of the axes by kind of parallelism. The size is 1 if the mesh has
// no axis of the kind.
struct MeshAxes {
  int64_t dp = 1, fsdp = 1, ep = 1, tp = 1, sp = 1;
  // Axis rules for axes whose names are not dp, fsdp, ep, tp or sp.
  AxisRules renamed;
  // The names of axes larger than 1 that are not used: the kind of parallelism
  // is unknown, or another axis already has it.
  std::vector<std::string> unused;
  // The names of axes larger than 1 that are for pipeline stages.
  std::vector<std::string> stages;
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
  // Returns the number of devices that together hold one copy of the model.
  int64_t DevicesOfReplica() const { return devices() / dp; }
};

// Infers the kind of parallelism of each axis from its name. For example, other
// systems call tp `model` and fsdp `data`.
MeshAxes AxesOf(const Mesh& mesh);

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
