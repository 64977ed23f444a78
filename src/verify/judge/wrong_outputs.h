// Wrong outputs that must be detected: zeros, outputs shifted by one place, and
// attention that lacks a key. They are checked as the output of a case is.
#ifndef SHARDC_VERIFY_JUDGE_WRONG_OUTPUTS_H_
#define SHARDC_VERIFY_JUDGE_WRONG_OUTPUTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dense/attention.h"
#include "verify/judge/tolerance.h"

namespace shardc::verify {

struct WrongOutputs {
  int64_t offered = 0;
  std::vector<std::string> taken;  // names of outputs that passed wrongly
};

// Checks zeros, and the reference shifted along each dimension of several
// elements.
void OfferShifted(const dense::Array& reference, const Limits& limits,
                  WrongOutputs& wrong);

// Checks one more wrong output. If it passes, adds `name` to `taken`.
void Offer(std::string name, const dense::Array& output,
           const dense::Array& reference, const Limits& limits,
           WrongOutputs& wrong);

// Returns the inputs without one key in each batch row. The keys considered are
// those whose weight for some query is at least the mean weight; the first of
// them is removed or, with `last`, the last. A row without such a key keeps all
// keys. Returns nullopt if no row has such a key, or if the reference is not
// defined.
std::optional<dense::Inputs> OneKeyShort(const dense::Inputs& in,
                                         const dense::Options& options,
                                         bool last);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_WRONG_OUTPUTS_H_
