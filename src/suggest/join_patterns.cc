// Makes few regular expressions that match all parameter names of one suggested
// rule. Each name has a suffix that identifies its rule. The list of a suffix's
// parts is called an ending. If two endings differ in one part, they are joined
// to one ending with alternatives. This is repeated until no two endings can be
// joined:
//
//   q_proj.weight, k_proj.weight, v_proj.weight   ->  (q|k|v)_proj\.weight$
//
// Names of norms are shortened first. Several endings whose module name ends in
// `norm` become the ending `norm`, unless this also matches a parameter of
// another rule:
//
//   input_layernorm.weight, norm.weight           ->  norm\.weight$
//
// An ending may also list layer numbers, as in `layers\.(0|3)\.w`.
#include "suggest/join_patterns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "suggest/pattern_text.h"

namespace shardc::suggest {
namespace {

// If a rule has more endings than this, they are not joined, because all pairs
// of endings would have to be compared.
constexpr size_t kMostJoinedPatterns = 512;
constexpr std::string_view kNorm = "norm";

// The ending of a name, and the groups whose names end with it. A match must
// begin after a separator or at the start of the name if `at_boundary` is set,
// and at the start if `at_start` is set.
struct Ending {
  PartWords words;
  bool at_boundary = false;
  bool at_start = false;
  // If the pattern lists numbers in place of a counter (`*`) of `words`, as in
  // `layers\.(0|3)\.w`, the index of the counter: 0 for the first `*`.
  // Otherwise -1.
  int counter = -1;
  // The pattern of the listed numbers; null if no numbers are listed. It points
  // to a string of NumberTexts, so that equal patterns have equal addresses.
  const std::string* numbers = nullptr;
  std::vector<uint32_t> groups;

  // Returns whether two endings have the same flags, counter and numbers.
  bool SameBesides(const Ending& other) const {
    return at_boundary == other.at_boundary && at_start == other.at_start &&
           counter == other.counter && numbers == other.numbers;
  }
};

// Stores patterns of listed numbers, such as `(0|3)`, keyed by the name of a
// group and the index of a counter in it. If several groups of a rule have the
// same name, their endings list the numbers of all of them, and share the
// stored pattern.
class NumberTexts {
 public:
  explicit NumberTexts(const NameIndex& names) : names_(names) {}

  const std::string* Of(uint32_t k, int counter) {
    const auto [at, fresh] =
        known_.try_emplace({names_.GroupAt(k).name, counter}, nullptr);
    if (fresh) {
      at->second = &*texts_
                         .insert(NumbersPattern(names_.NumbersHere(
                             k, static_cast<size_t>(counter))))
                         .first;
    }
    return at->second;
  }

