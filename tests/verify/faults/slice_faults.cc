// Injects faults into the slices of devices and into the output. A slice is the
// description of what one device computes: which key head each query head
// reads, offsets, positions, ids, options, sinks and block tables. The steps of
// the program are correct, but their inputs or results are wrong.
//
// Example: the fault group-map-neighbour changes which key head a query head
// reads. On a device with key heads 0 and 1, the query heads of key head 0 read
// key head 1, and those of key head 1 read key head 0.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "source/size.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::AttentionOptions;
using exec::Buffer;
using exec::LocalSlice;
using exec::Machine;
using exec::ShardedTensor;
using exec::Slices;
using exec::SliceSeam;
using exec::Staged;

// Stores `buffer` in `slices`, so that a slice can refer to it in place of its
// own buffer.
const Buffer* Keep(Slices& slices, Buffer buffer) {
  return &slices.replaced.emplace_back(std::move(buffer));
}

// ---- What each device sees ------------------------------------------------

struct View {
  const Machine& machine;
  const Staged& staged;
  Slices& slices;
  int device;

  LocalSlice& slice() const { return slices.at[AsIndex(device)]; }
  AttentionOptions& options() const { return slices.options[AsIndex(device)]; }
  int64_t key_heads() const { return slice().key->shape[2]; }
};

// Replaces the key head k that query head t reads by head(t, k).
template <class Head>
void MapHeads(const View& view, Head head) {
  std::vector<int32_t>& map = view.slice().key_head;
  for (size_t t = 0; t < map.size(); ++t) {
    map[t] = static_cast<int32_t>(head(static_cast<int64_t>(t), map[t]));
  }
}

void GroupModulo(const View& view) {
  MapHeads(view, [&](int64_t t, int64_t) { return t % view.key_heads(); });
}

void GroupNeighbour(const View& view) {
  MapHeads(view, [&](int64_t, int64_t head) {
    return (head + 1) % view.key_heads();
  });
}

void GroupNoOffset(const View& view) {
  const int64_t group = view.staged.H() / view.staged.K();
  MapHeads(view,
           [&](int64_t t, int64_t) { return t / group % view.key_heads(); });
}

void BiasOfFirstHeads(const View& view) { view.slice().bias.head = 0; }
void MaskOfFirstRows(const View& view) { view.slice().mask.row = 0; }

void DropoutByLocalIndex(const View& view) {
  view.slice().batch_offset = view.slice().head_offset = 0;
}

void ScaleFor(const View& view, int64_t dim) {
  view.slice().scale = static_cast<float>(view.staged.options.ScaleFor(dim));
}

void ScaleByLocalDim(const View& view) {
  ScaleFor(view, view.slice().query->shape[3]);
}

void ScaleByRank(const View& view) {
  const exec::LatentInputs& latent = *view.staged.problem->latent;
  ScaleFor(view, latent.latent.shape[2] + latent.rope_key.shape[2]);
}

void ScaleTwice(const View& view) { view.slice().scale *= view.slice().scale; }

void IdsOfRankZero(const View& view) {
  view.slice().key_segments = view.slices.at[0].key_segments;
}

// If the latent dims are sharded over several devices, the logits are the sum
// of the logits of these devices. Only the first of them should include the
// rotated part of the key. Makes each of them include it.
void RotatedOnEach(const View& view) {
  LocalSlice& slice = view.slice();
  for (const std::vector<int>& group :
       view.machine.mesh().Groups(view.staged.key.spec[3])) {
    if (std::find(group.begin(), group.end(), view.device) == group.end() ||
        group[0] == view.device) {
      continue;
    }
    Buffer key = *slice.key;
    const Buffer& first = *view.slices.at[AsIndex(group[0])].key;
    const int64_t rank = slice.value->shape[3], width = key.shape[3];
    for (int64_t i = 0; i < key.Elements(); ++i) {
      if (i % width >= rank) key.real[AsIndex(i)] = first.real[AsIndex(i)];
    }
    slice.key = Keep(view.slices, std::move(key));
  }
}

// ---- Options and masks ----------------------------------------------------

// Lets each query attend to keys up to `more` positions after its own. If
// `more` is -2, the query attends only to keys two or more positions before it.
void CausalUpTo(const View& view, int64_t more) {
  AttentionOptions& options = view.options();
  options.causal = false;
  if (!options.window) options.window.emplace();
  options.window->right = more;
}

