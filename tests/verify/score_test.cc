// Tests the text of verdicts that do not hold, which the published score never
// has.
#include "verify/score.h"

#include <doctest/doctest.h>

namespace shardc::verify {
namespace {

TEST_CASE("the score of attention names what was missed") {
  const SelfTest test{{{"short", "spec", true, true, true, "error"},
                       {"a-longer-name", "index", true, true, false, "bits"},
                       {"not-injected", "cache", true, false, false, "ledger"},
                       {"unsound", "cache", false, true, true, "finite"}}};
  CHECK(SelfTestText(test) ==
        "short          detected by error\n"
        "a-longer-name  MISSED\n"
        "not-injected   not injected\n"
        "unsound        fails without the fault\n"
        "\n"
        "3 faults injected, 2 detected\n");
}

TEST_CASE("the score of wrong outputs lists those that were accepted") {
  const Sharpness sharpness{
      11, 1234, {"ring train", "vanilla"}, {"sdpa fails"}};
  CHECK(SharpnessText(sharpness) ==
        "sdpa fails\n"
        "WRONG OUTPUT ACCEPTED: ring train\n"
        "WRONG OUTPUT ACCEPTED: vanilla\n"
        "1,234 wrong outputs compared in 11 cases (zeros, shifted by one "
        "position, one key missing, one element wrong), 1,232 rejected\n");
  CHECK_FALSE(sharpness.Holds());
}

TEST_CASE("the score of known answers lists the wrong ones") {
  const KnownAnswers known{1357, {"softmax"}};
  CHECK(KnownAnswersText(known) ==
        "WRONG ANSWER: softmax\n"
        "1,357 known answers computed, 1,356 correct\n");
  CHECK_FALSE(known.Hold());
}

TEST_CASE("the score of steps names what was missed and the steps that fail") {
  const StepSelfTest test{
      {{"one", "comm", "sums", "tensor", "collective", true, true, "bits", "q"},
       {"another", "shape", "sizes", "data", "slice", true, false, "", ""},
       {"third", "shape", "axes", "data", "mesh", false, false, "", ""},
       {"fourth", "comm", "bytes", "data", "ledger", true, true, "ledger", ""}},
      1,
      {"tensor", "data"}};
  CHECK(StepSelfTestText(test) ==
        "one      detected by bits at q  sums\n"
        "another  MISSED                 sizes\n"
        "third    not injected           axes\n"
        "fourth   detected by ledger     bytes\n"
        "\n"
        "fails without a fault: tensor\n"
        "fails without a fault: data\n"
        "3 faults injected, 2 detected; 1 sound step passes\n");
}

}  // namespace
}  // namespace shardc::verify
