// The operation Ulysses (Jacobs et al. 2023). An all_to_all changes a sharding
// of the length to a sharding of the heads. Attention runs over the full
// length, and a second all_to_all changes the output back.
//
// With n devices, each sends (n-1)/n (b_q + b_k + b_v + b_o) bytes, where b_q
// to b_o are the bytes of its query, key, value and output. n must divide the
// query heads of a device, and must divide its key heads K_loc or be a multiple
// of K_loc. If n is a larger multiple of K_loc, the key heads are first
// repeated n / K_loc times, which multiplies b_k and b_v. For example, T and S
// are sharded over sp = 4. With 8 heads and 2 key heads, each key head is sent
// to two ranks. 6 heads are not supported, because 4 does not divide 6. Segment
// ids are gathered. Without a ring, the bits equal the unsharded run's.
//
// Ulysses can be combined with a ring (Fang and Zhao 2024, "USP").
// settings.ring_axes names some of the axes that shard the lengths. Keys are
// passed around a ring over these axes, which have r devices. The all_to_all
// runs over the other axes of the lengths, which have u devices. After it, a
// device has the tokens of the u devices of its group, in the group's order. If
// the axes of the all_to_all come before those of the ring in the spec, these
// tokens are not contiguous in the sequence. Their positions are then permuted
// too.
//
// With a ring, the conditions on n above hold for u. A device sends the bytes
// of the all_to_all with n = u, gathers ids over u, and sends (r-1)(b_k + b_v +
// b_ids) with the sizes after the all_to_all. Bias and masks are gathered over
// queries and keys so that they can be reordered, and are not sharded over keys
// afterwards.
#include <utility>

#include "comm/collective.h"
#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kUlysses;