void CausalPlusOne(const View& view) { CausalUpTo(view, 1); }
void CausalMinusOne(const View& view) { CausalUpTo(view, -1); }
void WindowPlusOne(const View& view) { ++*view.options().window->left; }
void WindowMinusOne(const View& view) { --*view.options().window->left; }

void WindowSymmetric(const View& view) {
  view.options().window->right = view.options().window->left;
}

void MaskedRowsAreZero(const View& view) {
  view.options().masked_rows = exec::MaskedRows::kZero;
}

void NoLengths(const View& view) { view.slice().key_lengths = nullptr; }
void NoStarts(const View& view) { view.slice().key_starts = nullptr; }

template <class Id>
void MapIds(const View& view, const Buffer*& ids, Id id) {
  Buffer out = *ids;
  for (int32_t& x : out.integers) x = id(x);
  ids = Keep(view.slices, std::move(out));
}

// Sets the segment ids of all queries, and of all keys that are not padding, to
// the same value. Segments then separate only padding.
void KeyIdsOnly(const View& view) {
  MapIds(view, view.slice().query_segments, [](int32_t) { return 1; });
  MapIds(view, view.slice().key_segments,
         [](int32_t id) { return id >= 0 ? 1 : -1; });
  view.options().padding_segment.reset();
}

// Replaces the negative segment ids of padding tokens by unused non-negative
// ids, so that these tokens attend.
void PaddingAttends(const View& view) {
  constexpr int32_t kUnused = 1 << 20;
  const auto id = [](int32_t x) { return x < 0 ? kUnused - x : x; };
  MapIds(view, view.slice().query_segments, id);
  MapIds(view, view.slice().key_segments, id);
}

// Doubles the additive mask and adds it as a bias, so that it no longer masks
// keys. The bias of the case is replaced; the catalogue's probe has no bias.
void MaskedTwice(const View& view) {
  LocalSlice& slice = view.slice();
  Buffer twice = *slice.additive_mask.buffer;
  for (float& x : twice.real) x *= 2;
  slice.bias = std::exchange(slice.additive_mask, {});
  slice.bias.buffer = Keep(view.slices, std::move(twice));
}

struct WrongView {
  Fault fault;
  void (*see)(const View& view);
};
constexpr WrongView kWrongViews[] = {
    {Fault::kGroupModulo, GroupModulo},
    {Fault::kGroupNeighbour, GroupNeighbour},
    {Fault::kGroupNoOffset, GroupNoOffset},
    {Fault::kBiasFirstHeads, BiasOfFirstHeads},
    {Fault::kMaskFirstRows, MaskOfFirstRows},
    {Fault::kDropoutLocal, DropoutByLocalIndex},
    {Fault::kScaleByLocalDim, ScaleByLocalDim},
    {Fault::kScaleTwice, ScaleTwice},
    {Fault::kLatentScale, ScaleByRank},
    {Fault::kLatentRopeOnEach, RotatedOnEach},
    {Fault::kIdsUnsplit, IdsOfRankZero},
    {Fault::kCausalPlusOne, CausalPlusOne},
    {Fault::kCausalMinusOne, CausalMinusOne},
    {Fault::kWindowPlusOne, WindowPlusOne},
    {Fault::kWindowMinusOne, WindowMinusOne},
    {Fault::kWindowSymmetric, WindowSymmetric},
    {Fault::kMaskedRowZeroForMean, MaskedRowsAreZero},
    {Fault::kStaleRows, NoLengths},
    {Fault::kLeftPaddingAttends, NoStarts},
    {Fault::kKeySegmentsOnly, KeyIdsOnly},
    {Fault::kPaddingAttends, PaddingAttends},
    {Fault::kAdditiveMaskTwice, MaskedTwice},
};

// ---- Tables of all devices ------------------------------------------------

void FromRankZero(ShardedTensor& tensor) {
  for (Buffer& local : tensor.local) local = tensor.local[0];
}

template <class Change>
void ChangeAll(ShardedTensor& tensor, Change change) {
  for (Buffer& local : tensor.local) {
    for (int32_t& x : local.integers) x = change(x);
  }
}

