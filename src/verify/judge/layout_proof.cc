// Checks collectives on tensors in which each element is its own index: 0, 1, 2
// and so on. After each collective, a device must hold exactly the indices of
// its shard. With real data, equal values could hide an error. Large tensors
// are replaced by smaller ones with two elements for each shard. For example, a
// tensor [4] is sharded over tp=2:
//
//   devices hold 0 1 and 2 3; after all_gather, both must hold 0 1 2 3
#include "verify/judge/layout_proof.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "exec/machine/collectives.h"
#include "source/index.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using exec::LayoutError;
using exec::Machine;
using exec::ShardedTensor;

std::optional<LayoutError> Named(std::optional<LayoutError> bad,
                                 std::string_view tensor,
                                 std::string_view step) {
  if (bad) {
    bad->message =
        std::string(tensor) + " " + std::string(step) + ": " + bad->message;
  }
  return bad;
}

// `t` is a tensor of ids, in which each element is its own index. Gathers each
// sharded dimension, from the last to the first. Returns an error if a device
// then does not hold exactly the ids that it should hold.
std::optional<LayoutError> ProveGather(Machine& machine, ShardedTensor t,
                                       std::string_view name) {
  for (size_t d = t.shape.size(); d > 0;) {
    --d;
    if (machine.mesh().Parts(t.spec[d]) == 1) continue;
    t.local = exec::AllGather(machine, t.spec[d], t.local, d, name);
    t.spec[d].clear();
    if (auto bad =
            Named(CheckCoverage(machine.mesh(), t), name, "after all_gather")) {
      return bad;
    }
  }
  return std::nullopt;
}

// Exchanges length for heads by all_to_all and back, if the shape allows this.
// Returns an error if an id is in a wrong place.
std::optional<LayoutError> ProveExchange(Machine& machine,
                                         const ShardedTensor& whole,
                                         std::string_view name) {
  const AxisGroup axes = whole.spec[1];
  const int64_t n = machine.mesh().Parts(axes);
  if (n == 1 || whole.local[0].shape[2] % n != 0) return std::nullopt;
  ShardedTensor t = whole;
  t.local = exec::AllToAll(machine, axes, t.local, 2, 1, name);
  t.spec[1].clear();
  t.spec[2].insert(t.spec[2].end(), axes.begin(), axes.end());
  if (auto bad =
          Named(CheckCoverage(machine.mesh(), t), name, "after all_to_all")) {
    return bad;
  }
  t.local = exec::AllToAll(machine, axes, t.local, 1, 2, name);
  return Named(CheckCoverage(machine.mesh(),
                             {whole.shape, whole.dtype, whole.spec, t.local}),
               name, "after all_to_all there and back");
}

// Checks reduce_scatter on a tensor of ids, in which each element is its own
// index. Member 0 of each group contributes the ids and all other members
// contribute zeros, so the sum must equal the ids.
std::optional<LayoutError> ProveReduceScatter(Machine& machine,
                                              const ShardedTensor& split,
                                              size_t dim,
                                              std::string_view name) {
  const AxisGroup axes = split.spec[dim];
  if (machine.mesh().Parts(axes) == 1) return std::nullopt;
  ShardedTensor t = split;
  LayoutError why;
  const exec::Buffer ids = exec::UniqueIds(split.shape);
  Spec joined = split.spec;
  joined[dim].clear();
  t = exec::Scatter(machine.mesh(), ids, joined);
  for (int d = 0; d < machine.devices(); ++d) {
    if (!machine.mesh().Holds(d)) continue;
    if (machine.mesh().Index(d, axes) == 0) continue;
    auto& local = t.local[AsIndex(d)];
    local = exec::Buffer::Zeros(local.shape, local.dtype);
  }
  t.local = exec::ReduceScatter(machine, axes, t.local, dim, name);
  t.spec = split.spec;
  return Named(CheckCoverage(machine.mesh(), t), name, "after reduce_scatter");
}

// If a tensor's number of elements times the number of devices exceeds this
// limit, a smaller tensor of ids is checked in its place.
constexpr int64_t kMostIds = int64_t{1} << 24;

// Returns a layout in which the reshard of a tensor of ids (elements that are
// their own index) from the spec of `laid` to the spec `other` can be checked.
// This is `laid` itself if its ids fit within kMostIds. Otherwise it has a
// smaller shape. If `laid` splits a dimension into m parts and `other` splits
// it into n, the new size is 2 lcm(m, n). A dimension keeps its size if that is
// smaller than the new size, or no multiple of lcm(m, n). The new sizes
// distinguish all shards of both specs, since the offset and the length of a
// slice are linear in the dimension's length.
exec::TensorSharding Reduced(const exec::SimMesh& mesh,
                             exec::TensorSharding laid, const Spec& other) {
  if (exec::ElementsOf(laid.shape) * mesh.devices() <= kMostIds) return laid;
  for (size_t d = 0; d < laid.shape.size(); ++d) {
    const int64_t own = mesh.Parts(laid.spec[d]);
    const int64_t target = d < other.size() ? mesh.Parts(other[d]) : 1;
    // Both numbers of shards divide a legal dimension, so their least common
    // multiple divides it too.
    const int64_t unit = std::lcm(own, target);
    if (laid.shape[d] % unit != 0) continue;
    laid.shape[d] = std::min(laid.shape[d], 2 * unit);
  }
  return laid;
}

std::optional<LayoutError> ProveTensor(Machine& machine,
                                       const exec::TensorSharding& given,
                                       const Spec& other,
                                       std::string_view name) {
  const exec::SimMesh& mesh = machine.mesh();
  if (CheckLayout(mesh, given.shape, given.spec)) return std::nullopt;
  const exec::TensorSharding laid = Reduced(mesh, given, other);
  const ShardedTensor t =
      exec::Scatter(mesh, exec::UniqueIds(laid.shape), laid.spec);
  if (auto bad = Named(CheckCoverage(mesh, t), name, "as scattered")) {
    return bad;
  }
  if (auto bad = ProveGather(machine, t, name)) return bad;
  if (auto bad = ProveExchange(machine, t, name)) return bad;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (auto bad = ProveReduceScatter(machine, t, d, name)) return bad;
  }
  for (const Spec& target : {other, Spec(laid.shape.size())}) {
    if (CheckLayout(mesh, laid.shape, target)) continue;
    const ShardedTensor moved = exec::Reshard(machine, t, target, name);
    if (auto bad = Named(CheckCoverage(mesh, moved), name, "as moved")) {
      return bad;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LayoutError> ProveLayouts(const Case& test, Machine& machine) {
  const exec::TensorSharding q = QueryOf(test), k = KeyOf(test),
                             v = ValueOf(test), o = OutputOf(test);
  if (auto bad = ProveTensor(machine, q, o.spec, "query")) return bad;
  if (auto bad = ProveTensor(machine, k, q.spec, "key")) return bad;
  if (auto bad = ProveTensor(machine, v, q.spec, "value")) return bad;
  return ProveTensor(machine, o, q.spec, "output");
}

}  // namespace shardc::verify