 private:
  const NameIndex& names_;
  std::map<std::pair<std::string_view, int>, const std::string*> known_;
  std::set<std::string> texts_;
};

// Returns the number of counters (`*`) in the parts before the index `end`.
int CountersBefore(const std::vector<std::string_view>& parts, size_t end) {
  int out = 0;
  for (size_t i = 0; i < end; ++i) {
    out += static_cast<int>(std::count(parts[i].begin(), parts[i].end(), '*'));
  }
  return out;
}

Ending EndingOf(const NameIndex& names, uint32_t k, const Suffix& suffix,
                NumberTexts& numbers) {
  const auto& parts = names.GroupAt(k).parts;
  Ending out;
  out.at_boundary = suffix.at_boundary;
  out.at_start = suffix.at_start;
  out.groups = {k};
  const size_t begin = parts.size() - suffix.parts;
  out.words.assign(parts.begin() + static_cast<long>(begin), parts.end());
  if (suffix.counter < 0) return out;
  out.counter = suffix.counter - CountersBefore(parts, begin);
  out.numbers = numbers.Of(k, suffix.counter);
  return out;
}

// Returns the distinct endings of the groups, ordered by the first group that
// has each ending.
std::vector<Ending> EndingsOf(const NameIndex& names,
                              const std::vector<uint32_t>& groups,
                              const std::vector<Suffix>& suffixes,
                              NumberTexts& numbers) {
  using Key = std::tuple<PartWords, bool, bool, int, const std::string*>;
  std::map<Key, size_t> known;
  std::vector<Ending> out;
  for (const uint32_t k : groups) {
    Ending ending = EndingOf(names, k, suffixes[k], numbers);
    const auto [at, fresh] =
        known.try_emplace({ending.words, ending.at_boundary, ending.at_start,
                           ending.counter, ending.numbers},
                          out.size());
    if (fresh) {
      out.push_back(std::move(ending));
    } else {
      out[at->second].groups.push_back(k);
    }
  }
  return out;
}

// ---- norms

// Returns the indices of the endings of norms, keyed by the part after `norm`:
// "weight" for `input_norm.weight`, and "" for `input_norm`.
std::map<std::string, std::vector<size_t>> NormEndings(
    const NameIndex& names, const std::vector<Ending>& endings) {
  std::map<std::string, std::vector<size_t>> out;
  for (size_t i = 0; i < endings.size(); ++i) {
    const Ending& ending = endings[i];
    if (ending.at_boundary || ending.counter >= 0) continue;
    const auto& parts = names.GroupAt(ending.groups.front()).parts;
    if (parts.back().ends_with(kNorm)) {
      out[""].push_back(i);
    } else if (parts.size() >= 2 && parts.back() != "*" &&
               parts[parts.size() - 2].ends_with(kNorm)) {
      out[std::string(parts.back())].push_back(i);
    }
  }
  return out;
}

// Returns whether a parameter group with one of these endings has the same name
// as a group of another rule.
bool SharesNames(const NameIndex& names, const std::vector<Ending>& endings,
                 const std::vector<size_t>& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](size_t i) {
    return std::any_of(endings[i].groups.begin(), endings[i].groups.end(),
                       [&](uint32_t k) { return names.IsNameElsewhere(k); });
  });
}

// Removes the endings of norms from `endings`, and returns the shorter endings
// that replace them.
std::vector<Ending> TakeNorms(const NameIndex& names,
                              std::vector<Ending>& endings) {
  // Matches names whose last part ends in `norm`.
  Ending bare;
  // Matches names such as `input_norm.weight`, as `norm.(weight|bias)`.
  Ending with_leaf;
  std::set<size_t> taken;
  for (const auto& [leaf, indices] : NormEndings(names, endings)) {
    std::string text(kNorm);
    if (!leaf.empty()) text += names.tree().separator + leaf;
    if (indices.size() < 2 ||
        names.OthersEndWith(text, endings[indices.front()].groups.front()) ||
        SharesNames(names, endings, indices)) {
      continue;
    }
    Ending& to = leaf.empty() ? bare : with_leaf;
    if (to.words.empty()) {
      to.words = {std::string(kNorm)};
      if (!leaf.empty()) to.words.push_back(leaf);
    } else {
      to.words.back() += "|" + leaf;
    }
    for (const size_t i : indices) {
      taken.insert(i);
      to.groups.insert(to.groups.end(), endings[i].groups.begin(),
                       endings[i].groups.end());
    }
  }
  std::vector<Ending> out;
  for (Ending* ending : {&bare, &with_leaf}) {
    if (ending->groups.empty()) continue;
    std::sort(ending->groups.begin(), ending->groups.end());
    out.push_back(std::move(*ending));
  }
  std::vector<Ending> rest;
  for (size_t i = 0; i < endings.size(); ++i) {
    if (!taken.contains(i)) rest.push_back(std::move(endings[i]));
  }
  endings = std::move(rest);
  return out;
}

// ---- pairs

// Returns the index of the part in which two endings differ. Returns nullopt if
// they differ in no part, in several parts, or in their flags or numbers. Also
// returns nullopt if one of the two parts contains a counter (`*`).
std::optional<size_t> OnlyDifference(const Ending& a, const Ending& b) {
  if (a.words.size() != b.words.size() || !a.SameBesides(b)) {
    return std::nullopt;
  }
  std::optional<size_t> at;
  for (size_t i = 0; i < a.words.size(); ++i) {
    if (a.words[i] == b.words[i]) continue;
    if (at) return std::nullopt;
    at = i;
  }
  const auto counts = [](const std::string& word) {
    return word.find('*') != std::string::npos;
  };
  if (at && (counts(a.words[*at]) || counts(b.words[*at]))) return std::nullopt;
  return at;
}

