// Cases whose messages are known. The operation cannot run in most of these
// cases, and the message must explain why in the expected words. The other
// cases must run without a remark.
#ifndef SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_REFUSALS_H_
#define SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_REFUSALS_H_

#include <span>
#include <string_view>

namespace shardc::verify {

// A check with a name. `holds` runs the check and returns true if the result is
// the known one.
struct KnownAnswer {
  std::string_view name;
  bool (*holds)();
};
std::span<const KnownAnswer> KnownRefusals();

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_REFUSALS_H_
