// Finds the collective that changes a tensor from one spec to another, and the
// elements that it sends. If a dimension is sharded over [a, b], each of its
// blocks is a part of a block over [a] alone. So removing b joins blocks
// (all_gather). Adding b splits a block that the device already has, without
// communication. Any other change of a dimension's axes exchanges blocks
// between devices (ppermute). If an axis moves to another dimension, blocks are
// exchanged along two dimensions (all_to_all).
//
// For example, on the mesh x=2 y=2, a change from [x, y] to [[x, y], null] is
// an all_to_all over only y: y moves from the second dimension to the first,
// and x stays.
#include "comm/reshard.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/sent.h"
#include "model/mesh_layout.h"
#include "source/size.h"

namespace shardc {
namespace {

// Returns, for each axis of more than one device, the dimension that it shards.
std::map<std::string, size_t> DimByAxis(const Mesh& mesh, const Spec& spec) {
  std::map<std::string, size_t> out;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (std::string& axis : DropTrivial(mesh, spec[dim])) {
      out[std::move(axis)] = dim;
    }
  }
  return out;
}

bool AnyChangesDim(const Mesh& mesh, const Spec& from, const Spec& to) {
  const auto before = DimByAxis(mesh, from), after = DimByAxis(mesh, to);
  return std::any_of(before.begin(), before.end(), [&](const auto& one) {
    const auto at = after.find(one.first);
    return at != after.end() && at->second != one.second;
  });
}

// Appends the axes that begin at `axes[begin]` to the list `out`, except those
// that `out` already contains.
void AddAxes(const AxisGroup& axes, size_t begin, AxisGroup& out) {
  for (size_t i = begin; i < axes.size(); ++i) {
    if (std::find(out.begin(), out.end(), axes[i]) == out.end()) {
      out.push_back(axes[i]);
    }
  }
}

std::set<std::string_view> SizedAxes(const Mesh& mesh, const AxisGroup& group) {
  std::set<std::string_view> out;
  for (const std::string& axis : group) {
    if (mesh.SizeOf(axis) > 1) out.insert(axis);
  }
  return out;
}

}  // namespace

AxisGroup DropTrivial(const Mesh& mesh, const AxisGroup& axes) {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1) out.push_back(axis);
  }
  return out;
}

bool IsPrefix(const Mesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole) {
  const AxisGroup a = DropTrivial(mesh, prefix);
  const AxisGroup b = DropTrivial(mesh, whole);
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

bool SameSplit(const Mesh& mesh, const AxisGroup& a, const AxisGroup& b) {
  return SizedAxes(mesh, a) == SizedAxes(mesh, b);
}

bool SameSplit(const Mesh& mesh, const Spec& a, const Spec& b) {
  for (size_t dim = 0; dim < std::max(a.size(), b.size()); ++dim) {
    if (!SameSplit(mesh, AxesAt(a, dim), AxesAt(b, dim))) return false;
  }
  return true;
}

std::optional<SpecMove> ClassifyMove(const Mesh& mesh, const Spec& from,
                                     const Spec& to) {
  SpecMove out;
  bool free = true, only_gather = true;
  for (size_t dim = 0; dim < std::max(from.size(), to.size()); ++dim) {
    const AxisGroup a = DropTrivial(mesh, AxesAt(from, dim));
    const AxisGroup b = DropTrivial(mesh, AxesAt(to, dim));
    const bool joins = IsPrefix(mesh, b, a), cuts = IsPrefix(mesh, a, b);
    free = free && cuts;
    only_gather = only_gather && (joins || cuts);
    const size_t kept = joins || cuts ? std::min(a.size(), b.size()) : 0;
    AddAxes(a, kept, out.axes);
    AddAxes(b, kept, out.axes);
  }
  if (free) return std::nullopt;
  if (AnyChangesDim(mesh, from, to)) {
    out.kind = Collective::kAllToAll;
  } else if (!only_gather) {
    out.kind = Collective::kPpermute;
  }
  return out;
}

std::vector<int64_t> SentElements(const Mesh& mesh, const Shape& shape,
                                  const Spec& from, const Spec& to) {
  const auto coordinates = [&](int64_t device) {
    return CoordinatesOf(mesh, device);
  };
  return CountSent({mesh, from, coordinates}, {mesh, to, coordinates}, shape);
}

}  // namespace shardc
