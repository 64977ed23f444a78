// Groups a plan's parameters into modules, by the module names that the tensor
// parallel plans of transformers have.
#ifndef SHARDC_EMIT_EXPORTS_HF_MODULES_H_
#define SHARDC_EMIT_EXPORTS_HF_MODULES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emit/exports/exporter.h"
#include "model/manifest.h"
#include "roles/classify.h"

namespace shardc::exports {

// The dimension of one tensor that the tensor parallel axis shards, and how.
struct AxisSharding {
  // The dimension that the axis shards; -1 if the axis shards none.
  int64_t dim = -1;
  // The product of the sizes of the axes that split `dim` before this axis.
  int64_t stride = 1;
  // The number of equal parts of `dim`, each of which the axis divides.
  int64_t parts = 1;
  // The number of dimensions of the tensor's shape or, if the shape is unknown,
  // of its spec.
  int64_t rank = 0;
  // True if a rule places the tensor at only one coordinate of some axis.
  bool placed = false;

  bool split() const { return dim >= 0; }
  auto operator<=>(const AxisSharding&) const = default;
};

// Tensors whose names differ only in numbers.
struct HfTensor {
  std::set<AxisSharding> shardings;
  // The shapes of the tensors whose shape is known.
  std::set<Shape> shapes;
  // Whether the tensors are buffers, whose names a plan cannot have.
  bool buffer = false;
  // The line of the model's code that gives as a number the size of a value
  // which is sharded with dimension `i` of the tensor; empty if no line does.
  std::vector<std::string> fixed;

  // Returns the sharding if all tensors have the same sharding, else null.
  const AxisSharding* Same() const;
  // Returns the line for the dimension that the axis shards; else empty.
  std::string FixedBy() const;
  bool AnySplit() const;
  // Return whether at least one shape is known and all known shapes have one
  // dimension (AllVectors) or one element (AllScalars).
  bool AllVectors() const;
  bool AllScalars() const;
};

// Modules whose names differ only in numbers. `tensors` has the tensors that
// belong directly to the modules, keyed by the last part of their names:
// `weight`, `bias`, `sinks`.
struct HfModule {
  std::map<std::string, HfTensor, std::less<>> tensors;
  Place place;
  // Why the module is replicated, as a traced program shows it; else empty.
  std::string unsharded;
  // The role of the weight, as a traced program shows it; else kOther.
  Role role = Role::kOther;
  // Whether a traced program shows that lookups read the weight.
  bool table = false;

  const HfTensor* Find(std::string_view leaf) const;
  bool AnySplit() const;
};

struct HfModules {
  // The modules by name. In the names, `*` replaces numbers.
  std::map<std::string, HfModule, std::less<>> of;
  std::vector<std::string> order;  // names in plan order
};

// Returns the modules of the plan's parameters. With `converts`, the names of
// files become those of modules.
HfModules ModulesOf(const Request& request, const std::string& axis,
                    bool converts);

// Returns the parent of a module: `model.layers.*.mlp` for
// `model.layers.*.mlp.up_proj`; empty for a name of one part.
std::string_view ParentOf(std::string_view name);

// Returns the role that a module's name shows, such as kDown for `down_proj`.
// Returns kOther if the name does not show a role with certainty.
Role RoleOfModule(const std::string& name);

// Returns whether the last part of the name is `experts`. A module of this name
// with its own tensors holds stacked experts: `mlp.experts` has `gate_up_proj`
// and `down_proj`, whose first dimension counts experts.
bool HoldsExperts(std::string_view name);

// Returns whether the module contains other modules.
bool HasChildren(const HfModules& modules, std::string_view name);

// Finds the local blocks of a model. In a local block, each device computes
// with its own part of the activations from one sharded projection to the next,
// so that no collective is needed between the projections.

struct LocalBlocks {
  // The projections in local blocks, whose activations stay sharded from the
  // first projection (style `colwise`) to the last one (style `rowwise`).
  std::set<std::string, std::less<>> projections;
  // The projections in local blocks that hold two matrices, of each of which a
  // device has a part (style `packed_colwise`).
  std::set<std::string, std::less<>> packed;
  // The styles that the exported plan gives to modules and parameters of local
  // blocks other than those in `projections`, keyed by name. They are norms of
  // heads, the projection to the latent of latent attention, attention sinks
  // and the module that owns them, and activation functions with scalar
  // parameters. For example, `self_attn.q_norm` has the style
  // `replicated_with_grad_allreduce`.
  std::map<std::string, std::string, std::less<>> hooks;
};

// Returns the local blocks. `devices` is the size of the tensor parallel axis.
// `model_type` is that of the configuration, or empty.
LocalBlocks LocalBlocksOf(const HfModules& modules, int64_t devices,
                          std::string_view model_type);

// Chooses the styles of experts in a tensor parallel plan of transformers. The
// experts are the tensors of one module: `mlp.experts` with `gate_up_proj`
// [experts, 2 * inner, width] and `down_proj`.

struct ExpertStyles {
  // The style of the module that has the experts.
  std::string module;
  // The style of each tensor of the module, by the tensor's name.
  std::map<std::string, std::string> leaves;
  // The reason why no styles express the sharding; empty if some do.
  std::string reason;
  // True if the tensors are sharded over the experts, so that each device has
  // some of the experts.
  bool by_expert = false;
};

// Returns whether some experts are identities, as in LongCat-Flash: they return
// their input and have no tensors. `gate_up_proj` then has more experts than
// `down_proj`. transformers sums the results of the experts over the devices,
// but each device has the complete result of an identity expert. The identity
// experts are in a module inside the module of all experts. This inner module
// therefore needs its own style.
bool HasIdentityExperts(const HfModule& experts);

// Returns the styles of a module of experts. `packed` is true if the version of
// transformers has styles for tensors that hold two projections. `parts_known`
// is true if the plan has the parts of each tensor. Otherwise a `gate_up_proj`
// is assumed to hold two, one after the other.
ExpertStyles StylesOfExperts(const HfModule& experts, bool packed,
                             bool parts_known);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_MODULES_H_
