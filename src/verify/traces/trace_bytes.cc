// A write moves its tokens to the cache's layout with the length whole; int8
// caches then reduce each row's largest number where its dims are split. The
// move to decoding's layout, and the inserted row's to its slot, carry keys,
// values, scales and positions. A step writes one token and attends as
// flash_decoding's own formula says.
//
// Example: [4, 1, 2, 16] new keys in F32 that arrive split over dp, for a cache
// split over dp and its length over sp: every device has what it needs, and
// nothing is sent.
//
// Cost: devices x writes. Held to the ledger of every trace that verification
// runs.
#include "verify/traces/trace_bytes.h"

#include <algorithm>
#include <utility>

#include "exec/attention/traffic.h"
#include "exec/operations/operation.h"

namespace shardc::verify {
namespace {

class Sum {
 public:
  explicit Sum(const Lifetime& life) : life_(life), mesh_(life.mesh) {}

  int64_t Run() {
    const Spec prefill = exec::PadSpec(life_.prefill_spec, 4);
    const Spec decode = exec::PadSpec(life_.decode_spec, 4);
    Fill(life_.batch, life_.prefill, life_.token_spec, prefill);
    Move(life_.batch, prefill, decode);
    if (life_.insert) Insert(prefill, decode);
    Spec token = decode;
    token[1].clear();
    for (int64_t step = 0; step < life_.steps; ++step) {
      Write(life_.batch, 1, token, decode);
    }
    total_ += life_.steps * Step(token, decode);
    return total_;
  }

 private:
  static int64_t BytesOf(Dtype dtype) { return DtypeBits(dtype) / 8; }
  bool IsQuantized() const { return life_.kv_dtype == Dtype::kI8; }

  void Moved(const Shape& shape, const Spec& from, const Spec& to,
             Dtype dtype) {
    total_ += BytesOf(dtype) * exec::MovedElements(mesh_, shape, from, to);
  }

  // `tokens` of each row in chunks; the longest row's, as all rows are written
  // together.
  void Fill(int64_t rows, int64_t tokens, const Spec& given,
            const Spec& cache) {
    for (int64_t done = 0; done < tokens; done += life_.chunk) {
      Write(rows, std::min(life_.chunk, tokens - done), given, cache);
    }
  }

  void Write(int64_t rows, int64_t tokens, const Spec& given, Spec cache) {
    cache[1].clear();
    const Shape shape{rows, tokens, life_.key_heads, life_.head_dim};
    const int64_t n = mesh_.Parts(cache[3]);
    const Shape own = exec::LocalShape(mesh_, shape, cache);
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, given, cache, life_.dtype);
      if (!IsQuantized()) continue;
      total_ +=
          mesh_.devices() / n * 2 * (n - 1) * 4 * own[0] * own[1] * own[2];
    }
  }

  void Move(int64_t rows, const Spec& from, const Spec& to) {
    const auto part = [](const Spec& spec, size_t rank) {
      return Spec(spec.begin(), spec.begin() + static_cast<long>(rank));
    };
    const Shape shape{rows, life_.slots, life_.key_heads, life_.head_dim};
    const Shape scales{shape[0], shape[1], shape[2]};
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, from, to, life_.kv_dtype);
      if (!IsQuantized()) continue;
      Moved(scales, part(from, 3), part(to, 3), Dtype::kF32);
    }
    if (life_.window == 0) return;
    Moved({shape[0], shape[1]}, part(from, 2), part(to, 2), Dtype::kI32);
  }

  // A cache of one row, which is everywhere along the batch's axes.
  void Insert(Spec prefill, Spec decode) {
    prefill[0].clear();
    decode[0].clear();
    Spec token = exec::PadSpec(life_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    Fill(1, life_.prefill / 2, token, prefill);
    Move(1, prefill, decode);
  }

  // Attention of one step.
  int64_t Step(const Spec& token, const Spec& decode) const {
    const auto laid = [&](int64_t length, int64_t heads) {
      exec::Buffer out;
      out.shape = {life_.batch, length, heads, life_.head_dim};
      out.dtype = life_.dtype;
      return out;
    };
    exec::AttentionProblem problem;
    problem.query = laid(1, life_.heads);
    problem.key = problem.value = laid(life_.slots, life_.key_heads);
    exec::AttentionSpecs specs;
    specs.query = specs.output = {token[0], {}, life_.query_heads};
    specs.key = specs.value = decode;
    exec::Traffic traffic(mesh_, problem, specs, life_.settings);
    exec::kFlashDecoding.bytes(traffic);
    return traffic.total();
  }

  const Lifetime& life_;
  exec::SimMesh mesh_;
  int64_t total_ = 0;
};

}  // namespace

int64_t TraceBytes(const Lifetime& life) { return Sum(life).Run(); }

}  // namespace shardc::verify
