// Declares the table of a paged cache, which has the pages of each row
// (request). The host keeps this table, and devices hold the pages.
//
// Position p of a row is in page table[row][p / page_size], at p mod page_size.
// Page ids are global. If P pages and R rows are sharded over n shards, shard r
// owns pages [r P/n, (r + 1) P/n) and rows [r R/n, (r + 1) R/n). A row uses
// only pages of its own shard. Rows may share pages. Before a row writes to a
// shared page, it gets a copy of the page.
#ifndef SHARDC_EXEC_PAGES_PAGE_TABLE_H_
#define SHARDC_EXEC_PAGES_PAGE_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

// The value of pool entries to which no token has been written. It is large, so
// that a wrong read of such an entry changes the result.
inline constexpr float kFreePage = 1e4f;

struct PageConfig {
  int64_t pages = 1;          // P: number of pages in all shards
  int64_t page_size = 1;      // tokens in a page
  int64_t rows = 1;           // R: requests
  int64_t pages_per_row = 1;  // a row has at most this number of pages
  int64_t shards = 1;         // n: number of shards, which must divide P and R
  // If true, a shared page is copied before it is written. Fault injection sets
  // this to false.
  bool copy_shared = true;
  // If true, no row uses the first page of a shard: unused entries of tables
  // point to it.
  bool reserve_first = true;
};

// A copy of page `from` to page `to` that must be made before a write. Both
// pages belong to the same shard.
struct PageCopy {
  int64_t from = 0, to = 0;
  bool operator==(const PageCopy&) const = default;
};

struct PageSlot {
  int64_t page = 0, offset = 0;
};

class PageTable {
 public:
  // Returns nullopt, and the reason, if a size is 0, if the shards do not
  // divide the pages or the rows, or if a shard has no page besides the
  // reserved one.
  static std::optional<PageTable> Make(const PageConfig& config,
                                       LayoutError& why);

  // Assigns pages for `count` more tokens of a row. Appends to `copies` the
  // copies that must be made before these tokens are written. Returns false,
  // and changes nothing, if the row does not exist, its table is too short, or
  // its shard has too few free pages.
  bool Grow(int64_t row, int64_t count, std::vector<PageCopy>& copies,
            LayoutError& why);
  // Makes the empty row `to` share the pages of row `from`, so that both have
  // the same tokens. The number of rows that use each of these pages increases
  // by one. Returns false if `to` is not an empty row of the same shard.
  bool Share(int64_t from, int64_t to, LayoutError& why);
  // Empties a row. Its pages become free unless other rows use them.
  void Release(int64_t row);

  PageSlot SlotOf(int64_t row, int64_t position) const;
  int64_t ShardOf(int64_t row) const {
    return row / (config_.rows / config_.shards);
  }
  int64_t FreePages(int64_t shard) const;
  bool IsFree(int64_t page) const { return uses_[size_t(page)] == 0; }
  int64_t Uses(int64_t page) const { return uses_[size_t(page)]; }

  const PageConfig& config() const { return config_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // [R]
  // Returns the table, I32 [R, pages_per_row]: global page ids, padded with the
  // shard's first page.
  Buffer Table() const;

  // For tests: makes Grow use pages in a random order.
  void ShuffleFree(Random random);

 private:
  explicit PageTable(const PageConfig& config);
  int64_t Take(int64_t shard);

  PageConfig config_;
  // Indexed by row: its pages, in order of positions.
  std::vector<std::vector<int64_t>> pages_;
  std::vector<int64_t> lengths_;
  // Indexed by page: number of rows that use the page.
  std::vector<int64_t> uses_;
  // Indexed by shard: its free pages, as a stack.
  std::vector<std::vector<int64_t>> free_;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGE_TABLE_H_
