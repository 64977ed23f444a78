// Represents the arguments of a run as a source text. Findings about options
// are in no file, and their place is in this text.
#ifndef SHARDC_CLI_COMMAND_LINE_H_
#define SHARDC_CLI_COMMAND_LINE_H_

#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/source.h"

namespace shardc::cli {

// Returns a word quoted for a shell if it needs quotes: `a b` -> `'a b'`.
std::string ShellWord(std::string_view word);

class CommandLine {
 public:
  // Makes a command line without arguments. Placed() then changes no finding.
  CommandLine() = default;
  CommandLine(int argc, const char* const* argv);

  // Returns the findings with places. A finding without a place is placed at
  // the word of the command line that its message quotes. If there is no such
  // word, an error is placed at the command's name.
  Findings Placed(Findings findings) const;

 private:
  Place PlaceOf(const Finding& finding) const;
  Place At(size_t begin, size_t size) const {
    return {source_, begin, begin + size};
  }

  SourceRef source_;
  // The size in bytes of the program's name and the space after it.
  size_t program_size_ = 0;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMAND_LINE_H_
