// A sketch represents a pattern by the list of texts that the pattern can
// match: the texts of `mlp/(a|b)/kernel$` are `mlp/a/kernel` and
// `mlp/b/kernel`. Suggestions compare these texts with a name that no rule
// matches. Matching itself does not use sketches.
#ifndef SHARDC_MATCH_SKETCH_H_
#define SHARDC_MATCH_SKETCH_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "match/match.h"

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

// Finds the arrays of a training state that a rule misses because its pattern
// is anchored. A training state is a tree of the parameters and of other arrays
// that have the same paths under other prefixes (optax moments:
// `opt_state/0/mu/PATH`). A pattern that is not anchored also matches these
// arrays. A pattern that is anchored at the start matches only the parameters.

// Returns whether the pattern begins with `^` or `\A`, possibly inside leading
// groups, and has no alternation outside of groups. Such a pattern matches only
// at the start of a name, unless a leading group has alternatives, as in
// `(^a|b)c`.
bool IsAnchoredAtStart(std::string_view pattern);

// An array of the training state, such as a moment, that its parameter's rule
// does not match. `parameter` and `state` are indices into the list of names.
struct MissedState {
  // The index of the anchored pattern that is the parameter's first match.
  uint32_t pattern = 0;
  // The index of the parameter in the list of names.
  uint32_t parameter = 0;
  // The index of the array, whose name ends in the path of the parameter.
  uint32_t state = 0;
  bool operator==(const MissedState&) const = default;
};

// Returns the states that anchored patterns miss, in the order of the names. A
// state is a name that ends in the path of a parameter whose first match is an
// anchored pattern. One part may follow the path. A leading `params` is not
// part of the path. A parameter may end in the path of another one by chance:
// layers.0.norm.weight ends in norm.weight. A name is therefore a state only if
// at least half of the names with its first part (`layers`) end in the path of
// a parameter with another first part.
std::vector<MissedState> FindMissedStates(
    std::span<const std::string_view> patterns, const Matches& matches,
    std::span<const std::string_view> names, char separator);

}  // namespace shardc

#endif  // SHARDC_MATCH_SKETCH_H_
