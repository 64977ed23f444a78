// The arguments of a run as a source text, so that findings about options,
// which are in no file, have a place too.
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
  CommandLine() = default;  // without arguments Placed() changes nothing
  CommandLine(int argc, const char* const* argv);

  // Returns the findings with places. The place of a finding without a place
  // becomes the word of the command line that its message quotes. If there is
  // no such word, the place of an error becomes the command's name.
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
