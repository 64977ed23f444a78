// Traces over a cache follow from a case: a prefill in chunks that divide as
// the keys do, every row of another length, then the decoding steps, with
// slots for all of them, or so few that a window goes round them.
//
//   8 keys, 2 rows, 4 steps  ->  24 tokens of prefill (18 rounded up), 32 slots
#include "verify/cases/trace_cases.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "verify/cases/settings.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

// Of a prefill's tokens, and of a cache that rolls.
constexpr int64_t kChunk = 256, kRollingChunk = 8;

int64_t Up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

class Adder {
 public:
  Adder(const Request& request, const Resolver& resolver, const Mesh& mesh,
        Matrix& matrix)
      : request_(request), resolver_(resolver), mesh_(mesh), matrix_(matrix) {}

  void Run() {
    for (const exec::Operation* operation : request_.operations) {
      if (operation->trace == exec::StateTrace::kNone) continue;
      for (Mode mode : request_.modes) {
        if (!IsGeneration(mode) || !request_.Asks(*operation, mode)) continue;
        for (Dtype dtype : request_.dtypes) {
          const Case test = CaseOf(*operation, mode, dtype);
          if (operation->trace == exec::StateTrace::kPages) {
            AddPages(test);
            continue;
          }
          AddDecoding(test, 0);
          if (const int64_t window = Window()) AddDecoding(test, window);
        }
      }
    }
  }

 private:
  Case CaseOf(const exec::Operation& operation, Mode mode, Dtype dtype) const {
    Case test;
    test.operation = &operation;
    test.mode = mode;
    test.dtype = dtype;
    test.kv_dtype = request_.kv_dtype;
    test.mesh = mesh_;
    test.sizes = SizesOfMode(matrix_.used, mode);
    test.settings = request_.settings;
    const SettingsRecord& record = request_.RecordOf(operation);
    if (!record.blocksize_k) {
      test.settings.blocksize_k = SmallBlocks().blocksize_k;
    }
    LaySettings(record, test);
    test.seed = request_.seed;
    test.specs = ResolveSpecs(resolver_, test, request_.illegal);
    return test;
  }

  // The model's, or one as small as the reduced ones; 0 for none.
  int64_t Window() const {
    if (!request_.window || *request_.window >= request_.sizes.key_length) {
      return 0;
    }
    return request_.full ? *request_.window : matrix_.used.key_length / 2 + 1;
  }

  void Push(Case test, Trace trace) {
    matrix_.cases.push_back(std::move(test));
    matrix_.traces.push_back(std::move(trace));
  }

  void AddDecoding(Case test, int64_t window) {
    Case prefill = test;
    prefill.mode = Mode::kPrefill;
    const auto written =
        ResolveSpecs(resolver_, prefill, IllegalPolicy::kError);
    // Long prefills are written in parts that divide as the whole does.
    const int64_t unit = std::lcm(PartsOf(mesh_, written.key, 1),
                                  PartsOf(mesh_, test.specs.key, 1));
    const int64_t usual = window > 0 ? kRollingChunk : kChunk;
    const int64_t chunk = std::max<int64_t>(1, usual / unit) * unit;
    // Every row has tokens, and the slots divide as the keys do.
    const int64_t length = matrix_.least.key_length;
    TraceShape trace;
    trace.steps = request_.steps;
    trace.window = window;
    trace.prefill = Up(5 * test.sizes.batch + 8, length);
    if (request_.full) {
      trace.prefill = std::max(trace.prefill, request_.sizes.key_length);
    }
    trace.slots = trace.prefill + Up(trace.steps, length);
    if (window > 0) {
      trace.slots = Up(window + chunk - 1, length);
      // Once round at least.
      trace.prefill = std::max(trace.prefill, Up(trace.slots + chunk, length));
      test.features.window = window;
    }
    test.sizes.key_length = trace.slots;
    test.trace = trace;
    CacheTrace out = CacheTraceOf(test, written.key);
    out.chunk = std::min(out.prefill, chunk);
    Push(std::move(test), std::move(out));
  }

  CacheTrace CacheTraceOf(const Case& test, const Spec& written) const {
    CacheTrace out;
    out.rotation = request_.rotation;
    out.mesh = test.mesh;
    out.batch = test.sizes.batch;
    out.heads = test.sizes.heads;
    out.key_heads = test.sizes.key_heads;
    out.head_dim = test.sizes.head_dim;
    out.prefill = test.trace->prefill;
    out.steps = test.trace->steps;
    out.slots = test.trace->slots;
    out.window = test.trace->window;
    out.dtype = OutputDtype(test);
    out.kv_dtype = test.kv_dtype.value_or(test.dtype);
    out.ragged = test.sizes.batch > 1;
    out.insert = test.mode == Mode::kInsert;
    out.prefill_spec = written;
    out.decode_spec = test.specs.key;
    out.token_spec = written;
    if (test.specs.query.size() > 2) out.query_heads = test.specs.query[2];
    out.settings = test.settings;
    out.scale = test.features.scale;
    out.soft_cap = test.features.soft_cap;
    out.dropout = test.features.dropout;
    out.seed = test.seed;
    return out;
  }

  void AddPages(Case test) {
    const Spec key = exec::PadSpec(test.specs.key, 4);
    if (PartsOf(mesh_, key, 1) > 1 || PartsOf(mesh_, key, 3) > 1) return;
    PagedTrace out;
    out.mesh = mesh_;
    out.format = test.operation->pages->format;
    out.requests = test.sizes.batch;
    out.key_heads = test.sizes.key_heads;
    out.head_dim = test.sizes.head_dim;
    out.page_size = std::min<int64_t>(test.settings.page_size, 4);
    out.dtype = test.kv_dtype.value_or(test.dtype);
    out.page_axes = key[0];
    out.head_axes = key[2];
    out.seed = test.seed;
    TraceShape trace;
    trace.pages = true;
    trace.steps = out.steps;
    trace.slots = out.page_size * out.pages_per_request;
    test.sizes.key_length = trace.slots;
    test.trace = trace;
    Push(std::move(test), std::move(out));
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  Matrix& matrix_;
};

}  // namespace

void AddTraces(const Request& request, const Resolver& resolver,
               const Mesh& mesh, Matrix& matrix) {
  Adder(request, resolver, mesh, matrix).Run();
}

}  // namespace shardc::verify
