// Tests with many cases run a part of them in an ordinary run. `tests/bootstrap
// long` sets SHARDC_COMPLETE=1, with which they run all.
#ifndef SHARDC_TESTS_COMPLETE_H_
#define SHARDC_TESTS_COMPLETE_H_

#include <cstdlib>
#include <string_view>

namespace shardc {

inline bool RunsAllCases() {
  const char* const text = std::getenv("SHARDC_COMPLETE");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace shardc

#endif  // SHARDC_TESTS_COMPLETE_H_
