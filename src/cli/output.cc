// Writes the output of commands. A result is written to stdout or to a
// temporary file, which is renamed when it is complete. Progress and findings
// are written to stderr.
#include "cli/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/progress.h"
#include "emit/findings/formats.h"
#include "source/file.h"
#include "source/repository.h"
#include "source/sink.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

namespace fs = std::filesystem;

bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool UsesColor(const Common& common, int fd) {
  if (common.color == "always") return true;
  if (common.color == "never") return false;
  if (IsSet("NO_COLOR")) return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::strcmp(force, "0") != 0) {
    return true;
  }
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::strcmp(term, "dumb") == 0) return false;
  return isatty(fd) == 1;
}

void PrintMessage(const Common& common, std::string_view text) {
  if (common.quiet) return;
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines += Printable(text.substr(at, end - at));
    if (end < text.size()) lines += '\n';
    at = end + 1;
  }
  HideProgress();
  WriteAll(STDERR_FILENO, lines);
}

void Report(Findings& findings, const Common& common) {
  if (findings.empty()) return;
  findings = common.command_line.Placed(std::move(findings));
  findings.Sort();
  const FindingReport report{
      findings.all(), {}, {UsesColor(common, STDERR_FILENO)}, {}};
  const auto write = common.format == "json" ? FindingsJson : FindingsText;
  HideProgress();
  WriteAll(STDERR_FILENO, TextOf([&](Sink& out) { write(report, out); }));
}

std::optional<std::string> ResultPath(const std::string& path,
                                      Findings& findings) {
  std::string out = path.empty() ? "-" : path;
  if (RefuseInput(out, findings)) return std::nullopt;
  HideProgress();
  return out;
}

bool PutResult(const Write& write, const std::string& path,
               Findings& findings) {
  const auto to = ResultPath(path, findings);
  if (!to) return false;
  FileSink file(*to);
  write(file);
  return file.Commit(findings);
}

bool PutResult(std::string_view text, const std::string& path,
               Findings& findings) {
  return PutResult([text](Sink& out) { out.Append(text); }, path, findings);
}

bool PutResults(const ResultFile& first, const ResultFile& second,
                Findings& findings) {
  const auto first_path = ResultPath(first.path, findings);
  if (!first_path) return false;
  const auto second_path = ResultPath(second.path, findings);
  if (!second_path) return false;
  FileSink one(*first_path);
  first.write(one);
  if (!one.Prepare(findings)) return false;
  FileSink two(*second_path);
  second.write(two);
  if (!two.Prepare(findings)) return false;
  // While the first file is a new one and the second is not, the second is a
  // mark.
  std::error_code error;
  if (*first_path != "-" && *second_path != "-" &&
      fs::is_regular_file(*second_path, error) &&
      !WriteToFile(*second_path, kResumeIndex, findings)) {
    return false;
  }
  return one.Commit(findings) && two.Commit(findings);
}

bool AreOneFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  if (fs::exists(a, error) && fs::exists(b, error)) {
    return fs::is_regular_file(a, error) && FileIdOf(a) == FileIdOf(b);
  }
  return FollowedPath(a) == FollowedPath(b);
}

bool PutOut(const Write& write, Findings& findings) {
  return PutResult(write, "-", findings);
}

bool PutOut(std::string_view text, Findings& findings) {
  return PutResult(text, "-", findings);
}

namespace {

// The text that the signal handler prints. It is composed before the signal,
// because a signal handler must not allocate memory.
std::string_view interrupt_text;

void PrintInterrupt(int signal) {
  RemoveUnfinished();
  EraseProgressInSignal();
  (void)!::write(STDERR_FILENO, interrupt_text.data(), interrupt_text.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

InterruptMessage::InterruptMessage(std::string text)
    : text_(std::move(text)), text_before_(interrupt_text) {
  interrupt_text = text_;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    before_[i] = std::signal(kSignals[i], PrintInterrupt);
    // A signal that the caller ignores, as nohup ignores SIGHUP, remains
    // ignored.
    if (before_[i] == SIG_IGN) std::signal(kSignals[i], SIG_IGN);
  }
}

InterruptMessage::~InterruptMessage() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    std::signal(kSignals[i], before_[i]);
  }
  interrupt_text = text_before_;
}

}  // namespace shardc::cli