// Sets the position of each token to `first` plus the index at which the token
// is stored. This is wrong in a zig-zag ring, which stores tokens in another
// order than that of their positions.
void NumberSlots(const Machine& machine, ShardedTensor& positions,
                 int64_t first) {
  for (int d = 0; d < machine.devices(); ++d) {
    Buffer& local = positions.local[AsIndex(d)];
    const int64_t start =
        exec::LocalStart(machine.mesh(), positions.shape, positions.spec, d)[1];
    for (int64_t i = 0; i < local.Elements(); ++i) {
      local.integers[AsIndex(i)] =
          static_cast<int32_t>(first + start + i % local.shape[1]);
    }
  }
}

void PositionsBySlot(const Machine& machine, const Staged& staged,
                     Slices& slices) {
  NumberSlots(machine, slices.query_positions, staged.S() - staged.T());
  NumberSlots(machine, slices.key_positions, 0);
}

// In a zig-zag ring, each rank holds two chunks of tokens: one from the first
// half of the sequence and one from the second. Reverses the positions in the
// second chunk.
void ReverseChunks(ShardedTensor& positions) {
  for (Buffer& local : positions.local) {
    const auto row = local.shape[1];
    for (auto at = local.integers.begin(); at != local.integers.end();
         at += row) {
      std::reverse(at + row / 2, at + row);
    }
  }
}

void MirroredReversed(const Machine&, const Staged&, Slices& slices) {
  ReverseChunks(slices.query_positions);
  ReverseChunks(slices.key_positions);
}

void LocalQueryPositions(const Machine&, const Staged&, Slices& slices) {
  FromRankZero(slices.query_positions);
}

void LocalKeyPositions(const Machine&, const Staged&, Slices& slices) {
  FromRankZero(slices.key_positions);
}

// Aligns the causal mask at the top left: the first query attends to the first
// key.
void CausalFromTopLeft(const Machine&, const Staged& staged, Slices& slices) {
  const auto before = static_cast<int32_t>(staged.S() - staged.T());
  ChangeAll(slices.query_positions, [&](int32_t p) { return p - before; });
}

void LengthMinusOne(const Machine&, const Staged&, Slices& slices) {
  ChangeAll(*slices.key_lengths, [](int32_t length) { return length - 1; });
}

struct WrongSlice {
  Fault fault;
  void (*cut)(const Machine& machine, const Staged& staged, Slices& slices);
};
constexpr WrongSlice kWrongSlices[] = {
    {Fault::kZigZagNoMirror, PositionsBySlot},
    {Fault::kPositionsLeftBehind, PositionsBySlot},
    {Fault::kZigZagReversed, MirroredReversed},
    {Fault::kLocalQueryPositions, LocalQueryPositions},
    {Fault::kLocalKeyPositions, LocalKeyPositions},
    {Fault::kTopLeftCausal, CausalFromTopLeft},
    {Fault::kLengthMinusOne, LengthMinusOne},
};

// Repeats the sinks for every shard of the keys' length, so that the softmax
// counts each sink once per shard.
void SinksInEveryPart(const Machine& machine, const Staged& staged,
                      Buffer& sinks) {
  const int64_t parts = machine.mesh().Parts(staged.key.spec[1]);
  const std::vector<const Buffer*> each(AsIndex(parts), &sinks);
  sinks = exec::ConcatDim(each, 0);
}

void BlocksOfRankZero(const Machine&, ShardedTensor& blocks) {
  FromRankZero(blocks);
}

void NoDiagonal(const Machine&, ShardedTensor& blocks) {
  for (Buffer& local : blocks.local) {
    const int64_t rows = local.shape[2], keys = local.shape[3];
    for (int64_t i = 0; i < local.Elements(); ++i) {
      if (i / keys % rows == i % keys) local.integers[AsIndex(i)] = 0;
    }
  }
}

// ---- The output -----------------------------------------------------------

// Reads the output [B, H, T, D] as if its lengths and heads were swapped.
void Misread(const Machine&, const Staged&, ShardedTensor& output) {
  output = SwapLengthAndHeads(output);
  std::swap(output.shape[1], output.shape[2]);
  std::swap(output.spec[1], output.spec[2]);
  for (Buffer& local : output.local) {
    std::swap(local.shape[1], local.shape[2]);
  }
}

