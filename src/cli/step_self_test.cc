// Tests whether `verify step` detects errors. Runs steps and pipelines with
// injected faults, which must be detected, and sound ones (without a fault),
// which must pass. The totals include both steps and pipelines:
//
//   147 faults injected, 147 detected; 20 sound steps pass
#include "cli/step_self_test.h"

#include "cli/output.h"
#include "cli/verify_process.h"
#include "emit/verify/step_json.h"
#include "emit/verify/step_text.h"
#include "verify/step/self_test.h"
#include "verify/step/staged_faults.h"

namespace shardc::cli {

int RunStepSelfTest(const Common& common, Findings& findings) {
  const int threads = ThreadsOr(common.threads);
  const auto line = FaultProgressLine(common);
  verify::StepSelfTestProgress progress;
  if (line) {
    progress = [&line](size_t done, size_t all) {
      line(done, all + verify::StagedFaultCount());
    };
  }
  verify::StepSelfTest result =
      verify::RunStepSelfTest(verify::StepFaults(), threads, progress);
  verify::AddStagedSelfTest(threads, line, result);
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteStepSelfTestJson(result, out);
    out.Append(StepSelfTestText(result));
  };
  if (!PutOut(write, findings)) return kFailed;
  return result.Holds() ? kDone : kFound;
}

}  // namespace shardc::cli
