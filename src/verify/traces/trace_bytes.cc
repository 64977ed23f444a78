// Computes from formulas how many bytes each device sends in a trace. A trace
// is a sequence of steps on a KV cache: writes of the prefill, a reshard to the
// layout of decoding, in some traces an inserted row, and decode steps.
//
// A write reshards the keys and values of new tokens to the cache's layout, but
// with the length unsharded. An int8 cache needs the largest absolute value of
// each head of each token, for its scales. If the head dim is sharded, an
// all_reduce computes this value.
//
// A reshard to the layout of decoding sends keys and values, the scales of an
// int8 cache, and the positions of a cache with a window. An inserted row is
// written to a separate cache, which is resharded in the same way. A decode
// step writes one token. Its attention sends the bytes of flash_decoding's
// formula.
//
// For example, new keys [4, 1, 2, 16] in F32 are sharded over dp. The batch of
// the cache is sharded over dp and its length over sp. The write sends nothing,
// because every device already has the keys of its rows.
//
// The computation takes time proportional to devices x writes. RunCacheTrace
// compares its result with the bytes that the ledger recorded in the run.
#include "verify/traces/trace_bytes.h"

#include <algorithm>
#include <utility>

#include "comm/collective.h"
#include "comm/reshard.h"
#include "exec/attention/traffic.h"
#include "exec/operations/all.h"

namespace shardc::verify {
namespace {

class Sum {
 public:
  explicit Sum(const CacheTrace& trace) : trace_(trace), mesh_(trace.mesh) {}

  exec::SentBytes Run() {
    const Spec prefill = exec::PadSpec(trace_.prefill_spec, 4);
    const Spec decode = exec::PadSpec(trace_.decode_spec, 4);
    Fill(trace_.batch, trace_.prefill, trace_.token_spec, prefill);
    Move(trace_.batch, prefill, decode);
    if (trace_.insert) Insert(prefill, decode);
    Spec token = decode;
    token[1].clear();
    for (int64_t step = 0; step < trace_.steps; ++step) {
      Write(trace_.batch, 1, token, decode);
    }
    const exec::SentBytes step = Step(token, decode);
    for (int64_t i = 0; i < trace_.steps; ++i) sent_.Add(step);
    return std::move(sent_);
  }

 private:
  static int64_t BytesOf(Dtype dtype) { return DtypeBits(dtype) / 8; }
  bool IsQuantized() const { return trace_.kv_dtype == Dtype::kI8; }

  void Moved(const Shape& shape, const Spec& from, const Spec& to,
             Dtype dtype) {
    const auto move = ClassifyMove(mesh_.mesh(), from, to);
    if (!move) return;
    auto sent = SentElements(mesh_.mesh(), shape, from, to);
    for (int64_t& elements : sent) elements *= BytesOf(dtype);
    sent_.Add(move->kind, sent);
  }

  // Adds the bytes of a prefill, which writes `tokens` tokens of each row in
  // chunks. All rows are written together, so `tokens` is the length of the
  // longest row.
  void Fill(int64_t rows, int64_t tokens, const Spec& given,
            const Spec& cache) {
    for (int64_t done = 0; done < tokens; done += trace_.chunk) {
      Write(rows, std::min(trace_.chunk, tokens - done), given, cache);
    }
  }

  // Adds the bytes of one write. The head dim of the new tokens is unsharded,
  // because rotary embeddings are applied before the tokens are resharded.
  void Write(int64_t rows, int64_t tokens, Spec given, Spec cache) {
    given = exec::PadSpec(std::move(given), 4);
    given[3].clear();
    cache[1].clear();
    const Shape shape{rows, tokens, trace_.key_heads, trace_.head_dim};
    const Shape own = exec::LocalShape(mesh_, shape, cache);
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, given, cache, trace_.dtype);
      if (!IsQuantized()) continue;
      std::vector<int64_t> sent;
      for (int device = 0; device < mesh_.devices(); ++device) {
        sent.push_back(AllReduceSent(own[0] * own[1] * own[2], 4,
                                     mesh_.Parts(cache[3]),
                                     mesh_.Index(device, cache[3])));
      }
      sent_.Add(Collective::kAllReduce, sent);
    }
  }

  void Move(int64_t rows, const Spec& from, const Spec& to) {
    const auto part = [](const Spec& spec, size_t rank) {
      return Spec(spec.begin(), spec.begin() + static_cast<long>(rank));
    };
    const Shape shape{rows, trace_.slots, trace_.key_heads, trace_.head_dim};
    const Shape scales{shape[0], shape[1], shape[2]};
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, from, to, trace_.kv_dtype);
      if (!IsQuantized()) continue;
      Moved(scales, part(from, 3), part(to, 3), Dtype::kF32);
    }
    if (trace_.window == 0) return;
    Moved({shape[0], shape[1]}, part(from, 2), part(to, 2), Dtype::kI32);
  }

  // Adds the bytes of an inserted row. The row is written to a separate cache,
  // which is replicated over the axes of the batch, and then resharded.
  void Insert(Spec prefill, Spec decode) {
    prefill[0].clear();
    decode[0].clear();
    Spec token = exec::PadSpec(trace_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    Fill(1, trace_.prefill / 2, token, prefill);
    Move(1, prefill, decode);
  }

  // Returns the bytes that the attention of one decode step sends.
  exec::SentBytes Step(const Spec& token, const Spec& decode) const {
    const auto laid = [&](int64_t length, int64_t heads) {
      exec::Buffer out;
      out.shape = {trace_.batch, length, heads, trace_.head_dim};
      out.dtype = trace_.dtype;
      return out;
    };
    exec::AttentionProblem problem;
    problem.query = laid(1, trace_.heads);
    problem.key = problem.value = laid(trace_.slots, trace_.key_heads);
    exec::AttentionSpecs specs;
    specs.query = {token[0], {}, trace_.query_heads, trace_.query_dim};
    specs.output = specs.query;
    specs.key = specs.value = decode;
    exec::Traffic traffic(mesh_, problem, specs, trace_.settings);
    exec::kFlashDecoding.bytes(traffic);
    return traffic.sent();
  }

  const CacheTrace& trace_;
  exec::SimMesh mesh_;
  exec::SentBytes sent_;
};

}  // namespace

exec::SentBytes TraceBytes(const CacheTrace& trace) { return Sum(trace).Run(); }

}  // namespace shardc::verify