// Leaves the output in the order of a zig-zag ring. Applies the ring's
// permutation a second time; the program's inverse permutation then undoes only
// one of the two.
void LeavePermuted(const Machine& machine, const Staged& staged,
                   ShardedTensor& output) {
  const exec::SimMesh& mesh = machine.mesh();
  const auto order = exec::RingOrder(exec::SequenceOrder::kZigZag, staged.T(),
                                     mesh.Parts(staged.query.spec[1]));
  exec::LayoutError why;
  const auto whole = exec::Gather(mesh, output, why);
  if (!whole) return;
  output = exec::Scatter(mesh, exec::PermuteDim(*whole, 1, order), output.spec);
}

void PutOneOff(const Machine&, const Staged&, ShardedTensor& output) {
  output.local.back().real[0] += 1e-4f;
}

void LetDrift(const Machine&, const Staged&, ShardedTensor& output) {
  float& x = output.local.back().real[0];
  x = std::nextafter(x, 10.0f);
}

void DropAxis(const Machine& machine, const Staged&, ShardedTensor& output) {
  for (AxisGroup& group : output.spec) {
    if (machine.mesh().Parts(group) == 1) continue;
    group.clear();
    return;
  }
}

struct WrongJoin {
  Fault fault;
  void (*join)(const Machine& machine, const Staged& staged,
               ShardedTensor& output);
};
constexpr WrongJoin kWrongJoins[] = {
    {Fault::kOneElementOff, PutOneOff},
    {Fault::kReplicaDrifts, LetDrift},
    {Fault::kOutputLacksAxis, DropAxis},
    {Fault::kOutputMisread, Misread},
    {Fault::kOutputLeftPermuted, LeavePermuted},
};

// ---- Faults in several replaceable steps (machine.h) -----------------------

// Caps partial logits before they are added over devices, instead of after.
void CapParts(SliceSeam& slices, exec::Seams& seams) {
  const auto cap = std::make_shared<float>(0.0f);
  slices.cut = [cap](const Machine& machine, const Staged& staged,
                     Slices& cut) {
    if (machine.mesh().Parts(staged.query.spec[3]) == 1) return;
    *cap = static_cast<float>(staged.options.soft_cap);
    for (AttentionOptions& options : cut.options) options.soft_cap = 0;
  };
  seams.Set(exec::CollectiveSeam{
      [cap](Machine& machine, const exec::CollectiveCall& call) {
        if (call.what != "logits") return exec::RunCollective(machine, call);
        exec::PerDevice parts = *call.in;
        for (Buffer& part : parts) {
          for (float& x : part.real) x = *cap * std::tanh(x / *cap);
        }
        exec::CollectiveCall capped = call;
        capped.in = &parts;
        return exec::RunCollective(machine, capped);
      }});
}

}  // namespace

void InjectIntoSlices(Fault fault, exec::Seams& seams) {
  SliceSeam seam;
  for (const WrongView& wrong : kWrongViews) {
    if (wrong.fault != fault) continue;
    seam.cut = [see = wrong.see](const Machine& machine, const Staged& staged,
                                 Slices& slices) {
      for (int d = 0; d < machine.devices(); ++d) {
        see({machine, staged, slices, d});
      }
    };
  }
  for (const WrongSlice& wrong : kWrongSlices) {
    if (wrong.fault == fault) seam.cut = wrong.cut;
  }
  for (const WrongJoin& wrong : kWrongJoins) {
    if (wrong.fault == fault) seam.join = wrong.join;
  }
  if (fault == Fault::kSinkPerPart) seam.sinks = SinksInEveryPart;
  if (fault == Fault::kBlockTableOfRankZero) seam.blocks = BlocksOfRankZero;
  if (fault == Fault::kDiagonalBlockSkipped) seam.blocks = NoDiagonal;
  if (fault == Fault::kReduceAfterExp) CapParts(seam, seams);
  seams.Set(std::move(seam));
  if (fault == Fault::kRingOneStepShort) {
    seams.Set(exec::RingSeam{
        [](int64_t ranks) { return std::max<int64_t>(1, ranks - 1); }});
  }
}

}  // namespace shardc::verify
