#include "verify/answers/known_answers.h"

#include <doctest/doctest.h>

#include "verify/score.h"

namespace shardc::verify {
namespace {

TEST_CASE("every known answer is right") {
  const KnownAnswers known = CheckKnownAnswers();
  for (const std::string& name : known.wrong) FAIL_CHECK(name);
  CHECK(known.Hold());
  CHECK(known.asked >= 24);
}

TEST_CASE("a wrong answer is named, and an empty run does not pass") {
  CHECK_FALSE(KnownAnswers{}.Hold());
  const KnownAnswers one = {3, {"caps by formula"}};
  CHECK_FALSE(one.Hold());
  CHECK(KnownAnswersText(one) ==
        "WRONG ANSWER: caps by formula\n3 known answers computed, 2 correct\n");
}

}  // namespace
}  // namespace shardc::verify
