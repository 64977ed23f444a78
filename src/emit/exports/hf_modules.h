// Groups a plan's parameters into modules, by the module names that the tensor
// parallel plans of transformers have.
#ifndef SHARDC_EMIT_EXPORTS_HF_MODULES_H_
#define SHARDC_EMIT_EXPORTS_HF_MODULES_H_

#include <compare>
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

  // Returns the sharding if all tensors have the same sharding, else null.
  const AxisSharding* Same() const;
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

  const HfTensor* Find(std::string_view leaf) const;
  bool AnySplit() const;
};

struct HfModules {
  // The modules by name. In the names, `*` replaces numbers.
  std::map<std::string, HfModule, std::less<>> of;
  std::vector<std::string> order;  // names in plan order
};

// Returns the modules of the plan's parameters. With `converts`, the names of
// files become those of modules (hf_names.h).
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

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_HF_MODULES_H_
