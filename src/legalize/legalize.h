// Directory: legalize. Makes a spec legal for a shape on a mesh, and records
// how the spec was edited.
// Its files include headers of these directories: source, model.
//
// A spec is legal by JAX's rules: every axis is in the mesh, no axis occurs
// twice in the spec, the spec is not longer than the rank, and the product of
// the sizes of a dimension's axes divides the dimension. The policy `pad` does
// without the last of these rules. An illegal spec is not a failure: its
// problems are returned to the caller, and nothing is printed.
#ifndef SHARDC_LEGALIZE_LEGALIZE_H_
#define SHARDC_LEGALIZE_LEGALIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/legal_sizes.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"

namespace shardc {

enum class Reason : uint8_t {
  kIndivisible,
  kMissingAxis,
  kRepeatedAxis,
  kTooLong,
  kMinSize,
  kScalar,
  // With `kv_replicate`, the KV heads of a dimension cannot be replicated over
  // its axes. Only a problem has this reason.
  kKvHeads
};
std::string_view ReasonName(Reason reason);  // such as "missing_axis"

// A change of a spec, or a problem of a spec that stays illegal.
struct Edit {
  Reason reason = Reason::kIndivisible;
  std::optional<int> dim;  // nullopt if the edit changes the entire spec
  AxisGroup from;
  AxisGroup to;
  // The first axis that is missing or repeated; empty if the reason is another
  // one.
  std::string axis;
  // The size of the dimension, or the number of elements if `dim` is nullopt; 0
  // if the size is unknown. With the reason kKvHeads, the number of KV heads, 0
  // if it is unknown, and -1 if the dimension also holds other heads.
  int64_t size = 0;
  // The product of the sizes of the axes in `from`; 0 if the product overflows.
  int64_t parts = 1;
  // The parts of the dimension, each of which the axes divide.
  PartsOfDim dim_parts = {};
  bool operator==(const Edit&) const = default;
};

// Returns why axes do not divide each part of a dimension with several parts,
// such as "2 parts of 6, 6 % 4 = 2" or "parts of 8, 6 and 2, and part 2 is 6: 6
// % 4 = 2".
std::string PartsProblemText(const Edit& problem);

struct Legal {
  Spec spec;                   // legal if `problems` is empty
  std::vector<Edit> edits;     // in ascending order of the dimensions
  std::vector<Edit> problems;  // not empty if the spec is illegal
};

struct LegalizeOptions {
  IllegalPolicy illegal = IllegalPolicy::kError;
  Compat compat = Compat::kNone;
  int64_t min_size = 0;  // tensors with fewer elements get the spec []
  // The parts of each dimension, each of which the axes must divide, under
  // `pad` too. Sizes of parts that are stated must sum to the dimension.
  DimParts parts = {};
};

// Returns the legal spec with the edits and problems. If `shape` is nullopt,
// only the axes are checked. Whether they divide the dimensions, and whether
// the spec is longer than the rank, is then not checked.
Legal Legalize(const Spec& spec, const std::optional<Shape>& shape,
               const Mesh& mesh, const LegalizeOptions& options);

// Makes a spec legal for a tensor with the shape and dtype of `type`. If the
// dtype stores blocks of elements, the last dimension may be split only between
// two blocks.
Legal LegalizeStored(const Spec& spec, const TensorType& type, const Mesh& mesh,
                     const LegalizeOptions& options);

}  // namespace shardc

#endif  // SHARDC_LEGALIZE_LEGALIZE_H_
