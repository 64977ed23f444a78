// Finds the rules that may be near to a name (plan/nearest.h), without
// comparing the name with every rule.
#ifndef SHARDC_PLAN_NEAREST_INDEX_H_
#define SHARDC_PLAN_NEAREST_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plan/misspelt_words.h"

namespace shardc {

// One of the texts that a rule's pattern can match, split into the parts of a
// path.
struct PatternText {
  uint32_t rule = 0;
  // The parts of the text, from the first part of the path to the last.
  std::vector<std::string> parts;
  // Whether the first part must be equal to a complete part of the name (`^`).
  // Otherwise it may be only the end of that part.
  bool begin_anchor = false;
  // Whether the last part must be equal to a complete part of the name (`$`).
  // Otherwise it may be only the beginning of that part.
  bool end_anchor = false;
};

class NearestIndex {
 public:
  // Builds the index in time linear in the sizes of the texts.
  explicit NearestIndex(std::span<const PatternText> texts);

  // Returns the indices of the texts that may differ from the name in at most
  // one part, in ascending order. The result contains all such texts, and may
  // contain further texts. `parts` are the parts of the name.
  std::vector<uint32_t> Candidates(
      std::span<const std::string_view> parts) const;

 private:
  // The index has only the last three parts of each text.
  static constexpr size_t kDepth = 3;

  // How a part of a text is compared with a part of a name. The text's part
  // must be equal to the name's part, or be its end, be its beginning, or be
  // contained in it. Only the first part of a text without `^` and the last
  // part of a text without `$` may be shorter than the name's part.
  enum class Fit : uint8_t { kEqual, kEnds, kBegins, kContained };

  // A part of a text that has no wildcards. `depth` is the number of parts
  // after it in the text.
  struct LiteralPart {
    size_t depth = 0;
    Fit fit = Fit::kEqual;
    const std::string* text = nullptr;
  };

  // Element n has the indices of the texts that are listed under one literal
  // part: the part with number n in `words_`. Parts with numbers beyond the end
  // of the vector have no texts.
  using TextsOfWords = std::vector<std::vector<uint32_t>>;

  // The lists for lookups that compare a fixed number of a name's last parts:
  // 1, 2 or 3.
  struct Level {
    // The texts that are listed under a literal part. The key (KeyOf) contains
    // the part, its position from the end of the text (LiteralPart::depth) and
    // its Fit.
    std::unordered_map<std::string, std::vector<uint32_t>> fitting;
    // The lengths of the literal parts in `fitting`, indexed by depth and fit.
    std::array<std::array<std::set<size_t>, 4>, kDepth> lengths;
    // The texts of which only one or two parts are compared with a name, all of
    // them literal. Such a text is listed under its rarest part. A lookup finds
    // the text even if the part of the name has a typing error. The array is
    // indexed by the LiteralPart::depth of the rarest part.
    std::array<TextsOfWords, kDepth> texts;
    // The texts that are in no list, because at most one of their compared
    // parts is literal. Every lookup returns them.
    std::vector<uint32_t> always;
  };

  static std::string KeyOf(size_t depth, Fit fit, std::string_view text);
  static std::vector<LiteralPart> LiteralParts(const PatternText& text,
                                               size_t compared);
  void Build(std::span<const PatternText> texts, size_t level);
  static void AddFitting(const Level& level, size_t depth,
                         std::string_view word, std::vector<uint32_t>& out);
  void AddMisspelt(const Level& level, size_t depth, std::string_view word,
                   std::vector<uint32_t>& out) const;

  // levels_[i] is used if a lookup compares the last i + 1 parts of a name. A
  // lookup compares at most kDepth parts, so long names use the last level.
  std::array<Level, kDepth> levels_;
  // words_[d] assigns a number to each literal part of depth d. The numbers are
  // indices into Level::texts[d]. A text may be listed under the same part in
  // several levels, so all levels share these lists of words. MisspeltWords
  // also finds a word that differs by a typing error.
  std::array<MisspeltWords, kDepth> words_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_INDEX_H_
