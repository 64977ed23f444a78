// Injects faults into collectives. Each function below replaces one collective
// of a program: it runs another call instead, or changes the result.
//
// Example: with gather-order-reversed an all_gather gets the buffers of a group
// in reverse order. Two shards of [a, b] are then joined to [b, a], but the
// recorded bytes are correct.
#include <algorithm>
#include <limits>
#include <utility>

#include "comm/collective.h"
#include "exec/machine/collectives.h"
#include "exec/machine/sharded.h"
#include "floats/convert.h"
#include "source/size.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::CollectiveCall;
using exec::Machine;
using exec::PerDevice;
using exec::Reduce;
using exec::RunCollective;

// Returns true if the call sends real data, and false if it sends the unique
// ids with which layouts are checked.
bool IsData(const CollectiveCall& call) { return call.in->front().IsReal(); }

PerDevice RunOn(Machine& machine, CollectiveCall call, const PerDevice& in) {
  call.in = &in;
  return RunCollective(machine, call);
}

// Sends nothing: every member keeps its own buffer.
PerDevice Unsent(Machine&, const CollectiveCall& call) { return *call.in; }

// Returns the buffers in another order: member i of a group of n devices gets
// the buffer of member from(i, n).
template <class From>
PerDevice Permuted(const Machine& machine, const AxisGroup& axes,
                   const PerDevice& in, From from) {
  PerDevice out(in.size());
  for (const std::vector<int>& group : machine.mesh().Groups(axes)) {
    const auto n = static_cast<int64_t>(group.size());
    for (int64_t i = 0; i < n; ++i) {
      out[AsIndex(group[AsIndex(i)])] = in[AsIndex(group[AsIndex(from(i, n))])];
    }
  }
  return out;
}

int64_t Mirrored(int64_t i, int64_t n) { return n - 1 - i; }
int64_t NextOf(int64_t i, int64_t n) { return (i + 1) % n; }

PerDevice FromTheEnd(Machine& machine, const CollectiveCall& call) {
  return RunOn(machine, call, Permuted(machine, call.axes, *call.in, Mirrored));
}

PerDevice NextChunk(Machine& machine, const CollectiveCall& call) {
  return Permuted(machine, call.axes, RunCollective(machine, call), NextOf);
}

void AddTo(const Buffer& part, Buffer& total) {
  for (size_t i = 0; i < part.real.size(); ++i) total.real[i] += part.real[i];
  for (size_t i = 0; i < part.integers.size(); ++i) {
    total.integers[i] += part.integers[i];
  }
}

PerDevice FirstTwice(Machine& machine, const CollectiveCall& call) {
  PerDevice out = RunCollective(machine, call);
  if (call.reduce != Reduce::kSum) return out;
  const bool scatters = call.kind == Collective::kReduceScatter;
  for (const std::vector<int>& group : machine.mesh().Groups(call.axes)) {
    if (group.size() == 1) continue;
    const Buffer& first = (*call.in)[AsIndex(group[0])];
    for (size_t i = 0; i < group.size(); ++i) {
      Buffer& to = out[AsIndex(group[i])];
      const int64_t length = to.shape[call.dim];
      AddTo(scatters ? exec::SliceDim(first, call.dim,
                                      static_cast<int64_t>(i) * length, length)
                     : first,
            to);
    }
  }
  return out;
}

// Replaces the last member's operand by the neutral element of the reduction.
PerDevice WithoutLast(Machine& machine, const CollectiveCall& call) {
  PerDevice in = *call.in;
  const bool sum = call.reduce == Reduce::kSum;
  for (const std::vector<int>& group : machine.mesh().Groups(call.axes)) {
    if (group.size() == 1) continue;
    Buffer& last = in[AsIndex(group.back())];
    std::fill(last.real.begin(), last.real.end(),
              sum ? 0.0f : -std::numeric_limits<float>::infinity());
    std::fill(last.integers.begin(), last.integers.end(),
              sum ? 0 : std::numeric_limits<int32_t>::min());
  }
  return RunOn(machine, call, in);
}

// Every second member of a group gets the sum of the operands in reverse order,
// which has other rounding errors.
PerDevice OrderedByMember(Machine& machine, const CollectiveCall& call) {
  PerDevice out = RunCollective(machine, call);
  Machine unseen(machine.mesh());
  const PerDevice reversed =
      RunOn(unseen, call, Permuted(machine, call.axes, *call.in, Mirrored));
  for (const std::vector<int>& group : machine.mesh().Groups(call.axes)) {
    for (size_t i = 1; i < group.size(); i += 2) {
      out[AsIndex(group[i])] = reversed[AsIndex(group[i])];
    }
  }
  return out;
}

