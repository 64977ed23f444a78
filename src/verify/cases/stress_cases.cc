// Some mistakes appear only in long sums or with large logits. Each operation
// that ran gets one case in bfloat16 with at least 512 keys, unless a similar
// case ran. The number of keys is a multiple of the reduced one. It also gets
// one case of large logits, unless the request excludes it or has that feature:
//
//   reduced to 12 keys  ->  516 keys, blocks of at most 96
#include "verify/cases/stress_cases.h"

#include <algorithm>
#include <utility>

#include "verify/cases/latent_data.h"

namespace shardc::verify {
namespace {

constexpr int64_t kLongKeys = 512;
// A sum over at least this many keys in bfloat16 has an error above its
// tolerance.
constexpr int64_t kLongEnough = 256;

// Returns the operation's first case that ran, with the sizes `least`, or
// nullopt if none ran. Traces do not count.
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
  // The new length is a multiple of the reduced one, so the same axes divide
  // it.
  const int64_t length = test.sizes.key_length;
  test.sizes.key_length = (kLongKeys + length - 1) / length * length;
  const auto& asked = request.RecordOf(*test.operation).blocksize_k;
  test.settings.blocksize_k =
      std::min<int64_t>(asked.value_or(request.settings.blocksize_k), 96);
  test.remarks.clear();
  // Every row attends to every key, unless the operation reads pages.
  test.features.window.reset();
  test.features.ragged = false;
  test.features.causal = test.operation->IsPaged();
  test.seed += 1;
  test.longer = true;
  test.given.reset();  // no case of this length was requested
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
