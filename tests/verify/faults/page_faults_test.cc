#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "exec/machine/mesh_fixture.h"
#include "exec/pages/page_pool.h"
#include "exec/pages/paged_program.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using Numbers = std::vector<int64_t>;

// Three requests on two shards: 2, 1 and 3 of 6 query tokens.
struct Tables {
  exec::RaggedBatch batch;
  std::vector<exec::PagedRequest> requests = {
      {0, 2, 0, 4}, {2, 1, 4, 5}, {3, 3, 9, 3}};
  Numbers owners = {0, 0, 1};

  Tables() {
    batch.sequences = 3;
    batch.table = exec::Buffer::Zeros({3, 2}, Dtype::kI32);
    batch.table.integers = {1, 2, 3, 4, 5, 6};
    batch.distribution = {{0, 1, 2}, {1, 1, 1}};
  }
  void Use(Fault fault) {
    const exec::Seams seams = InjectionOf(fault).seams;
    const auto& used = seams.Get<exec::PagedSeam>().used;
    REQUIRE(static_cast<bool>(used));
    exec::PagedTables tables{batch, requests, owners, 2, 6};
    used(tables);
  }
};

TEST_CASE("faulty tables of a paged batch differ in one place each") {
  Tables off;
  off.Use(Fault::kPagedCumulativeOff);
  Numbers begins;
  for (const auto& request : off.requests)
    begins.push_back(request.query_begin);
  // One later, and from the first token again if the queries would not fit.
  CHECK(begins == Numbers{1, 3, 0});
  CHECK(off.owners == Numbers{0, 0, 1});

  Tables modulo;
  modulo.Use(Fault::kPagedRowsByModulo);
  CHECK(modulo.owners == Numbers{0, 1, 0});
  CHECK(modulo.requests[1].query_begin == 2);

  Tables decodes;
  decodes.Use(Fault::kPagedDistributionOff);
  CHECK(decodes.batch.distribution ==
        std::vector<std::array<int64_t, 3>>{{1, 1, 2}, {2, 1, 1}});

  Tables foreign;
  foreign.Use(Fault::kPagedForeignClipped);
  CHECK(foreign.batch.table.integers ==
        decltype(foreign.batch.table.integers){1, 2, 3, 4, 0, 6});
}

TEST_CASE("a transposed table has its dims exchanged") {
  Tables tables;
  const exec::Seams seams = InjectionOf(Fault::kPagedTableTransposed).seams;
  const auto& seam = seams.Get<exec::PagedSeam>();
  REQUIRE(static_cast<bool>(seam.given));
  CHECK_FALSE(static_cast<bool>(seam.used));
  seam.given(tables.batch);
  CHECK(tables.batch.table.shape == Shape{2, 3});
  CHECK(tables.batch.table.integers ==
        decltype(tables.batch.table.integers){1, 3, 5, 2, 4, 6});
}

TEST_CASE("faulty reads are of the first shard, or of the other half") {
  const auto read = [](Fault fault) {
    const exec::Seams seams = InjectionOf(fault).seams;
    const auto& seam = seams.Get<exec::PagedSeam>();
    REQUIRE(static_cast<bool>(seam.read));
    exec::PageRead one{.request = 1,
                       .position = 3,
                       .id = 12,
                       .shard = 1,
                       .each = 10,
                       .values = true};
    seam.read(one);
    return Numbers{one.id, one.shard, one.each, one.values};
  };
  CHECK(read(Fault::kPagedIdNotLocal) == Numbers{12, 0, 10, 1});
  CHECK(read(Fault::kPagedKeysAsValues) == Numbers{12, 1, 10, 0});
}

TEST_CASE("without a fault of pages their seams are the correct ones") {
  for (const Fault fault : {Fault::kNone, Fault::kCacheOwnerOff}) {
    const exec::Seams seams = InjectionOf(fault).seams;
    const auto& tables = seams.Get<exec::PagedSeam>();
    CHECK_FALSE(static_cast<bool>(tables.given));
    CHECK_FALSE(static_cast<bool>(tables.used));
    CHECK_FALSE(static_cast<bool>(tables.read));
    CHECK_FALSE(static_cast<bool>(seams.Get<exec::PageSeam>().config));
  }
}

TEST_CASE("a fault of shared pages writes into them instead of a copy") {
  exec::PageConfig config;
  config.copy_shared = true;
  const exec::Seams seams = InjectionOf(Fault::kPagedSharedWritten).seams;
  const auto& seam = seams.Get<exec::PageSeam>();
  REQUIRE(static_cast<bool>(seam.config));
  seam.config(config);
  CHECK_FALSE(config.copy_shared);
}

// Returns the scales of the keys and of the values of page 1 after it became a
// copy of page 0.
std::vector<float> CopiedScales(Fault fault) {
  const exec::SimMesh mesh = exec::SimMeshOf({{"x", 1}});
  exec::LayoutError why;
  exec::PoolConfig config;
  config.pages = 2;
  config.head_dim = 2;
  config.dtype = Dtype::kI8;
  auto pool = exec::MakePool(mesh, config, 5, why);
  REQUIRE(pool);
  const std::vector<float> key = {1, 2}, value = {3, 4};
  exec::WriteToken(*pool, 0, 0, 0, 0, key, value);
  const exec::Seams seams = InjectionOf(fault).seams;
  exec::Machine machine(mesh, 1, seams);
  const std::vector<exec::PageCopy> copies = {{0, 1}};
  exec::CopyPages(machine, *pool, copies);
  return {pool->key_scale.local[0].real[1], pool->value_scale.local[0].real[1]};
}

TEST_CASE("a copy without its scales leaves those of the keys alone") {
  CHECK(CopiedScales(Fault::kNone) == std::vector<float>{2, 4});
  const auto scales = CopiedScales(Fault::kPagedScaleNotCopied);
  CHECK(scales[0] != 2);
  CHECK(scales[1] == 4);
}

}  // namespace
}  // namespace shardc::verify
