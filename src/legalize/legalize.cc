// Makes a spec legal for a shape, one dimension at a time. Each axis must be in
// the mesh, and no earlier dimension may use it. The product of the sizes of a
// dimension's axes must divide the size of the dimension. If a dimension breaks
// one of these rules, the policy decides what happens:
//
//   error    keeps the axes and returns a problem
//   drop     removes all axes of the dimension and returns an edit; a
//            repeated axis is a problem as under `error`
//   shrink   removes repeated axes, keeps the longest legal prefix of the
//            remaining axes, and returns edits
//   pad      keeps axes that do not divide the dimension, without an edit: the
//            last shards are shorter or empty (model/mesh_layout.h). Anything
//            else is a problem as under `error`
//
// The axes must divide each part of a dimension that has several, under `pad`
// too: 12 in 2 parts over 4 is illegal, because 4 does not divide 6. Parts
// whose sizes are stated are illegal too if these do not sum to the dimension,
// even over one device.
//
// If a tensor is stored in blocks of a quantized dtype, the product must divide
// the number of blocks along the last dimension, under `pad` too. In this
// example, a dimension of 12 is sharded over axes with the product 24:
//
//   12 over [fsdp 2, dp 3, tp 4]: 24 does not divide 12, but 6 does
//   error: a problem     drop: null     shrink: [fsdp, dp]
//   pad: [fsdp, dp, tp], of which 12 shards have an element and 12 have none
#include "legalize/legalize.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using Axes = std::set<std::string_view>;

// Returns the index of the first axis of a group that the mesh lacks;
// group.size() if the mesh has all axes.
size_t FirstMissing(const AxisGroup& group, const Mesh& mesh) {
  size_t i = 0;
  while (i < group.size() && mesh.FindDigit(group[i])) ++i;
  return i;
}

// Returns the index of the first axis of a group that an earlier dimension or
// the group itself already uses; group.size() if no axis is repeated.
size_t FirstRepeated(const AxisGroup& group, const Axes& used) {
  Axes seen = used;
  size_t i = 0;
  while (i < group.size() && seen.insert(WholeAxis(group[i])).second) ++i;
  return i;
}

AxisGroup Prefix(const AxisGroup& group, size_t count) {
  return {group.begin(), group.begin() + static_cast<ptrdiff_t>(count)};
}

// A dimension: its index, its size (nullopt if unknown), the number of
// consecutive elements that are stored as one block, and its parts.
struct Dimension {
  int index = 0;
  std::optional<int64_t> size = std::nullopt;
  int64_t block = 1;
  PartsOfDim parts = {};
};

// Returns whether `shards` divides the number of blocks of each part of a
// dimension of known size. `shards` is the product of the sizes of the
// dimension's axes; nullopt if the product overflows. Any number of shards
// divides size 0.
bool EachDivides(const Dimension& dim, std::optional<int64_t> shards) {
  const auto divides = [&](int64_t size) {
    return size % dim.block == 0 && size / dim.block % *shards == 0;
  };
  if (dim.parts.sizes.empty()) {
    if (*dim.size == 0 || shards == 1) return true;
    return shards && *dim.size % dim.parts.count == 0 &&
           divides(*dim.size / dim.parts.count);
  }
  const auto sizes = SizesOfParts(dim.parts, *dim.size);
  return sizes &&
         (shards == 1 || (shards && std::ranges::all_of(*sizes, divides)));
}

// Returns whether the axes of the group divide a dimension of known size. No
// axes divide any dimension.
bool Divides(const AxisGroup& group, const Dimension& dim, const Mesh& mesh) {
  return group.empty() || EachDivides(dim, mesh.Parts(group));
}

Edit MakeEdit(Reason reason, const Dimension& dim, const AxisGroup& from,
              AxisGroup to, const Mesh& mesh) {
  Edit edit;
  edit.reason = reason;
  edit.dim = dim.index;
  edit.from = from;
  edit.to = std::move(to);
  edit.size = dim.size.value_or(0);
  edit.parts = mesh.Parts(from).value_or(0);
  edit.dim_parts = dim.parts;
  return edit;
}

