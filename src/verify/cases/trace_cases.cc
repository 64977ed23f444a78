// Derives traces from cases. A trace is a sequence of steps on a KV cache or on
// pages. A trace on a cache writes the prefill in chunks, with rows of
// different lengths, and then runs decode steps. A trace on pages has requests
// that grow, share pages and are released. An axis divides the lengths of a
// trace if and only if it divides the number of the case's keys.
//
// Without a window, the cache has a slot for every token. With a window it has
// fewer slots, so that slots are reused. For example, without a window, a case
// has 8 keys sharded over sp=2, and 2 rows. Each row is 5 tokens shorter than
// the row before it. The longest row is given 5 * 2 + 8 = 18 tokens, so that
// every row has some. With 4 decode steps, a row needs 22 slots. sp divides 8,
// 18 and 22.
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "source/list.h"
#include "source/wording.h"
#include "verify/cases/case.h"
#include "verify/cases/matrix.h"
#include "verify/cases/problem_data.h"

namespace shardc::verify {
namespace {

// The number of tokens in a chunk of a prefill: kChunk for a cache with a slot
// for each token, kRollingChunk for a cache that reuses slots.
constexpr int64_t kChunk = 256, kRollingChunk = 8;

// Makes the cases that have a trace: one for each operation with a cache,
// generation mode and dtype of the request. `given` selects the sizes that the
// user gave; otherwise the sizes are reduced.
class Adder {
 public:
  Adder(const Request& request, const Resolver& resolver, const Mesh& mesh,
        const Splits& splits, const Sizes& sizes, bool given)
      : request_(request),
        resolver_(resolver),
        mesh_(mesh),
        splits_(splits),
        sizes_(sizes),
        given_(given) {}

  struct Traced {
    Case test;
    Trace trace;
  };

