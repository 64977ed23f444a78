// Finds the patterns that match a name. A pattern is tried only if the name
// contains the literal texts that the pattern requires.
#ifndef SHARDC_MATCH_PATTERN_FILTER_H_
#define SHARDC_MATCH_PATTERN_FILTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

}  // namespace shardc

#endif  // SHARDC_MATCH_PATTERN_FILTER_H_