// Returns the first problem of a dimension; nullopt if the dimension is legal.
// A missing axis is reported before a repeated axis, and a repeated axis before
// a size that the axes do not divide. With `repeated_last`, repeated axes are
// reported last, because the JAX library eformer drops the axes of an
// indivisible dimension before it looks for repeated axes. With `pad`, axes
// need not divide a dimension of one part whose elements are not stored in
// blocks.
std::optional<Edit> Judge(const AxisGroup& group, const Dimension& dim,
                          const Axes& used, const Mesh& mesh,
                          bool repeated_last, bool pad) {
  auto fault = [&](Reason reason, std::string axis) {
    Edit edit = MakeEdit(reason, dim, group, {}, mesh);
    edit.axis = std::move(axis);
    return edit;
  };
  if (size_t i = FirstMissing(group, mesh); i < group.size()) {
    return fault(Reason::kMissingAxis, group[i]);
  }
  const size_t repeated = FirstRepeated(group, used);
  const bool indivisible = dim.size &&
                           !(pad && dim.block == 1 && !dim.parts.several()) &&
                           !Divides(group, dim, mesh);
  if (repeated < group.size() && !(repeated_last && indivisible)) {
    return fault(Reason::kRepeatedAxis, group[repeated]);
  }
  if (indivisible) return fault(Reason::kIndivisible, {});
  return std::nullopt;
}

// Removes the first axis that the mesh lacks, and all axes after it. Then
// removes repeated axes. Returns the longest prefix of the remaining axes whose
// product divides the size. Adds at most one edit for each reason.
AxisGroup Shrink(AxisGroup group, const Dimension& dim, const Axes& used,
                 const Mesh& mesh, std::vector<Edit>& edits) {
  if (size_t i = FirstMissing(group, mesh); i < group.size()) {
    AxisGroup kept = Prefix(group, i);
    edits.push_back(MakeEdit(Reason::kMissingAxis, dim, group, kept, mesh));
    edits.back().axis = group[i];
    group = std::move(kept);
  }
  if (size_t i = FirstRepeated(group, used); i < group.size()) {
    Axes seen = used;
    AxisGroup kept;
    for (const std::string& axis : group) {
      if (seen.insert(WholeAxis(axis)).second) kept.push_back(axis);
    }
    edits.push_back(MakeEdit(Reason::kRepeatedAxis, dim, group, kept, mesh));
    edits.back().axis = group[i];
    group = std::move(kept);
  }
  if (!dim.size) return group;
  size_t count = group.size();
  while (!Divides(Prefix(group, count), dim, mesh)) --count;
  if (count < group.size()) {
    AxisGroup kept = Prefix(group, count);
    edits.push_back(MakeEdit(Reason::kIndivisible, dim, group, kept, mesh));
    group = std::move(kept);
  }
  return group;
}

// Returns the result for a tensor that gets the spec [] because of its size;
// nullopt for other tensors. Such a tensor is a scalar (under fjformer, any
// tensor of one element), or has fewer elements than `min_size`.
//
// A scalar yields no edit. Nor does a spec without axes, because [null] means
// the same as []. The compat modes imitate other libraries, and return more
// edits: a scalar always yields one, and a small tensor unless its spec is [].
std::optional<Legal> BySize(const Spec& spec, const Shape& shape,
                            const LegalizeOptions& options) {
  const auto elements = CheckedProduct(shape);
  const bool scalar = shape.empty() || (options.compat == Compat::kFjformer &&
                                        elements && *elements == 1);
  if (!scalar && !(elements && *elements < options.min_size)) {
    return std::nullopt;
  }
  Legal legal;
  const bool plain = options.compat == Compat::kNone;
  if (scalar ? plain : spec.empty() || (plain && IsReplicated(spec))) {
    return legal;
  }
  Edit edit;
  edit.reason = scalar ? Reason::kScalar : Reason::kMinSize;
  edit.size = elements.value_or(0);
  legal.edits.push_back(std::move(edit));
  return legal;
}

// Adds a problem for each entry of the spec beyond the tensor's rank. A null
// entry is also a problem, because JAX refuses such a spec too. If `cut` is
// true, the entries are removed, and each adds an edit instead.
void JudgeSurplus(const Spec& spec, size_t rank, const Mesh& mesh, bool cut,
                  Legal& legal) {
  for (size_t i = rank; i < spec.size(); ++i) {
    Edit edit = MakeEdit(Reason::kTooLong, {.index = static_cast<int>(i)},
                         spec[i], {}, mesh);
    (cut ? legal.edits : legal.problems).push_back(std::move(edit));
    if (!cut) legal.spec.push_back(spec[i]);
  }
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kIndivisible:
      return "indivisible";
    case Reason::kMissingAxis:
      return "missing_axis";
    case Reason::kRepeatedAxis:
      return "repeated_axis";
    case Reason::kTooLong:
      return "too_long";
    case Reason::kMinSize:
      return "min_size";
    case Reason::kScalar:
      return "scalar";
    case Reason::kKvHeads:
      return "kv_heads";
  }
  return "indivisible";
}

