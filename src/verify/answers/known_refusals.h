// Refusals with known messages: cases that an operation cannot run, with the
// words that must explain why, and cases that must run without a remark.
#ifndef SHARDC_VERIFY_ANSWERS_KNOWN_REFUSALS_H_
#define SHARDC_VERIFY_ANSWERS_KNOWN_REFUSALS_H_

#include <span>
#include <string_view>

namespace shardc::verify {

// A check with a name; `holds` runs it and returns whether the result is the
// known one.
struct KnownAnswer {
  std::string_view name;
  bool (*holds)();
};
std::span<const KnownAnswer> KnownRefusals();

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_ANSWERS_KNOWN_REFUSALS_H_
