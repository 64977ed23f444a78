// Outputs that the judge must refuse: zeros, outputs shifted by one place, and
// attention that lacks a key. They are judged like the output of a case.
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

// Judges zeros, and the reference shifted along each of its dimensions.
void OfferShifted(const dense::Array& reference, const Limits& limits,
                  WrongOutputs& wrong);

// Judges one more wrong output, and adds `name` to `taken` if the output
// passes.
void Offer(std::string name, const dense::Array& output,
           const dense::Array& reference, const Limits& limits,
           WrongOutputs& wrong);

// Returns the same attention without the first, or the last, of each batch
// row's keys that have at least the mean weight for some query.
std::optional<dense::Inputs> OneKeyShort(const dense::Inputs& in,
                                         const dense::Options& options,
                                         bool last);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_WRONG_OUTPUTS_H_
