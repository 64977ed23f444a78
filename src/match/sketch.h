// A sketch represents a pattern by the list of texts that the pattern can
// match: the texts of `mlp/(a|b)/kernel$` are `mlp/a/kernel` and
// `mlp/b/kernel`. Suggestions compare these texts with a name that no rule
// matches. Matching itself does not use sketches.
#ifndef SHARDC_MATCH_SKETCH_H_
#define SHARDC_MATCH_SKETCH_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct Sketch {
  // Represents any text, also the empty text.
  static constexpr char kWild = '\x01';
  // Represents any one character (an unescaped dot).
  static constexpr char kAnyChar = '\x02';
  // The largest number of texts of a sketch.
  static constexpr size_t kLimit = 64;

  // The texts, in which kWild or kAnyChar represents each part that is not
  // literal.
  std::vector<std::string> texts;
  // False if a limit such as kLimit left some texts out.
  bool complete = true;
  bool begin_anchor = false;  // Whether the pattern begins with `^`.
  bool end_anchor = false;    // Whether the pattern ends with `$`.
  // True if every text consists only of kWild and kAnyChar, and the pattern is
  // known to match every name. False for `^[^/]*$`: its text is kWild, but it
  // matches no name that contains a `/`.
  bool catch_all = false;
};

Sketch SketchOf(std::string_view pattern);

// Returns whether a text of a sketch has neither kWild nor kAnyChar.
bool IsLiteral(std::string_view text);

// Returns whether `text`, which may have kWild and kAnyChar, matches `word`
// from its beginning to its end.
bool SketchFits(std::string_view text, std::string_view word);

// Returns the parts of a sketch's text between separators. If the separator is
// a dot, unescaped dots (kAnyChar) also separate parts.
std::vector<std::string> SketchSegments(std::string_view text, char separator);

}  // namespace shardc

#endif  // SHARDC_MATCH_SKETCH_H_
