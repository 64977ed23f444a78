// Compares runs on several ranks with runs of a single process: collectives and
// reshards must have the same bits and the same ledger, and ranks must send as
// many bytes.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "exec/machine/agreement.h"
#include "exec/machine/collectives.h"
#include "exec/machine/mesh_fixture.h"
#include "exec/machine/thread_transport.h"

namespace shardc::exec {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Returns an array for every device, with different numbers that are values of
// `dtype`.
PerDevice Arrays(const SimMesh& mesh, const Shape& shape, Dtype dtype) {
  PerDevice out;
  for (int d = 0; d < mesh.devices(); ++d) {
    Buffer own = Buffer::Zeros(shape, dtype);
    for (size_t i = 0; i < own.real.size(); ++i) {
      own.real[i] = static_cast<float>((i * 7 + At(d) * 13) % 61) / 8 - 3;
      if (dtype == Dtype::kF32) own.real[i] += 1e-6f * static_cast<float>(i);
    }
    for (size_t i = 0; i < own.integers.size(); ++i) {
      own.integers[i] = static_cast<int32_t>((i * 7 + At(d) * 13) % 200) - 100;
    }
    out.push_back(std::move(own));
  }
  return out;
}

// Returns the arrays of this rank's devices. The arrays of other devices are
// empty.
PerDevice Held(const SimMesh& mesh, const PerDevice& all) {
  PerDevice out;
  for (int d = 0; d < mesh.devices(); ++d) {
    out.push_back(mesh.Holds(d) ? all[At(d)] : Buffer());
  }
  return out;
}

struct Result {
  PerDevice out;
  Ledger ledger;
};

Result InOneProcess(const SimMesh& mesh, CollectiveCall call) {
  Machine machine(mesh);
  Result out;
  out.out = RunCollective(machine, call);
  out.ledger = machine.ledger();
  return out;
}

// Runs a collective on all ranks. Returns each device's array from the rank
// that holds the device.
Result OverRanks(const SimMesh& mesh, CollectiveCall call, int ranks) {
  Result out;
  out.out.resize(At(mesh.devices()));
  OnRanks(ranks, [&](Transport& transport) {
    const SimMesh own(mesh.mesh(), &transport);
    Machine machine(own);
    const PerDevice in = Held(own, *call.in);
    CollectiveCall mine = call;
    mine.in = &in;
    PerDevice got = RunCollective(machine, mine);
    const Ledger ledger = SumOverRanks(&transport, machine.ledger());
    for (int d = own.first_held(); d < own.end_held(); ++d) {
      out.out[At(d)] = std::move(got[At(d)]);
    }
    if (transport.rank() == 0) out.ledger = ledger;
  });
  return out;
}

std::vector<CollectiveCall> Calls(const AxisGroup& axes, int64_t n,
                                  const std::vector<Edge>& edges) {
  std::vector<CollectiveCall> out;
  for (size_t dim : {0, 1}) {
    out.push_back({.kind = Collective::kAllGather, .axes = axes, .dim = dim});
    out.push_back(
        {.kind = Collective::kReduceScatter, .axes = axes, .dim = dim});
    out.push_back({.kind = Collective::kAllToAll,
                   .axes = axes,
                   .dim = dim,
                   .concat_dim = 1 - dim});
  }
  for (Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
    out.push_back(
        {.kind = Collective::kAllReduce, .axes = axes, .reduce = reduce});
  }
  out.push_back({.kind = Collective::kPpermute, .axes = axes, .edges = edges});
  out.push_back({.kind = Collective::kBroadcast, .axes = axes, .root = n - 1});
  return out;
}

int64_t Total(const SentBytes& sent, Collective kind) {
  int64_t out = 0;
  for (const int64_t bytes : sent.Of(kind)) out += bytes;
  return out;
}

TEST_CASE(
    "each rank holds a contiguous run of devices, and each device has a rank") {
  for (int devices = 1; devices <= 12; ++devices) {
    for (int ranks = 1; ranks <= devices; ++ranks) {
      std::vector<int> holder(At(devices), -1);
      const SimMesh mesh = SimMeshOf({{"a", devices}});
      for (int rank = 0; rank < ranks; ++rank) {
        ThreadTransport::Board board(ranks);
        ThreadTransport transport(board, rank);
        const SimMesh own(mesh.mesh(), &transport);
        CHECK(own.first_held() < own.end_held());
        for (int d = own.first_held(); d < own.end_held(); ++d) {
          CHECK(holder[At(d)] == -1);
          holder[At(d)] = rank;
        }
        for (int d = 0; d < devices; ++d) {
          CHECK(own.Holds(d) == (own.RankOf(d) == rank));
        }
      }
    }
  }
}

TEST_CASE("collectives over ranks have the bits and bytes of one process") {
  const SimMesh mesh = SimMeshOf({{"a", 2}, {"b", 3}, {"c", 2}});
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kBF16, Dtype::kF16, Dtype::kI32, Dtype::kI8}) {
    const PerDevice in = Arrays(mesh, {12, 24}, dtype);
    for (const AxisGroup& axes : AxisLists(mesh)) {
      const int64_t n = mesh.Parts(axes);
      const std::vector<Edge> edges = RingEdges(n);
      for (CollectiveCall call : Calls(axes, n, edges)) {
        call.in = &in;
        if (call.kind == Collective::kReduceScatter && dtype == Dtype::kI8) {
          continue;
        }
        const Result right = InOneProcess(mesh, call);
        for (int ranks : {2, 5, 12}) {
          CAPTURE(CollectiveName(call.kind));
          CAPTURE(ranks);
          CAPTURE(n);
          const Result got = OverRanks(mesh, call, ranks);
          for (int d = 0; d < mesh.devices(); ++d) {
            REQUIRE(BitEqual(got.out[At(d)], right.out[At(d)]));
          }
          CHECK(got.ledger.Sent() == right.ledger.Sent());
          CHECK(got.ledger.steps() == right.ledger.steps());
          // A sum may not be a value of a narrow dtype. Ranks then send it with
          // more bytes than the ledger records.
          if (dtype == Dtype::kI8 && call.kind == Collective::kAllReduce) {
            continue;
          }
          if (IsRealDtype(dtype) && dtype != Dtype::kF32 &&
              call.kind == Collective::kAllReduce) {
            continue;
          }
          CHECK(Total(got.ledger.moved(), call.kind) ==
                Total(right.ledger.Sent(), call.kind));
        }
      }
    }
  }
}

