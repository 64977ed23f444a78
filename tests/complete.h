// Tests with many cases run a part of them in an ordinary run. `tests/bootstrap
// long` sets SHARDC_COMPLETE=1, with which they run all.
#ifndef SHARDC_TESTS_COMPLETE_H_
#define SHARDC_TESTS_COMPLETE_H_

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

namespace shardc {

inline bool RunsAllCases() {
  const char* const text = std::getenv("SHARDC_COMPLETE");
  return text != nullptr && std::string_view(text) == "1";
}

// The number with which a part begins: SHARDC_TURN, or another one whenever the
// test program changes.
inline size_t TurnOfCases() {
  static const size_t turn = [] {
    const char* const text = std::getenv("SHARDC_TURN");
    if (text != nullptr) return static_cast<size_t>(std::atoll(text));
    std::ifstream self("/proc/self/exe", std::ios::binary);
    return std::hash<std::string>()(
        std::string(std::istreambuf_iterator<char>(self), {}));
  }();
  return turn;
}

// Returns whether this run includes the case of this index. A complete run
// includes all cases, another run one of each `every` consecutive cases.
inline bool IsInPart(size_t index, size_t every) {
  return RunsAllCases() || index % every == TurnOfCases() % every;
}

}  // namespace shardc

#endif  // SHARDC_TESTS_COMPLETE_H_
