// Tests the code on which verification itself depends: the dense reference, the
// simulated network, caches, pages and tolerances. Each check is a function
// that calls a part of this code, and returns true if the result is the known
// one. The numbers are small enough to be computed on paper:
//
//   keys 1 and 3, query 2, scale 1: the largest logit is 6
#include "verify/answers/known_answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "dense/attention.h"
#include "exec/attention/rotary.h"
#include "exec/cache/kv_cache.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/collectives.h"
#include "exec/operations/operation.h"
#include "exec/pages/page_pool.h"
#include "verify/answers/known_refusals.h"
#include "verify/cases/grid.h"
#include "verify/judge/explain.h"
#include "verify/judge/run_case.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::Buffer;
using exec::LayoutError;
using exec::Machine;
using exec::SimMesh;

bool Near(double a, double b) {
  return std::fabs(a - b) <= 1e-12 * std::max(1.0, std::fabs(b));
}

// ---- The dense reference ---------------------------------------------------

// Returns attention inputs with one batch row, one head, one query and a head
// dimension of 1, with the given keys and values.
dense::Inputs OneHead(double query, std::vector<double> keys,
                      std::vector<double> values) {
  dense::Inputs in;
  const auto count = static_cast<int64_t>(keys.size());
  in.query = {{1, 1, 1, 1}, {query}};
  in.key = {{1, count, 1, 1}, std::move(keys)};
  in.value = {{1, count, 1, 1}, std::move(values)};
  return in;
}

std::vector<double> OutputOf(const dense::Inputs& in) {
  std::string why;
  dense::Options options;
  options.scale = 1;
  const auto result = dense::Attention(in, options, why);
  return result ? result->output.data : std::vector<double>{};
}

bool LogitsAndASink() {
  dense::Inputs in = OneHead(2, {1, 3}, {10, 20});
  dense::Options options;
  options.scale = 1;
  if (dense::LargestLogit(in, options) != 6) return false;
  in.query.data = {0};
  in.sinks = {{1}, {0}};
  const auto out = OutputOf(in);
  return out.size() == 1 && Near(out[0], 10);
}

bool SinksThatFitNoHead() {
  dense::Inputs in = OneHead(1, {1}, {1});
  const auto fits = [&](Array sinks) {
    in.sinks = std::move(sinks);
    std::string why;
    return dense::Attention(in, {}, why) && why.empty();
  };
  return fits({{1}, {0}}) && fits({{2, 1}, {0, 0}}) &&
         !fits({{3}, {0, 0, 0}}) && !fits({{1, 2, 1}, {0, 0}});
}

// Checks attention over an empty key slot. The batch has two rows with two keys
// each, and the first key slot of the second row is empty.
bool EmptySlotsOfTheSecondRow() {
  dense::Inputs in;
  in.query = {{2, 1, 1, 1}, {0, 0}};
  in.key = {{2, 2, 1, 1}, {0, 0, 0, 0}};
  in.value = {{2, 2, 1, 1}, {1, 3, 5, 7}};
  in.key_positions = {0, 1, -1, 1};
  const auto out = OutputOf(in);
  return out.size() == 2 && Near(out[0], 2) && Near(out[1], 7);
}

// Checks latent attention of one head, whose key is [latent * 2, latent * 3,
// rope]. The absorbed form multiplies the query by the projection. The expanded
// form computes the key from the latent. Both forms must return the same
// logits.
bool LatentOnEitherSide() {
  const dense::Latent latent = {{{1, 1, 1}, {5}},
                                {{1, 1, 1}, {7}},
                                {{1, 1, 2}, {2, 3}},
                                {{1, 1, 1}, {4}}};
  const dense::Expanded expanded = dense::Expand(latent);
  const dense::Absorbed absorbed =
      dense::Absorb(latent, {{1, 1, 1, 3}, {1, 10, 100}});
  return expanded.key.data == std::vector<double>{10, 15, 7} &&
         expanded.value.data == std::vector<double>{20} &&
         absorbed.query.data == std::vector<double>{32, 100} &&
         absorbed.key.data == std::vector<double>{5, 7} &&
         absorbed.value.data == std::vector<double>{5};
}

