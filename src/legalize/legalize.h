// Room: legalize. Spec x shape x mesh to a legal spec and the edits made.
// Knows source and model.
//
// Legal (JAX): every axis is in the mesh, none appears twice in a spec, the
// spec is not longer than the rank, every dimension divides by the product
// of its axes. Nothing is printed here and nothing fails: problems are facts.
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

// One change of a spec, or, under the error policy, one thing wrong with it.
struct Edit {
  Reason reason = Reason::kIndivisible;
  std::optional<int> dim;  // nothing: the whole spec
  AxisGroup from;
  AxisGroup to;
  // The axis at fault for missing_axis and repeated_axis; for indivisible
  // the numbers are the dimension and the product.
  std::string axis;
  int64_t size = 0;   // of the dimension
  int64_t parts = 1;  // product of the axes
  bool operator==(const Edit&) const = default;
};

struct Legal {
  Spec spec;                   // legal unless `problems` is not empty
  std::vector<Edit> edits;     // made, in dimension order
  std::vector<Edit> problems;  // left standing: an illegal parameter
};

struct LegalizeOptions {
  IllegalPolicy illegal = IllegalPolicy::kError;
  Compat compat = Compat::kNone;
  int64_t min_size = 0;  // elements; comes before legality
};

// `shape` nothing: unknown, then only the axes are judged.
Legal Legalize(const Spec& spec, const std::optional<Shape>& shape,
               const Mesh& mesh, const LegalizeOptions& options);

// Shape of one device's shard; the spec must be legal for the shape.
Shape ShardShape(const Spec& spec, const Shape& shape, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_LEGALIZE_LEGALIZE_H_