bool Names(const AxisGroup& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

PerDevice Over(Machine& machine, CollectiveCall call, AxisGroup axes) {
  call.axes = std::move(axes);
  return RunCollective(machine, call);
}

PerDevice OverAnotherAxis(Machine& machine, const CollectiveCall& call) {
  for (const MeshAxis& axis : machine.mesh().mesh().axes) {
    if (axis.size > 1 && !Names(call.axes, axis.name)) {
      return Over(machine, call, {axis.name});
    }
  }
  return Over(machine, call, {});
}

// Runs the collective over `cp` instead of its own axes. In the case that
// should reveal this fault, `cp` is the axis of the ring.
PerDevice OverTheRing(Machine& machine, const CollectiveCall& call) {
  return IsData(call) ? Over(machine, call, {"cp"})
                      : RunCollective(machine, call);
}

// Returns true if all devices along the axis have the same buffer.
bool Replicates(const Machine& machine, const std::string& axis,
                const PerDevice& in) {
  for (const std::vector<int>& group : machine.mesh().Groups({axis})) {
    for (int member : group) {
      if (exec::FirstDifference(in[AsIndex(group[0])], in[AsIndex(member)]) >=
          0) {
        return false;
      }
    }
  }
  return true;
}

PerDevice OverReplicas(Machine& machine, const CollectiveCall& call) {
  AxisGroup axes = call.axes;
  for (const MeshAxis& axis : machine.mesh().mesh().axes) {
    if (axis.size > 1 && !Names(axes, axis.name) &&
        Replicates(machine, axis.name, *call.in)) {
      axes.push_back(axis.name);
    }
  }
  return Over(machine, call, std::move(axes));
}

// Runs the first ppermute of a ring twice, so that the ring sends more bytes
// than needed.
PerDevice SentAgain(Machine& machine, const CollectiveCall& call) {
  const auto& entries = machine.ledger().entries();
  const bool again = std::none_of(
      entries.begin(), entries.end(),
      [](const auto& entry) { return entry.kind == Collective::kPpermute; });
  if (again) RunCollective(machine, call);
  return RunCollective(machine, call);
}

PerDevice AgainstTheRing(Machine& machine, const CollectiveCall& given) {
  CollectiveCall call = given;
  std::vector<exec::Edge> edges(call.edges.begin(), call.edges.end());
  for (auto& [source, target] : edges) std::swap(source, target);
  call.edges = edges;
  return RunCollective(machine, call);
}

// Skips the all_to_all. Each device keeps its elements, in a buffer with the
// shape of the correct result.
PerDevice Relabelled(Machine& machine, const CollectiveCall& call) {
  if (!IsData(call)) return RunCollective(machine, call);
  PerDevice out = *call.in;
  const int64_t n = machine.mesh().Parts(call.axes);
  for (Buffer& local : out) {
    local.shape[call.dim] /= n;
    local.shape[call.concat_dim] *= n;
  }
  return out;
}

// Returns the repeated heads of `in` in another order: 0 0 1 1 becomes 0 1 0 1.
Buffer Tiled(const Buffer& in, int64_t heads) {
  const int64_t times = in.shape[2] / heads;
  std::vector<Buffer> slices;
  for (int64_t h = 0; h < in.shape[2]; ++h) {
    slices.push_back(exec::SliceDim(in, 2, h % heads * times, 1));
  }
  std::vector<const Buffer*> parts;
  for (const Buffer& slice : slices) parts.push_back(&slice);
  return exec::ConcatDim(parts, 2);
}

PerDevice TiledHeads(Machine& machine, const CollectiveCall& call) {
  constexpr int64_t kHeads = 2;  // key heads of this fault's test case
  if (!IsData(call)) return RunCollective(machine, call);
  PerDevice in;
  for (const Buffer& local : *call.in) in.push_back(Tiled(local, kHeads));
  return RunOn(machine, call, in);
}

// Runs the collective on rows of partial softmaxes. flash_decoding packs a row
// as D outputs and then the sum. `body(row, D, n)` changes each row before it
// is sent; n is the number of devices in a group.
template <class Body>
PerDevice Repacked(Machine& machine, const CollectiveCall& call, Body body) {
  PerDevice in = *call.in;
  const auto n = static_cast<float>(machine.mesh().Parts(call.axes));
  for (Buffer& packed : in) {
    const int64_t width = packed.shape.back();
    for (int64_t at = 0; at < packed.Elements(); at += width) {
      body(packed.real.data() + at, width - 1, n);
    }
  }
  return RunOn(machine, call, in);
}

// Divides the outputs of a packed row by the shard's own sum, which is wrong
// before the shards are merged. Then sets the sum to `sum`.
void Normalise(float* row, int64_t dim, float sum) {
  const float own = row[dim] > 0 ? row[dim] : 1;
  for (int64_t d = 0; d < dim; ++d) row[d] /= own;
  row[dim] = sum;
}

PerDevice InBf16(Machine& machine, const CollectiveCall& call) {
  return Repacked(machine, call, [](float* row, int64_t dim, float) {
    for (int64_t d = 0; d <= dim; ++d) {
      row[d] = RoundTo(Dtype::kBF16, row[d]);
    }
  });
}

PerDevice SumOfNormalised(Machine& machine, const CollectiveCall& call) {
  return Repacked(machine, call, [](float* row, int64_t dim, float n) {
    Normalise(row, dim, 1 / n);
  });
}

PerDevice MeanOfNormalised(Machine& machine, const CollectiveCall& call) {
  return Repacked(machine, call, [](float* row, int64_t dim, float) {
    Normalise(row, dim, 1);
  });
}

PerDevice MeanOfSums(Machine& machine, const CollectiveCall& call) {
  return Repacked(machine, call,
                  [](float* row, int64_t dim, float n) { row[dim] /= n; });
}

// A fault that replaces the collectives of one kind. If `what` is not empty,
// only collectives of the tensor with this name are replaced.
struct WrongCollective {
  Fault fault;
  Collective kind;
  std::string_view what;
  PerDevice (*run)(Machine& machine, const CollectiveCall& call);

  bool Takes(const CollectiveCall& call) const {
    return call.kind == kind && (what.empty() || call.what == what);
  }
};

constexpr std::string_view kPacked = "sum and output";
constexpr WrongCollective kWrong[] = {
    {Fault::kGatherOrderReversed, Collective::kAllGather, "", FromTheEnd},
    {Fault::kAllToAllDimsSwapped, Collective::kAllToAll, "", FromTheEnd},
    {Fault::kReduceScatterChunkOff, Collective::kReduceScatter, "", NextChunk},
    {Fault::kReduceOneTwice, Collective::kReduceScatter, "", FirstTwice},
    {Fault::kReduceOneTwice, Collective::kAllReduce, "", FirstTwice},
    {Fault::kReduceSkipsLast, Collective::kReduceScatter, "", WithoutLast},
    {Fault::kReduceSkipsLast, Collective::kAllReduce, "", WithoutLast},
    {Fault::kOrderByMember, Collective::kAllReduce, "", OrderedByMember},
    {Fault::kCollectiveSkipped, Collective::kAllReduce, "", Unsent},
    {Fault::kCollectiveWrongAxis, Collective::kAllReduce, "", OverAnotherAxis},
    {Fault::kReduceOverReplicas, Collective::kAllReduce, "logits",
     OverReplicas},
    {Fault::kExtraPpermute, Collective::kPpermute, "", SentAgain},
    {Fault::kShiftAndIndexDisagree, Collective::kPpermute, "", AgainstTheRing},
    {Fault::kValueNotShifted, Collective::kPpermute, "value", Unsent},
    {Fault::kIdsNotShifted, Collective::kPpermute, "kv_segment_ids", Unsent},
    {Fault::kNoInverseAllToAll, Collective::kAllToAll, "output", Relabelled},
    {Fault::kExchangeOverRing, Collective::kAllToAll, "value", OverTheRing},
    {Fault::kRepeatTiled, Collective::kAllToAll, "key", TiledHeads},
    {Fault::kRepeatTiled, Collective::kAllToAll, "value", TiledHeads},
    {Fault::kMergeWithoutMax, Collective::kAllReduce, "max", Unsent},
    {Fault::kSumOfNormalised, Collective::kAllReduce, kPacked, SumOfNormalised},
    {Fault::kMeanOfNormalised, Collective::kAllReduce, kPacked,
     MeanOfNormalised},
    {Fault::kSumNotMerged, Collective::kAllReduce, kPacked, MeanOfSums},
    {Fault::kReduceInBf16, Collective::kAllReduce, kPacked, InBf16},
    {Fault::kDotScaleOfPart, Collective::kAllReduce, "query maxima", Unsent},
    {Fault::kDotScaleOfPart, Collective::kAllReduce, "key maxima", Unsent},
};

exec::CollectiveSeam WrongCollectives(Fault fault) {
  return {[fault](Machine& machine, const CollectiveCall& call) {
    for (const WrongCollective& wrong : kWrong) {
      if (wrong.fault == fault && wrong.Takes(call)) {
        return wrong.run(machine, call);
      }
    }
    return RunCollective(machine, call);
  }};
}

// Returns the result of a reshard that was skipped. Each shard has the shape of
// the new layout, but its elements come from the start of the device's old
// shard. Elements that the old shard lacks are zero.
exec::ShardedTensor Unmoved(const exec::SimMesh& mesh,
                            const exec::ShardedTensor& tensor,
                            const Spec& spec) {
  exec::ShardedTensor out = tensor;
  out.spec = spec;
  const Shape extent = exec::LocalShape(mesh, out.shape, out.spec);
  for (Buffer& local : out.local) {
    Shape common = extent;
    for (size_t d = 0; d < common.size(); ++d) {
      common[d] = std::min(common[d], local.shape[d]);
    }
    Buffer kept = Buffer::Zeros(extent, tensor.dtype);
    const Shape origin(common.size(), 0);
    exec::CopyBlock(local, origin, kept, origin, common);
    local = std::move(kept);
  }
  return out;
}

}  // namespace

void InjectIntoCollectives(Fault fault, exec::Seams& seams) {
  seams.Set(WrongCollectives(fault));
  if (fault != Fault::kCacheMoveSkipped) return;
  seams.Set(
      exec::ReshardSeam{[](Machine& machine, const exec::ShardedTensor& tensor,
                           const Spec& spec, std::string_view what) {
        return what.starts_with("cached")
                   ? Unmoved(machine.mesh(), tensor, spec)
                   : exec::RunReshard(machine, tensor, spec, what);
      }});
}

}  // namespace shardc::verify