TEST_CASE("a value that its dtype lacks is sent at full width, and counted") {
  Buffer block = Buffer::Zeros({3}, Dtype::kBF16);
  block.real = {1.0f, 1.0f + 1e-6f, std::numeric_limits<float>::infinity()};
  Packet bytes;
  PutParcel(0, 1, block, bytes);
  const size_t wide = bytes.size();
  std::vector<Parcel> parcels;
  REQUIRE(TakeParcels(bytes, parcels));
  CHECK(FirstDifference(parcels[0].block, block) == -1);
  block.real[1] = 1.5f;
  bytes.clear();
  PutParcel(0, 1, block, bytes);
  CHECK(bytes.size() == wide - 6);
  bytes.pop_back();
  parcels.clear();
  CHECK_FALSE(TakeParcels(bytes, parcels));
}

TEST_CASE(
    "tensors are resharded, gathered and compared over ranks as in one "
    "process") {
  const SimMesh mesh = SimMeshOf({{"a", 2}, {"b", 3}});
  const Buffer whole = Counting({12, 6});
  const std::vector<Spec> specs = {
      {{"a"}, {"b"}}, {{"b"}, {"a"}}, {{"a", "b"}, {}}, {{}, {}}, {{"b", "a"}}};
  for (const Spec& from : specs) {
    for (const Spec& to : specs) {
      Machine one(mesh);
      const ShardedTensor right =
          Reshard(one, Scatter(mesh, whole, from), to, "x");
      for (int ranks : {2, 3, 6}) {
        OnRanks(ranks, [&](Transport& transport) {
          const SimMesh own(mesh.mesh(), &transport);
          Machine machine(own);
          const ShardedTensor moved =
              Reshard(machine, Scatter(own, whole, from), to, "x");
          const Ledger ledger = SumOverRanks(&transport, machine.ledger());
          LayoutError why;
          const auto joined = Gather(own, moved, why);
          bool same = joined && BitEqual(*joined, whole) &&
                      ledger.Sent() == one.ledger().Sent() &&
                      ledger.moved() == ledger.Sent();
          for (int d = own.first_held(); d < own.end_held(); ++d) {
            same = same && BitEqual(moved.local[At(d)], right.local[At(d)]);
          }
          CHECK(same);
        });
      }
    }
  }
}

TEST_CASE("an error on one rank is reported by all") {
  const SimMesh mesh = SimMeshOf({{"a", 2}, {"b", 3}});
  const Buffer ids = UniqueIds({12, 6});
  for (int wrong = 0; wrong < mesh.devices(); ++wrong) {
    ShardedTensor bad = Scatter(mesh, ids, {{"a"}, {}});
    bad.local[At(wrong)].integers[7] += 1;
    const auto replicas = CheckReplicas(mesh, bad);
    const auto coverage = CheckCoverage(mesh, bad);
    REQUIRE(replicas);
    REQUIRE(coverage);
    for (int ranks : {2, 4, 6}) {
      OnRanks(ranks, [&](Transport& transport) {
        const SimMesh own(mesh.mesh(), &transport);
        ShardedTensor mine = bad;
        mine.local = Held(own, bad.local);
        const auto first = CheckReplicas(own, mine);
        const auto second = CheckCoverage(own, mine);
        const bool same = first && second &&
                          first->message == replicas->message &&
                          first->devices == replicas->devices &&
                          first->position == replicas->position &&
                          second->message == coverage->message &&
                          second->position == coverage->position;
        CHECK(same);
      });
    }
  }
}

}  // namespace
}  // namespace shardc::exec
