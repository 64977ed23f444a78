// What verification rests on, asked for answers that were worked out by hand:
// the dense reference, the simulated network, caches, pages, tolerances and
// the words of a refusal. Cases compare two computations; here there is one,
// and the answer stands beside the question.
#ifndef SHARDC_VERIFY_ANSWERS_KNOWN_ANSWERS_H_
#define SHARDC_VERIFY_ANSWERS_KNOWN_ANSWERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shardc::verify {

struct KnownAnswers {
  int64_t asked = 0;
  std::vector<std::string> wrong;  // by name

  bool Hold() const { return asked > 0 && wrong.empty(); }
};

KnownAnswers AskKnownAnswers();

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_ANSWERS_KNOWN_ANSWERS_H_
