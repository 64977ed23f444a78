// Room: legalize. Makes a spec legal for a shape on a mesh and records the
// edits.
// Includes: source, model.
//
// Legal (JAX): every axis is in the mesh, none appears twice in a spec, the
// spec is not longer than the rank, the product of a dimension's axes divides
// its size. Nothing fails and nothing is printed: problems are returned.
#ifndef SHARDC_LEGALIZE_LEGALIZE_H_
#define SHARDC_LEGALIZE_LEGALIZE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "model/spec.h"

namespace shardc {

enum class Reason : uint8_t {
  kIndivisible,
  kMissingAxis,
  kRepeatedAxis,
  kTooLong,
  kMinSize,
  kScalar
};
std::string_view ReasonName(Reason reason);  // "missing_axis"

// One change of a spec, or one problem of a spec that stays illegal.
struct Edit {
  Reason reason = Reason::kIndivisible;
  std::optional<int> dim;  // nullopt: the edit is to the entire spec
  AxisGroup from;
  AxisGroup to;
  // The first axis that is missing or repeated; empty for other reasons.
  std::string axis;
  int64_t size = 0;   // the dimension's size, or elements; 0: unknown
  int64_t parts = 1;  // product of the axes `from`; 0: more than 64 bits
  bool operator==(const Edit&) const = default;
};

struct Legal {
  Spec spec;                   // legal unless `problems` is not empty
  std::vector<Edit> edits;     // in the order of dimensions
  std::vector<Edit> problems;  // not empty: the parameter is illegal
};

struct LegalizeOptions {
  IllegalPolicy illegal = IllegalPolicy::kError;
  Compat compat = Compat::kNone;
  int64_t min_size = 0;  // tensors with fewer elements get the spec []
};

// Returns the spec with the edits and problems. If the shape is not known, only
// the axes are checked, not divisibility and rank.
Legal Legalize(const Spec& spec, const std::optional<Shape>& shape,
               const Mesh& mesh, const LegalizeOptions& options);

// Returns the shape of one device's shard. The spec must be legal for the
// shape.
Shape ShardShape(const Spec& spec, const Shape& shape, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_LEGALIZE_LEGALIZE_H_
