// JSON writes a character beyond U+FFFF as two escapes, `\ud83d\ude00`. A file
// of YAML may be JSON, but yaml-cpp takes each escape for a character of its
// own and refuses it.
#ifndef SHARDC_YAML_SURROGATES_H_
#define SHARDC_YAML_SURROGATES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class SurrogatePairs {
 public:
  // Finds the pairs of escapes in a text.
  explicit SurrogatePairs(std::string_view text);

  // Returns the text for the parser, in which escapes of two characters that
  // the text lacks stand for each pair. Every offset stays the same.
  std::string ParserText() const;
  // Returns the value of a scalar that begins at `begin`, with the characters
  // of the pairs in it: decoded if it is in double quotes, else as written.
  std::string ValueOf(std::string value, size_t begin) const;

 private:
  struct Pair {
    size_t begin = 0;
    uint32_t point = 0;
  };
  std::string_view text_;
  std::vector<Pair> pairs_;  // in order; empty if the text has both characters
};

}  // namespace shardc

#endif  // SHARDC_YAML_SURROGATES_H_
