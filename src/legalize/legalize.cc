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
// The axes must divide each of the equal parts of a dimension that has several,
// under `pad` too: 12 in 2 parts over 4 is illegal, because 4 does not
// divide 6.
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
#include <set>
#include <string>
#include <utility>

#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"

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

// Returns whether `parts` divides the number of blocks along a dimension.
// `parts` is the product of the sizes of the dimension's axes; nullopt if the
// product overflows. One part divides any size, and any number of parts divides
// size 0. `dim_parts` is the number of equal parts of the dimension, which are
// divided separately.
bool Divides(int64_t size, std::optional<int64_t> parts, int64_t block,
             int64_t dim_parts) {
  if (size == 0 || parts == 1) return true;
  return parts && size % dim_parts == 0 && size / dim_parts % block == 0 &&
         size / dim_parts / block % *parts == 0;
}

AxisGroup Prefix(const AxisGroup& group, size_t count) {
  return {group.begin(), group.begin() + static_cast<ptrdiff_t>(count)};
}

// A dimension: its index, its size (nullopt if unknown), the number of
// consecutive elements that are stored as one block, and the number of equal
// parts.
struct Dimension {
  int index = 0;
  std::optional<int64_t> size = std::nullopt;
  int64_t block = 1;
  int64_t parts = 1;
};

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
  const bool indivisible =
      dim.size && !(pad && dim.block == 1 && dim.parts == 1) &&
      !Divides(*dim.size, mesh.Parts(group), dim.block, dim.parts);
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
  while (!Divides(*dim.size, mesh.Parts(Prefix(group, count)), dim.block,
                  dim.parts)) {
    --count;
  }
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

std::string PartsProblemText(const Edit& problem) {
  const std::string parts = std::to_string(problem.dim_parts) + " parts";
  if (problem.size % problem.dim_parts != 0) {
    return parts + " of " + std::to_string(problem.size) + ", " +
           std::to_string(problem.size) + " % " +
           std::to_string(problem.dim_parts) + " = " +
           std::to_string(problem.size % problem.dim_parts);
  }
  const int64_t size = problem.size / problem.dim_parts;
  const std::string out = parts + " of " + std::to_string(size);
  if (problem.parts == 0) return out;
  if (size % problem.parts == 0)
    return out + ", a share of which splits a block";
  return out + ", " + std::to_string(size) + " % " +
         std::to_string(problem.parts) + " = " +
         std::to_string(size % problem.parts);
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
