// Parses the values of options: of the command line, and of keys of files that
// have the same meaning.
#ifndef SHARDC_MODEL_OPTION_VALUE_H_
#define SHARDC_MODEL_OPTION_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// How many users need an option. `-h` lists those that most need, and those
// that are often needed as far as one screen holds them.
enum class HelpNeed : uint8_t { kSeldom, kOften, kMost };

// Returns a place for a finding about an option's value. A place is always in a
// file. Here, the option's name stands for the file's name, and the value for
// the file's content.
Place FlagPlace(std::string_view flag, const std::string& value);

// Parses a decimal integer. CLI11 is not used for this, because it reads 010 as
// octal and -1 as 2^64 - 1. Returns nullopt, after a finding, if the text is
// not an integer or if the number is less than `least`. `place` is where the
// text stands. In the second function, this is the value of the option `flag`.
std::optional<int64_t> ParseInteger(const Place& place, const std::string& text,
                                    int64_t least, Findings& findings);
std::optional<int64_t> ParseInteger(std::string_view flag,
                                    const std::string& text, int64_t least,
                                    Findings& findings);

// Parses a size in bytes (source/size.h). Returns nullopt after a finding.
std::optional<int64_t> ParseBytes(const Place& place, std::string_view flag,
                                  const std::string& text, Findings& findings);
std::optional<int64_t> ParseBytes(std::string_view flag,
                                  const std::string& text, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_MODEL_OPTION_VALUE_H_
