#include "verify/faults/injection.h"

#include <doctest/doctest.h>

#include <vector>

#include "exec/cache/kv_cache.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/mesh_fixture.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::Machine;
using exec::PerDevice;
using exec::SlotQuery;

// Returns one element for each of devices 0 and 1.
PerDevice Two(float a, float b) {
  PerDevice out(2, Buffer::Zeros({1}, Dtype::kF32));
  out[0].real[0] = a;
  out[1].real[0] = b;
  return out;
}

TEST_CASE("without a fault every seam is the correct one") {
  const exec::Seams seams = InjectionOf(Fault::kNone).seams;
  const exec::SimMesh mesh = exec::SimMeshOf({{"x", 2}});
  Machine machine(mesh, 1, seams);
  const PerDevice sum = AllReduce(machine, {"x"}, Two(1, 2), exec::Reduce::kSum,
                                  "sum and output");
  CHECK(sum[0].real[0] == 3);
  CHECK(sum[1].real[0] == 3);
  CHECK(machine.ledger().steps() == 1);
  const auto& arithmetic = seams.Get<exec::Arithmetic>();
  CHECK(arithmetic.InKernels());
  CHECK((arithmetic.scale == exec::kRightArithmetic.scale));
  for (int64_t rank = 0; rank < 2; ++rank) {
    const SlotQuery query{5, 0, 8, 2, rank};
    CHECK(seams.Get<exec::CacheSeam>().slot(query) == exec::OwnSlot(query));
  }
}

TEST_CASE("faulty collectives change values, or the bytes that they send") {
  const exec::SimMesh mesh = exec::SimMeshOf({{"x", 2}});
  const auto sum = [&](Fault fault, int64_t steps) {
    Machine machine(mesh, 1, InjectionOf(fault).seams);
    const PerDevice out =
        AllReduce(machine, {"x"}, Two(1, 2), exec::Reduce::kSum, "logits");
    CHECK(machine.ledger().steps() == steps);
    return std::vector<float>{out[0].real[0], out[1].real[0]};
  };
  CHECK(sum(Fault::kReduceOneTwice, 1) == std::vector<float>{4, 4});
  CHECK(sum(Fault::kReduceSkipsLast, 1) == std::vector<float>{1, 1});
  CHECK(sum(Fault::kCollectiveSkipped, 0) == std::vector<float>{1, 2});
  const auto gathered = [&](Fault fault) {
    Machine machine(mesh, 1, InjectionOf(fault).seams);
    return AllGather(machine, {"x"}, Two(1, 2), 0, "key")[0].real;
  };
  CHECK(gathered(Fault::kGatherOrderReversed) == std::vector<float>{2, 1});
  CHECK(gathered(Fault::kReduceOneTwice) == std::vector<float>{1, 2});
  Machine again(mesh, 1, InjectionOf(Fault::kExtraPpermute).seams);
  for (int step = 0; step < 3; ++step) {
    Ppermute(again, {"x"}, Two(1, 2), exec::RingEdges(2), "key");
  }
  CHECK(again.ledger().steps() == 4);
}

TEST_CASE("faulty slots go to other ranks, each to a place of its own") {
  // Position 5 of 8 is in slot 1 of rank 1.
  const auto slots = [](Fault fault) {
    const auto seam = InjectionOf(fault).seams.Get<exec::CacheSeam>();
    return std::vector<int64_t>{seam.slot({5, 0, 8, 2, 0}),
                                seam.slot({5, 0, 8, 2, 1})};
  };
  using Slots = std::vector<int64_t>;
  CHECK(slots(Fault::kNone) == Slots{-1, 1});
  CHECK(slots(Fault::kCacheOwnerOff) == Slots{1, -1});
  CHECK(slots(Fault::kCacheAllWrite) == Slots{1, 1});
  CHECK(slots(Fault::kCacheRankZeroWrites) == Slots{1, -1});
  CHECK(slots(Fault::kCacheIndexPlusOne) == Slots{-1, 2});
}

}  // namespace
}  // namespace shardc::verify