// Checks a rotation by two radians, and the bound on its rounding error in
// float32.
bool RotationAndItsRounding() {
  const dense::Rotary rotary(2, 8, {}, dense::Pairs::kHalves);
  const std::array<float, 2> head = {3, 4};
  const auto first = rotary.RotatedElement(2, head, 0);
  const auto second = rotary.RotatedElement(2, head, 1);
  const double sine = std::sin(2.0), cosine = std::cos(2.0);
  return Near(first.at, 3 * cosine - 4 * sine) &&
         Near(second.at, 4 * cosine + 3 * sine) && first.off > 1e-7 &&
         first.off == second.off && first.off < 1e-5;
}

// Checks rotary embeddings of interleaved pairs: elements 0 and 1 are rotated
// by one radian for each position, elements 2 and 3 by 0.01 radians for each
// position.
bool PairsOfNeighbours() {
  const dense::Rotary rotary(4, 8, {}, dense::Pairs::kNeighbours);
  std::array<float, 4> head = {1, 2, 3, 4};
  rotary.Rotate(1, head);
  const double want[] = {std::cos(1.0) - 2 * std::sin(1.0),
                         2 * std::cos(1.0) + std::sin(1.0),
                         3 * std::cos(0.01) - 4 * std::sin(0.01),
                         4 * std::cos(0.01) + 3 * std::sin(0.01)};
  return std::equal(head.begin(), head.end(), want,
                    [](float have, double right) {
                      return std::fabs(double{have} - right) < 1e-6;
                    });
}

// ---- Rotary embeddings as the executor computes them -----------------------

bool Rotates(int64_t dim, const exec::RopeScaling& scaling) {
  std::string why;
  return exec::Frequencies(dim, 10000, 8, scaling, why) && why.empty();
}

bool RotationsThatCannotBe() {
  exec::RopeScaling bands;
  bands.kind = exec::RopeKind::kLlama3;
  bands.factor = 8;
  bands.original_length = 8192;
  bands.low_frequency_factor = bands.high_frequency_factor = 2;
  exec::RopeScaling right = bands;
  right.high_frequency_factor = 4;
  exec::RopeScaling yarn;
  yarn.kind = exec::RopeKind::kYarn;
  yarn.factor = 2;
  yarn.original_length = 2;
  exec::RopeScaling shorter = yarn;
  shorter.original_length = 1;
  return Rotates(2, {}) && !Rotates(3, {}) && !Rotates(8, bands) &&
         Rotates(8, right) && Rotates(8, yarn) && !Rotates(8, shorter);
}

// ---- The simulated network -------------------------------------------------

// Returns one-element buffers. The buffer of device d holds the number 100 d.
exec::PerDevice Marked(int devices) {
  exec::PerDevice out;
  for (int d = 0; d < devices; ++d) {
    out.push_back(Buffer::Zeros({1}, Dtype::kF32));
    out.back().real[0] = 100.0f * static_cast<float>(d);
  }
  return out;
}

bool SendsAlongEdges() {
  const SimMesh mesh(MeshOf({{"x", 3}}));
  Machine machine(mesh);
  const exec::PerDevice out =
      exec::Ppermute(machine, {"x"}, Marked(3), {{0, 2}}, "t");
  const std::vector<float> nothing = {0};
  return out[0].real == nothing && out[1].real == nothing &&
         out[2].real == nothing && out[0].shape == Shape{1} &&
         machine.ledger().Sent().Of(Collective::kPpermute) ==
             std::vector<int64_t>{4, 0, 0};
}

bool BroadcastsDownAChain() {
  const SimMesh mesh(MeshOf({{"x", 3}}));
  Machine machine(mesh);
  const exec::PerDevice out =
      exec::Broadcast(machine, {"x"}, Marked(3), 1, "t");
  return out[0].real[0] == 100 && out[2].real[0] == 100 &&
         machine.ledger().Sent().Of(Collective::kBroadcast) ==
             std::vector<int64_t>{0, 4, 4};
}

