// Runs `shardc verify` in one or several processes, and shows its progress.
// Every process of a run makes the same calls, but computes only its own
// devices of the mesh. Only the first process prints. The progress bar is one
// line, which is overwritten after a carriage return. For example, after 36 of
// 96 cases the line is:
//
//   [###########                   ] 36/96 cases
#include "cli/verify_process.h"

#include <unistd.h>

#include <string>

#include "cli/output.h"
#include "source/file_sink.h"

namespace shardc::cli {

verify::Progress ProgressLine(const Common& common, std::string_view what) {
  if (common.quiet || isatty(STDERR_FILENO) != 1) return {};
  return [what](size_t done, size_t all, const std::string& within) {
    constexpr size_t kBarWidth = 30;
    const size_t filled = done * kBarWidth / all;
    std::string line = "\r[" + std::string(filled, '#') +
                       std::string(kBarWidth - filled, ' ') + "] " +
                       std::to_string(done) + "/" + std::to_string(all) + " " +
                       std::string(what);
    if (!within.empty()) line += ", " + within;
    line += "\x1b[K";
    if (done == all) line = "\r\x1b[K";
    WriteAll(STDERR_FILENO, line);
  };
}

void ReportMovedBytes(const MovedBytes& bytes, const Ranks& ranks,
                      const Common& common) {
  if (ranks.count() == 1) return;
  PrintMessage(common,
               ranks.MovedText(bytes.recorded, bytes.moved, bytes.crossed));
}

int RunOverRanks(const std::function<int(const Ranks&)>& body,
                 Findings& findings) {
  const auto ranks = Ranks::Join(findings);
  if (!ranks) return kFailed;
  return ranks->End(body(*ranks), findings);
}

}  // namespace shardc::cli
