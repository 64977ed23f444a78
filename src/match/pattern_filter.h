// Finds the patterns that match a name. A pattern is tried only if the name
// contains the literal texts that the pattern requires.
#ifndef SHARDC_MATCH_PATTERN_FILTER_H_
#define SHARDC_MATCH_PATTERN_FILTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
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

}  // namespace shardc

#endif  // SHARDC_MATCH_PATTERN_FILTER_H_