namespace {

// Returns why axes do not divide a part of this size, to follow the size.
std::string RemainderText(const Edit& problem, int64_t size) {
  if (problem.parts == 0) return "";
  if (size % problem.parts == 0) return ", a share of which splits a block";
  return ", " + std::to_string(size) + " % " + std::to_string(problem.parts) +
         " = " + std::to_string(size % problem.parts);
}

// Returns what is wrong with parts whose sizes are stated. Names the first part
// that the axes do not divide.
std::string SizesProblemText(const Edit& problem) {
  const std::vector<int64_t>& sizes = problem.dim_parts.sizes;
  std::string out = "parts of " + ListInWords(sizes, [](int64_t size) {
                      return std::to_string(size);
                    });
  std::optional<int64_t> sum = 0;
  for (const int64_t size : sizes) {
    if (sum) sum = CheckedAdd(*sum, size);
  }
  if (sum != problem.size) {
    return out + ", which sum to " +
           (sum ? std::to_string(*sum) : "more than fits in 64 bits") +
           " and not to " + std::to_string(problem.size);
  }
  if (problem.parts == 0) return out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] % problem.parts == 0) continue;
    return out + ", of which part " + std::to_string(i + 1) + " is " +
           std::to_string(sizes[i]) + RemainderText(problem, sizes[i]);
  }
  return out + RemainderText(problem, 0);
}

}  // namespace

std::string PartsProblemText(const Edit& problem) {
  const PartsOfDim& of = problem.dim_parts;
  if (!of.sizes.empty()) return SizesProblemText(problem);
  const std::string parts = std::to_string(of.count) + " parts";
  if (problem.size % of.count != 0) {
    return parts + " of " + std::to_string(problem.size) + ", " +
           std::to_string(problem.size) + " % " + std::to_string(of.count) +
           " = " + std::to_string(problem.size % of.count);
  }
  const int64_t size = problem.size / of.count;
  return parts + " of " + std::to_string(size) + RemainderText(problem, size);
}

Legal Legalize(const Spec& spec, const std::optional<Shape>& shape,
               const Mesh& mesh, const LegalizeOptions& options) {
  return LegalizeStored(spec, {shape, std::nullopt}, mesh, options);
}

Legal LegalizeStored(const Spec& spec, const TensorType& type, const Mesh& mesh,
                     const LegalizeOptions& options) {
  const std::optional<Shape>& shape = type.shape;
  if (shape) {
    if (auto legal = BySize(spec, *shape, options)) return std::move(*legal);
  }
  const bool eformer = options.compat == Compat::kEformer;
  // The JAX library eformer drops missing and indivisible axes in every case.
  // Its compat mode therefore drops them under the policy `error`, too.
  const IllegalPolicy policy =
      eformer && options.illegal == IllegalPolicy::kError ? IllegalPolicy::kDrop
                                                          : options.illegal;
  const size_t rank = shape ? shape->size() : spec.size();
  Legal legal;
  Axes used;  // axes that earlier dimensions have in the edited spec
  for (size_t i = 0; i < std::min(rank, spec.size()); ++i) {
    const Dimension dim{static_cast<int>(i),
                        shape ? std::optional((*shape)[i]) : std::nullopt,
                        BlockAlong(type, i), PartsAt(options.parts, i)};
    AxisGroup group = spec[i];
    if (policy == IllegalPolicy::kShrink) {
      group = Shrink(std::move(group), dim, used, mesh, legal.edits);
    } else if (auto edit = Judge(group, dim, used, mesh, eformer,
                                 policy == IllegalPolicy::kPad)) {
      const bool drop = policy == IllegalPolicy::kDrop &&
                        edit->reason != Reason::kRepeatedAxis;
      if (drop) group.clear();
      (drop ? legal.edits : legal.problems).push_back(std::move(*edit));
    }
    for (const std::string& axis : spec[i]) {
      if (IsAmong(axis, group)) {
        // A view into `spec`, which outlives `used`.
        used.insert(WholeAxis(axis));
      }
    }
    legal.spec.push_back(std::move(group));
  }
  const bool cut =
      policy == IllegalPolicy::kDrop || policy == IllegalPolicy::kShrink;
  JudgeSurplus(spec, rank, mesh, cut, legal);
  if (eformer && legal.problems.empty()) {
    // The JAX library eformer extends a spec with nulls to the rank. It
    // replaces a spec that has only nulls by [].
    legal.spec.resize(IsReplicated(legal.spec) ? 0 : rank);
  }
  return legal;
}

}  // namespace shardc
