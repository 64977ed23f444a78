// What the paged operations share: a batch of requests whose keys lie in
// pages, attended to request by request.
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

namespace shardc::exec {

// N query tokens of R requests, one after the other. Query i of a request is
// at position length - queries + i of its keys.
struct RaggedBatch {
  std::vector<int64_t> cumulative;  // [R + 1]: request r's queries begin at
                                    // cumulative[r] and end at the next
  std::vector<int64_t> lengths;     // [R]: keys, the new ones included
  Buffer table;                     // I32 [R, pages a row]: global page ids
  int64_t sequences = 0;            // the first so many requests are real
  // For each shard, counted from its first request: [decode_end, prefill_end,
  // total]. Those before decode_end have one query, those before prefill_end
  // no older keys, the others both. Empty: nobody says.
  std::vector<std::array<int64_t, 3>> distribution;

  int64_t Queries(int64_t r) const {
    return cumulative[static_cast<size_t>(r + 1)] -
           cumulative[static_cast<size_t>(r)];
  }
};

// A distribution that its requests do not have, a table of another shape,
// queries that no key answers for, ids outside the
// pages of the request's shard: what real kernels clip in silence, and so
// read another request. `tokens` is N, `shards` what pages are split into.
std::optional<Complaint> CheckBatch(const RaggedBatch& batch,
                                    const PoolConfig& pool, int64_t shards,
                                    int64_t tokens);

// The shard that holds a request's pages.
int64_t ShardOfRequest(const RaggedBatch& batch, int64_t shards, int64_t r);

// How the operations on pages of keys and values differ.
struct PagedKernel {
  PageFormat format = PageFormat::kSeparate;
  bool writes = false;      // the new tokens are written by the kernel itself
  bool dense_rows = false;  // queries are [B, T, H, D], not ragged
  // A single query may attend to all keys of its row; others must be causal.
  bool causal_only = true;
  // Requests come in the order decode, prefill, mixed, each with a program of
  // its own, by a distribution.
  bool distributed = false;
};

// Where a request's tokens are among all query and all key tokens.
struct PagedRequest {
  int64_t query_begin = 0, queries = 0, key_begin = 0, keys = 0;
};

// What a batch's kernel goes by.
struct PagedTables {
  RaggedBatch& batch;
  std::vector<PagedRequest>& requests;
  std::vector<int64_t>& owners;  // [R]: the shard that attends for each
  int64_t shards, tokens;        // tokens: of all queries
};
// Where a token is read.
struct PageRead {
  int64_t request, position;
  int64_t id;           // the page's, among those of all shards
  int64_t shard, each;  // of the device; pages of a shard
  bool values;          // else its key
};
struct PagedSeam {
  std::function<void(RaggedBatch&)> given;  // before it is checked
  std::function<void(PagedTables&)> used;   // by the kernel
  std::function<void(PageRead&)> read;
};

// A row of the batch is a request, or a run of equal segment ids. A
// complaint where a split or an input is more than pages can serve.
std::optional<Complaint> FindRequests(const SimMesh& mesh,
                                      const AttentionProblem& problem,
                                      const Staged& staged,
                                      const PagedKernel& kernel,
                                      std::string_view name,
                                      std::vector<PagedRequest>& requests);

// `name` is the operation's.
OperationOutcome RunPaged(Machine& machine, const AttentionProblem& problem,
                          const AttentionSpecs& specs,
                          const OperationSettings& settings,
                          const PagedKernel& kernel, std::string_view name);
// Queries go to every shard of pages; outputs are added over them in float32.
void PagedBytes(Traffic& traffic, const PagedKernel& kernel);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGED_PROGRAM_H_
