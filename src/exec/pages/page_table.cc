// Assigns pages to the rows (requests) of a batch. Free pages form one stack
// for each shard. Every page has a count of the rows that use it. Before a row
// writes to a page that other rows use too, the row gets its own copy of the
// page. Only the last page of a row can be partly filled, so only that page is
// ever copied.
//
// For example, pages have 4 tokens, and page 0 is reserved. Row 0 grows by 6
// tokens and gets pages 1 and 2. Row 1 shares these pages and then grows by 1
// token. Page 2 is therefore copied to page 3, and row 1 has pages 1 and 3.
#include "exec/pages/page_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::exec {
std::optional<PageTable> PageTable::Make(const PageConfig& config,
                                         LayoutError& why) {
  const int64_t reserved = config.reserve_first ? 1 : 0;
  if (config.page_size < 1 || config.rows < 1 || config.pages_per_row < 1 ||
      config.shards < 1 || config.pages < 1) {
    why.message = "a paged cache needs pages, rows and a page size above 0";
    return std::nullopt;
  }
  if (config.pages % config.shards != 0 || config.rows % config.shards != 0) {
    why.message = Counted(config.pages, "page") + " and " +
                  Counted(config.rows, "row") + " do not divide into " +
                  Counted(config.shards, "shard");
    why.help = "round both up to a multiple of the shards";
    return std::nullopt;
  }
  if (config.pages / config.shards <= reserved) {
    why.message = Counted(config.pages / config.shards, "page") +
                  " a shard leaves none to give out";
    return std::nullopt;
  }
  return PageTable(config);
}

PageTable::PageTable(const PageConfig& config)
    : config_(config),
      pages_(AsIndex(config.rows)),
      lengths_(AsIndex(config.rows), 0),
      uses_(AsIndex(config.pages), 0),
      free_(AsIndex(config.shards)) {
  const int64_t each = config.pages / config.shards;
  for (int64_t shard = 0; shard < config.shards; ++shard) {
    for (int64_t i = each - 1; i >= (config.reserve_first ? 1 : 0); --i) {
      free_[AsIndex(shard)].push_back(shard * each + i);
    }
  }
}

int64_t PageTable::FreePages(int64_t shard) const {
  return static_cast<int64_t>(free_[AsIndex(shard)].size());
}

int64_t PageTable::Take(int64_t shard) {
  const int64_t page = free_[AsIndex(shard)].back();
  free_[AsIndex(shard)].pop_back();
  uses_[AsIndex(page)] = 1;
  return page;
}

bool PageTable::Grow(int64_t row, int64_t count, std::vector<PageCopy>& copies,
                     LayoutError& why) {
  if (row < 0 || row >= config_.rows || count < 0) {
    why.message = "row " + std::to_string(row) + " is not among the " +
                  Counted(config_.rows, "row");
    return false;
  }
  std::vector<int64_t>& pages = pages_[AsIndex(row)];
  int64_t& length = lengths_[AsIndex(row)];
  const int64_t shard = ShardOf(row);
  const int64_t needed = CeilDiv(length + count, config_.page_size);
  const auto held = static_cast<int64_t>(pages.size());
  if (needed > config_.pages_per_row) {
    why.message = "row " + std::to_string(row) + " needs " +
                  Counted(needed, "page") + " for " +
                  Counted(length + count, "token") + ", its table has " +
                  std::to_string(config_.pages_per_row);
    why.help = "widen the table or use larger pages";
    return false;
  }
  // If other rows share the partly filled last page, it is copied first.
  const bool copy_last = count > 0 && length % config_.page_size != 0 &&
                         uses_[AsIndex(pages.back())] > 1 &&
                         config_.copy_shared;
  const int64_t more = needed - held + (copy_last ? 1 : 0);
  if (more > FreePages(shard)) {
    why.message = "row " + std::to_string(row) + " needs " +
                  Counted(more, "more page", "more pages") + ", shard " +
                  std::to_string(shard) + " has " +
                  Counted(FreePages(shard), "free one");
    why.help = "release rows or give the pool more pages";
    return false;
  }
  if (copy_last) {
    const int64_t shared = pages.back();
    pages.back() = Take(shard);
    --uses_[AsIndex(shared)];
    copies.push_back({shared, pages.back()});
  }
  while (static_cast<int64_t>(pages.size()) < needed) {
    pages.push_back(Take(shard));
  }
  length += count;
  return true;
}

bool PageTable::Share(int64_t from, int64_t to, LayoutError& why) {
  const bool known = from >= 0 && from < config_.rows && to >= 0 &&
                     to < config_.rows && from != to;
  if (!known || lengths_[AsIndex(to)] != 0 || ShardOf(from) != ShardOf(to)) {
    why.message = "row " + std::to_string(to) + " cannot share the pages of " +
                  "row " + std::to_string(from);
    why.help = "only an empty row of the same shard can";
    return false;
  }
  pages_[AsIndex(to)] = pages_[AsIndex(from)];
  lengths_[AsIndex(to)] = lengths_[AsIndex(from)];
  for (int64_t page : pages_[AsIndex(to)]) ++uses_[AsIndex(page)];
  return true;
}

void PageTable::Release(int64_t row) {
  for (int64_t page : pages_[AsIndex(row)]) {
    if (--uses_[AsIndex(page)] == 0)
      free_[AsIndex(ShardOf(row))].push_back(page);
  }
  pages_[AsIndex(row)].clear();
  lengths_[AsIndex(row)] = 0;
}

PageSlot PageTable::SlotOf(int64_t row, int64_t position) const {
  return {pages_[AsIndex(row)][AsIndex(position / config_.page_size)],
          position % config_.page_size};
}

Buffer PageTable::Table() const {
  Buffer out =
      Buffer::Zeros({config_.rows, config_.pages_per_row}, Dtype::kI32);
  const int64_t each = config_.pages / config_.shards;
  for (int64_t row = 0; row < config_.rows; ++row) {
    const auto& pages = pages_[AsIndex(row)];
    for (int64_t i = 0; i < config_.pages_per_row; ++i) {
      const bool held = i < static_cast<int64_t>(pages.size());
      out.integers[AsIndex(row * config_.pages_per_row + i)] =
          static_cast<int32_t>(held ? pages[AsIndex(i)] : ShardOf(row) * each);
    }
  }
  return out;
}

void PageTable::ShuffleFree(Random random) {
  uint64_t draw = 0;
  for (std::vector<int64_t>& pages : free_) {
    for (size_t i = pages.size(); i > 1; --i) {
      std::swap(pages[i - 1], pages[random.Below(draw++, i)]);
    }
  }
}

}  // namespace shardc::exec
