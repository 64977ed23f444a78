// Makes random patterns and names: some like those of real models, some with
// any syntax of RE2.
#ifndef SHARDC_TESTS_MATCH_PATTERN_MAKER_H_
#define SHARDC_TESTS_MATCH_PATTERN_MAKER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "draws.h"

namespace shardc {

class PatternMaker {
 public:
  explicit PatternMaker(uint64_t seed) : random_(seed) {}
  explicit PatternMaker(const Draws& draws) : random_(draws) {}

  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>(random_() % bound);
  }

  // Return a name such as `model/layers/17/mlp/up_proj/kernel`, and a pattern
  // that a rule could have for such names.
  std::string ModelName(char separator);
  std::string ModelPattern(char separator);

  // Return a pattern with any of RE2's syntax over few characters, `depth`
  // groups deep, and a text of these characters, which may be invalid UTF-8.
  std::string StrangePattern(int depth);
  std::string StrangeName();

  // Returns a pattern made of `a`, `b`, `/` and classes that treat all other
  // letters in the same way.
  std::string SmallPattern(int depth);

 private:
  std::string_view Pick(std::span<const std::string_view> of) {
    return of[Below(static_cast<uint32_t>(of.size()))];
  }
  std::string StrangeAtom(int depth);
  std::string StrangeClass();

  Draws random_;
};

}  // namespace shardc

#endif  // SHARDC_TESTS_MATCH_PATTERN_MAKER_H_
