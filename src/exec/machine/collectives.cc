// Implements the collectives for a mesh whose devices are all in one process.
// Groups of devices are processed one after the other, by reading and writing
// the devices' arrays in memory. The ledger gets the bytes that each device
// would send on a real mesh, by the formulas of comm/collective.h. For
// all_gather, reduce_scatter and all_reduce these formulas assume a ring. A
// reduction is computed once for all members of a group, in ascending order of
// members. Every member therefore has the same bits, for any number of threads.
// For example:
//
//   all_gather over tp=4 of 8 bytes each  ->  32 bytes; each sends 3 * 8
#include "exec/machine/collectives.h"

#include <algorithm>
#include <utility>

#include "comm/collective_def.h"
#include "exec/kernels/kernels.h"
#include "exec/machine/collectives_ranks.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

int64_t ElementBytes(const Buffer& array) { return DtypeBits(array.dtype) / 8; }

using Group = std::vector<int>;  // device ids in the order of the group

// Reduces the arrays of a group's members in ascending order.
Buffer ReduceGroup(const Group& group, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  Buffer total = in[AsIndex(group[0])];
  for (size_t i = 1; i < group.size(); ++i) {
    Accumulate(in[AsIndex(group[i])], call.reduce, total);
  }
  if (call.rounds) RoundTo(total);
  return total;
}

void AllGatherIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  std::vector<const Buffer*> parts;
  for (int member : group) parts.push_back(&(*call.in)[AsIndex(member)]);
  const Buffer whole = ConcatDim(parts, call.dim);
  for (int member : group) out[AsIndex(member)] = whole;
}

void ReduceScatterIn(const Group& group, const CollectiveCall& call,
                     PerDevice& out) {
  const Buffer total = ReduceGroup(group, call);
  const auto n = std::ssize(group);
  const int64_t length = total.shape[call.dim] / n;
  for (int64_t i = 0; i < n; ++i) {
    const int member = group[AsIndex(i)];
    out[AsIndex(member)] = SliceDim(total, call.dim, i * length, length);
  }
}

void AllReduceIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  const Buffer total = ReduceGroup(group, call);
  for (int member : group) out[AsIndex(member)] = total;
}

void AllToAllIn(const Group& group, const CollectiveCall& call,
                PerDevice& out) {
  const auto n = std::ssize(group);
  for (int64_t j = 0; j < n; ++j) {
    std::vector<Buffer> slices;
    for (int member : group) {
      const Buffer& from = (*call.in)[AsIndex(member)];
      const int64_t length = from.shape[call.dim] / n;
      slices.push_back(SliceDim(from, call.dim, j * length, length));
    }
    std::vector<const Buffer*> parts;
    for (const Buffer& slice : slices) parts.push_back(&slice);
    out[AsIndex(group[AsIndex(j)])] = ConcatDim(parts, call.concat_dim);
  }
}

void PpermuteIn(const Group& group, const CollectiveCall& call,
                PerDevice& out) {
  const PerDevice& in = *call.in;
  for (int member : group) {
    const Buffer& own = in[AsIndex(member)];
    out[AsIndex(member)] = Buffer::Zeros(own.shape, own.dtype);
  }
  for (const auto& [source, target] : call.edges) {
    out[AsIndex(group[AsIndex(target)])] = in[AsIndex(group[AsIndex(source)])];
  }
}

void BroadcastIn(const Group& group, const CollectiveCall& call,
                 PerDevice& out) {
  const Buffer& from = (*call.in)[AsIndex(group[AsIndex(call.root)])];
  for (int member : group) out[AsIndex(member)] = from;
}

void SentAlongEdges(const SimMesh& mesh, const Group& group,
                    const CollectiveCall& call, std::vector<int64_t>& sent) {
  for (const auto& [source, target] : call.edges) {
    const int from = group[AsIndex(source)];
    if (source == target || !mesh.Holds(from)) continue;
    sent[AsIndex(from)] += (*call.in)[AsIndex(from)].Bytes();
  }
}

// Counts the bytes by the formula in the collective's definition. A broadcast
// sends along a chain that starts at the root, so the root is member 0 in the
// formula.
void SentByFormula(const SimMesh& mesh, const Group& group,
                   const CollectiveCall& call, std::vector<int64_t>& sent) {
  const CollectiveDef& of = DefOf(call.kind);
  const auto n = std::ssize(group);
  for (int64_t i = 0; i < n; ++i) {
    const int device = group[AsIndex(i)];
    if (!mesh.Holds(device)) continue;
    const Buffer& own = (*call.in)[AsIndex(device)];
    sent[AsIndex(device)] = of.member_sent(own.Elements(), ElementBytes(own), n,
                                           (i + n - call.root) % n);
  }
}