namespace {

// The axes that shard the lengths: all of them, the axes of the all_to_all
// (`exchange`) and the axes of the ring.
struct Lists {
  AxisGroup all, exchange, ring;
};

Lists ListsOf(const SimMesh& mesh, const Staged& staged,
              const OperationSettings& settings) {
  Lists out;
  out.all = DropTrivial(mesh, staged.query.spec[1]);
  for (const std::string& axis : out.all) {
    AxisGroup& to =
        Disjoint({axis}, settings.ring_axes) ? out.exchange : out.ring;
    to.push_back(axis);
  }
  return out;
}

std::optional<LayoutError> CheckLengths(const SimMesh& mesh,
                                        const Staged& staged,
                                        const AxisGroup& axes) {
  if (SameAxes(mesh, axes, staged.key.spec[1]) &&
      SameAxes(mesh, axes, staged.value.spec[1])) {
    return std::nullopt;
  }
  LayoutError why;
  const AxisGroup other = DropTrivial(mesh, staged.key.spec[1]);
  why.axis = !axes.empty() ? axes.front() : !other.empty() ? other.front() : "";
  why.message = "the query's length is split over " + AxesText(axes) +
                " and the key's over " + AxesText(other);
  why.help = "ulysses needs the same axes for both lengths";
  return why;
}

std::optional<LayoutError> CheckHeadDim(const SimMesh& mesh,
                                        const Staged& staged) {
  for (const ShardedTensor* t : {&staged.query, &staged.key, &staged.value}) {
    if (mesh.Parts(t->spec[3]) == 1) continue;
    LayoutError why;
    why.axis = DropTrivial(mesh, t->spec[3]).front();
    why.message = "the head dimension is split over " + AxesText(t->spec[3]);
    why.help = "leave the head dimension unsharded";
    return why;
  }
  return std::nullopt;
}

// Returns an error unless the number of devices in the all_to_all divides a
// device's query heads, and divides its key heads or is a multiple of them.
std::optional<LayoutError> CheckHeads(const SimMesh& mesh, const Staged& staged,
                                      const AxisGroup& exchange) {
  const int64_t n = mesh.Parts(exchange);
  const int64_t heads = staged.query.local[0].shape[2];
  const int64_t key_heads = staged.key.local[0].shape[2];
  if (n == 1) return std::nullopt;
  std::vector<LayoutError> bad;
  const auto say = [&](const std::string& what, const std::string& rest) {
    LayoutError why;
    why.axis = exchange.front();
    why.message = "a device's " + what + AxesText(exchange) + " (" +
                  std::to_string(n) + " parts)" + rest;
    why.help = "use ring, fewer parts of the sequence, or ring_axes";
    bad.push_back(std::move(why));
  };
  if (heads % n != 0) {
    say(std::to_string(heads) + " query heads do not divide over ", "");
  }
  if (key_heads % n != 0 && n % key_heads != 0) {
    say(std::to_string(key_heads) + " key heads neither divide over ",
        " nor divide their number");
  }
  return Joined(std::move(bad));
}

std::optional<LayoutError> CheckUlysses(const SimMesh& mesh,
                                        const Staged& staged,
                                        const Lists& lists) {
  std::vector<LayoutError> bad;
  for (auto& check :
       {CheckLengths(mesh, staged, lists.all), CheckHeadDim(mesh, staged),
        CheckLocalShapes(mesh, staged)}) {
    if (check) bad.push_back(*check);
  }
  if (bad.empty()) return CheckHeads(mesh, staged, lists.exchange);
  return Joined(std::move(bad));
}

// Returns a copy in which every head occurs `times` times in succession.
Buffer RepeatHeads(const Buffer& in, int64_t times) {
  Shape shape = in.shape;
  shape[2] *= times;
  if (in.IsHollow()) return Buffer::Hollow(shape, in.dtype);
  Buffer out = Buffer::Zeros(shape, in.dtype);
  for (int64_t h = 0; h < shape[2]; ++h) {
    const Buffer head = SliceDim(in, 2, h / times, 1);
    CopyBlock(head, {0, 0, 0, 0}, out, {0, 0, h, 0}, head.shape);
  }
  return out;
}

// If key heads have their own sinks, repeats each sink `times` times, as often
// as its key head is repeated.
void RepeatSinks(Machine& machine, Staged& staged, int64_t times) {
  if (!staged.sinks || !staged.sinks_by_key_head) return;
  ShardedTensor& sinks = *staged.sinks;
  Move(machine, sinks, {{}, {}}, "softmax_aux");
  const int64_t columns = sinks.shape[1];
  sinks.shape[1] *= times;
  for (Buffer& local : sinks.local) {
    if (local.IsHollow()) {
      local.shape = sinks.shape;
      continue;
    }
    Buffer wide = Buffer::Zeros(sinks.shape, local.dtype);
    for (int64_t i = 0; i < wide.Elements(); ++i) {
      const int64_t row = i / sinks.shape[1], column = i % sinks.shape[1];
      wide.real[AsIndex(i)] =
          local.real[AsIndex(row * columns + column / times)];
    }
    local = std::move(wide);
  }
}

// Returns which token is at each index after the all_to_all: element i is the
// index that token i of the result had before. The all_to_all concatenates the
// tokens of devices that exchange heads. The device at index r along the axes
// of the ring then has the tokens of all devices at this index, one device
// after the other.
std::vector<int64_t> OrderOf(const SimMesh& mesh, const Lists& lists,
                             int64_t length) {
  const int64_t each = length / mesh.Parts(lists.all);
  const int64_t n = mesh.Parts(lists.exchange);
  std::vector<int64_t> out(AsIndex(length));
  for (int d = 0; d < mesh.devices(); ++d) {
    const int64_t slot =
        (mesh.Index(d, lists.ring) * n + mesh.Index(d, lists.exchange)) * each;
    const int64_t token = mesh.Index(d, lists.all) * each;
    for (int64_t i = 0; i < each; ++i) out[AsIndex(slot + i)] = token + i;
  }
  return out;
}

// Reorders segment ids, bias, masks and positions to the order that the tokens
// have after the all_to_all.
void JoinExtras(Machine& machine, Staged& staged, const Lists& lists) {
  const SimMesh& mesh = machine.mesh();
  const auto query_order = OrderOf(mesh, lists, staged.T());
  const auto key_order = OrderOf(mesh, lists, staged.S());
  const auto ids = [&](std::optional<ShardedTensor>& t, std::string_view name) {
    if (!t) return;
    const AxisGroup batch = staged.query.spec[0];
    Move(machine, *t, {batch, lists.all}, name);
    t->local = AllGather(machine, lists.exchange, t->local, 1, name);
    t->spec[1] = lists.ring;
  };
  ids(staged.query_segments, "q_segment_ids");
  ids(staged.key_segments, "kv_segment_ids");
  const auto whole = [&](std::optional<ShardedTensor>& t,
                         std::string_view name) {
    if (!t) return;
    Move(machine, *t, {t->spec[0], t->spec[1], {}, {}}, name);
    for (Buffer& local : t->local) {
      if (local.shape[2] > 1) local = PermuteDim(local, 2, query_order);
      if (local.shape[3] > 1) local = PermuteDim(local, 3, key_order);
    }
  };
  whole(staged.bias, "bias");
  whole(staged.mask, "mask");
  whole(staged.additive_mask, "mask");
  staged.query_positions = PermuteDim(staged.query_positions, 1, query_order);
  staged.key_positions = PermuteDim(staged.key_positions, 1, key_order);
}

// Runs attention on each device, over the device's heads and the full length.
ShardedTensor AttendWhole(Machine& machine, const Staged& staged,
                          const OperationSettings& settings) {
  Slices slices;
  MakeSlices(machine, staged, GroupMap::kNaive, slices);
  ShardedTensor out = EmptyOutput(machine, staged);
  machine.Local([&](int d) {
    const LocalSlice& slice = slices.at[AsIndex(d)];
    SoftmaxState state = EmptyState(slice);
    AttendKeys(slice, 0, slice.keys(), settings.blocksize_k, state);
    out.local[AsIndex(d)] =
        FinishRows(machine, staged, d, slice, state, out.dtype);
  });
  return out;
}

OperationOutcome RunUlysses(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  OperationOutcome outcome;
  const SimMesh& mesh = machine.mesh();
  LayoutError why;
  auto staged = Stage(machine, problem, specs, settings, kUlysses.Staging(),
                      why, outcome.remarks);
  std::optional<LayoutError> bad;
  Lists lists;
  if (!staged) {
    bad = std::move(why);
  } else {
    lists = ListsOf(mesh, *staged, settings);
    bad = CheckUlysses(mesh, *staged, lists);
  }
  if (bad) outcome.unsupported = std::move(bad);
  if (outcome.unsupported || problem.IsHollow()) return outcome;
  const int64_t n = mesh.Parts(lists.exchange);
  const int64_t key_heads = staged->key.local[0].shape[2];
  const int64_t repeat = key_heads % n == 0 ? 1 : n / key_heads;
  const bool over_ring = !lists.ring.empty();
  if (repeat > 1) {
    for (ShardedTensor* t : {&staged->key, &staged->value}) {
      for (Buffer& local : t->local) local = RepeatHeads(local, repeat);
      t->shape[2] *= repeat;
    }
    RepeatSinks(machine, *staged, repeat);
  }
  const auto exchange = [&](ShardedTensor& t, std::string_view name) {
    t.local = AllToAll(machine, lists.exchange, t.local, 2, 1, name);
    t.spec[1] = lists.ring;
    t.spec[2].insert(t.spec[2].end(), lists.exchange.begin(),
                     lists.exchange.end());
  };
  if (n > 1) {
    exchange(staged->query, "query");
    exchange(staged->key, "key");
    exchange(staged->value, "value");
    if (over_ring) JoinExtras(machine, *staged, lists);
  }
  MoveExtras(machine, *staged, over_ring);
  ShardedTensor out = over_ring ? PassKeysRound(machine, *staged, settings)
                                : AttendWhole(machine, *staged, settings);
  if (n > 1) {
    out.local = AllToAll(machine, lists.exchange, out.local, 1, 2, "output");
    out.spec[1] = lists.all;
    out.spec[2].resize(out.spec[2].size() - lists.exchange.size());
  }
  outcome.exact = !over_ring;
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

// Adds the bytes of the all_to_alls over n devices: each device sends (n-1)/n
// of its query, key, value and output. If key heads are repeated, every copy is
// sent. Also adds the bytes of the gathered inputs, and of the ring, whose
// blocks have the sizes after the first all_to_all.
void UlyssesBytes(Traffic& traffic) {
  TensorSharding &query = traffic.query, &key = traffic.key,
                 &value = traffic.value;
  const SimMesh& mesh = traffic.mesh();
  Traffic::Exchange& exchange = traffic.exchange;
  exchange.lengths = DropTrivial(mesh, query.spec[1]);
  AxisGroup ring;
  for (const std::string& axis : exchange.lengths) {
    const bool passes = !Disjoint({axis}, traffic.settings().ring_axes);
    (passes ? ring : exchange.axes).push_back(axis);
  }
  const int64_t n = traffic.Parts(exchange.axes);
  const int64_t key_heads = traffic.LocalShapeOf(key)[2];
  exchange.repeated = n == 1 || key_heads % n == 0 ? 1 : n / key_heads;
  const auto send = [&](const TensorSharding& t, int64_t times) {
    const Size bytes =
        Size(traffic.LocalElements(t)) * times * traffic.element_bytes();
    traffic.Add(Collective::kAllToAll, AllToAllSent(bytes.value(), n));
    traffic.Over(exchange.axes);
  };
  send(query, 1);
  send(key, exchange.repeated);
  send(value, exchange.repeated);
  const TensorSharding out{traffic.output().shape,
                           {query.spec[0], query.spec[1], query.spec[2], {}}};
  send(out, 1);
  if (n > 1) {
    for (TensorSharding* t : {&query, &key, &value}) {
      t->spec[1] = ring;
      t->spec[2].insert(t->spec[2].end(), exchange.axes.begin(),
                        exchange.axes.end());
    }
    // After the all_to_all, a device has `repeated` copies of each key head.
    key.shape[2] *= exchange.repeated;
    value.shape[2] *= exchange.repeated;
  }
  exchange.joined = n > 1 && !ring.empty();
  traffic.MoveExtras(!ring.empty());
  traffic.PassKeysRound(traffic.Parts(ring));
  traffic.Over(ring);
  traffic.FinishAs(out.spec);
}

}  // namespace

constinit const Operation kUlysses = {
    .name = "ulysses",
    .summary = "all_to_all between length and heads",
    .supports = {.batch = "local",
                 .query_length = "all_to_all, ppermute over ring_axes",
                 .key_length = "all_to_all, ppermute over ring_axes",
                 .heads = "local",
                 .dim = "-"},
    .equal_length_axes = true,
    .exchanges_heads = true,
    .settings = {Setting::kDropout, Setting::kBlocksizeQ, Setting::kBlocksizeK,
                 Setting::kBlocksizeB, Setting::kRingAxes},
    .bytes = UlyssesBytes,
    .run = RunUlysses,
};

}  // namespace shardc::exec
