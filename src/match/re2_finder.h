// Finds, by RE2, which patterns match a name. This class handles the patterns
// and names that the automaton does not support.
#ifndef SHARDC_MATCH_RE2_FINDER_H_
#define SHARDC_MATCH_RE2_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/match.h"
#include "match/unicode_pattern.h"
#include "source/finding.h"

// Finds the patterns that match a name. A pattern is tried only if the name
// contains the literal texts that the pattern requires.

namespace re2 {
class RE2;
}

namespace shardc {

class PatternFilter {
 public:
  explicit PatternFilter(
      std::span<const std::shared_ptr<const re2::RE2>> patterns);
  ~PatternFilter();
  PatternFilter(PatternFilter&&) noexcept;
  PatternFilter& operator=(PatternFilter&&) noexcept;

  struct Scratch {
    // The filter lists all literal texts that a pattern requires. These are the
    // indices in that list of the texts that occur in the name.
    std::vector<uint32_t> found;
    // Indexed like that list: whether the text is in `found`.
    std::vector<bool> has;
  };
  // Appends the indices of the patterns that match `text` to `out`, in any
  // order. Several threads may call Find(), each with separate scratch memory.
  void Find(std::string_view text, Scratch& scratch,
            std::vector<uint32_t>& out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class LiteralFinder {
 public:
  // `literals` must be distinct and must not contain an empty text.
  explicit LiteralFinder(std::span<const std::string> literals);

  // Appends to `out` the indices of the literals that occur in `text`. A
  // literal that occurs twice is appended twice.
  void Find(std::string_view text, std::vector<uint32_t>& out) const;

 private:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNoLiteral = UINT32_MAX;
  struct Node {
    uint32_t literal = kNoLiteral;  // The index of the literal that ends here.
    // The node of the longest proper suffix of the text.
    uint32_t shorter = kRoot;
    // The node of the longest proper suffix that is a literal.
    uint32_t ending = kRoot;
  };

  static uint64_t Edge(uint32_t from, char byte) {
    return uint64_t{from} << 8 | static_cast<unsigned char>(byte);
  }
  uint32_t Next(uint32_t from, char byte) const;

  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> edges_;
};

// One requirement: every name that the pattern matches contains at least one of
// these texts, which are ASCII and not empty.
using AnyOfTexts = std::vector<std::string>;

// Returns the requirements of a pattern, all of which a matching name fulfils:
// `(up|down)_.*kernel$` requires (`up` or `down`), `_` and `kernel`. Returns an
// empty list if the pattern has no literal text, or if it cannot be parsed.
std::vector<AnyOfTexts> RequiredTexts(std::string_view pattern);

// A compiled pattern, and the separator that it is written with.
struct CompiledPattern {
  std::shared_ptr<const re2::RE2> re;
  char separator = 0;
  // How Python reads the pattern in texts beyond ASCII; null if as RE2 does.
  std::shared_ptr<const UnicodePattern> unicode;

  // Returns `unicode` if it is needed for `text`, and null otherwise.
  const UnicodePattern* UnicodeFor(std::string_view text) const;
  // Returns the expression that finds a match in `text`, and its groups.
  const re2::RE2& For(std::string_view text) const;
};

// Returns `name` with `separator` replaced by `wanted`. Returns `name` itself
// if the two separators are equal or one of them is 0. A changed name is a view
// into `scratch`.
std::string_view Convert(std::string_view name, char separator, char wanted,
                         std::string& scratch);

class Re2Finder {
 public:
  enum class Method : uint8_t {
    // RE2::Set matches all patterns at once. If the set fails, RE2 matches each
    // pattern separately.
    kTogether,
    // RE2 matches one pattern at a time, but only the patterns whose required
    // literal texts occur in the name (re2_finder.h).
    kFiltered,
  };

  // Makes a finder for those of `patterns` whose indices are in `numbers`. The
  // constructor is fast and never fails: RE2's sets are compiled when the first
  // name is matched.
  Re2Finder(std::span<const CompiledPattern> patterns,
            std::span<const uint32_t> numbers,
            Method method = Method::kTogether);
  ~Re2Finder();
  Re2Finder(Re2Finder&&) noexcept;
  Re2Finder& operator=(Re2Finder&&) noexcept;

  struct Scratch {
    std::string text;
    std::vector<int> hits;
    std::vector<uint32_t> filtered;
    PatternFilter::Scratch filter;
  };
  // Appends the indices of the matching patterns to `out`, in any order.
  // Several threads may call Find(), each with separate scratch memory.
  void Find(std::string_view name, char separator, Scratch& scratch,
            std::vector<uint32_t>& out) const;

 private:
  struct Groups;
  std::unique_ptr<Groups> groups_;
};

// Explains why RE2 refuses a pattern: RE2's reason, the position in the
// pattern, and a rewrite if the pattern uses a feature that Python's `re` has
// and RE2 lacks.

struct PatternFault {
  std::string reason;  // The reason, such as "look-ahead is not part of RE2".
  std::string help;    // What to write instead; may be empty.
  size_t begin = 0;    // The error is in the bytes [begin, end) of the pattern.
  size_t end = 0;
};

// Explains an error that RE2 has reported. `error` is RE2's text, and
// `argument` the part of the pattern that the error concerns.
PatternFault ExplainFault(std::string_view pattern, std::string_view error,
                          std::string_view argument);

// Returns whether `re`, which was compiled from `pattern`, can be used. If not,
// adds a finding whose place is the position of the error in the pattern.
bool CheckPattern(const re2::RE2& re, const Pattern& pattern,
                  Findings& findings);

// Returns the offset after the part of the pattern that begins at `at`. A part
// is an escape such as `\d` or `\x{600}`, a text between `\Q` and `\E`, a
// character class or a single character. In the first three, no character is an
// operator. A part whose closing character is missing extends to the end of the
// pattern.
size_t AtomEnd(std::string_view pattern, size_t at);

}  // namespace shardc

#endif  // SHARDC_MATCH_RE2_FINDER_H_
