// The program that all paged operations share: a batch of requests whose keys
// are in pages. Attention runs for one request after the other.
#ifndef SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_
#define SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/attention/traffic.h"
#include "exec/pages/page_pool.h"
#include "source/index.h"

namespace shardc::exec {

// The N query tokens of R requests, one request after the other. Query i of a
// request has position length - queries + i.
struct RaggedBatch {
  std::vector<int64_t> cumulative;  // [R + 1]: request r's queries begin at
                                    // cumulative[r] and end at the next
  std::vector<int64_t> lengths;     // [R]: keys, the new ones included
  Buffer table;                     // I32 [R, pages a row]: global page ids
  int64_t sequences = 0;            // R; later rows of the table are padding
  // For each shard [decode_end, prefill_end, total], as indices from its first
  // request: requests before decode_end have one query, those before
  // prefill_end have only new keys, and the remaining ones have several queries
  // and older keys. Empty if the kernel takes no distribution.
  std::vector<std::array<int64_t, 3>> distribution;

  int64_t Queries(int64_t r) const {
    return cumulative[AsIndex(r + 1)] - cumulative[AsIndex(r)];
  }
};

// Returns an error if the parts of the batch do not fit each other or the
// `tokens` queries, if the distribution does not fit the requests, if a request
// has more queries than keys, or if a page id is outside the pages of the
// request's shard. Real kernels clip such ids silently, and then read another
// request's keys. `shards` is the number of shards of pages.
std::optional<LayoutError> CheckBatch(const RaggedBatch& batch,
                                      const PoolConfig& pool, int64_t shards,
                                      int64_t tokens);

int64_t ShardOfRequest(const RaggedBatch& batch, int64_t shards, int64_t r);

// The properties in which the operations on pages of keys and values differ.
struct PagedKernel {
  PageFormat format = PageFormat::kSeparate;
  bool writes = false;      // the kernel itself writes the new tokens
  bool dense_rows = false;  // queries are [B, T, H, D], not ragged
  // Whether several queries need a causal mask. A single query never does,
  // because it may attend to all keys of its request.
  bool causal_only = true;
  // Whether requests must be sorted as decode, prefill, mixed, for which the
  // kernel has separate programs. The distribution has the end of each part.
  bool distributed = false;
};

// The place of a request's tokens among all query tokens and among all key
// tokens.
struct PagedRequest {
  int64_t query_begin = 0, queries = 0, key_begin = 0, keys = 0;
};

// The tables that the kernel reads for a batch. PagedSeam can change them.
struct PagedTables {
  RaggedBatch& batch;
  std::vector<PagedRequest>& requests;
  std::vector<int64_t>& owners;  // [R]: the shard that computes a request
  int64_t shards, tokens;        // number of shards; tokens of all queries
};
// The read of one token's key or value from a page. PagedSeam can change it.
struct PageRead {
  int64_t request, position;
  int64_t id;           // the global id of the page
  int64_t shard, each;  // the device's shard; number of pages of a shard
  bool values;          // whether a value is read; else a key
};
struct PagedSeam {
  std::function<void(RaggedBatch&)>
      given;  // changes the batch before it is checked
  std::function<void(PagedTables&)> used;  // changes what the kernel reads
  std::function<void(PageRead&)> read;
};

// Finds the requests of a problem: rows of the batch, or runs of equal segment
// ids. Returns an error if a sharding or an input is not supported with pages.
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
// Adds the bytes of RunPaged: queries are gathered over the shards of pages,
// keys and values are resharded to the layout of their pages, and outputs are
// all-reduced over the shards in float32.
void PagedBytes(Traffic& traffic, const PagedKernel& kernel);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_
