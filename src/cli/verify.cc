// `shardc verify`: sharded attention on a simulated mesh against the dense
// reference.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/verify_list.h"
#include "cli/verify_request.h"
#include "emit/verify_json.h"
#include "exec/buffer.h"
#include "source/file.h"
#include "verify/dump.h"
#include "verify/report.h"

namespace shardc::cli {
namespace {

bool MakeFolder(const std::string& path, Findings& findings) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return true;
  findings.Add(code::kWrite, {},
               "`" + path + "` cannot be made: " + std::strerror(errno));
  return false;
}

std::string CaseFile(const std::string& folder, size_t index,
                     std::string_view ending) {
  std::string number = std::to_string(index);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return folder + "/case-" + number + std::string(ending);
}

Metrics MetricsOf(const VerifyFlags& flags) {
  return flags.metrics == "stacked" ? Metrics::kStacked : Metrics::kReduced;
}

// Whether the run makes the exit status 1.
bool Found(const verify::Report& report, bool asked) {
  if (report.Count(verify::Status::kFail) > 0) return true;
  return asked && report.Count(verify::Status::kUnsupported) > 0;
}

int ThreadsOf(const Common& common) {
  if (common.threads > 0) return common.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// A line on the terminal that is written over; nothing elsewhere.
std::function<void(size_t, size_t)> ProgressLine(const Common& common,
                                                 std::string_view what) {
  if (common.quiet || isatty(STDERR_FILENO) != 1) return {};
  return [what](size_t done, size_t all) {
    constexpr size_t kWidth = 30;
    const size_t filled = done * kWidth / all;
    std::string line = "\r[" + std::string(filled, '#') +
                       std::string(kWidth - filled, ' ') + "] " +
                       std::to_string(done) + "/" + std::to_string(all) + " " +
                       std::string(what);
    if (done == all) line = "\r\x1b[K";
    WriteAll(STDERR_FILENO, line);
  };
}

int RunSelfTestCommand(const Common& common, Findings& findings) {
  const verify::SelfTest result = verify::RunSelfTest(
      {}, ThreadsOf(common), ProgressLine(common, "faults"));
  const std::string text =
      common.format == "json" ? SelfTestJson(result) : SelfTestText(result);
  if (!PutOut(text, findings)) return kFailed;
  const bool all =
      result.Sound() &&
      result.Caught() == static_cast<int64_t>(result.faults.size());
  return all ? kDone : kFound;
}

int RunVerify(const VerifyFlags& flags, const Common& common,
              Findings& findings) {
  if (flags.list) {
    const bool json = common.format == "json";
    return PutOut(json ? OperationsJson() : OperationsText(), findings)
               ? kDone
               : kFailed;
  }
  exec::KeepFreedBuffers();
  if (flags.self_test) return RunSelfTestCommand(common, findings);
  auto work = MakeVerifyWork(flags, findings);
  if (!work) return kFailed;
  verify::Keep keep;
  bool written = true;
  if (!flags.dump.empty()) {
    if (!MakeFolder(flags.dump, findings)) return kFailed;
    keep = [&](size_t index, const verify::Case& test,
               const verify::CaseResult& result,
               const verify::CaseTensors& tensors) {
      std::string json =
          "{\"case\": " + VerifyCaseJson(test, result, MetricsOf(flags));
      if (!tensors.reference.shape.empty()) {
        json += ", \"settings\": {" + DumpSettings(test, tensors) + "}";
        written = WriteWhole(CaseFile(flags.dump, index, ".safetensors"),
                             DumpTensors(tensors), findings) &&
                  written;
      }
      json += "}\n";
      written =
          WriteWhole(CaseFile(flags.dump, index, ".json"), json, findings) &&
          written;
    };
  }
  const verify::Report report =
      verify::RunMatrix(work->request, std::move(work->matrix),
                        ThreadsOf(common), ProgressLine(common, "cases"), keep);
  const std::string text = common.format == "json"
                               ? VerifyJson(report, MetricsOf(flags))
                               : verify::ReportText(report);
  if (!written || !PutOut(text, findings)) return kFailed;
  return Found(report, work->asked) ? kFound : kDone;
}

}  // namespace

Run DeclareVerify(CLI::App& app) {
  auto flags = std::make_shared<VerifyFlags>();
  AddVerifyFlags(app, *flags);
  return [flags](const Common& common, Findings& findings) {
    return RunVerify(*flags, common, findings);
  };
}

}  // namespace shardc::cli
