// Finds the rule that the user probably intended for a name that no rule
// matches.
#ifndef SHARDC_PLAN_NEAREST_H_
#define SHARDC_PLAN_NEAREST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/match.h"
#include "match/sketch.h"
#include "model/rules.h"

namespace shardc {

// Returns whether two different words differ by a typing error. That is the
// case if they differ by at most two edits, and by at most one edit for every
// three letters of the longer word.
bool IsTypingError(std::string_view a, std::string_view b);

class MisspeltWords {
 public:
  // Adds a word to the list, unless the list has it, and returns the word's
  // number. Numbers start with 0 and have no gaps.
  size_t Add(const std::string& word);
  // Builds the index of the words. Must be called after the last Add and before
  // the first Find.
  void Finish();

  // Returns the numbers of the words that are equal to `word` or differ from it
  // by a typing error.
  std::vector<size_t> Find(std::string_view word) const;

 private:
  void AddByLength(std::string_view word, size_t least, size_t most,
                   std::vector<size_t>& out) const;
  void AddByRemainder(std::string_view word, std::vector<size_t>& out) const;

  std::vector<std::string> words_;
  // The letters of each word, as bits; a bit may represent several letters.
  std::vector<uint64_t> letters_;
  std::map<std::string, size_t, std::less<>> numbers_;
  std::map<size_t, std::vector<uint32_t>> by_length_;
  // The index of remainders: the texts that remain after some letters of a word
  // are deleted. It is empty for a short list, and leaves out long words. The
  // upper bits of a remainder's hash choose its bucket, and bucket b is the
  // range [starts_[b], starts_[b + 1]). A word has hundreds of remainders, so
  // only 5 bytes are stored for each: the number of the word (owners_) and the
  // lowest 8 bits of the hash (marks_).
  std::vector<uint32_t> owners_;
  std::vector<uint8_t> marks_;
  std::vector<uint32_t> starts_;
  int shift_ = 0;
};

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

struct NearRule {
  int32_t rule = -1;
  // How many parts of the pattern are equal to the parts of the name at the
  // same position.
  int matched = 0;
  // How many of these equal parts come after the part that differs.
  int run = 0;
  std::string written;  // The part of the pattern that differs.
  std::string found;    // The part of the name at the position of `written`.
  // The pattern with `written` replaced by `found`. Empty if the pattern cannot
  // be changed in this way.
  std::string rewrite;
};

// A plan's rules, prepared for comparison with names.
class NearestRules {
 public:
  enum class Among : uint8_t { kAll, kDead };

  // `rules` must outlive this object. `matches` shows which rules are dead,
  // which means that they match no parameter.
  NearestRules(std::span<const Rule> rules, const Matches& matches,
               char separator);

  // Returns the rule that is nearest to the name, or nullopt if no rule is
  // near. A rule is near if exactly one of the compared parts differs, and at
  // least two parts are equal. Fewer parts may be equal if the part that
  // differs is a typing error. Two numbers, such as the layers 3 and 5, do not
  // differ, but they are not counted as equal parts either. A catch-all is
  // never returned.
  //
  // If several rules are near, the order of preference is: dead rules; rules
  // with a typing error, the fewest edits first; the most equal parts; the most
  // equal parts at the end; the fewest edits; rules not in `taken`; earlier
  // rules.
  std::optional<NearRule> Of(std::string_view name, Among among = Among::kAll,
                             const std::set<int32_t>& taken = {}) const;

  const Sketch& sketch(size_t rule) const { return sketches_[rule]; }

 private:
  std::span<const Rule> rules_;
  char separator_;
  std::vector<Sketch> sketches_;
  // The texts that the rules' patterns can match (Sketch::texts), such as
  // `mlp/a/kernel` and `mlp/b/kernel` for the pattern `mlp/(a|b)/kernel`.
  std::vector<PatternText> texts_;
  NearestIndex index_;
  std::vector<bool> dead_;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_H_
