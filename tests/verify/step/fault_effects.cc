// The effects of injected faults on the results of collectives and on single
// ops. Each function replaces a correct step of the run:
//
//   Rotate       device i of a group holds what device i + 1 should hold
//   WithoutLast  the last device's operand is zeros in the sum
//   ClipIds      ids of other shards' rows look up the nearest own row
#include "verify/step/fault_effects.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "source/size.h"

namespace shardc::verify::effects {
namespace {

using exec::Buffer;
using exec::CollectiveCall;
using exec::Machine;
using exec::PerDevice;
using exec::SimMesh;
using step::OpKind;

void Times(PerDevice& out, double factor) {
  for (Buffer& buffer : out) {
    for (double& x : buffer.wide) x *= factor;
  }
}

// Reorders the `n` blocks of a dimension: new block i is old block from(i).
void Reorder(Buffer& buffer, size_t dim, int64_t n,
             const std::function<int64_t(int64_t)>& from) {
  const int64_t length = buffer.shape[dim] / n;
  std::vector<Buffer> blocks;
  for (int64_t i = 0; i < n; ++i) {
    blocks.push_back(exec::SliceDim(buffer, dim, from(i) * length, length));
  }
  std::vector<const Buffer*> list;
  for (const Buffer& block : blocks) list.push_back(&block);
  buffer = exec::ConcatDim(list, dim);
}

void Narrow(PerDevice& buffers) {
  for (Buffer& buffer : buffers) {
    buffer.dtype = Dtype::kBF16;
    exec::RoundTo(buffer);
    buffer.dtype = Dtype::kF32;
  }
}

void SwapFactors(step::Graph& graph, step::LabelId label) {
  std::vector<step::LabelId>& factors = graph.labels[AsIndex(label)].factors;
  std::reverse(factors.begin(), factors.end());
}

int64_t IndexOf(const WrongOp& one, const AxisGroup& axes) {
  return SimMesh(one.of->mesh).Index(one.local.device, axes);
}

// Returns the number of steps of ring attention if the op computes the softmax
// weight of an attention sink, exp(sink - maximum). Otherwise returns 1.
int64_t TurnsOfSink(const WrongOp& one) {
  const step::Graph& graph = one.of->graph;
  for (const step::Op& op : graph.ops) {
    if (op.out != one.op.in[0]) continue;
    for (const step::Parameter& parameter : graph.parameters) {
      if (parameter.role == "sinks" && op.in.back() == parameter.value) {
        return one.SizeOf(graph.ring.turns);
      }
    }
  }
  return 1;
}

void TimesOut(WrongOp& one, int64_t factor) {
  one.Run();
  for (double& x : one.local.out->wide) x *= static_cast<double>(factor);
}

}  // namespace

void Rotate(const SimMesh& mesh, const CollectiveCall& call, PerDevice& out) {
  for (const std::vector<int>& group : mesh.Groups(call.axes)) {
    Buffer first = out[AsIndex(group[0])];
    for (size_t i = 0; i + 1 < group.size(); ++i) {
      out[AsIndex(group[i])] = out[AsIndex(group[i + 1])];
    }
    out[AsIndex(group.back())] = std::move(first);
  }
}

void Mean(const SimMesh& mesh, const CollectiveCall& call, PerDevice& out) {
  Times(out, 1.0 / static_cast<double>(mesh.Parts(call.axes)));
}

void Reverse(const SimMesh& mesh, const CollectiveCall& call, PerDevice& out) {
  const int64_t n = mesh.Parts(call.axes);
  for (Buffer& buffer : out) {
    Reorder(buffer, call.dim, n, [n](int64_t i) { return n - 1 - i; });
  }
}

void RotateSenders(const SimMesh& mesh, const CollectiveCall& call,
                   PerDevice& out) {
  const int64_t n = mesh.Parts(call.axes);
  for (Buffer& buffer : out) {
    Reorder(buffer, call.concat_dim, n, [n](int64_t i) { return (i + 1) % n; });
  }
}

void RotateRows(const SimMesh&, const CollectiveCall& call, PerDevice& out) {
  for (Buffer& buffer : out) {
    const int64_t n = buffer.shape[call.concat_dim];
    Reorder(buffer, call.concat_dim, n,
            [n](int64_t i) { return (i + n - 1) % n; });
  }
}

PerDevice WithoutLast(Machine& machine, const CollectiveCall& call) {
  PerDevice in = *call.in;
  for (const std::vector<int>& group : machine.mesh().Groups(call.axes)) {
    Buffer& last = in[AsIndex(group.back())];
    last = Buffer::Zeros(last.shape, last.dtype);
  }
  CollectiveCall less = call;
  less.in = &in;
  return exec::RunCollective(machine, less);
}

PerDevice Twice(Machine& machine, const CollectiveCall& call) {
  PerDevice once = exec::RunCollective(machine, call);
  CollectiveCall twice = call;
  twice.in = &once;
  return exec::RunCollective(machine, twice);
}

PerDevice CalledTwice(Machine& machine, const CollectiveCall& call) {
  exec::RunCollective(machine, call);
  return exec::RunCollective(machine, call);
}

SpoilCall Over(AxisGroup axes) {
  return
      [axes = std::move(axes)](Machine& machine, const CollectiveCall& call) {
        CollectiveCall other = call;
        other.axes = axes;
        return exec::RunCollective(machine, other);
      };
}

PerDevice OwnTimes(Machine& machine, const CollectiveCall& call) {
  PerDevice out = *call.in;
  Times(out, static_cast<double>(machine.mesh().Parts(call.axes)));
  return out;
}

PerDevice InBf16(Machine& machine, const CollectiveCall& call) {
  PerDevice in = *call.in;
  Narrow(in);
  CollectiveCall narrow = call;
  narrow.in = &in;
  PerDevice out = exec::RunCollective(machine, narrow);
  Narrow(out);
  return out;
}

PerDevice ChunkAsHalves(Machine& machine, const CollectiveCall& call) {
  PerDevice out = exec::RunCollective(machine, call);
  const int64_t n = machine.mesh().Parts(call.axes);
  for (int device = 0; device < machine.devices(); ++device) {
    const Buffer& own = (*call.in)[AsIndex(device)];
    Buffer& whole = out[AsIndex(device)];
    whole = Buffer::Zeros(whole.shape, whole.dtype);
    const size_t width = own.shape.size() - 1;
    const int64_t part = own.shape[width] / n;
    for (int64_t half = 0; half < n; ++half) {
      Shape from(own.shape.size(), 0), to(own.shape.size(), 0);
      from[width] = half * part;
      to[call.dim] = half;
      to[width] = machine.mesh().Index(device, call.axes) * part;
      Shape extent = own.shape;
      extent[width] = part;
      exec::CopyBlock(own, from, whole, to, extent);
    }
  }
  return out;
}

void ClipIds(WrongOp& one) {
  const exec::Part& table = one.local.in[0];
  const auto first = static_cast<int32_t>(table.start[0]);
  const auto rows = static_cast<int32_t>(table.buffer->shape[0]);
  for (int32_t& id : one.Own(1).integers) {
    id = std::clamp(id, first, first + rows - 1);
  }
}

void ShiftLabels(WrongOp& one) {
  const size_t ids = one.op.kind == OpKind::kPick ? 1 : 0;
  Buffer& labels = one.Own(ids);
  const int64_t width = labels.shape[1];
  for (int64_t row = 0; row < labels.shape[0]; ++row) {
    labels.integers[AsIndex((row + 1) * width - 1)] =
        labels.integers[AsIndex(row * width)];
  }
}

void OtherFactorOrder(WrongOp& one) {
  step::Graph graph = *one.local.graph;
  SwapFactors(graph, step::As<step::LabelAttributes>(one.op).label);
  one.local.graph = &graph;
  one.Run();
}

void RepeatModulo(WrongOp& one) {
  const exec::Part& in = one.local.in[0];
  Buffer& out = *one.local.out;
  const size_t dim = out.shape.size() - 2;
  Shape from(out.shape.size(), 0), to(out.shape.size(), 0), extent = out.shape;
  extent[dim] = 1;
  for (int64_t n = 0; n < out.shape[dim]; ++n) {
    to[dim] = n;
    from[dim] = (one.local.start[dim] + n) % in.buffer->shape[dim];
    exec::CopyBlock(*in.buffer, from, out, to, extent);
  }
  one.done = true;
}

void DriftOnSecond(WrongOp& one) {
  one.Run();
  if (IndexOf(one, {"tp"}) == 0) return;
  for (double& x : one.local.out->wide) x += 1e-3;
}

void LastOfEqual(WrongOp& one) {
  if (IndexOf(one, {"tp"}) == 0) return;
  Buffer& scores = one.Own(0);
  const size_t experts = AsIndex(scores.shape.back());
  for (size_t i = 0; i < scores.wide.size(); ++i) {
    scores.wide[i] += 1e-9 * static_cast<double>(i % experts);
  }
}

void HalfTheGroups(WrongOp& one) {
  const auto& best = step::As<step::TopGroupsAttributes>(one.op);
  for (step::LabelId count : {best.groups, best.chosen}) {
    one.sizes[AsIndex(count)] /= 2;
  }
}

void ForgetLookup(WrongOp& one) {
  for (size_t i = 0; i < one.op.in.size(); ++i) {
    for (const step::Op& op : one.of->graph.ops) {
      if (op.out != one.op.in[i] || op.kind != OpKind::kScatter) continue;
      for (double& x : one.Own(i).wide) x = 0;
    }
  }
}

SpoilOp Constant(double factor) {
  return [factor](WrongOp& one) {
    step::As<step::ScaleAttributes>(one.op).factor.constant *= factor;
  };
}

void OtherSeed(WrongOp& one) {
  ++step::As<step::DropoutAttributes>(one.op).key;
}

void LocalDropout(WrongOp& one) {
  exec::Part& x = one.local.in[0];
  for (size_t d = 0; d < x.start.size(); ++d) {
    x.start[d] = 0;
    one.sizes[AsIndex((*x.labels)[d])] = x.buffer->shape[d];
  }
}

void KeepModelWeight(WrongOp& one) {
  *one.local.out = *one.local.in[0].buffer;
  one.done = true;
}

void DecayAnyway(WrongOp& one) {
  step::As<step::AdamWAttributes>(one.op).decay = one.local.graph->adam.decay;
}

void StepOfAnother(WrongOp& one) {
  step::Graph graph;
  graph.adam = one.local.graph->adam;
  graph.adam.step += IndexOf(one, {"tp"});
  one.local.graph = &graph;
  one.Run();
}

void ReverseSlots(WrongOp& one) {
  Buffer& slots = one.Own(0);
  const size_t dim = slots.shape.size() - 1;
  const int64_t n = slots.shape[dim];
  Reorder(slots, dim, n, [n](int64_t i) { return n - 1 - i; });
}

SpoilOp Positions(size_t operand, const std::function<int64_t(int64_t)>& to) {
  return [=](WrongOp& one) {
    for (int32_t& x : one.Own(operand).integers)
      x = static_cast<int32_t>(to(x));
  };
}

void WriteEverywhere(WrongOp& one) {
  const exec::Part& cache = one.local.in[0];
  const auto rows = static_cast<int32_t>(cache.buffer->shape[1]);
  const auto first = static_cast<int32_t>(cache.start[1]);
  for (int32_t& x : one.Own(2).integers) x = first + x % rows;
}

void CountPadding(WrongOp& one) {
  one.Run();
  const exec::Part& e = one.local.in[0];
  if (e.labels->size() != 3) return;  // not [batch, tokens, vocabulary]
  const int64_t rows = e.buffer->shape[2];
  if (e.start[2] + rows != one.SizeOf((*e.labels)[2])) return;
  for (size_t i = 0; i < one.local.out->wide.size(); ++i) {
    one.local.out->wide[i] += e.buffer->wide[(i + 1) * AsIndex(rows) - 1];
  }
}

void SinkPerBlock(WrongOp& one) { TimesOut(one, TurnsOfSink(one)); }

void SinkGradientPerBlock(WrongOp& one) {
  const step::Graph& graph = one.of->graph;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].role != "sinks") continue;
    if (graph.gradients[i] != one.op.out) continue;
    TimesOut(one, one.SizeOf(graph.ring.turns));
  }
}

PerDevice OtherWay(Machine& machine, const CollectiveCall& call) {
  std::vector<exec::Edge> edges(call.edges.begin(), call.edges.end());
  for (auto& [from, to] : edges) std::swap(from, to);
  CollectiveCall back = call;
  back.edges = edges;
  return exec::RunCollective(machine, back);
}

FaultAction AtCallNumber(CallAt at, int which, SpoilCall spoil) {
  at.all = true;
  return [=](const SoundCase& of, Wrong& wrong) {
    const auto seen = std::make_shared<int>(0);
    return AtCall(at, [=](Machine& machine, const CollectiveCall& call) {
      return ++*seen == which ? spoil(machine, call)
                              : exec::RunCollective(machine, call);
    })(of, wrong);
  };
}

}  // namespace shardc::verify::effects
