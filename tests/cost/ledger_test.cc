// Compares the bytes that `cost` reports with those that the executor's ledger
// counts, for steps in which both have the same collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "cost/communication.h"
#include "cost/models.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/random_cases.h"

namespace shardc::cost {
namespace {

using ByKind = std::map<Collective, int64_t>;

// Returns, by kind of collective, the bytes that the busiest device sends,
// summed over the entries of the ledger.
ByKind Counted(const exec::Ledger& ledger) {
  ByKind out;
  for (const exec::LedgerEntry& entry : ledger.entries()) {
    const int64_t most =
        *std::max_element(entry.sent.begin(), entry.sent.end());
    if (most > 0) out[entry.kind] += most;
  }
  return out;
}

TEST_CASE("collectives send what the ledger counts") {
  std::mt19937_64 random(7);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  constexpr int kCases = 600;
  int compared = 0;
  for (int i = 0; i < kCases; ++i) {
    Mesh mesh =
        MeshOf({{"x", draw(1, 4)}, {"y", draw(1, 4)}, {"z", draw(1, 3)}});
    AxisGroup axes;
    for (const char* axis : {"x", "y", "z"}) {
      if (draw(0, 1) == 1) axes.emplace_back(axis);
    }
    std::shuffle(axes.begin(), axes.end(), random);
    const int64_t n = mesh.Parts(axes).value_or(1);
    const auto kind = static_cast<Collective>(draw(0, 4));
    // An all_reduce may have a size that the number of devices does not divide.
    int64_t elements = draw(1, 60);
    if (kind != Collective::kAllReduce) elements *= n;
    const Dtype dtype = draw(0, 1) == 1 ? Dtype::kF32 : Dtype::kBF16;
    const exec::SimMesh sim(mesh);
    exec::Machine machine(sim);
    const exec::PerDevice in(static_cast<size_t>(mesh.devices),
                             exec::Buffer::Zeros({elements}, dtype));
    switch (kind) {
      case Collective::kAllGather:
        exec::AllGather(machine, axes, in, 0, "t");
        break;
      case Collective::kReduceScatter:
        exec::ReduceScatter(machine, axes, in, 0, "t");
        break;
      case Collective::kAllReduce:
        exec::AllReduce(machine, axes, in, exec::Reduce::kSum, "t");
        break;
      case Collective::kAllToAll:
        exec::AllToAll(machine, axes, in, 0, 0, "t");
        break;
      default:
        exec::Ppermute(machine, axes, in, exec::RingEdges(n), "t");
        break;
    }
    const ByKind counted = Counted(machine.ledger());
    const int64_t said = BusiestSent(kind, elements, DtypeBits(dtype) / 8, n);
    CAPTURE(CollectiveName(kind));
    CAPTURE(elements);
    CAPTURE(n);
    CHECK(said == (counted.empty() ? 0 : counted.begin()->second));
    compared += n > 1 ? 1 : 0;
  }
  MESSAGE(compared << " collectives of several devices");
  CHECK(compared > 400);
}

TEST_CASE("attention's operations send what the ledger counts") {
  constexpr uint64_t kCases = 2000;
  std::map<std::string, int> compared;
  int sends = 0, total = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    verify::Case test = verify::RandomCase(3, i);
    if (test.layout != Layout::kBthd || test.trace || test.kv_dtype) continue;
    test.features = {};
    test.features.causal = true;
    const exec::SimMesh sim(test.mesh);
    exec::Machine machine(sim);
    const auto outcome = test.operation->run(machine, verify::MakeProblem(test),
                                             test.specs, test.settings);
    if (outcome.unsupported) continue;
    const verify::Sizes& n = test.sizes;
    AttentionSizes sizes{.batch = n.batch,
                         .query_length = n.query_length,
                         .key_length = n.key_length,
                         .heads = n.heads,
                         .key_heads = n.key_heads,
                         .head_dim = n.head_dim,
                         .value_dim = n.ValueDim(),
                         .dtype = test.dtype,
                         .key_dtype = test.dtype};
    if (test.operation->latent) {
      const auto latent = *verify::MakeProblem(test).latent;
      sizes.latent_rank = latent.latent.shape[2];
      sizes.latent_rope_dim = latent.rope_key.shape[2];
      sizes.value_dim = latent.up_value.shape[2];
    }
    const AttentionBytes said = BytesOfAttention(
        *test.operation, test.mesh, test.specs, sizes, test.settings);
    if (!said.unknown.empty()) continue;
    ByKind by_kind;
    for (const Transfer& one : said.transfers) by_kind[one.kind] += one.sent;
    CAPTURE(i);
    CAPTURE(test.operation->name);
    CAPTURE(MeshText(test.mesh));
    CHECK(by_kind == Counted(machine.ledger()));
    ++compared[std::string(test.operation->name)];
    ++total;
    sends += by_kind.empty() ? 0 : 1;
  }
  for (const auto& [name, times] : compared) MESSAGE(name << ": " << times);
  MESSAGE(total << " compared, of which " << sends << " send");
  CHECK(total >= 500);
  CHECK(compared.size() == exec::Operations().size());
}

}  // namespace
}  // namespace shardc::cost
