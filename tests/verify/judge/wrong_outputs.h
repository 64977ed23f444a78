// Wrong outputs that must be detected: zeros, outputs shifted by one place, and
// attention without one of the keys. They are checked like the output of a
// case.
#ifndef SHARDC_TESTS_VERIFY_JUDGE_WRONG_OUTPUTS_H_
#define SHARDC_TESTS_VERIFY_JUDGE_WRONG_OUTPUTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dense/attention.h"
#include "verify/judge/explain.h"

namespace shardc::verify {

struct WrongOutputs {
  // The number of wrong outputs that were checked.
  int64_t offered = 0;
  std::vector<std::string> taken;  // names of wrong outputs that passed
};

// Checks an output of zeros, and the reference shifted by one place along each
// dimension with several elements.
void OfferShifted(const dense::Array& reference, const Limits& limits,
                  WrongOutputs& wrong);

// Checks one more wrong output. If it passes, adds `name` to `taken`.
void Offer(std::string name, const dense::Array& output,
           const dense::Array& reference, const Limits& limits,
           WrongOutputs& wrong);

// Returns the inputs without one key in each batch row. A key may be removed if
// its weight for a query of the row is at least the mean weight. Of these keys,
// the last is removed if `last` is true, else the first. A row without such a
// key keeps all keys. Returns nullopt if no row has such a key, or if the
// reference is not defined.
std::optional<dense::Inputs> OneKeyShort(const dense::Inputs& in,
                                         const dense::Options& options,
                                         bool last);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_JUDGE_WRONG_OUTPUTS_H_
