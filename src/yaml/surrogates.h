// Pairs of surrogate escapes in YAML. JSON writes a character beyond U+FFFF as
// two escapes, `\ud83d\ude00`. A YAML file may be JSON, but yaml-cpp reads each
// escape as a character of its own and refuses it.
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

  // Returns the text for the parser, in which each pair is replaced by escapes
  // of two characters that the text does not contain. A text that contains them
  // is returned unchanged. All offsets stay the same.
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
  std::vector<Pair> pairs_;  // ascending; empty if the text has the substitutes
};

}  // namespace shardc

#endif  // SHARDC_YAML_SURROGATES_H_
