// A sketch is a pattern as the list of texts that it stands for:
// `mlp/(a|b)/kernel$` stands for `mlp/a/kernel` and `mlp/b/kernel`. Suggestions
// compare the texts with a name that no rule matches. Matching itself does not
// use sketches.
#ifndef SHARDC_MATCH_SKETCH_H_
#define SHARDC_MATCH_SKETCH_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct Sketch {
  static constexpr char kWild = '\x01';     // any text, also an empty one
  static constexpr char kAnyChar = '\x02';  // an unescaped dot
  static constexpr size_t kLimit = 64;      // the most texts of a sketch

  // The texts, in which kWild or kAnyChar stands for each part that is not
  // literal.
  std::vector<std::string> texts;
  bool complete = true;       // false: kLimit or another limit left some out
  bool begin_anchor = false;  // `^` at the start of the pattern
  bool end_anchor = false;    // `$` at its end
  // Whether every text consists only of kWild and kAnyChar, and the pattern is
  // known to match every name. False for `^[^/]*$`, whose text is kWild but
  // which matches only names of one part.
  bool catch_all = false;
};

Sketch SketchOf(std::string_view pattern);

// Returns whether a text of a sketch has neither kWild nor kAnyChar.
bool IsLiteral(std::string_view text);

// Returns whether `text`, which may have kWild and kAnyChar, matches all of
// `word`.
bool SketchFits(std::string_view text, std::string_view word);

// Returns the parts of a text of a sketch between separators. If the separator
// is a dot, unescaped dots (kAnyChar) are separators too.
std::vector<std::string> SketchSegments(std::string_view text, char separator);

}  // namespace shardc

#endif  // SHARDC_MATCH_SKETCH_H_
