// Runs a collective in one process, group by group, on the arrays of all
// devices. It records the bytes that each device would send: in a ring for
// all_gather, reduce_scatter and all_reduce, and by the formulas of
// comm/collective.h for the other collectives. A reduction is computed once for
// all members, in ascending order of members, so every member has the same bits
// with any number of threads.
//
//   all_gather over tp=4 of 8 bytes each  ->  32 bytes; each sends 3 * 8
#include "exec/machine/collectives.h"

#include <algorithm>
#include <functional>

#include "comm/collective.h"
#include "exec/kernels/kernels.h"
#include "exec/machine/collectives_ranks.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

int64_t ElementBytes(const Buffer& array) { return DtypeBits(array.dtype) / 8; }

// Calls `body` for each group of devices over `axes`, with the members' ids.
void ForGroups(Machine& machine, const AxisGroup& axes,
               const std::function<void(const std::vector<int>&)>& body) {
  for (const std::vector<int>& group : machine.mesh().Groups(axes)) {
    body(group);
  }
}

void Record(Machine& machine, const CollectiveCall& call,
            std::vector<int64_t> sent) {
  const int64_t n = machine.mesh().Parts(call.axes);
  if (n == 1) return;
  machine.ledger().Record(call.kind, call.axes, n, std::move(sent), call.what);
}

// Reduces the arrays of a group's members, in ascending order of their index.
Buffer ReduceGroup(const std::vector<int>& group, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  Buffer total = in[AsIndex(group[0])];
  for (size_t i = 1; i < group.size(); ++i) {
    Accumulate(in[AsIndex(group[i])], call.reduce, total);
  }
  if (call.rounds) RoundTo(total);
  return total;
}

PerDevice AllGatherOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(call.axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    std::vector<const Buffer*> parts;
    for (int member : group) parts.push_back(&in[AsIndex(member)]);
    const Buffer whole = ConcatDim(parts, call.dim);
    for (int member : group) {
      out[AsIndex(member)] = whole;
      sent[AsIndex(member)] = AllGatherSent(in[AsIndex(member)].Bytes(), n);
    }
  });
  Record(machine, call, std::move(sent));
  return out;
}

PerDevice ReduceScatterOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(call.axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    const Buffer total = ReduceGroup(group, call);
    const int64_t length = total.shape[call.dim] / n;
    for (int64_t i = 0; i < n; ++i) {
      const int member = group[AsIndex(i)];
      out[AsIndex(member)] = SliceDim(total, call.dim, i * length, length);
      sent[AsIndex(member)] =
          ReduceScatterSent(total.Elements(), ElementBytes(total), n, i);
    }
  });
  Record(machine, call, std::move(sent));
  return out;
}

PerDevice AllReduceOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(call.axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    const Buffer total = ReduceGroup(group, call);
    for (int64_t i = 0; i < n; ++i) {
      out[AsIndex(group[AsIndex(i)])] = total;
      sent[AsIndex(group[AsIndex(i)])] =
          AllReduceSent(total.Elements(), ElementBytes(total), n, i);
    }
  });
  Record(machine, call, std::move(sent));
  return out;
}

PerDevice AllToAllOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(call.axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    for (int64_t j = 0; j < n; ++j) {
      std::vector<Buffer> slices;
      for (int member : group) {
        const Buffer& from = in[AsIndex(member)];
        const int64_t length = from.shape[call.dim] / n;
        slices.push_back(SliceDim(from, call.dim, j * length, length));
      }
      std::vector<const Buffer*> parts;
      for (const Buffer& slice : slices) parts.push_back(&slice);
      out[AsIndex(group[AsIndex(j)])] = ConcatDim(parts, call.concat_dim);
      sent[AsIndex(group[AsIndex(j)])] =
          AllToAllSent(in[AsIndex(group[AsIndex(j)])].Bytes(), n);
    }
  });
  Record(machine, call, std::move(sent));
  return out;
}

PerDevice PpermuteOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  std::vector<int64_t> sent(in.size());
  for (size_t d = 0; d < in.size(); ++d) {
    out[d] = Buffer::Zeros(in[d].shape, in[d].dtype);
  }
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    for (const auto& [source, target] : call.edges) {
      const int from = group[AsIndex(source)];
      const int to = group[AsIndex(target)];
      out[AsIndex(to)] = in[AsIndex(from)];
      if (from != to) sent[AsIndex(from)] += in[AsIndex(from)].Bytes();
    }
  });
  Record(machine, call, std::move(sent));
  return out;
}

PerDevice BroadcastOf(Machine& machine, const CollectiveCall& call) {
  const PerDevice& in = *call.in;
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(call.axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, call.axes, [&](const std::vector<int>& group) {
    const Buffer& from = in[AsIndex(group[AsIndex(call.root)])];
    for (int64_t i = 0; i < n; ++i) {
      out[AsIndex(group[AsIndex(i)])] = from;
      // A broadcast is a chain: each member sends to the next. The chain starts
      // at the root and ends at the member before the root, which sends
      // nothing.
      const bool last = (i + 1) % n == call.root;
      sent[AsIndex(group[AsIndex(i)])] = last ? 0 : from.Bytes();
    }
  });
  Record(machine, call, std::move(sent));
  return out;
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
  switch (call.kind) {
    case Collective::kAllGather:
      return AllGatherOf(machine, call);
    case Collective::kReduceScatter:
      return ReduceScatterOf(machine, call);
    case Collective::kAllReduce:
      return AllReduceOf(machine, call);
    case Collective::kAllToAll:
      return AllToAllOf(machine, call);
    case Collective::kPpermute:
      return PpermuteOf(machine, call);
    case Collective::kBroadcast:
      return BroadcastOf(machine, call);
  }
  return {};
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
