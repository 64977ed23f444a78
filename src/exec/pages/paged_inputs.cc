// Checks that a paged operation supports its inputs, and finds the requests in
// them. A request is a row of the batch. If tokens are packed, a request is a
// run of equal segment ids, and negative ids are padding. For example:
//
//   segments 0 0 0 1 1 -1  ->  requests of 3 and 2 tokens
#include <algorithm>
#include <string>
#include <utility>

#include "exec/pages/paged_program.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

LayoutError MakeError(std::string message, std::string help,
                      std::string axis = {}) {
  LayoutError why;
  why.message = std::move(message);
  why.help = std::move(help);
  why.axis = std::move(axis);
  return why;
}

std::vector<PagedRequest> RowsOf(const Staged& staged) {
  std::vector<PagedRequest> out;
  const int64_t rows = staged.query.shape[0];
  for (int64_t b = 0; b < rows; ++b) {
    int64_t keys = staged.S();
    if (staged.key_lengths) keys = staged.key_lengths->integers[AsIndex(b)];
    out.push_back({b * staged.T(), staged.T(), b * staged.S(), keys});
  }
  return out;
}

// Returns the requests of packed sequences: runs of equal segment ids. Negative
// ids are padding. All tokens with the same id must be adjacent.
std::vector<PagedRequest> RunsOf(const Buffer& queries, const Buffer& keys) {
  std::vector<PagedRequest> out;
  const auto run_of = [](const Buffer& ids, int32_t id, int64_t& begin) {
    const auto first = std::find(ids.integers.begin(), ids.integers.end(), id);
    auto last = first;
    while (last != ids.integers.end() && *last == id) ++last;
    begin = first - ids.integers.begin();
    return static_cast<int64_t>(last - first);
  };
  for (size_t i = 0; i < queries.integers.size(); ++i) {
    const int32_t id = queries.integers[i];
    if (id < 0 || (i > 0 && queries.integers[i - 1] == id)) continue;
    PagedRequest request;
    request.queries = run_of(queries, id, request.query_begin);
    request.keys = run_of(keys, id, request.key_begin);
    out.push_back(request);
  }
  return out;
}

std::optional<LayoutError> CheckSplits(const SimMesh& mesh,
                                       const Staged& staged) {
  std::vector<LayoutError> bad;
  const auto whole = [&](const AxisGroup& axes, const std::string& what,
                         std::string help) {
    const AxisGroup used = DropTrivial(mesh, axes);
    if (used.empty()) return;
    bad.push_back(MakeError(what + " is split over " + AxesText(used),
                            std::move(help), used.front()));
  };
  const Spec &q = staged.query.spec, &k = staged.key.spec;
  whole(q[1], "the query's length",
        "a request's queries stay together: query_sequence: [], and split the "
        "batch or the heads");
  for (const Spec* spec : {&k, &staged.value.spec}) {
    whole((*spec)[1], "the length of key and value",
          "pages are split by request, not by length: key_sequence: [] (in "
          "generation decode_key_sequence), or use flash_decoding");
  }
  for (const Spec* spec : {&q, &k, &staged.value.spec}) {
    whole((*spec)[3], "the head dimension", "pages hold complete heads");
  }
  return Joined(std::move(bad));
}

std::optional<LayoutError> CheckInputs(const AttentionProblem& problem,
                                       const Staged& staged,
                                       const PagedKernel& kernel,
                                       const std::string& name) {
  const auto no = [&](std::string what) {
    return MakeError(name + " takes no " + std::move(what),
                     "use vanilla or flash_attn2");
  };
  if (problem.bias) return no("bias");
  if (problem.mask || problem.additive_mask) return no("mask");
  if (problem.options.dropout > 0) return no("dropout");
  const bool packed = problem.layout == Layout::kThd;
  if (!packed && (problem.query_segments || problem.key_segments)) {
    return no("segment ids");
  }
  if (packed && !problem.query_segments) return no("unnamed packed sequences");
  if (problem.key_starts) {
    for (int32_t start : problem.key_starts->integers) {
      if (start != 0) return no("left padding");
    }
  }
  if (staged.value.shape[3] != staged.key.shape[3]) {
    return no("values of another dimension than the keys");
  }
  if (kernel.causal_only && staged.T() > 1 && !problem.options.causal) {
    return MakeError(name + " is causal", "use vanilla or flash_attn2 without");
  }
  return std::nullopt;
}

// Returns true if the positions of a request's keys ascend by one and its
// queries have the positions of the last keys. The first key may have any
// position.
bool CountsKeys(const Staged& staged, const PagedRequest& request) {
  const auto shift = [](const Buffer& positions, int64_t begin, int64_t count,
                        int64_t first, std::optional<int64_t>& common) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t by = positions.integers[AsIndex(begin + i)] - (first + i);
      if (common && *common != by) return false;
      common = by;
    }
    return true;
  };
  std::optional<int64_t> common;
  return shift(staged.key_positions, request.key_begin, request.keys, 0,
               common) &&
         shift(staged.query_positions, request.query_begin, request.queries,
               request.keys - request.queries, common);
}

}  // namespace

std::optional<LayoutError> FindRequests(const SimMesh& mesh,
                                        const AttentionProblem& problem,
                                        const Staged& staged,
                                        const PagedKernel& kernel,
                                        std::string_view name,
                                        std::vector<PagedRequest>& requests) {
  if (auto bad = CheckSplits(mesh, staged)) return bad;
  if (auto bad = CheckInputs(problem, staged, kernel, std::string(name)))
    return bad;
  // Requests cannot be read from inputs that have shapes but no elements.
  if (problem.IsHollow()) return std::nullopt;
  requests = problem.layout == Layout::kThd
                 ? RunsOf(*problem.query_segments, *problem.key_segments)
                 : RowsOf(staged);
  for (const PagedRequest& request : requests) {
    // CheckBatch reports requests that have more queries than keys.
    if (request.queries > request.keys) continue;
    if (CountsKeys(staged, request)) continue;
    return MakeError(std::string(name) + " takes no positions of its own",
                     "use vanilla or flash_attn2");
  }
  return std::nullopt;
}

}  // namespace shardc::exec
