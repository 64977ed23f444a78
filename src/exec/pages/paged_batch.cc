// Checks a batch of requests before any page is read. The page table and the
// lengths must be for the same number of requests, and every page must belong
// to the request's shard. Some kernels have three programs: for requests of one
// query, for requests with only new keys, and for all others. Requests must
// then be sorted in this order, and `distribution` has the ends of the three
// parts. For example:
//
//   distribution [1, 2, 3]: request 0 has one query, request 1 has as many
//   queries as keys, request 2 may have any numbers of queries and keys
#include <string>

#include "exec/pages/paged_program.h"
#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::exec {
namespace {

LayoutError BatchError(std::string message, std::string help = {}) {
  LayoutError why;
  why.message = std::move(message);
  why.help = std::move(help);
  return why;
}

std::string Request(int64_t r) { return "request " + std::to_string(r); }

std::optional<LayoutError> CheckSizes(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens) {
  const auto requests = static_cast<int64_t>(batch.lengths.size());
  if (static_cast<int64_t>(batch.cumulative.size()) != requests + 1 ||
      batch.table.shape.size() != 2 || batch.table.shape[0] != requests) {
    return BatchError(
        "a page table of " + ShapeText(batch.table.shape) + ", " +
            Counted(requests, "length") + " and " +
            Counted(static_cast<int64_t>(batch.cumulative.size()),
                    "cumulative length") +
            " do not fit each other",
        "the table is [requests, pages a request], the cumulative "
        "lengths are one more than the requests");
  }
  if (batch.sequences < 0 || batch.sequences > requests) {
    return BatchError(std::to_string(batch.sequences) + " of " +
                      Counted(requests, "request") + " are declared real");
  }
  if (requests % shards != 0 || pool.pages % shards != 0) {
    return BatchError(Counted(requests, "request") + " and " +
                      Counted(pool.pages, "page") + " do not divide into " +
                      Counted(shards, "shard"));
  }
  if (batch.cumulative.front() != 0 || batch.cumulative.back() > tokens) {
    return BatchError("cumulative lengths from " +
                      std::to_string(batch.cumulative.front()) + " to " +
                      std::to_string(batch.cumulative.back()) + " for " +
                      Counted(tokens, "token"));
  }
  return std::nullopt;
}

std::optional<LayoutError> CheckRequest(const RaggedBatch& batch,
                                        const PoolConfig& pool, int64_t shards,
                                        int64_t r) {
  const int64_t queries = batch.Queries(r), length = batch.lengths[AsIndex(r)];
  if (queries < 0 || length < queries) {
    return BatchError(Request(r) + " has " +
                          Counted(queries, "query", "queries") + " and " +
                          Counted(length, "key"),
                      "a request's queries are the last of its keys");
  }
  const int64_t width = batch.table.shape[1];
  const int64_t active = CeilDiv(length, pool.page_size);
  if (active > width) {
    return BatchError(Request(r) + " needs " + Counted(active, "page") +
                      ", its table has " + std::to_string(width));
  }
  const int64_t each = pool.pages / shards;
  const int64_t first = ShardOfRequest(batch, shards, r) * each;
  for (int64_t i = 0; i < active; ++i) {
    const int64_t page = batch.table.integers[AsIndex(r * width + i)];
    if (page >= first && page < first + each) continue;
    return BatchError(Request(r) + " names page " + std::to_string(page) +
                          ", its shard has " + std::to_string(first) + " to " +
                          std::to_string(first + each - 1),
                      "a kernel clips such an id and reads another request");
  }
  return std::nullopt;
}

// Returns an error unless requests are in the order that the distribution
// requires. Requests before decode_end run in the kernel's program for one
// query.
std::optional<LayoutError> CheckDistribution(const RaggedBatch& batch,
                                             int64_t shards) {
  const int64_t each = batch.sequences / shards;
  if (static_cast<int64_t>(batch.distribution.size()) != shards) {
    return BatchError(Counted(static_cast<int64_t>(batch.distribution.size()),
                              "distribution") +
                      " for " + Counted(shards, "shard"));
  }
  for (int64_t r = 0; r < batch.sequences; ++r) {
    const auto& [decode_end, prefill_end, total] =
        batch.distribution[AsIndex(r / each)];
    if (decode_end < 0 || decode_end > prefill_end || prefill_end > total ||
        total != each) {
      return BatchError("a distribution [" + std::to_string(decode_end) + ", " +
                            std::to_string(prefill_end) + ", " +
                            std::to_string(total) + "] of " +
                            Counted(each, "request"),
                        "it is [decode_end, prefill_end, total]");
    }
    const int64_t queries = batch.Queries(r), keys = batch.lengths[AsIndex(r)];
    const bool decodes = r % each < decode_end;
    if (decodes ? queries == 1 : r % each >= prefill_end || queries == keys) {
      continue;
    }
    return BatchError(Request(r) + " is among the " +
                          (decodes ? "decoding" : "prefilling") +
                          " ones with " + Counted(queries, "query", "queries") +
                          " and " + Counted(keys, "key"),
                      "sort requests by kind: one query, all keys new, others");
  }
  return std::nullopt;
}

}  // namespace

int64_t ShardOfRequest(const RaggedBatch& batch, int64_t shards, int64_t r) {
  return r / (static_cast<int64_t>(batch.lengths.size()) / shards);
}

std::optional<LayoutError> CheckBatch(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens) {
  if (auto wrong = CheckSizes(batch, pool, shards, tokens)) return wrong;
  for (int64_t r = 0; r < batch.sequences; ++r) {
    if (auto wrong = CheckRequest(batch, pool, shards, r)) return wrong;
  }
  if (!batch.distribution.empty()) return CheckDistribution(batch, shards);
  return std::nullopt;
}

}  // namespace shardc::exec
