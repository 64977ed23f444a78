// Finds the rules to which a name can be near (plan/nearest.h), without
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
  std::vector<std::string> parts;  // from the first to the last
  bool begin_anchor = false;       // the first part is complete
  bool end_anchor = false;         // the last part is complete
};

class NearestIndex {
 public:
  // Needs time linear in the sizes of the texts.
  explicit NearestIndex(std::span<const PatternText> texts);

  // Returns the indices of the texts that may differ from the name in at most
  // one part, in ascending order. The result contains all such texts, and may
  // contain further texts. `parts` are the parts of the name.
  std::vector<uint32_t> Candidates(
      std::span<const std::string_view> parts) const;

 private:
  // Only the last three parts are indexed.
  static constexpr size_t kDepth = 3;

  // How a part of a text fits a part of a name: it is equal, or the end, the
  // beginning or any piece of it. A part is equal if it is anchored at both
  // ends.
  enum class Fit : uint8_t { kEqual, kEnds, kBegins, kContained };

  // A part of a text without wildcards, `depth` parts before the last.
  struct LiteralPart {
    size_t depth = 0;
    Fit fit = Fit::kEqual;
    const std::string* text = nullptr;
  };

  // Literal parts, and the texts that are listed under each of them. Also finds
  // the texts if a part of the name differs by a typing error.
  struct Words {
    MisspeltWords words;
    std::vector<std::vector<uint32_t>> texts;  // by the number of the word
  };

  // The lists for names of which a certain number of parts are compared.
  struct Level {
    // The texts, keyed by depth, fit and literal part together.
    std::unordered_map<std::string, std::vector<uint32_t>> fitting;
    // The lengths of the literal parts, indexed by depth and fit.
    std::array<std::array<std::set<size_t>, 4>, kDepth> lengths;
    // Texts of which only one or two parts are compared, and these parts are
    // literal. Such a text is listed below its rarest literal part. A name
    // finds the part even if it has a typing error in it. Indexed by
    // LiteralPart::depth.
    std::array<Words, kDepth> words;
    // The texts with too few literal parts for the lists.
    std::vector<uint32_t> always;
  };

  static std::string KeyOf(size_t depth, Fit fit, std::string_view text);
  static std::vector<LiteralPart> LiteralParts(const PatternText& text,
                                               size_t compared);
  void Build(std::span<const PatternText> texts, size_t level);
  static void AddFitting(const Level& level, size_t depth,
                         std::string_view word, std::vector<uint32_t>& out);
  static void AddMisspelt(const Level& level, size_t depth,
                          std::string_view word, std::vector<uint32_t>& out);

  // levels_[i] is used for names of which i + 1 parts are compared. The last
  // level is also used for names with more parts.
  std::array<Level, kDepth> levels_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_INDEX_H_
