#include "exec/pages/page_pool.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

namespace shardc::exec {
namespace {

size_t U(int64_t i) { return static_cast<size_t>(i); }

PageTable Table(const PageConfig& config) {
  LayoutError why;
  auto table = PageTable::Make(config, why);
  REQUIRE_MESSAGE(table, why.message);
  return *table;
}

TEST_CASE("rows grow page by page") {
  PageTable table = Table({8, 4, 2, 3, 1, true});
  std::vector<PageCopy> copies;
  LayoutError why;
  REQUIRE(table.Grow(0, 3, copies, why));
  REQUIRE(table.Grow(1, 4, copies, why));
  REQUIRE(table.Grow(0, 2, copies, why));
  CHECK(table.lengths() == std::vector<int64_t>{5, 4});
  CHECK(table.Table().integers == std::vector<int32_t>{1, 3, 0, 2, 0, 0});
  CHECK(table.SlotOf(0, 4).page == 3);
  CHECK(table.SlotOf(0, 3).offset == 3);
  CHECK(table.FreePages(0) == 4);
  table.Release(0);
  CHECK(table.FreePages(0) == 6);
  CHECK(table.IsFree(1));
  CHECK(copies.empty());
}

TEST_CASE("tokens that do not fit are refused and change nothing") {
  LayoutError why;
  std::vector<PageCopy> copies;
  PageTable table = Table({4, 4, 2, 3, 1, true});
  CHECK_FALSE(table.Grow(0, 13, copies, why));
  CHECK(why.message == "row 0 needs 4 pages for 13 tokens, its table has 3");
  REQUIRE(table.Grow(0, 8, copies, why));
  CHECK_FALSE(table.Grow(1, 5, copies, why));
  CHECK(why.message == "row 1 needs 2 more pages, shard 0 has 1 free one");
  CHECK(table.lengths() == std::vector<int64_t>{8, 0});
  CHECK(table.FreePages(0) == 1);
  CHECK_FALSE(table.Grow(2, 1, copies, why));
  CHECK(why.message == "row 2 is not among the 2 rows");
  CHECK_FALSE(PageTable::Make({6, 4, 3, 1, 2, true}, why));
  CHECK(why.message == "6 pages and 3 rows do not divide into 2 shards");
  CHECK_FALSE(PageTable::Make({2, 4, 2, 1, 2, true}, why));
  CHECK(why.message == "1 page a shard leaves none to give out");
  // The smallest valid table: one page for one row.
  CHECK(PageTable::Make({1, 1, 1, 1, 1, true, false}, why));
  for (const PageConfig& less : {PageConfig{0, 1, 1, 1, 1, true, false},
                                 PageConfig{1, 0, 1, 1, 1, true, false},
                                 PageConfig{1, 1, 0, 1, 1, true, false},
                                 PageConfig{1, 1, 1, 0, 1, true, false},
                                 PageConfig{1, 1, 1, 1, 0, true, false}}) {
    CHECK_FALSE(PageTable::Make(less, why));
    CHECK(why.message ==
          "a paged cache needs pages, rows and a page size "
          "above 0");
  }
}

TEST_CASE("rows use the pages of their own shard") {
  PageTable table = Table({8, 2, 4, 2, 2, true});
  table.ShuffleFree(Random(3));
  std::vector<PageCopy> copies;
  LayoutError why;
  for (int64_t row = 0; row < 4; ++row) {
    if (row % 2 == 0) REQUIRE(table.Grow(row, 3, copies, why));
  }
  for (int64_t row : {0, 2}) {
    for (int64_t p = 0; p < 3; ++p) {
      CHECK(table.SlotOf(row, p).page / 4 == table.ShardOf(row));
      CHECK(table.SlotOf(row, p).page % 4 != 0);
    }
  }
  // Unused entries of the table have a page of the row's own shard.
  const Buffer ids = table.Table();
  CHECK(ids.integers[U(1 * 2)] == 0);
  CHECK(ids.integers[U(3 * 2)] == 4);
}

TEST_CASE("a row that writes to a shared page copies it") {
  PageTable table = Table({8, 4, 4, 3, 1, true});
  std::vector<PageCopy> copies;
  LayoutError why;
  REQUIRE(table.Grow(0, 6, copies, why));
  REQUIRE(table.Share(0, 1, why));
  CHECK(table.Uses(2) == 2);
  REQUIRE(table.Grow(1, 0, copies, why));  // who writes nothing copies none
  CHECK(copies.empty());
  CHECK(table.Uses(2) == 2);
  REQUIRE(table.Grow(1, 1, copies, why));
  CHECK(copies == std::vector<PageCopy>{{2, 3}});
  CHECK(table.SlotOf(1, 0).page == 1);  // the full page stays shared
  CHECK(table.SlotOf(1, 5).page == 3);
  CHECK(table.SlotOf(0, 5).page == 2);
  // Row 0 now has page 2 for itself.
  REQUIRE(table.Grow(0, 1, copies, why));
  CHECK(copies.size() == 1);
  table.Release(0);
  CHECK_FALSE(table.IsFree(1));
  table.Release(1);
  CHECK(table.IsFree(1));
  REQUIRE(table.Grow(2, 1, copies, why));
  CHECK_FALSE(table.Share(1, 2, why));
  CHECK(why.message == "row 2 cannot share the pages of row 1");
  // If the shared last page is full, no copy is needed.
  PageTable full = Table({8, 4, 4, 3, 1, true});
  copies.clear();
  REQUIRE(full.Grow(0, 4, copies, why));
  REQUIRE(full.Share(0, 1, why));
  REQUIRE(full.Grow(1, 1, copies, why));
  CHECK(copies.empty());
}

// After every operation, the use count of each page must be the number of rows
// that have the page, and no free page may be in a row.
TEST_CASE("random traces keep the reference counts correct") {
  RandomSequence random(Random(17));
  for (int trace = 0; trace < 50; ++trace) {
    const int64_t shards = random.Between(1, 2);
    PageTable table = Table({8 * shards, 2, 3 * shards, 4, shards, true});
    for (int step = 0; step < 60; ++step) {
      const int64_t row = random.Between(0, 3 * shards - 1);
      std::vector<PageCopy> copies;
      LayoutError why;
      switch (random.Below(4)) {
        case 0:
          table.Release(row);
          break;
        case 1:
          table.Share(row, random.Between(0, 3 * shards - 1), why);
          break;
        default:
          table.Grow(row, random.Between(1, 3), copies, why);
      }
      std::map<int64_t, std::set<int64_t>> holders;
      for (int64_t r = 0; r < 3 * shards; ++r) {
        for (int64_t p = 0; p < table.lengths()[U(r)]; ++p) {
          holders[table.SlotOf(r, p).page].insert(r);
        }
      }
      int64_t free = 0;
      for (int64_t page = 0; page < 8 * shards; ++page) {
        CHECK(table.Uses(page) == static_cast<int64_t>(holders[page].size()));
        free += table.IsFree(page);
      }
      int64_t listed = shards;  // the reserved ones
      for (int64_t s = 0; s < shards; ++s) listed += table.FreePages(s);
      CHECK(free == listed);
      for (const PageCopy& copy : copies) CHECK(table.Uses(copy.to) == 1);
    }
  }
}

}  // namespace
}  // namespace shardc::exec
