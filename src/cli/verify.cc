// `shardc verify`: compares sharded attention on a simulated mesh with the
// dense reference.
#include <algorithm>

#include "cli/commands.h"
#include "cli/dump_files.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verify_list.h"
#include "cli/verify_process.h"
#include "cli/verify_projections.h"
#include "cli/verify_request.h"
#include "emit/verify/dump.h"
#include "emit/verify/report_text.h"
#include "emit/verify/verify_json.h"
#include "exec/machine/mesh_sim.h"
#include "source/file_sink.h"
#include "source/thread_pool.h"
#include "source/wording.h"
#include "verify/report.h"

namespace shardc::cli {
namespace {

Metrics MetricsOf(const VerifyFlags& flags) {
  return flags.metrics == "stacked" ? Metrics::kStacked : Metrics::kReduced;
}

// Returns whether the exit status is 1 because of the report. `asked` is true
// if the user named operations. A named operation must be supported, and is a
// failure otherwise.
bool Found(const verify::Report& report, bool asked) {
  if (report.Count(verify::Status::kFail) > 0 || report.NothingRan() ||
      std::any_of(report.projections.begin(), report.projections.end(),
                  [](const verify::Projection& one) {
                    return one.status == verify::Status::kFail;
                  })) {
    return true;
  }
  return asked && report.Count(verify::Status::kUnsupported) > 0;
}

// Returns false, and adds a finding, if a case's mesh has fewer devices than
// there are processes.
bool HasDevices(const VerifyWork& work, const Ranks& ranks,
                Findings& findings) {
  if (ranks.count() == 1) return true;
  for (const verify::Case& test : work.matrix.cases) {
    const int64_t devices = exec::SimMesh(test.mesh).devices();
    if (devices >= ranks.count()) continue;
    findings.Add(code::kUsage, {},
                 std::to_string(ranks.count()) + " processes for " +
                     Counted(devices, "device"),
                 "start at most one for each device of the mesh");
    return false;
  }
  return true;
}

MovedBytes MovedIn(const verify::Report& report) {
  MovedBytes out;
  for (const verify::CaseResult& result : report.results) {
    out.recorded += result.ledger.TotalSent();
    out.moved += result.ledger.moved().Total();
    out.crossed += result.ledger.crossed();
  }
  return out;
}

int Verify(const VerifyFlags& flags, const Common& common, const Ranks& ranks,
           Findings& findings) {
  if (flags.list) {
    if (!ranks.Leads()) return kDone;
    const auto write = [&](Sink& out) {
      if (common.format == "json") {
        WriteOperationsJson(out);
      } else {
        out.Append(OperationsText());
      }
    };
    return PutOut(write, findings) ? kDone : kFailed;
  }
  auto work = MakeVerifyWork(flags, ranks.count(), common, findings);
  bool begins = work && HasDevices(*work, ranks, findings);
  const bool dumps = !flags.dump.empty() && ranks.Leads();
  if (begins && dumps) begins = MakeFolder(flags.dump, findings);
  if (!ranks.All(begins, findings)) return kFailed;
  verify::Keep keep;
  bool written = true;
  if (dumps) {
    keep = [&](size_t index, const verify::Case& test,
               const verify::CaseResult& result,
               const verify::CaseTensors& tensors) {
      FileSink file(CaseFile(flags.dump, index, ".json"));
      WriteDumpJson(test, result, tensors, MetricsOf(flags), file);
      written = file.Commit(findings) && written;
      if (tensors.reference.shape.empty() && tensors.trace.empty()) return;
      written = WriteToFile(CaseFile(flags.dump, index, ".safetensors"),
                            DumpTensors(tensors), findings) &&
                written;
    };
  }
  verify::Report report = verify::RunMatrix(
      work->request, std::move(work->matrix), ranks.Threads(common.threads),
      ranks.Leads() ? ProgressLine(common, "cases") : verify::Progress{}, keep,
      ranks.transport());
  if (!ranks.Leads()) return kDone;
  AddProjections(*work, report);
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteVerifyJson(report, MetricsOf(flags), out);
    } else {
      out.Append(ReportText(report));
    }
  };
  if (!written || !PutOut(write, findings)) return kFailed;
  ReportMovedBytes(MovedIn(report), ranks, common);
  return Found(report, work->asked) ? kFound : kDone;
}

int RunVerify(const VerifyFlags& flags, const Common& common,
              Findings& findings) {
  return RunOverRanks(
      [&](const Ranks& ranks) {
        return Verify(flags, common, ranks, findings);
      },
      findings);
}

}  // namespace

Declared DeclareVerify() { return Declare(OptionsOf, RunVerify); }

}  // namespace shardc::cli
