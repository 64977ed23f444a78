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

  // Returns the text for the parser, in which each pair is replaced by the
  // escapes of two substitute characters, so that all offsets stay the same. A
  // text that already contains the substitutes is returned unchanged.
  std::string ParserText() const;
  // Returns the value of a scalar that begins at `begin`, without substitutes.
  // In double quotes, each pair is replaced by the character that it encodes.
  // Elsewhere it is replaced by the escapes as written.
  std::string ValueOf(std::string value, size_t begin) const;

 private:
  struct Pair {
    size_t begin = 0;
    uint32_t point = 0;
  };
  std::string_view text_;
  // Ascending by `begin`. Empty if the text contains the two substitute
  // characters.
  std::vector<Pair> pairs_;
};

}  // namespace shardc

#endif  // SHARDC_YAML_SURROGATES_H_
