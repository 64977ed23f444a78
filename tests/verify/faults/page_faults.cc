// Injects faults into paged caches: page tables are built, checked or read
// wrongly.
//
// Example: a shard must subtract the number of its first page from a page's
// number. The fault page-id-not-made-local leaves this out. If two shards have
// 10 pages each, page 12 has the index 2 in shard 1. With the fault, the index
// is 12, which is clipped to 9, the last page of the shard. Shard 1 then reads
// page 19 in place of page 12.
#include <utility>

#include "exec/pages/page_pool.h"
#include "exec/pages/paged_program.h"
#include "source/size.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::Machine;
using exec::PagedSeam;
using exec::PagedTables;
using exec::PagePool;
using exec::PageRead;
using exec::PageSeam;

void Transpose(exec::RaggedBatch& batch) {
  batch.table = exec::TransposeDims(batch.table, {1, 0});
}

void CumulativeOff(PagedTables& tables) {
  for (exec::PagedRequest& request : tables.requests) {
    request.query_begin =
        (request.query_begin + 1) % (tables.tokens - request.queries + 1);
  }
}

void OwnersByModulo(PagedTables& tables) {
  for (size_t r = 0; r < tables.owners.size(); ++r) {
    tables.owners[r] = static_cast<int64_t>(r) % tables.shards;
  }
}

void OneMoreDecodes(PagedTables& tables) {
  for (auto& ends : tables.batch.distribution) ++ends[0];
}

// Puts a page of the first shard into the table of the last request, after
// CheckBatch has checked the table.
void NameForeign(PagedTables& tables) {
  exec::Buffer& table = tables.batch.table;
  table.integers[AsIndex((tables.batch.sequences - 1) * table.shape[1])] = 0;
}

PagedSeam WrongTables(Fault fault) {
  PagedSeam out;
  if (fault == Fault::kPagedTableTransposed) out.given = Transpose;
  if (fault == Fault::kPagedCumulativeOff) out.used = CumulativeOff;
  if (fault == Fault::kPagedRowsByModulo) out.used = OwnersByModulo;
  if (fault == Fault::kPagedDistributionOff) out.used = OneMoreDecodes;
  if (fault == Fault::kPagedForeignClipped) out.used = NameForeign;
  if (fault == Fault::kPagedIdNotLocal) {
    out.read = [](PageRead& read) { read.shard = 0; };
  }
  if (fault == Fault::kPagedKeysAsValues) {
    out.read = [](PageRead& read) { read.values = !read.values; };
  }
  return out;
}

void CopyWithoutScales(Machine& machine, PagePool& pool,
                       std::span<const exec::PageCopy> copies) {
  exec::ShardedTensor scales = pool.key_scale;
  exec::RunCopies(machine, pool, copies);
  pool.key_scale = std::move(scales);
}

PageSeam WrongPages(Fault fault) {
  PageSeam out;
  if (fault == Fault::kPagedSharedWritten) {
    out.config = [](exec::PageConfig& config) { config.copy_shared = false; };
  }
  if (fault == Fault::kPagedScaleNotCopied) out.copy = CopyWithoutScales;
  return out;
}

}  // namespace

void InjectIntoPages(Fault fault, exec::Seams& seams) {
  seams.Set(WrongTables(fault));
  seams.Set(WrongPages(fault));
}

}  // namespace shardc::verify
