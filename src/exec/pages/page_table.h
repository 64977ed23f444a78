// Which page holds which tokens: the host's side of a paged cache.
//
// Position p of a row is in page table[row][p / page_size], at p mod
// page_size. Page ids are global. Where pages are split over n shards, shard
// r owns pages [r P/n, (r + 1) P/n) and rows [r R/n, (r + 1) R/n), and a row
// uses its own shard's pages only. Rows may share pages; whoever writes to a
// shared page gets a copy of it first.
#ifndef SHARDC_EXEC_PAGES_PAGE_TABLE_H_
#define SHARDC_EXEC_PAGES_PAGE_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

struct PageConfig {
  int64_t pages = 1;          // P
  int64_t page_size = 1;      // tokens a page
  int64_t rows = 1;           // R: requests
  int64_t pages_per_row = 1;  // width of the table
  int64_t shards = 1;         // n, divides P and R
  // A shared page is copied before it is written.
  bool copy_shared = true;
  // Page 0 of each shard is never given out: tables are padded with it.
  bool reserve_first = true;
};

// Contents to copy before a write, both pages of one shard.
struct PageCopy {
  int64_t from = 0, to = 0;
  bool operator==(const PageCopy&) const = default;
};

struct PageSlot {
  int64_t page = 0, offset = 0;
};

class PageTable {
 public:
  // Nothing where shards do not divide, or nothing could be held.
  static std::optional<PageTable> Make(const PageConfig& config,
                                       Complaint& why);

  // Room for `count` more tokens of a row. Copies that must be made before
  // anything is written are appended. False, and nothing changed, where the
  // row's table or its shard's pages do not suffice.
  bool Grow(int64_t row, int64_t count, std::vector<PageCopy>& copies,
            Complaint& why);
  // An empty row takes over all tokens of another of its shard, by reference.
  bool Share(int64_t from, int64_t to, Complaint& why);
  // The row is empty again; pages that nobody uses are free.
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
  // I32 [R, pages_per_row]: global ids, padded with the shard's first page.
  Buffer Table() const;

  // For tests: pages are given out in a random order.
  void ShuffleFree(Random random);

 private:
  explicit PageTable(const PageConfig& config);
  int64_t Take(int64_t shard);

  PageConfig config_;
  std::vector<std::vector<int64_t>> pages_;  // by row, in order
  std::vector<int64_t> lengths_;
  std::vector<int64_t> uses_;               // by page
  std::vector<std::vector<int64_t>> free_;  // by shard, the next one last
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGE_TABLE_H_
