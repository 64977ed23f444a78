// Compares the code that verification depends on with results that were
// computed by hand: the dense reference, the simulated network, caches, pages,
// tolerances and the messages of refusals. A case of verification compares two
// computations. Here the expected result is a constant in the source.
#ifndef SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_ANSWERS_H_
#define SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shardc::verify {

struct KnownAnswers {
  int64_t asked = 0;
  std::vector<std::string> wrong;  // names of the checks that failed

  bool Hold() const { return asked > 0 && wrong.empty(); }
};

KnownAnswers CheckKnownAnswers();

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_ANSWERS_KNOWN_ANSWERS_H_
