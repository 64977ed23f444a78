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
#include "verify/cases/stress_cases.h"

#include <algorithm>
#include <utility>

#include "verify/cases/latent_data.h"

namespace shardc::verify {
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
  const bool has_large = !request.large_logits ||
                         std::find(request.more.begin(), request.more.end(),
                                   Feature::kLargeLogits) != request.more.end();
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

}  // namespace shardc::verify