void JoinOnce(std::vector<Ending>& endings) {
  for (size_t i = 0; i < endings.size(); ++i) {
    for (size_t j = i + 1; j < endings.size();) {
      const auto at = OnlyDifference(endings[i], endings[j]);
      if (!at) {
        ++j;
        continue;
      }
      endings[i].words[*at] += "|" + endings[j].words[*at];
      auto& groups = endings[i].groups;
      groups.insert(groups.end(), endings[j].groups.begin(),
                    endings[j].groups.end());
      std::sort(groups.begin(), groups.end());
      endings.erase(endings.begin() + static_cast<long>(j));
      j = i + 1;
    }
  }
}

void Join(std::vector<Ending>& endings) {
  if (endings.size() > kMostJoinedPatterns) return;
  for (size_t before = 0; before != endings.size();) {
    before = endings.size();
    JoinOnce(endings);
  }
}

// ---- texts

// Returns the expression to put before a pattern that may match only from the
// beginning of a part of the path: `(^|\.)` if the separator is a dot.
std::string Boundary(char separator) {
  if (separator == 0) return "(^|[^0-9A-Za-z_])";
  return "(^|" + Escaped(std::string_view(&separator, 1)) + ")";
}

// Replaces the `\d+` of the counter with this index by the pattern of its
// numbers: `layers\.\d+\.w` becomes `layers\.(0|3)\.w`.
void ReplaceCounter(std::string& text, int counter,
                    const std::string& numbers) {
  size_t at = text.find("\\d+");
  for (int c = 0; c < counter && at != std::string::npos; ++c) {
    at = text.find("\\d+", at + 3);
  }
  if (at != std::string::npos) text.replace(at, 3, numbers);
}

std::string EndingText(const Ending& ending, char separator) {
  std::string text = WordsText(ending.words, separator);
  if (ending.counter >= 0) {
    ReplaceCounter(text, ending.counter, *ending.numbers);
  }
  // A pattern that begins with a number would also match the end of a longer
  // number, so it needs a boundary.
  const bool number_first = ending.counter >= 0 &&
                            ending.words.front().find('*') != std::string::npos;
  std::string start;
  if (ending.at_start) {
    start = "^";
  } else if (ending.at_boundary || number_first) {
    start = Boundary(separator);
  }
  return start + text + "$";
}

PatternOf NamesPattern(const Tree& tree, uint32_t k) {
  PatternOf out;
  out.groups = {k};
  for (const uint32_t member : tree.Members(tree.groups[k])) {
    out.text +=
        (out.text.empty() ? "" : "|") + EscapedName(tree.NameOf(member));
  }
  out.text = Boundary(tree.separator) + "(" + out.text + ")$";
  return out;
}

}  // namespace

std::vector<PatternOf> JoinedPatterns(const NameIndex& names,
                                      const std::vector<uint32_t>& group,
                                      const std::vector<Suffix>& suffixes) {
  const Tree& tree = names.tree();
  std::vector<uint32_t> by_suffix;
  std::vector<PatternOf> by_names;
  for (const uint32_t k : group) {
    if (suffixes[k].by_names) {
      by_names.push_back(NamesPattern(tree, k));
    } else {
      by_suffix.push_back(k);
    }
  }
  NumberTexts numbers(names);
  std::vector<Ending> endings = EndingsOf(names, by_suffix, suffixes, numbers);
  const std::vector<Ending> norms = TakeNorms(names, endings);
  Join(endings);
  std::vector<PatternOf> out;
  for (const auto* list : {&norms, &std::as_const(endings)}) {
    for (const Ending& ending : *list) {
      out.push_back({EndingText(ending, tree.separator), ending.groups});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const PatternOf& a, const PatternOf& b) {
                     return a.groups.front() < b.groups.front();
                   });
  out.insert(out.end(), by_names.begin(), by_names.end());
  return out;
}

}  // namespace shardc::suggest
