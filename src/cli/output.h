// Results on stdout, people's messages on stderr.
#ifndef SHARDC_CLI_OUTPUT_H_
#define SHARDC_CLI_OUTPUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc::cli {

// Colour on a stream: auto means a terminal, NO_COLOR unset and TERM not
// dumb; CLICOLOR_FORCE is honoured.
bool WantsColor(const Common& common, int fd);

// What makes a result, onto a sink.
using Write = std::function<void(Sink& out)>;

// A result on stdout, all of it or a finding (`write`).
bool PutOut(std::string_view text, Findings& findings);
bool PutOut(const Write& write, Findings& findings);

// Lines for people on stderr, what is hidden in them escaped; unless --quiet.
void Tell(const Common& common, std::string_view text);

// Findings on stderr, sorted, in the command's format where it is one of the
// finding formats (text otherwise). Printed even with --quiet.
void Report(Findings& findings, const Common& common);

// A result that goes to `path` ("-" or empty: stdout).
bool PutResult(std::string_view text, const std::string& path,
               Findings& findings);
bool PutResult(const Write& write, const std::string& path, Findings& findings);

// Decimal integers of flags. CLI11 reads 010 as octal and -1 as 2^64 - 1.
std::optional<int64_t> ParseInteger(std::string_view flag,
                                    const std::string& text, int64_t least,
                                    Findings& findings);
// Sizes (source/byte_size.h).
std::optional<int64_t> ParseBytes(std::string_view flag,
                                  const std::string& text, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OUTPUT_H_