  std::vector<Traced> Run() {
    for (const exec::Operation* operation : request_.operations) {
      if (operation->trace == exec::StateTrace::kNone) continue;
      for (Mode mode : request_.modes) {
        if (!IsGeneration(mode) || !request_.Covers(*operation, mode)) continue;
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
    return std::move(out_);
  }

 private:
  Case CaseOf(const exec::Operation& operation, Mode mode, Dtype dtype) const {
    Case test;
    test.operation = &operation;
    test.mode = mode;
    test.dtype = dtype;
    test.kv_dtype = request_.kv_dtype;
    test.mesh = mesh_;
    test.sizes = SizesOfMode(sizes_, mode);
    test.settings = request_.settings;
    const SettingsRecord& record = request_.RecordOf(operation);
    if (!record.blocksize_k) {
      test.settings.blocksize_k = SmallBlocks().blocksize_k;
    }
    ApplySettings(record, test);
    test.seed = request_.seed;
    test.specs = ResolveSpecs(resolver_, test, request_.illegal);
    return test;
  }

  // Returns the model's window, or a window that fits the reduced sizes.
  // Returns 0 if the model has no window shorter than the keys. Also returns 0
  // if attention is not causal: the window then has keys after the query, which
  // a cache does not hold yet.
  int64_t Window() const {
    if (!request_.window || !request_.causal ||
        *request_.window >= request_.sizes.key_length) {
      return 0;
    }
    return given_ ? *request_.window : sizes_.key_length / 2 + 1;
  }

  void Push(Case test, Trace trace) {
    out_.push_back({std::move(test), std::move(trace)});
  }

  // Returns the smallest length L >= `least` such that each number of shards
  // divides L if and only if it divides the number of keys.
  int64_t Like(int64_t least) const {
    return LengthLike(sizes_.key_length, least, splits_.length);
  }

  void AddDecoding(Case test, int64_t window) {
    Case prefill = test;
    prefill.mode = Mode::kPrefill;
    const auto written = ResolveSpecs(resolver_, prefill, request_.illegal);
    // An axis must divide each chunk of a long prefill if and only if it
    // divides the complete prefill.
    const int64_t unit = std::lcm(PartsOf(mesh_, written.key, 1),
                                  PartsOf(mesh_, test.specs.key, 1));
    const int64_t usual = window > 0 ? kRollingChunk : kChunk;
    const int64_t chunk = std::max<int64_t>(1, usual / unit) * unit;
    // Row b of the prefill is 5 b tokens shorter than the longest row. The
    // longest row is long enough that every row has tokens. An axis must divide
    // the slots if and only if it divides the keys.
    TraceShape trace;
    trace.steps = request_.steps;
    trace.window = window;
    const int64_t least = 5 * test.sizes.batch + 8;
    trace.prefill =
        Like(given_ ? std::max(least, request_.sizes.key_length) : least);
    trace.slots = Like(trace.prefill + trace.steps);
    if (window > 0) {
      trace.slots = Like(window + chunk - 1);
      // The longest row of the prefill has at least one chunk more than there
      // are slots, so the prefill already reuses slots.
      trace.prefill = std::max(trace.prefill, Like(trace.slots + chunk));
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
    const Spec query = exec::PadSpec(test.specs.query, 4);
    out.query_heads = query[2];
    out.query_dim = query[3];
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
  const Splits& splits_;
  const Sizes& sizes_;
  bool given_;
  std::vector<Traced> out_;
};

}  // namespace

void AddTraces(const Request& request, const Resolver& resolver,
               const Resolver& used_resolver, Matrix& matrix) {
  std::vector<Adder::Traced> used =
      Adder(request, used_resolver, matrix.used_mesh, matrix.splits,
            matrix.used, !matrix.reduced)
          .Run();
  std::vector<Adder::Traced> given;
  if (matrix.reduced) {
    given = Adder(request, resolver, matrix.given_mesh, matrix.given_splits,
                  matrix.given, true)
                .Run();
  }
  matrix.given_traces.resize(matrix.cases.size());
  for (size_t i = 0; i < used.size(); ++i) {
    Case test = std::move(used[i].test);
    if (i < given.size()) {
      test.given = std::make_shared<const Case>(std::move(given[i].test));
    }
    matrix.cases.push_back(std::move(test));
    matrix.traces.push_back(std::move(used[i].trace));
    matrix.given_traces.push_back(i < given.size() ? std::move(given[i].trace)
                                                   : Trace{});
  }
}

// Adds cases that reveal mistakes in long sums and with large logits. Each
// operation of which a case ran gets two more cases.
//
// The first is in bfloat16 and has at least 512 keys. It is omitted if a case
// in bfloat16 with at least 256 keys and without a window ran. The other cases
// use reduced sizes, such as 12 keys in place of 8,192. The number of keys of
// this case is a multiple of that, 43 * 12 = 516, so that the same axes divide
// it. Its blocks have at most 96 keys.
//
// The second has large logits. It is omitted if the request excludes large
// logits or names them as a feature.

namespace {

constexpr int64_t kLongKeys = 512;
// If a case in bfloat16 with at least this many keys ran, no long case is
// added. A faulty sum over so many keys has an error above its tolerance.
constexpr int64_t kLongEnough = 256;

// Returns a copy of the operation's first case that ran, with its sizes
// replaced by `least`. A case with one query keeps one query. Returns nullopt
// if no case ran. Traces are not considered.
std::optional<Case> FirstThatRan(const exec::Operation* operation,
                                 const Sizes& least,
                                 const std::vector<Case>& cases,
                                 const std::vector<CaseResult>& results) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& test = cases[i];
    if (test.operation != operation || test.trace ||
        results[i].status == Status::kUnsupported) {
      continue;
    }
    Case out = test;
    const bool lone = test.sizes.query_length == 1;
    out.sizes = least;
    if (lone) out.sizes.query_length = 1;
    if (test.operation->latent) SizeLatent(out.sizes);
    return out;
  }
  return std::nullopt;
}

bool IsLong(const Case& test) {
  return !test.trace && test.dtype == Dtype::kBF16 &&
         test.sizes.key_length >= kLongEnough && !test.features.window;
}

Case LongCase(Case test, const Request& request) {
  test.dtype = Dtype::kBF16;
  test.kv_dtype.reset();
  // The new length is a multiple of the reduced length, so the same axes divide
  // both.
  const int64_t length = test.sizes.key_length;
  test.sizes.key_length = (kLongKeys + length - 1) / length * length;
  const auto& asked = request.RecordOf(*test.operation).blocksize_k;
  test.settings.blocksize_k =
      std::min<int64_t>(asked.value_or(request.settings.blocksize_k), 96);
  test.remarks.clear();
  // Every query attends to every key, unless the operation reads pages and
  // needs a causal mask.
  test.features.window.reset();
  test.features.ragged = false;
  test.features.causal = test.operation->IsPaged();
  test.seed += 1;
  test.longer = true;
  test.given.reset();  // the user requested no case of this length
  return test;
}

}  // namespace

std::vector<Case> StressCases(const Request& request, const Sizes& least,
                              const std::vector<Case>& cases,
                              const std::vector<CaseResult>& results) {
  std::vector<Case> out;
  const bool has_large =
      !request.large_logits || IsAmong(Feature::kLargeLogits, request.more);
  for (const exec::Operation* operation : request.operations) {
    const auto first = FirstThatRan(operation, least, cases, results);
    if (!first) continue;
    bool has_long = false;
    for (size_t i = 0; i < cases.size(); ++i) {
      has_long = has_long || (cases[i].operation == operation &&
                              results[i].status != Status::kUnsupported &&
                              IsLong(cases[i]));
    }
    if (!has_long) out.push_back(LongCase(*first, request));
    if (has_large) continue;
    Case large = *first;
    SwitchOn(Feature::kLargeLogits, large);
    large.seed += 2;
    out.push_back(std::move(large));
  }
  return out;
}

// Checks that a request can be simulated with the memory and time of one host.
// Sizes are multiplied as doubles, which cannot overflow and are precise enough
// for limits. With --full, cases run at the sizes that the user gave, and not
// at reduced sizes. For example:
//
//   batch 4, 32 heads, 8,192 x 8,192 with --full: 8.6e9 logits, refused

namespace {

// The limit on devices: each simulated device costs memory and time.
constexpr int64_t kMostDevices = 4096;

std::string CountOf(double count) {
  constexpr double kMost = 9e18;  // just below the largest int64_t
  if (count >= kMost) return "over 9e18";
  return CountText(static_cast<int64_t>(count));
}

}  // namespace

bool CheckSizes(const Sizes& sizes, Findings& findings) {
  const std::pair<std::string_view, int64_t> all[] = {
      {"batch", sizes.batch},        {"heads", sizes.heads},
      {"kv_heads", sizes.key_heads}, {"head_dim", sizes.head_dim},
      {"q_len", sizes.query_length}, {"kv_len", sizes.key_length}};
  for (const auto& [name, size] : all) {
    if (size >= 1) continue;
    findings.Add(code::kUsage, {},
                 std::string(name) + " is " + std::to_string(size) +
                     ", which leaves attention nothing",
                 "give it by --attention, or a model's config that has it");
    return false;
  }
  if (sizes.heads % sizes.key_heads != 0) {
    findings.Add(code::kUsage, {},
                 Counted(sizes.heads, "head") + " do not divide into " +
                     Counted(sizes.key_heads, "key head"));
    return false;
  }
  if (sizes.query_length > sizes.key_length) {
    findings.Add(
        code::kUsage, {},
        Counted(sizes.query_length, "query", "queries") +
            " of a row are more than its " + Counted(sizes.key_length, "key"),
        "queries are the last of their keys: give a `--seq` of at most "
        "`--kv-len`");
    return false;
  }
  return true;
}

bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings) {
  if (mesh.devices > kMostDevices) {
    findings.Add(code::kUsage, {},
                 "the mesh has " + CountText(mesh.devices) + " devices, " +
                     CountText(kMostDevices) + " at most are simulated",
                 "verify a smaller mesh with the same axes: the legality of a "
                 "layout does not depend on how many devices there are");
    return false;
  }
  Sizes n = request.sizes;
  // Generation modes have one query in each batch row.
  if (std::all_of(request.modes.begin(), request.modes.end(), IsGeneration)) {
    n.query_length = 1;
  }
  // The number of logits of one case. The operation `vanilla` stores all logits
  // at the same time.
  const double logits =
      static_cast<double>(n.batch) * static_cast<double>(n.heads) *
      static_cast<double>(n.query_length) * static_cast<double>(n.key_length);
  if (request.full && logits > 4e9) {
    findings.Add(
        code::kUsage, {},
        "the full sizes have " + CountOf(logits) + " logits, too many to hold",
        "leave out --full, or give a shorter q_len or kv_len");
    return false;
  }
  const double numbers =
      static_cast<double>(n.batch) *
      (static_cast<double>(n.query_length) * static_cast<double>(n.heads) +
       static_cast<double>(n.key_length) * static_cast<double>(n.key_heads)) *
      static_cast<double>(std::max(n.head_dim, n.ValueDim()));
  if (request.full && numbers > 2e9) {
    findings.Add(code::kUsage, {},
                 "query, key and value of the full sizes have " +
                     CountOf(numbers) + " numbers, too many to hold",
                 "leave out --full, or give a smaller batch or head_dim");
    return false;
  }
  // A page is allocated in full, even if it holds few tokens.
  for (const auto& [name, record] : request.records) {
    const double held = static_cast<double>(record.page_size.value_or(0)) *
                        static_cast<double>(n.batch) *
                        static_cast<double>(n.key_heads) *
                        static_cast<double>(n.head_dim);
    if (!request.full || held <= 1e9) continue;
    findings.Add(code::kUsage, {},
                 "a page of " + CountText(*record.page_size) +
                     " tokens for each row has " + CountOf(held) +
                     " numbers, too many to hold",
                 "leave out --full, or give a smaller page_size");
    return false;
  }
  return true;
}

}  // namespace shardc::verify
