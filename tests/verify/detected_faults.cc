// Injects every fault of the catalogues, and prints which of them verification
// detects:
//
//   detected_faults attention|steps [THREADS]
//
// `attention` also compares wrong outputs, and results known by hand. `steps`
// injects the faults of steps and of pipelines. The exit status is 1 if a fault
// is missed. tests/detected_faults_test.py compares what is printed with
// docs/detected-faults.md.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "verify/score.h"
#include "verify/step/staged_faults.h"

namespace shardc::verify {
namespace {

bool OfAttention(int threads, std::string& out) {
  const SelfTest faults = RunSelfTest({}, threads);
  const Sharpness sharpness = OfferWrongOutputs(threads);
  const KnownAnswers known = CheckKnownAnswers();
  out =
      SelfTestText(faults) + SharpnessText(sharpness) + KnownAnswersText(known);
  return faults.Holds() && sharpness.Holds() && known.Hold();
}

bool OfSteps(int threads, std::string& out) {
  StepSelfTest faults = RunStepSelfTest(StepFaults(), threads);
  AddStagedSelfTest(threads, {}, faults);
  out = StepSelfTestText(faults);
  return faults.Holds();
}

}  // namespace
}  // namespace shardc::verify

int main(int argc, char** argv) {
  const std::string_view of = argc > 1 ? argv[1] : "";
  if (of != "attention" && of != "steps") {
    std::fputs("usage: detected_faults attention|steps [THREADS]\n", stderr);
    return 2;
  }
  const std::string_view text = argc > 2 ? argv[2] : "";
  int threads = 1;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  threads = std::max(threads, 1);
  std::string out;
  const bool holds = of == "steps" ? shardc::verify::OfSteps(threads, out)
                                   : shardc::verify::OfAttention(threads, out);
  std::fputs(out.c_str(), stdout);
  return holds ? 0 : 1;
}
