#include "exec/machine/collectives.h"

#include <algorithm>
#include <functional>

#include "exec/kernels/kernels.h"

namespace shardc::exec {
namespace {

int64_t ElementBytes(const Buffer& array) { return DtypeBits(array.dtype) / 8; }

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Group by group: `body(group)` with the members' device ids.
void ForGroups(Machine& machine, const AxisGroup& axes,
               const std::function<void(const std::vector<int>&)>& body) {
  for (const std::vector<int>& group : machine.mesh().Groups(axes)) {
    body(group);
  }
}

void Record(Machine& machine, Collective kind, const AxisGroup& axes,
            std::vector<int64_t> sent, std::string_view what) {
  const int64_t n = machine.mesh().Parts(axes);
  if (n == 1) return;
  machine.ledger().Record(kind, axes, n, std::move(sent), what);
}

void Accumulate(const Buffer& part, Reduce reduce, Buffer& total) {
  if (total.IsReal()) {
    if (reduce == Reduce::kSum) {
      AddInto(part.real, total.real);
    } else {
      MaxInto(part.real, total.real);
    }
    return;
  }
  for (size_t i = 0; i < total.whole.size(); ++i) {
    total.whole[i] = reduce == Reduce::kSum
                         ? total.whole[i] + part.whole[i]
                         : std::max(total.whole[i], part.whole[i]);
  }
}

// The members' arrays reduced in ascending group index.
Buffer ReduceGroup(const Machine& machine, const std::vector<int>& group,
                   const PerDevice& in, Reduce reduce) {
  Buffer total = in[At(group[0])];
  size_t end = group.size();
  if (machine.Injected(Fault::kReduceSkipsLast) && end > 1) --end;
  for (size_t i = 1; i < end; ++i) {
    Accumulate(in[At(group[i])], reduce, total);
  }
  if (machine.Injected(Fault::kReduceOneTwice) && group.size() > 1) {
    Accumulate(in[At(group[0])], reduce, total);
  }
  return total;
}

}  // namespace

PerDevice AllGather(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, size_t dim, std::string_view what) {
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    std::vector<const Buffer*> parts;
    for (int member : group) parts.push_back(&in[At(member)]);
    if (machine.Injected(Fault::kGatherOrderReversed)) {
      std::reverse(parts.begin(), parts.end());
    }
    const Buffer whole = ConcatDim(parts, dim);
    for (int member : group) {
      out[At(member)] = whole;
      sent[At(member)] = AllGatherSent(in[At(member)].Bytes(), n);
    }
  });
  Record(machine, Collective::kAllGather, axes, std::move(sent), what);
  return out;
}

PerDevice ReduceScatter(Machine& machine, const AxisGroup& axes,
                        const PerDevice& in, size_t dim,
                        std::string_view what) {
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    const Buffer total = ReduceGroup(machine, group, in, Reduce::kSum);
    const int64_t length = total.shape[dim] / n;
    for (int64_t i = 0; i < n; ++i) {
      const int member = group[At(i)];
      const int64_t chunk =
          machine.Injected(Fault::kReduceScatterChunkOff) ? (i + 1) % n : i;
      out[At(member)] = SliceDim(total, dim, chunk * length, length);
      sent[At(member)] =
          ReduceScatterSent(total.Elements(), ElementBytes(total), n, i);
    }
  });
  Record(machine, Collective::kReduceScatter, axes, std::move(sent), what);
  return out;
}

PerDevice AllReduce(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, Reduce reduce, std::string_view what) {
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    const Buffer total = ReduceGroup(machine, group, in, reduce);
    std::vector<int> reversed(group.rbegin(), group.rend());
    for (int64_t i = 0; i < n; ++i) {
      const bool by_member =
          machine.Injected(Fault::kOrderByMember) && i % 2 == 1;
      out[At(group[At(i)])] =
          by_member ? ReduceGroup(machine, reversed, in, reduce) : total;
      sent[At(group[At(i)])] =
          AllReduceSent(total.Elements(), ElementBytes(total), n, i);
    }
  });
  Record(machine, Collective::kAllReduce, axes, std::move(sent), what);
  return out;
}

PerDevice AllToAll(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   size_t split_dim, size_t concat_dim, std::string_view what) {
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    for (int64_t j = 0; j < n; ++j) {
      std::vector<Buffer> slices;
      for (int member : group) {
        const Buffer& from = in[At(member)];
        const int64_t length = from.shape[split_dim] / n;
        slices.push_back(SliceDim(from, split_dim, j * length, length));
      }
      std::vector<const Buffer*> parts;
      for (const Buffer& slice : slices) parts.push_back(&slice);
      if (machine.Injected(Fault::kAllToAllDimsSwapped)) {
        std::reverse(parts.begin(), parts.end());
      }
      out[At(group[At(j)])] = ConcatDim(parts, concat_dim);
      sent[At(group[At(j)])] = AllToAllSent(in[At(group[At(j)])].Bytes(), n);
    }
  });
  Record(machine, Collective::kAllToAll, axes, std::move(sent), what);
  return out;
}

PerDevice Ppermute(Machine& machine, const AxisGroup& axes, const PerDevice& in,
                   const std::vector<std::pair<int64_t, int64_t>>& edges,
                   std::string_view what) {
  PerDevice out(in.size());
  std::vector<int64_t> sent(in.size());
  for (size_t d = 0; d < in.size(); ++d) {
    out[d] = Buffer::Zeros(in[d].shape, in[d].dtype);
  }
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    for (const auto& [source, target] : edges) {
      const int from = group[At(source)];
      const int to = group[At(target)];
      out[At(to)] = in[At(from)];
      if (from != to) sent[At(from)] += in[At(from)].Bytes();
    }
  });
  Record(machine, Collective::kPpermute, axes, std::move(sent), what);
  return out;
}

PerDevice Broadcast(Machine& machine, const AxisGroup& axes,
                    const PerDevice& in, int64_t root, std::string_view what) {
  PerDevice out(in.size());
  const int64_t n = machine.mesh().Parts(axes);
  std::vector<int64_t> sent(in.size());
  ForGroups(machine, axes, [&](const std::vector<int>& group) {
    const Buffer& from = in[At(group[At(root)])];
    for (int64_t i = 0; i < n; ++i) {
      out[At(group[At(i)])] = from;
      // The chain starts at the root and ends at the member before it.
      const bool last = (i + 1) % n == root;
      sent[At(group[At(i)])] = last ? 0 : from.Bytes();
    }
  });
  Record(machine, Collective::kBroadcast, axes, std::move(sent), what);
  return out;
}

std::vector<std::pair<int64_t, int64_t>> RingEdges(int64_t n) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int64_t i = 0; i < n; ++i) out.emplace_back(i, (i + 1) % n);
  return out;
}

}  // namespace shardc::exec
