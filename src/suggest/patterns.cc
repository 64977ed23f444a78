// Makes the patterns of suggested rules. Each parameter group gets a short
// suffix of its name with which no name of another rule ends. The suffixes of
// one rule are joined into patterns, and all patterns are matched with all
// names. If a pattern matches a name of another rule, its suffixes become
// longer, such as mlp.up.weight in place of up.weight. The patterns are then
// made and matched again:
//
//   layers.*.mlp.gate_proj.weight, layers.*.mlp.up_proj.weight
//       ->  gate_proj.weight, up_proj.weight
//       ->  (gate|up)_proj\.weight$
#include "suggest/patterns.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "match/match.h"
#include "match/sketch.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {
namespace {

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

void JoinEndings(std::vector<Ending>& endings) {
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
    AppendItem(out.text, "|", EscapedName(tree.NameOf(member)));
  }
  out.text = Boundary(tree.separator) + "(" + out.text + ")$";
  return out;
}

// Returns patterns that together match the names of the groups in `group`.
// `suffixes`, indexed by parameter group, states which suffix of each name is
// matched. The patterns are in the order of the groups; patterns that list
// complete names come last.
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
  JoinEndings(endings);
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

// The largest number of rounds. In each round, the suffixes of patterns that
// match a name of another rule become longer by one part. Most names have fewer
// than 12 parts, so more rounds would rarely help.
constexpr int kMostRounds = 12;

}  // namespace

Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& rule_groups) {
  const NameIndex names(tree, rule_groups);
  std::vector<Suffix> suffixes(tree.groups.size());
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    suffixes[k] = FirstSuffix(names, k);
  }
  for (const auto& group : rule_groups) AlignSuffixes(names, group, suffixes);
  Patterns out;
  for (int round = 0; round < kMostRounds; ++round) {
    out.rule_groups.clear();
    for (const auto& group : rule_groups) {
      out.rule_groups.push_back(JoinedPatterns(names, group, suffixes));
    }
    const auto wrong = Disprove(tree, out);
    out.proven = wrong.empty();
    if (out.proven) break;
    bool changed = false;
    for (const uint32_t k : wrong) {
      changed = Narrow(names, k, suffixes[k]) || changed;
    }
    if (!changed) break;
  }
  const bool from_start =
      std::any_of(suffixes.begin(), suffixes.end(),
                  [](const Suffix& suffix) { return suffix.at_start; });
  if (out.proven && from_start) FindMissed(tree, out);
  return out;
}

// Writes the regular expressions of suggested rules. Words that differ become
// alternatives. A common beginning and end of the words, delimited by
// underscores, is written once:
//
//   gate_proj|up_proj  ->  (gate|up)_proj
//
// Up to six numbers are listed. More numbers are written as a trie (prefix
// tree) of their digits, in which digits with equal branches become one class:
//
//   0 .. 31  ->  ([04-9]|[12]\d?|3[01]?)

namespace {

// The length of the longest list of numbers that is written as alternatives,
// `(0|3)`. A longer list is written as a trie.
constexpr size_t kListedNumbers = 6;

struct Trie {
  bool end = false;
  std::map<char, Trie> next;
};

// Returns the pattern of one digit of a set, such as `[0-39]`.
std::string ClassOf(const std::string& digits) {
  if (digits.size() == 1) return digits;
  if (digits.size() == 10) return "\\d";
  std::string out;
  for (size_t i = 0; i < digits.size();) {
    size_t j = i;
    while (j + 1 < digits.size() && digits[j + 1] == digits[j] + 1) ++j;
    out += digits[i];
    if (j > i + 1) out += '-';
    if (j > i) out += digits[j];
    i = j + 1;
  }
  return "[" + out + "]";
}

std::string TrieText(const Trie& trie) {
  // Maps the pattern of the remaining digits to the list of digits that may
  // precede it. For the numbers 10 to 29, it maps `\d` to "12": first a digit 1
  // or 2.
  std::map<std::string, std::string> digits;
  std::vector<std::string> order;
  for (const auto& [digit, child] : trie.next) {
    const std::string rest = TrieText(child);
    const auto [at, fresh] = digits.try_emplace(rest);
    if (fresh) order.push_back(rest);
    at->second += digit;
  }
  std::string out = Join(order, "|", [&](const std::string& rest) {
    return ClassOf(digits[rest]) + rest;
  });
  if (trie.next.empty()) return out;
  const bool one = order.size() == 1;
  if (trie.end) {
    const bool bare = one && order[0].empty();
    return (bare ? out : "(" + out + ")") + "?";
  }
  return one ? out : "(" + out + ")";
}

std::vector<std::string> SplitAlternatives(const std::string& part) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (true) {
    const size_t end = part.find('|', begin);
    out.push_back(part.substr(begin, end - begin));
    if (end == std::string::npos) return out;
    begin = end + 1;
  }
}

// CommonHead returns the length of the longest common prefix of all words that
// is empty or ends with an underscore. CommonTail returns the length of the
// longest common suffix that is empty or begins with an underscore. The suffix
// does not overlap the prefix, whose length is `head`.
size_t CommonHead(const std::vector<std::string>& words) {
  size_t head = words[0].size();
  for (const std::string& word : words) {
    size_t i = 0;
    while (i < head && i < word.size() && word[i] == words[0][i]) ++i;
    head = i;
  }
  while (head > 0 && words[0][head - 1] != '_') --head;
  return head;
}

size_t CommonTail(const std::vector<std::string>& words, size_t head) {
  size_t tail = words[0].size() - head;
  for (const std::string& word : words) {
    size_t i = 0;
    while (i < tail && i < word.size() - head &&
           word[word.size() - 1 - i] == words[0][words[0].size() - 1 - i]) {
      ++i;
    }
    tail = i;
  }
  while (tail > 0 && words[0][words[0].size() - tail] != '_') --tail;
  return tail;
}

