// `shardc verify kv`: makes the map of a KV cache as `shardc kv` does, and runs
// a handover by it on simulated meshes. Exit status 1 if no map can be made, or
// if decode after the handover differs from decode with one cache.
#include <optional>

#include "cli/commands.h"
#include "cli/kv_report.h"
#include "cli/output.h"
#include "emit/kv/kv_map.h"
#include "verify/kv/handover.h"

namespace shardc::cli {
namespace {

int RunVerifyKv(const KvFlags& flags, const Common& common,
                Findings& findings) {
  const auto inputs = ReadKvInputs(flags, findings);
  if (!inputs) return kFailed;
  const KvMapReport& report = inputs->report;
  std::optional<verify::Handover> run;
  if (report.IsMapped()) {
    const verify::HandoverRequest request{
        .from = {&inputs->from.classes, report.from.kinds, *report.from.side},
        .to = {&inputs->to.classes, report.to.kinds, *report.to.side},
        .settings = report.settings};
    run = verify::RunHandover(request, findings);
    if (!run) return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteHandoverJson(report, run, out);
    } else {
      out.Append(HandoverText(report, run));
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  const bool passes =
      run && !run->Differs() && !run->NothingRan() && report.map.complete;
  return passes ? kDone : kFound;
}

}  // namespace

Declared DeclareVerifyKv() { return Declare(KvOptions, RunVerifyKv); }

}  // namespace shardc::cli
