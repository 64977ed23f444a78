// What no judge may take for right: zeros, outputs turned by one place, and
// attention that lacks a key. They are judged as a case's own output is.
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
  std::vector<std::string> taken;  // for right: what they were
};

// Zeros, and the reference turned along each of its dimensions.
void OfferTurned(const dense::Array& reference, const Limits& limits,
                 WrongOutputs& wrong);

// One more, named for `taken`.
void Offer(std::string name, const dense::Array& output,
           const dense::Array& reference, const Limits& limits,
           WrongOutputs& wrong);

// The same attention without the first, or the last, of each batch row's keys
// that have at least an even share of some query's weights.
std::optional<dense::Inputs> OneKeyShort(const dense::Inputs& in,
                                         const dense::Options& options,
                                         bool last);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_WRONG_OUTPUTS_H_
