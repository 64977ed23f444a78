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
  std::vector<std::string> parts;  // The parts, in the order of the path.
  // Whether the first part must match completely (`^`).
  bool begin_anchor = false;
  // Whether the last part must match completely (`$`).
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

  // Which piece of a name's part must be equal to the part of a text: the
  // complete part, its end, its beginning, or any piece of it. A part that is
  // anchored at both ends must be equal to the complete part.
  enum class Fit : uint8_t { kEqual, kEnds, kBegins, kContained };

  // A part of a text that has no wildcards. `depth` is the number of parts
  // after it in the text.
  struct LiteralPart {
    size_t depth = 0;
    Fit fit = Fit::kEqual;
    const std::string* text = nullptr;
  };

  // The texts that are listed under a literal part, by the number of the part
  // in `words_`. The numbers after the last part with a text are left out.
  using TextsOfWords = std::vector<std::vector<uint32_t>>;

  // The lists that are used if a certain number of parts of a name are compared
  // with each text.
  struct Level {
    // The texts that are listed under a literal part, keyed by the depth, the
    // fit and the part.
    std::unordered_map<std::string, std::vector<uint32_t>> fitting;
    // The lengths of the literal parts in `fitting`, indexed by depth and fit.
    std::array<std::array<std::set<size_t>, 4>, kDepth> lengths;
    // The texts that have only one or two compared parts, all of them literal.
    // Such a text is listed under its rarest part. A lookup finds the text even
    // if the part of the name has a typing error. Indexed by the listed part's
    // LiteralPart::depth.
    std::array<TextsOfWords, kDepth> texts;
    // The texts with too few literal parts for the lists.
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

  // levels_[i] is used for names of which i + 1 parts are compared. The last
  // level is also used for longer names.
  std::array<Level, kDepth> levels_;
  // The literal parts under which Level::texts lists texts, indexed by depth.
  // All levels share them: a text of one part is in each level. Finds also
  // parts that differ from a part of the name by a typing error.
  std::array<MisspeltWords, kDepth> words_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_INDEX_H_
