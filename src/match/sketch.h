// A pattern as the list of texts that it stands for: `mlp/(a|b)/kernel$` stands
// for `mlp/a/kernel` and `mlp/b/kernel`. Suggestions compare the texts with a
// name that no rule matches. Matching does not use them.
#ifndef SHARDC_MATCH_SKETCH_H_
#define SHARDC_MATCH_SKETCH_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct Sketch {
  static constexpr char kWild = '\x01';     // any text, or none
  static constexpr char kAnyChar = '\x02';  // an unescaped dot
  static constexpr size_t kLimit = 64;      // the most texts of a sketch

  // The texts, in which kWild or kAnyChar stands for each part that is not
  // literal.
  std::vector<std::string> texts;
  bool complete = true;       // false: some are left out, by a limit
  bool begin_anchor = false;  // `^` at the start of the pattern
  bool end_anchor = false;    // `$` at its end
  // Whether every alternative is wild and the pattern matches every name. False
  // for `^[^/]*$`, which is wild but matches only names of one part.
  bool catch_all = false;
};

Sketch SketchOf(std::string_view pattern);

// Returns whether a text of a sketch has no wild marks.
bool IsLiteral(std::string_view text);

// Returns whether `text` (with wild marks) matches all of `word`.
bool SketchFits(std::string_view text, std::string_view word);

// Returns a text of a sketch, divided at a separator. If the separator is a
// dot, unescaped dots (kAnyChar) are separators too.
std::vector<std::string> SketchSegments(std::string_view text, char separator);

}  // namespace shardc

#endif  // SHARDC_MATCH_SKETCH_H_
