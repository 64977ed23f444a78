// Finds out whether a trace can run, without running it. Each layout of the
// trace is checked on shapes without elements, in the order of the steps:
// - the cache
// - the first and the last chunk of the prefill
// - the reshard to the layout of decoding, and an inserted row
// - the query and the attention of a decode step
//
// Other chunks are as long as the first, so they need no check. For example,
// 600 tokens in chunks of 256 over sp 16 have a last chunk of 88 tokens. It is
// refused, because 16 does not divide 88.
#include "verify/traces/trace_layouts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/flash_decoding.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::LayoutError;

class Walk {
 public:
  explicit Walk(const CacheTrace& trace) : trace_(trace), mesh_(trace.mesh) {}

  std::optional<LayoutError> Run() {
    const Spec prefill = exec::PadSpec(trace_.prefill_spec, 4);
    const Spec decode = exec::PadSpec(trace_.decode_spec, 4);
    Cache(trace_.batch, prefill);
    Fill(trace_.batch, trace_.prefill, trace_.token_spec);
    Cache(trace_.batch, decode);
    if (trace_.insert) Insert(prefill, decode);
    // The batch of decoding's query has the same axes as the cache's batch.
    const Spec query = {decode[0], {}, trace_.query_heads, trace_.query_dim};
    Check("query", {trace_.batch, 1, trace_.heads, trace_.head_dim}, query);
    if (!bad_) Attend(query, decode);
    return std::move(bad_);
  }

 private:
  void Check(std::string_view what, const Shape& shape, const Spec& spec) {
    if (bad_) return;
    bad_ = exec::CheckLayout(mesh_, shape, spec);
    if (bad_) bad_->message = std::string(what) + ": " + bad_->message;
  }

  void Cache(int64_t rows, const Spec& spec) {
    Check("the cache", {rows, trace_.slots, trace_.key_heads, trace_.head_dim},
          spec);
  }

  void Tokens(int64_t rows, int64_t n, const Spec& spec) {
    Check("tokens of a prefill", {rows, n, trace_.key_heads, trace_.head_dim},
          spec);
  }

  void Fill(int64_t rows, int64_t tokens, const Spec& spec) {
    Tokens(rows, std::min(tokens, trace_.chunk), spec);
    if (tokens % trace_.chunk > 0) Tokens(rows, tokens % trace_.chunk, spec);
  }

  void Insert(Spec prefill, Spec decode) {
    prefill[0].clear();
    decode[0].clear();
    Spec token = exec::PadSpec(trace_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    Cache(1, prefill);
    Fill(1, trace_.prefill / 2, token);
    Cache(1, decode);
  }

  void Attend(const Spec& query, const Spec& cache) {
    const auto laid = [&](int64_t length, int64_t heads, const Spec& spec) {
      return exec::Scatter(
          mesh_,
          Buffer::Hollow({trace_.batch, length, heads, trace_.head_dim},
                         trace_.dtype),
          spec);
    };
    exec::AttentionProblem problem;
    exec::Staged staged;
    staged.problem = &problem;
    staged.dtype = trace_.dtype;
    staged.query = laid(1, trace_.heads, query);
    staged.key = laid(trace_.slots, trace_.key_heads, cache);
    staged.value = staged.key;
    staged.output = query;
    exec::Machine machine(mesh_);
    bad_ =
        exec::RunStagedDecoding(machine, staged, trace_.settings).unsupported;
  }

  const CacheTrace& trace_;
  exec::SimMesh mesh_;
  std::optional<LayoutError> bad_;
};

}  // namespace

std::optional<LayoutError> TraceRefusal(const CacheTrace& trace) {
  return Walk(trace).Run();
}

}  // namespace shardc::verify