bool NothingSentIsNoBytes() {
  exec::SentBytes none, zeros, some, longer;
  zeros.Add(Collective::kAllGather, {0, 0});
  some.Add(Collective::kAllGather, {0, 1});
  longer.Add(Collective::kAllGather, {0, 1, 0});
  return none == zeros && zeros == none && !(none == some) && longer == some &&
         some == longer &&
         BytesDiffer(SimMesh(MeshOf({{"x", 2}})), some, none)
                 .find("device 1 ") == 0;
}

// Device 1 holds element 0 of two elements, although its shard is element 1.
// Checks that CheckCoverage reports this.
bool ElementsOutOfPlace() {
  const SimMesh mesh(MeshOf({{"x", 2}}));
  exec::ShardedTensor tensor =
      exec::Scatter(mesh, exec::UniqueIds({2, 1}), {{"x"}});
  if (exec::LocalStart(mesh, {2, 1}, {{"x"}}, 1) != Shape{1, 0}) return false;
  if (exec::CheckCoverage(mesh, tensor)) return false;
  tensor.local[1].integers[0] = 0;
  const auto why = exec::CheckCoverage(mesh, tensor);
  return why && why->message.find("holds element [0, 0] where [1, 0]") !=
                    std::string::npos;
}

bool OrdersOfARing() {
  using exec::SequenceOrder;
  return exec::RingOrder(SequenceOrder::kStriped, 8, 2) ==
             std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7} &&
         exec::RingOrder(SequenceOrder::kZigZag, 8, 2) ==
             std::vector<int64_t>{0, 1, 6, 7, 2, 3, 4, 5};
}

bool LowestNumbers() {
  return exec::LowestFinite(Dtype::kF16) == -65504.0f &&
         exec::LowestFinite(Dtype::kBF16) == -0x1.fep127f;
}

bool EqualBits() {
  Buffer a = Buffer::Zeros({2}, Dtype::kF32), b = a;
  if (exec::FirstDifference(a, b) != -1) return false;
  b.real[1] = -0.0f;
  return exec::FirstDifference(a, b) == 1;
}

// ---- Caches and pages ------------------------------------------------------

bool RowsOfACache() {
  const SimMesh mesh(MeshOf({{"x", 1}}));
  Machine machine(mesh);
  LayoutError why;
  const exec::CacheConfig one = {1, 4, 1, 2, Dtype::kF32, 3};
  exec::CacheConfig two = one;
  two.batch = 2;
  auto from = exec::MakeCache(mesh, one, {}, why);
  auto into = exec::MakeCache(mesh, two, {}, why);
  if (!from || !into || !into->Rolls()) return false;
  // In a cache that reuses slots, a slot has position -1 until it is written.
  for (const int32_t position : into->positions.local[0].integers) {
    if (position != -1) return false;
  }
  return !exec::InsertRow(machine, *from, *into, -1, why) &&
         exec::InsertRow(machine, *from, *into, 0, why) &&
         exec::InsertRow(machine, *from, *into, 1, why) &&
         !exec::InsertRow(machine, *from, *into, 2, why);
}

bool SharedPagesAreCopiedOnce() {
  exec::PageConfig config;
  config.reserve_first = false;
  LayoutError why;
  if (!exec::PageTable::Make(config, why)) return false;
  config = {4, 4, 2, 2, 1};
  config.reserve_first = false;
  auto table = exec::PageTable::Make(config, why);
  std::vector<exec::PageCopy> copies;
  // Both rows share six tokens, the last two of which are in the second page.
  if (!table || !table->Grow(0, 6, copies, why) || !table->Share(0, 1, why) ||
      !table->Grow(1, 0, copies, why) || !copies.empty()) {
    return false;
  }
  if (!table->Grow(1, 1, copies, why) || copies.size() != 1) return false;
  const exec::PageSlot own = table->SlotOf(1, 6), other = table->SlotOf(0, 5);
  if (own.page == other.page || own.offset != 2) return false;
  table->Release(0);
  return table->IsFree(other.page) && !table->IsFree(own.page);
}