// Returns the pattern of a part, such as `(gate|up)_proj` for
// `gate_proj|up_proj`.
std::string PartText(const std::string& part) {
  const auto words = SplitAlternatives(part);
  if (words.size() == 1) return Escaped(part);
  const size_t head = CommonHead(words);
  const size_t tail = CommonTail(words, head);
  std::string middle = Join(words, "|", [&](const std::string& word) {
    return Escaped(
        std::string_view(word).substr(head, word.size() - head - tail));
  });
  return Escaped(words[0].substr(0, head)) + "(" + middle + ")" +
         Escaped(words[0].substr(words[0].size() - tail));
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = IsWordByte(c) || static_cast<unsigned char>(c) >= 0x80 ||
                       c == '/' || c == '-' || c == ' ';
    if (c == '*') {
      out += "\\d+";
    } else {
      if (!plain) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string EscapedName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '*') {
      out += "\\*";
    } else {
      out += Escaped(std::string_view(&c, 1));
    }
  }
  return out;
}

std::string WordsText(const PartWords& words, char separator) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += Escaped(std::string_view(&separator, 1));
    out += PartText(words[i]);
  }
  return out;
}

std::string NumbersPattern(std::vector<std::string> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() <= kListedNumbers) {
    std::sort(numbers.begin(), numbers.end(),
              [](const std::string& a, const std::string& b) {
                return std::pair(a.size(), a) < std::pair(b.size(), b);
              });
    if (numbers.size() == 1) return numbers[0];
    std::string out = Join(numbers, "|");
    return "(" + out + ")";
  }
  Trie trie;
  for (const std::string& number : numbers) {
    Trie* at = &trie;
    for (const char c : number) at = &at->next[c];
    at->end = true;
  }
  return TrieText(trie);
}

// Checks that exactly one pattern matches each parameter name. Then the order
// of the suggested rules does not matter, and every rule is used. Disprove()
// returns the parameter groups whose patterns violate this. If a pattern
// matches a name of another rule, the groups of this pattern are returned, so
// that it becomes narrower. If no pattern matches a name, the group of this
// name is returned. For example:
//
//   `norm\.weight$` also matches layers.0.q_norm.weight of another rule
//       ->  Disprove() returns the groups of `norm\.weight$`

namespace {

// The patterns of all rules, the names of all tensors, and which pattern
// matches which name.
struct AllMatches {
  std::vector<PatternOf*> patterns;
  std::vector<std::string_view> names;
  // nullopt if the patterns are too many to compile.
  std::optional<Matches> matches;
};

AllMatches MatchAll(const Tree& tree, Patterns& made) {
  AllMatches out;
  std::vector<Pattern> patterns;
  for (auto& group : made.rule_groups) {
    for (PatternOf& one : group) {
      patterns.push_back(
          {one.text, {}, tree.separator == 0 ? '/' : tree.separator});
      out.patterns.push_back(&one);
    }
  }
  for (const Tensor& tensor : tree.manifest->tensors) {
    out.names.push_back(tensor.name);
  }
  Findings ignored;
  const auto matcher = Matcher::Compile(patterns, ignored);
  if (matcher) out.matches = matcher->Match(out.names, tree.separator);
  return out;
}

}  // namespace

std::string MatchFault(std::string_view name, size_t matches) {
  const std::string by =
      matches == 0   ? "no pattern"
      : matches == 1 ? "a pattern of another rule only"
                     : CountText(static_cast<int64_t>(matches)) + " patterns";
  return ShortQuote(name) + " is matched by " + by +
         "; it must be matched by one, of its own rule";
}

std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns) {
  const AllMatches all = MatchAll(tree, patterns);
  if (!all.matches) {
    patterns.unproven = "the patterns are more than can be compiled";
    return {0};
  }
  // Each parameter group has one pattern. The index of its pattern is stored
  // here.
  std::vector<size_t> pattern_of(tree.groups.size(), all.patterns.size());
  for (size_t p = 0; p < all.patterns.size(); ++p) {
    for (const uint32_t k : all.patterns[p]->groups) pattern_of[k] = p;
  }
  std::set<uint32_t> wrong;
  std::set<size_t> wrong_patterns;
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.groups[k])) {
      const auto found = all.matches->Of(member);
      if (found.size() == 1 && pattern_of[k] == found[0]) continue;
      patterns.unproven = MatchFault(all.names[member], found.size());
      bool others = false;
      for (const uint32_t index : found) {
        if (pattern_of[k] == index) continue;
        wrong_patterns.insert(index);
        others = others || !all.patterns[index]->groups.empty();
      }
      if (!others) wrong.insert(k);
      break;
    }
  }
  for (const size_t index : wrong_patterns) {
    const auto& groups = all.patterns[index]->groups;
    wrong.insert(groups.begin(), groups.end());
  }
  return wrong;
}

void FindMissed(const Tree& tree, Patterns& patterns) {
  if (tree.separator == 0) return;
  const AllMatches all = MatchAll(tree, patterns);
  if (!all.matches) return;
  std::vector<uint32_t> group_of(tree.manifest->tensors.size(), 0);
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.groups[k])) {
      group_of[member] = k;
    }
  }
  std::vector<std::string_view> texts;
  for (const PatternOf* one : all.patterns) texts.push_back(one->text);
  std::set<std::pair<size_t, uint32_t>> listed;
  for (const MissedState& one :
       FindMissedStates(texts, *all.matches, all.names, tree.separator)) {
    const uint32_t group = group_of[one.state];
    if (!listed.emplace(one.pattern, group).second) continue;
    all.patterns[one.pattern]->missed.push_back(group);
  }
}

}  // namespace shardc::suggest
