// Writes results to stdout or to a file and messages to stderr.
#ifndef SHARDC_CLI_OUTPUT_H_
#define SHARDC_CLI_OUTPUT_H_

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "source/finding.h"
#include "source/sink.h"
#include "source/source.h"

namespace shardc::cli {

// Returns whether to write colours to a stream. With `--color auto`, colours
// are off if NO_COLOR is set, and else on if CLICOLOR_FORCE is set and not 0.
// If neither is set, they are on if the stream is a terminal and TERM is not
// `dumb`.
bool UsesColor(const Common& common, int fd);

// Writes a result to a sink.
using Write = std::function<void(Sink& out)>;

// Writes a complete result to stdout. Returns false after a finding (`write`).
bool PutOut(std::string_view text, Findings& findings);
bool PutOut(const Write& write, Findings& findings);

// Prints lines on stderr with invisible characters escaped. Prints nothing with
// --quiet.
void PrintMessage(const Common& common, std::string_view text);

// Prints findings on stderr, sorted. With `--format json` they are printed as
// JSON, otherwise as text. --quiet does not suppress them.
void Report(Findings& findings, const Common& common);

// Returns the path for a FileSink: `path`, or "-" for stdout if it is empty. A
// command never overwrites a file that it has read, so for such a file the
// function adds a finding and returns nullopt.
std::optional<std::string> ResultPath(const std::string& path,
                                      Findings& findings);

// Writes a result to the file `path`. If `path` is "-" or empty, writes to
// stdout. Returns false after adding the finding `write`.
bool PutResult(std::string_view text, const std::string& path,
               Findings& findings);
bool PutResult(const Write& write, const std::string& path, Findings& findings);

struct ResultFile {
  Write write;
  std::string path;  // "-" or empty for stdout
};

// Writes two results. No file is created or replaced unless all bytes of both
// results could be written. If the process is killed, both files are
// the old ones, or both are the new ones, or the second is missing or is a mark
// that readers refuse (kResumeIndex).
// Returns false after adding the finding `write`.
bool PutResults(const ResultFile& first, const ResultFile& second,
                Findings& findings);

// Returns whether two output paths name the same regular file, or would name it
// once it exists.
bool AreOneFile(const std::string& a, const std::string& b);

// While an object exists, SIGINT, SIGTERM and SIGHUP remove incomplete files
// and print `text` on standard error. The process then ends by the signal, as
// its caller expects. A signal that the process already ignored remains
// ignored. Objects may be nested.
class InterruptMessage {
 public:
  explicit InterruptMessage(std::string text);
  ~InterruptMessage();
  InterruptMessage(const InterruptMessage&) = delete;
  InterruptMessage& operator=(const InterruptMessage&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::string text_;
  std::string_view text_before_;
  std::array<void (*)(int), kSignals.size()> before_{};
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OUTPUT_H_
