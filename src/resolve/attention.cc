// Computes the specs of the tensors of an attention operation (query, key,
// value, output, bias and so on). Each tensor has a list of logical axes, one
// for each dimension. Like the spec of a rule, the list is then resolved to
// mesh axes. For example, the query in the dimension order bhtd (batch, heads,
// time, head dimension) has these logical axes, and this spec in the mode
// decode:
//
//   BATCH, HEAD, QUERY_LENGTH, HEAD_DIM
//   [["fsdp", "dp"], "tp", "sp", null]
#include "resolve/attention.h"

#include <utility>

namespace shardc {
namespace {

using Tokens = std::vector<std::string_view>;

// Returns the logical axes of a tensor, in the order of the layout. The
// dimensions are batch, length, heads and dim. The layout thd packs batch and
// length into one dimension, which is sharded as BATCH.
Tokens InLayout(Layout layout, std::string_view length, std::string_view heads,
                std::string_view dim) {
  switch (layout) {
    case Layout::kBthd:
      return {"BATCH", length, heads, dim};
    case Layout::kBhtd:
      return {"BATCH", heads, length, dim};
    case Layout::kThd:
      return {"BATCH", heads, dim};
  }
  return {};
}

Tokens Segments(Layout layout, std::string_view length) {
  if (layout == Layout::kThd) return {"BATCH"};
  return {"BATCH", length};
}

SpecList ListOf(const Tokens& tokens) {
  SpecList list;
  for (std::string_view token : tokens) {
    SpecEntry entry;
    if (token != "_") entry.names.push_back({std::string(token), {}});
    list.entries.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::vector<AttentionTensor> AttentionSpecs(const Resolver& resolver, Mode mode,
                                            const AttentionOptions& options) {
  const Layout layout = options.layout;
  const std::string_view kv_head = options.mni ? "HEAD" : "KV_HEAD";
  const std::string_view kv_dim = options.mni ? "HEAD_DIM" : "KV_HEAD_DIM";
  const Tokens query = InLayout(layout, "QUERY_LENGTH", "HEAD", "HEAD_DIM");
  const Tokens kv = InLayout(layout, "KV_LENGTH", kv_head, kv_dim);

  std::vector<std::pair<std::string_view, Tokens>> rows = {
      {"query3d", {"BATCH", "HEAD", "HEAD_DIM"}},
      {"query", query},
      {"key", kv},
      {"value", kv},
      {"bias", {"BATCH", "BIAS_HEAD_SEQ", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"mask", {"BATCH", "_", "QUERY_LENGTH", "BIAS_KV_SEQ"}},
      {"output", query},
      {"q_segment_ids", Segments(layout, "QUERY_LENGTH")},
      {"kv_segment_ids", Segments(layout, "KV_LENGTH")},
  };
  if (options.softmax_aux_rank) {
    rows.push_back({"softmax_aux", *options.softmax_aux_rank == 2
                                       ? Tokens{"_", "KV_HEAD"}
                                       : Tokens{"HEAD"}});
  }
  // cu_seqlens (the cumulative lengths of packed sequences) is replicated,
  // because every device reads all of it.
  if (layout == Layout::kThd) rows.push_back({"cu_seqlens", {"_"}});

  std::vector<AttentionTensor> out;
  out.reserve(rows.size());
  Findings none;  // stays empty, because built-in logical axes always resolve
  for (auto& [name, tokens] : rows) {
    auto resolved = resolver.Resolve(ListOf(tokens), mode, none);
    out.push_back({name, std::move(tokens),
                   resolved ? std::move(*resolved) : Resolved{}});
  }
  return out;
}

}  // namespace shardc