// How a collective runs in one process.
struct Kernel {
  Collective kind;
  // Writes the results of a group's members.
  void (*run)(const Group& group, const CollectiveCall& call, PerDevice& out);
  // Writes to `sent` the bytes that each member sends, for the members that
  // this rank holds. `sent` is indexed by device and has zeros before the call.
  void (*count)(const SimMesh& mesh, const Group& group,
                const CollectiveCall& call,
                std::vector<int64_t>& sent) = SentByFormula;
};
constexpr Kernel kKernels[] = {
    {Collective::kAllGather, AllGatherIn},
    {Collective::kReduceScatter, ReduceScatterIn},
    {Collective::kAllReduce, AllReduceIn},
    {Collective::kAllToAll, AllToAllIn},
    {Collective::kPpermute, PpermuteIn, SentAlongEdges},
    {Collective::kBroadcast, BroadcastIn},
};
static_assert(HasRowOfEachCollective(kKernels));

const Kernel& KernelOf(Collective kind) {
  return kKernels[static_cast<size_t>(kind)];
}

PerDevice Call(Machine& machine, const CollectiveCall& call) {
  return machine.Seam<CollectiveSeam>().run(machine, call);
}

}  // namespace

void Accumulate(const Buffer& part, Reduce reduce, Buffer& total) {
  if (total.IsWide()) {
    for (size_t i = 0; i < total.wide.size(); ++i) {
      double& to = total.wide[i];
      to = reduce == Reduce::kSum ? to + part.wide[i]
                                  : std::max(to, part.wide[i]);
    }
    return;
  }
  if (total.IsReal()) {
    if (reduce == Reduce::kSum) {
      AddInto(part.real, total.real);
    } else {
      MaxInto(part.real, total.real);
    }
    return;
  }
  for (size_t i = 0; i < total.integers.size(); ++i) {
    total.integers[i] = reduce == Reduce::kSum
                            ? total.integers[i] + part.integers[i]
                            : std::max(total.integers[i], part.integers[i]);
  }
}

PerDevice RunCollective(Machine& machine, const CollectiveCall& call) {
  if (machine.mesh().transport() != nullptr) {
    return RunAcrossRanks(machine, call);
  }
  const std::vector<Group> groups = machine.mesh().Groups(call.axes);
  PerDevice out(call.in->size());
  for (const Group& group : groups) {
    KernelOf(call.kind).run(group, call, out);
  }
  RecordCall(machine, groups, call);
  return out;
}

void RecordCall(Machine& machine, const std::vector<std::vector<int>>& groups,
                const CollectiveCall& call) {
  const int64_t n = machine.mesh().Parts(call.axes);
  if (n == 1) return;
  std::vector<int64_t> sent(call.in->size());
  for (const Group& group : groups) {
    KernelOf(call.kind).count(machine.mesh(), group, call, sent);
  }
  machine.ledger().Record(call.kind, call.axes, n, std::move(sent), call.what);
}

PerDevice AllGather(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, size_t dim, std::string_view what) {
  return Call(machine, {.kind = Collective::kAllGather,
                        .axes = axes,
                        .in = &in,
                        .dim = dim,
                        .what = what});
}

PerDevice ReduceScatter(Machine& machine, const AxisGroup& axes,
                        const PerDevice& in, size_t dim, std::string_view what,
                        bool rounds) {
  return Call(machine, {.kind = Collective::kReduceScatter,
                        .axes = axes,
                        .in = &in,
                        .dim = dim,
                        .rounds = rounds,
                        .what = what});
}

PerDevice AllReduce(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, Reduce reduce, std::string_view what,
                    bool rounds) {
  return Call(machine, {.kind = Collective::kAllReduce,
                        .axes = axes,
                        .in = &in,
                        .reduce = reduce,
                        .rounds = rounds,
                        .what = what});
}

PerDevice AllToAll(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   size_t split_dim, size_t concat_dim, std::string_view what) {
  return Call(machine, {.kind = Collective::kAllToAll,
                        .axes = axes,
                        .in = &in,
                        .dim = split_dim,
                        .concat_dim = concat_dim,
                        .what = what});
}

PerDevice Ppermute(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   const std::vector<Edge>& edges, std::string_view what) {
  return Call(machine, {.kind = Collective::kPpermute,
                        .axes = axes,
                        .in = &in,
                        .edges = edges,
                        .what = what});
}

PerDevice Broadcast(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, int64_t root, std::string_view what) {
  return Call(machine, {.kind = Collective::kBroadcast,
                        .axes = axes,
                        .in = &in,
                        .root = root,
                        .what = what});
}

std::vector<Edge> RingEdges(int64_t n) {
  std::vector<Edge> out;
  for (int64_t i = 0; i < n; ++i) out.emplace_back(i, (i + 1) % n);
  return out;
}

}  // namespace shardc::exec
