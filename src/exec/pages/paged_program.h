// Declares the program that all paged operations share. It attends to a batch
// of requests whose keys and values are in pages, one request after the other.
#ifndef SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_
#define SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/attention/traffic.h"
#include "exec/pages/page_pool.h"
#include "source/size.h"

namespace shardc::exec {

// Returns an error that concerns no device and no tensor. `axis` is the axis
// that causes it, or empty.
LayoutError MakeLayoutError(std::string message, std::string help,
                            std::string axis = {});

// The N query tokens of R requests, one request after the other. Query i of a
// request has position length - queries + i.
struct RaggedBatch {
  // [R + 1]: request r has the queries [cumulative[r], cumulative[r + 1]).
  std::vector<int64_t> cumulative;
  std::vector<int64_t> lengths;  // [R]: number of keys, including new keys
  Buffer table;                  // I32 [R, pages per row]: global page ids
  // R, the number of requests. Any further rows of the table are padding.
  int64_t sequences = 0;
  // For each shard [decode_end, prefill_end, total], as indices from the
  // shard's first request. Requests before decode_end have one query. Requests
  // from decode_end to prefill_end have only new keys. The remaining requests
  // have several queries and older keys. Empty if the kernel uses no
  // distribution.
  std::vector<std::array<int64_t, 3>> distribution;

  int64_t Queries(int64_t r) const {
    return cumulative[AsIndex(r + 1)] - cumulative[AsIndex(r)];
  }
};

// Checks a batch with `tokens` queries and `shards` shards of pages. Returns an
// error in any of these cases:
// - The table and the lengths are not for the same number of requests.
// - The requests have more than `tokens` queries.
// - Requests are not in the order that RaggedBatch::distribution requires.
// - A request has more queries than keys, or too few pages.
// - A page id is outside the pages of the request's shard. Real kernels clip
//   such ids silently, and then read another request's keys.
// - `shards` does not divide the number of requests or of pages.
std::optional<LayoutError> CheckBatch(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens);

int64_t ShardOfRequest(const RaggedBatch& batch, int64_t shards, int64_t r);

// The properties in which the operations on pages of keys and values differ.
struct PagedKernel {
  PageFormat format = PageFormat::kSeparate;
  // True if the kernel itself writes the new keys and values to pages.
  bool writes = false;
  bool dense_rows = false;  // true: queries are [B, T, H, D], not ragged
  // True if attention of several queries must be causal. A single query needs
  // no causal mask, because it may attend to all keys of its request.
  bool causal_only = true;
  // True if requests must be sorted as decode, prefill, mixed, for which the
  // kernel has separate programs. RaggedBatch::distribution has the end of each
  // part.
  bool distributed = false;
};

// One request of a batch. `query_begin` and `key_begin` are the indices of its
// first query and its first key among the query tokens and key tokens of all
// requests.
struct PagedRequest {
  int64_t query_begin = 0, queries = 0, key_begin = 0, keys = 0;
};

// The tables that the kernel reads for a batch. A test can change them through
// PagedSeam.
struct PagedTables {
  RaggedBatch& batch;
  std::vector<PagedRequest>& requests;
  std::vector<int64_t>& owners;  // [R]: the shard that computes each request
  // The number of shards, and the number of query tokens of all requests.
  int64_t shards, tokens;
};
// The read of one token's key or value from a page. A test can change it
// through PagedSeam.
struct PageRead {
  int64_t request, position;
  int64_t id;  // the global id of the page
  // The shard of the device that reads, and the number of pages per shard.
  int64_t shard, each;
  bool values;  // true: a value is read; false: a key is read
};
struct PagedSeam {
  // Changes the batch before it is checked.
  std::function<void(RaggedBatch&)> given;
  // Changes the tables that the kernel reads.
  std::function<void(PagedTables&)> used;
  std::function<void(PageRead&)> read;
};

// Sets `requests` to the requests of a problem: rows of the batch, or runs of
// equal segment ids. Returns an error if a sharding or an input is not
// supported with pages.
std::optional<LayoutError> FindRequests(const SimMesh& mesh,
                                        const AttentionProblem& problem,
                                        const Staged& staged,
                                        const PagedKernel& kernel,
                                        std::string_view name,
                                        std::vector<PagedRequest>& requests);

// Runs a paged operation; `name` appears in messages.
OperationOutcome RunPaged(Machine& machine, const AttentionProblem& problem,
                          const AttentionSpecs& specs,
                          const OperationSettings& settings,
                          const PagedKernel& kernel, std::string_view name);
// Adds to `traffic` the bytes that devices send in RunPaged. Queries are
// gathered over all axes except the head axes. Keys and values are resharded to
// the layout of their pages. Outputs are all-reduced in float32 over the axes
// of the batch.
void PagedBytes(Traffic& traffic, const PagedKernel& kernel);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_