// Runs a trace (a prefill and two decode steps over a cache) in which each
// write makes one element of the cached keys wrong. The element gets the
// relative error `off`. In an integer cache, it gets the error 1 if `off` is
// not 0. Returns the check that fails, or nullopt if all checks pass.
std::optional<Check> DetectsAKey(Dtype kv_dtype, float off) {
  CacheTrace trace;
  trace.mesh = MeshOf({{"x", 1}});
  trace.prefill = trace.chunk = 8;
  trace.steps = 2;
  trace.slots = 16;
  trace.kv_dtype = kv_dtype;
  exec::CacheSeam seam;
  seam.append = [off](Machine& machine, exec::KvCache& cache,
                      const exec::ShardedTensor& key,
                      const exec::ShardedTensor& value,
                      const std::vector<int64_t>& counts, LayoutError& why) {
    if (!exec::RunAppend(machine, cache, key, value, counts, why)) return false;
    Buffer& local = cache.key.local[0];
    if (local.IsReal()) {
      local.real[1] *= 1 + off;
    } else {
      local.integers[1] += off != 0 ? 1 : 0;
    }
    return true;
  };
  RunOptions options;
  options.seams.Set(std::move(seam));
  return RunCacheTrace(trace, options).failed;
}

bool KeysOfACacheByBits() {
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI8}) {
    const float off = dtype == Dtype::kF32 ? 0x1p-16f : 0x1p-6f;
    if (DetectsAKey(dtype, 0)) return false;
    if (DetectsAKey(dtype, off) != Check::kCacheBits) return false;
  }
  return true;
}

// ---- Tolerances ------------------------------------------------------------

bool CapsByFormula() {
  return Near(ErrorCap(Dtype::kF32, 1, 1), 1e-5) &&
         Near(ErrorCap(Dtype::kF32, 6, 16), 6e-5) &&
         Near(ErrorCap(Dtype::kF16, 0.5, 0), 1e-3) &&
         Near(ErrorCap(Dtype::kBF16, 8, 0), 1.3 * 8 / 256) &&
         Near(ErrorFloor(2), 32 * 0x1p-24);
}

bool SlackOfTies() {
  const Array reference = {{1, 1, 1, 2}, {2, -4}};
  const Array ties = {{1, 1, 1, 2}, {0.5, 0}};
  const Array own = SlackOf(Dtype::kBF16, reference);
  const Array more = SlackOf(Dtype::kF32, reference, ties);
  return own.data.size() == 2 && Near(own.data[0], 1.3 * 2 / 256) &&
         Near(own.data[1], 1.3 * 4 / 256) && more.data == ties.data;
}

constexpr KnownAnswer kComputations[] = {
    {"logits and a sink", LogitsAndASink},
    {"sinks that fit no head", SinksThatFitNoHead},
    {"empty slots of the second row", EmptySlotsOfTheSecondRow},
    {"a latent on either side of the products", LatentOnEitherSide},
    {"a rotation and its rounding", RotationAndItsRounding},
    {"pairs of neighbours", PairsOfNeighbours},
    {"rotations that cannot be", RotationsThatCannotBe},
    {"what is sent along edges", SendsAlongEdges},
    {"a broadcast down a chain", BroadcastsDownAChain},
    {"nothing sent is no bytes", NothingSentIsNoBytes},
    {"elements out of place", ElementsOutOfPlace},
    {"orders of a ring", OrdersOfARing},
    {"the lowest numbers", LowestNumbers},
    {"bits that are equal", EqualBits},
    {"rows of a cache", RowsOfACache},
    {"shared pages are copied once", SharedPagesAreCopiedOnce},
    {"keys of a cache by bits", KeysOfACacheByBits},
    {"caps by formula", CapsByFormula},
    {"slack of ties", SlackOfTies},
};

}  // namespace

KnownAnswers CheckKnownAnswers() {
  KnownAnswers out;
  const auto check = [&out](const KnownAnswer& answer) {
    ++out.asked;
    if (!answer.holds()) out.wrong.emplace_back(answer.name);
  };
  for (const KnownAnswer& answer : kComputations) check(answer);
  for (const KnownAnswer& answer : KnownRefusals()) check(answer);
  return out;
}

}  // namespace shardc::verify
