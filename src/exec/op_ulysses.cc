// Ulysses (Jacobs et al. 2023): all_to_all turns a split of the length into a
// split of the heads, attention is whole over the length, and a second
// all_to_all turns the output back.
//
// Sent: (n-1)/n (b_q + b_k + b_v + b_o). n divides the local query heads and
// the local key heads; where n is a multiple of the key heads these are
// repeated n / K_loc times first, which multiplies b_k and b_v. Bits are the
// unsharded run's. Segment ids are gathered.
//
// Example: T, S on sp = 4, 8 heads and 2 key heads: each key head is sent to
// two ranks. Example that is unsupported: 6 heads over sp = 4.
#include <utility>

#include "exec/operation.h"
#include "exec/staging.h"

namespace shardc::exec {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

std::optional<Complaint> CheckUlysses(const SimMesh& mesh,
                                      const Staged& staged) {
  Complaint why;
  const AxisGroup axes = DropTrivial(mesh, staged.query.spec[1]);
  if (!SameAxes(mesh, axes, staged.key.spec[1]) ||
      !SameAxes(mesh, axes, staged.value.spec[1])) {
    const AxisGroup other = DropTrivial(mesh, staged.key.spec[1]);
    why.axis = !axes.empty()    ? axes.front()
               : !other.empty() ? other.front()
                                : "";
    why.message = "the query's length is split over " + AxesText(axes) +
                  " and the key's over " + AxesText(other);
    why.help = "ulysses needs the same axes for both lengths";
    return why;
  }
  for (const ShardedTensor* t : {&staged.query, &staged.key, &staged.value}) {
    if (mesh.Parts(t->spec[3]) == 1) continue;
    why.axis = DropTrivial(mesh, t->spec[3]).front();
    why.message = "the head dimension is split over " + AxesText(t->spec[3]);
    why.help = "leave the head dimension whole";
    return why;
  }
  if (auto bad = CheckLocalShapes(mesh, staged)) return bad;
  const int64_t n = mesh.Parts(axes);
  const int64_t heads = staged.query.local[0].shape[2];
  const int64_t key_heads = staged.key.local[0].shape[2];
  if (n == 1) return std::nullopt;
  why.axis = axes.front();
  if (heads % n != 0) {
    why.message = "a device's " + std::to_string(heads) +
                  " query heads do not divide over " + AxesText(axes) + " (" +
                  std::to_string(n) + " parts)";
    why.help = "use ring, or fewer parts of the sequence";
    return why;
  }
  if (key_heads % n != 0 && n % key_heads != 0) {
    why.message = "a device's " + std::to_string(key_heads) +
                  " key heads neither divide over " + AxesText(axes) + " (" +
                  std::to_string(n) + " parts) nor divide their number";
    why.help = "use ring, or fewer parts of the sequence";
    return why;
  }
  return std::nullopt;
}

// Every head `times` times in place.
Buffer RepeatHeads(const Buffer& in, int64_t times, bool tiled) {
  Shape shape = in.shape;
  shape[2] *= times;
  Buffer out = Buffer::Zeros(shape, in.dtype);
  for (int64_t h = 0; h < shape[2]; ++h) {
    const int64_t from = tiled ? h % in.shape[2] : h / times;
    const Buffer head = SliceDim(in, 2, from, 1);
    CopyBlock(head, {0, 0, 0, 0}, out, {0, 0, h, 0}, head.shape);
  }
  return out;
}

// Sinks by key head follow their repeated heads.
void RepeatSinks(Machine& machine, Staged& staged, int64_t times) {
  if (!staged.sinks || !staged.sinks_by_key_head) return;
  ShardedTensor& sinks = *staged.sinks;
  Move(machine, sinks, {{}, {}}, "softmax_aux");
  const int64_t columns = sinks.shape[1];
  sinks.shape[1] *= times;
  for (Buffer& local : sinks.local) {
    Buffer wide = Buffer::Zeros(sinks.shape, local.dtype);
    for (int64_t i = 0; i < wide.Elements(); ++i) {
      const int64_t row = i / sinks.shape[1], column = i % sinks.shape[1];
      wide.real[At(i)] = local.real[At(row * columns + column / times)];
    }
    local = std::move(wide);
  }
}

}  // namespace

OperationOutcome RunUlysses(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  OperationOutcome outcome;
  const SimMesh& mesh = machine.mesh();
  Complaint why;
  StageOptions options;
  options.strict_length = true;
  auto staged =
      Stage(machine, problem, specs, settings, options, why, outcome.remarks);
  std::optional<Complaint> bad;
  if (!staged) bad = std::move(why);
  if (!bad) bad = CheckUlysses(mesh, *staged);
  if (bad) {
    outcome.unsupported = std::move(bad);
    return outcome;
  }
  const AxisGroup axes = DropTrivial(mesh, staged->query.spec[1]);
  const int64_t n = mesh.Parts(axes);
  const int64_t key_heads = staged->key.local[0].shape[2];
  const int64_t repeat = key_heads % n == 0 ? 1 : n / key_heads;
  const auto exchange = [&](ShardedTensor& t, std::string_view name) {
    t.local = AllToAll(machine, axes, t.local, 2, 1, name);
    t.spec[1].clear();
    t.spec[2].insert(t.spec[2].end(), axes.begin(), axes.end());
  };
  if (n > 1) {
    for (ShardedTensor* t : {&staged->key, &staged->value}) {
      if (repeat == 1) continue;
      for (Buffer& local : t->local) {
        local =
            RepeatHeads(local, repeat, machine.Planted(Fault::kRepeatTiled));
      }
      t->shape[2] *= repeat;
    }
    if (repeat > 1) RepeatSinks(machine, *staged, repeat);
    exchange(staged->query, "query");
    exchange(staged->key, "key");
    exchange(staged->value, "value");
  }
  MoveExtras(machine, *staged);
  Slices slices;
  MakeSlices(machine, *staged, GroupMap::kNaive, slices);
  ShardedTensor out;
  out.shape = staged->query.shape;
  out.shape[3] = staged->value.shape[3];
  out.dtype = staged->dtype;
  out.spec = staged->query.spec;
  out.local.resize(At(machine.devices()));
  machine.Local([&](int d) {
    const LocalSlice& slice = slices.at[At(d)];
    SoftmaxState state = EmptyState(slice);
    AttendKeys(slice, 0, slice.keys(), settings.blocksize_k, state);
    out.local[At(d)] = FinishRows(machine, *staged, d, slice, state, out.dtype);
  });
  if (n > 1) {
    if (machine.Planted(Fault::kNoInverseAllToAll)) {
      // The buffers are taken for what the exchange would have made of them.
      for (Buffer& local : out.local) {
        local.shape[1] /= n;
        local.shape[2] *= n;
      }
    } else {
      out.local = AllToAll(machine, axes, out.local, 1, 2, "output");
    }
    out.spec[1] = axes;
    out.spec[2].resize(out.spec[2].size() - axes.size());
  }
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

}  // namespace shardc::exec
