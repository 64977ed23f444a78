// A kind's pattern is the shortest end of its name, by whole parts, that no
// kind of another group has. Patterns that differ in one part are joined:
//
//   layers.*.mlp.gate_proj.weight  ->  gate_proj.weight
//   gate_proj.weight, up_proj.weight  ->  (gate|up)_proj\.weight$
//
// Where one name has two shapes, and so two specs, the numbers of one of its
// counters tell them apart. At last every pattern is run over every name.
#include "suggest/patterns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "match/match.h"
#include "match/state_names.h"

namespace shardc::suggest {
namespace {

// More rounds of longer patterns than names have parts help nobody.
constexpr int kMostRounds = 12;
// So many numbers are read as they are; more are folded.
constexpr size_t kListedNumbers = 6;
// Groups of more kinds are not searched for pairs.
constexpr size_t kMostJoined = 512;

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '_' ||
                       static_cast<unsigned char>(c) >= 0x80 || c == '/' ||
                       c == '-' || c == ' ';
    if (c == '*') {
      out += "\\d+";
    } else {
      if (!plain) out += '\\';
      out += c;
    }
  }
  return out;
}

// A literal, whose star is one.
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

// ---- numbers

// A trie of digit strings; equal branches are written once, as a class.
struct Trie {
  bool end = false;
  std::map<char, Trie> next;
};

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
  std::map<std::string, std::string> digits;  // by what follows
  std::vector<std::string> order;
  for (const auto& [digit, child] : trie.next) {
    const std::string rest = TrieText(child);
    const auto [at, fresh] = digits.try_emplace(rest);
    if (fresh) order.push_back(rest);
    at->second += digit;
  }
  std::string out;
  for (const std::string& rest : order) {
    out += (out.empty() ? "" : "|") + ClassOf(digits[rest]) + rest;
  }
  if (trie.next.empty()) return out;
  const bool one = order.size() == 1;
  if (trie.end) {
    const bool bare = one && order[0].empty();
    return (bare ? out : "(" + out + ")") + "?";
  }
  return one ? out : "(" + out + ")";
}

// ---- suffixes

using Words = std::vector<std::string>;  // parts; alternatives within one by |

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

// What all begin (or end) with, up to an underscore.
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

// `gate_proj|up_proj` -> `(gate|up)_proj`
std::string PartText(const std::string& part) {
  const auto words = SplitAlternatives(part);
  if (words.size() == 1) return Escaped(part);
  const size_t head = CommonHead(words);
  const size_t tail = CommonTail(words, head);
  std::string middle;
  for (const std::string& word : words) {
    middle +=
        (middle.empty() ? "" : "|") +
        Escaped(std::string_view(word).substr(head, word.size() - head - tail));
  }
  return Escaped(words[0].substr(0, head)) + "(" + middle + ")" +
         Escaped(words[0].substr(words[0].size() - tail));
}

std::string WordsText(const Words& words, char separator) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += Escaped(std::string_view(&separator, 1));
    out += PartText(words[i]);
  }
  return out;
}

// How a kind is found.
struct Finder {
  size_t parts = 1;       // of the end of its name
  bool at_start = false;  // the whole name, whose text ends another
  bool whole = false;     // and whose path does
  int counter = -1;       // its numbers are written; -1: none
  bool by_names = false;  // each name by itself
};

class Maker {
 public:
  Maker(const Tree& tree, const std::vector<std::vector<uint32_t>>& groups)
      : tree_(tree),
        groups_(groups),
        finders_(tree.kinds.size()),
        group_of_(tree.kinds.size(), 0) {
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const uint32_t k : groups[g]) group_of_[k] = g;
    }
  }

  Patterns Make() {
    FindNames();
    for (uint32_t k = 0; k < tree_.kinds.size(); ++k) finders_[k] = First(k);
    for (const auto& group : groups_) Even(group);
    Patterns out;
    for (int round = 0; round < kMostRounds; ++round) {
      out.groups.clear();
      for (size_t g = 0; g < groups_.size(); ++g) {
        out.groups.push_back(GroupPatterns(g));
      }
      const auto wrong = Prove(out);
      out.proven = wrong.empty();
      if (out.proven) break;
      bool changed = false;
      for (const uint32_t k : wrong) changed = Lengthen(k) || changed;
      if (!changed) break;
    }
    FindMissed(out);
    return out;
  }

 private:
  const Kind& KindAt(uint32_t k) const { return tree_.kinds[k]; }

  void FindNames() {
    for (uint32_t k = 0; k < tree_.kinds.size(); ++k) {
      by_name_[KindAt(k).name].push_back(k);
    }
    // Ends of names, for a search of those that end with a text.
    for (const auto& [name, kinds] : by_name_) {
      reversed_.emplace_back(name.rbegin(), name.rend());
      reversed_kinds_.push_back(&kinds);
    }
    std::vector<size_t> order(reversed_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return reversed_[a] < reversed_[b]; });
    std::vector<std::string> names;
    std::vector<const std::vector<uint32_t>*> kinds;
    for (const size_t i : order) {
      names.push_back(std::move(reversed_[i]));
      kinds.push_back(reversed_kinds_[i]);
    }
    reversed_ = std::move(names);
    reversed_kinds_ = std::move(kinds);
  }

  // A kind of another group, and another name, ends with this text.
  bool OthersEndWith(std::string_view text, uint32_t k) const {
    const std::string key(text.rbegin(), text.rend());
    auto at = std::lower_bound(reversed_.begin(), reversed_.end(), key);
    for (; at != reversed_.end() && at->starts_with(key); ++at) {
      const auto& kinds =
          *reversed_kinds_[static_cast<size_t>(at - reversed_.begin())];
      for (const uint32_t other : kinds) {
        if (group_of_[other] == group_of_[k]) continue;
        if (KindAt(other).name != KindAt(k).name) return true;
      }
    }
    return false;
  }

  std::string SuffixOf(uint32_t k, size_t parts) const {
    const auto& all = KindAt(k).parts;
    std::string out;
    for (size_t i = all.size() - parts; i < all.size(); ++i) {
      if (!out.empty()) out += tree_.separator;
      out += all[i];
    }
    return out;
  }

  // Reads badly at the start: a number, or a word of a letter or two.
  bool StartsBadly(uint32_t k, size_t parts) const {
    const auto& all = KindAt(k).parts;
    if (parts >= all.size()) return false;
    const std::string_view word = all[all.size() - parts];
    return word == "*" || word.size() <= 2;
  }

  Finder First(uint32_t k) const {
    Finder out;
    const size_t all = KindAt(k).parts.size();
    out.parts = std::min<size_t>(2, all);
    while (out.parts < all && (StartsBadly(k, out.parts) ||
                               OthersEndWith(SuffixOf(k, out.parts), k))) {
      ++out.parts;
    }
    while (out.parts > 2 && KindAt(k).parts[all - out.parts] == "*") {
      if (out.parts == all) break;
      ++out.parts;
    }
    if (out.parts == all && OthersEndWith(KindAt(k).name, k)) {
      out.at_start = true;
    }
    if (!SameNameElsewhere(k).empty()) Number(k, out);
    return out;
  }

  // Ends that would differ in one part, were they of one length, are: `key`
  // that took its parent, beside `value`.
  void Even(const std::vector<uint32_t>& group) {
    if (group.size() > kMostJoined) return;
    for (const uint32_t a : group) {
      for (const uint32_t b : group) {
        const size_t parts = finders_[b].parts;
        if (finders_[a].parts >= parts || finders_[a].counter >= 0 ||
            finders_[b].counter >= 0 || KindAt(a).parts.size() < parts) {
          continue;
        }
        const auto& x = KindAt(a).parts;
        const auto& y = KindAt(b).parts;
        size_t differ = 0;
        for (size_t i = 1; i <= parts; ++i) {
          if (x[x.size() - i] != y[y.size() - i]) ++differ;
        }
        if (differ == 1) finders_[a].parts = parts;
      }
    }
  }

  // Kinds of one name in other groups.
  std::vector<uint32_t> SameNameElsewhere(uint32_t k) const {
    std::vector<uint32_t> out;
    for (const uint32_t other : by_name_.at(KindAt(k).name)) {
      if (group_of_[other] != group_of_[k]) out.push_back(other);
    }
    return out;
  }

  std::set<std::string_view> Numbers(uint32_t k, size_t counter) const {
    std::set<std::string_view> out;
    for (const uint32_t member : tree_.Members(KindAt(k))) {
      const auto all = CountersOf(tree_.NameOf(member), KindAt(k).name);
      if (counter < all.size()) out.insert(all[counter]);
    }
    return out;
  }

  // The first counter whose numbers are this kind's alone.
  void Number(uint32_t k, Finder& out) const {
    const std::string& name = KindAt(k).name;
    const auto counters =
        static_cast<size_t>(std::count(name.begin(), name.end(), '*'));
    const auto others = SameNameElsewhere(k);
    for (size_t c = 0; c < counters; ++c) {
      const auto own = Numbers(k, c);
      const bool alone =
          std::all_of(others.begin(), others.end(), [&](uint32_t other) {
            const auto theirs = Numbers(other, c);
            return std::none_of(own.begin(), own.end(), [&](auto number) {
              return theirs.contains(number);
            });
          });
      if (!alone) continue;
      out.counter = static_cast<int>(c);
      // The part that holds the counter, with one before it.
      size_t met = 0;
      const auto& parts = KindAt(k).parts;
      for (size_t i = 0; i < parts.size(); ++i) {
        met += static_cast<size_t>(
            std::count(parts[i].begin(), parts[i].end(), '*'));
        if (met <= c) continue;
        const size_t from = parts[i] == "*" && i > 0 ? i - 1 : i;
        out.parts = std::max(out.parts, parts.size() - from);
        break;
      }
      return;
    }
    out.by_names = true;
  }

  // What makes a pattern narrower; whether there was anything left.
  bool Lengthen(uint32_t k) {
    Finder& finder = finders_[k];
    const size_t all = KindAt(k).parts.size();
    if (finder.by_names) return false;
    if (finder.parts < all) {
      ++finder.parts;
      while (finder.parts < all && KindAt(k).parts[all - finder.parts] == "*") {
        ++finder.parts;
      }
    } else if (!finder.at_start) {
      finder.at_start = true;
    } else if (!finder.whole) {
      finder.whole = true;
    } else {
      finder.by_names = true;
    }
    return true;
  }

  // ---- patterns of a group

  // One end of a name, which may be that of several kinds.
  struct Entry {
    Words words;
    bool at_start = false;
    bool whole = false;
    std::string numbers;  // of the counter, by number; empty: any
    int counter = -1;     // in the words
    std::vector<uint32_t> kinds;
  };

  std::vector<PatternOf> GroupPatterns(size_t g) const {
    std::vector<Entry> entries;
    std::vector<PatternOf> by_names;
    for (const uint32_t k : groups_[g]) {
      if (finders_[k].by_names) {
        by_names.push_back(NamesPattern(k));
      } else {
        Put(EntryOf(k, g), entries);
      }
    }
    const std::vector<Entry> norms = WithoutNorms(entries, g);
    Join(entries);
    std::vector<PatternOf> out;
    for (const Entry& entry : norms)
      out.push_back({EntryText(entry), entry.kinds});
    for (const Entry& entry : entries) {
      out.push_back({EntryText(entry), entry.kinds});
    }
    // In the order of the tree.
    std::stable_sort(out.begin(), out.end(),
                     [](const PatternOf& a, const PatternOf& b) {
                       return a.kinds.front() < b.kinds.front();
                     });
    out.insert(out.end(), by_names.begin(), by_names.end());
    return out;
  }

  Entry EntryOf(uint32_t k, size_t) const {
    const Finder& finder = finders_[k];
    const auto& parts = KindAt(k).parts;
    Entry out;
    out.at_start = finder.at_start;
    out.whole = finder.whole;
    out.kinds = {k};
    for (size_t i = parts.size() - finder.parts; i < parts.size(); ++i) {
      out.words.emplace_back(parts[i]);
    }
    if (finder.counter >= 0) {
      size_t skipped = 0;
      for (size_t i = 0; i < parts.size() - finder.parts; ++i) {
        skipped += static_cast<size_t>(
            std::count(parts[i].begin(), parts[i].end(), '*'));
      }
      out.counter = finder.counter - static_cast<int>(skipped);
      std::vector<std::string> numbers;
      for (const auto number :
           Numbers(k, static_cast<size_t>(finder.counter))) {
        numbers.emplace_back(number);
      }
      // Kinds of one name and group are one.
      for (const uint32_t other : by_name_.at(KindAt(k).name)) {
        if (group_of_[other] != group_of_[k] || other == k) continue;
        for (const auto number :
             Numbers(other, static_cast<size_t>(finder.counter))) {
          numbers.emplace_back(number);
        }
      }
      out.numbers = NumbersPattern(std::move(numbers));
    }
    return out;
  }

  static void Put(Entry entry, std::vector<Entry>& entries) {
    for (Entry& other : entries) {
      if (other.words == entry.words && other.at_start == entry.at_start &&
          other.whole == entry.whole && other.counter == entry.counter &&
          other.numbers == entry.numbers) {
        other.kinds.push_back(entry.kinds.front());
        return;
      }
    }
    entries.push_back(std::move(entry));
  }

  // `input_layernorm.weight`, `norm.weight`, ... -> `norm\.weight$`, where no
  // other group has such an end.
  std::vector<Entry> WithoutNorms(std::vector<Entry>& entries, size_t) const {
    std::map<std::string, std::vector<size_t>> ends;  // by the leaf
    for (size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (entry.at_start || entry.counter >= 0) continue;
      const auto& parts = KindAt(entry.kinds.front()).parts;
      if (parts.back().ends_with("norm")) {
        ends[""].push_back(i);
        continue;
      }
      if (parts.size() < 2 || parts[parts.size() - 1] == "*") continue;
      if (!parts[parts.size() - 2].ends_with("norm")) continue;
      ends[std::string(parts.back())].push_back(i);
    }
    std::vector<Entry> out;
    std::set<size_t> taken;
    Entry joined;
    for (const auto& [leaf, indices] : ends) {
      const std::string text =
          leaf.empty() ? "norm"
                       : "norm" + std::string(1, tree_.separator) + leaf;
      if (indices.size() < 2 ||
          OthersEndWith(text, entries[indices.front()].kinds.front()) ||
          SharedName(entries, indices)) {
        continue;
      }
      if (leaf.empty()) {
        Entry bare;
        bare.words = {"norm"};
        for (const size_t i : indices) {
          taken.insert(i);
          bare.kinds.insert(bare.kinds.end(), entries[i].kinds.begin(),
                            entries[i].kinds.end());
        }
        std::sort(bare.kinds.begin(), bare.kinds.end());
        out.push_back(std::move(bare));
        continue;
      }
      if (joined.words.empty()) {
        joined.words = {"norm", leaf};
      } else {
        joined.words.back() += "|" + leaf;
      }
      for (const size_t i : indices) {
        taken.insert(i);
        joined.kinds.insert(joined.kinds.end(), entries[i].kinds.begin(),
                            entries[i].kinds.end());
      }
    }
    if (taken.empty()) return out;
    if (!joined.kinds.empty()) {
      std::sort(joined.kinds.begin(), joined.kinds.end());
      out.push_back(std::move(joined));
    }
    std::vector<Entry> rest;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!taken.contains(i)) rest.push_back(std::move(entries[i]));
    }
    entries = std::move(rest);
    return out;
  }

  bool SharedName(const std::vector<Entry>& entries,
                  const std::vector<size_t>& indices) const {
    return std::any_of(indices.begin(), indices.end(), [&](size_t i) {
      return std::any_of(
          entries[i].kinds.begin(), entries[i].kinds.end(),
          [&](uint32_t k) { return !SameNameElsewhere(k).empty(); });
    });
  }

  // The only part in which two ends differ; nothing if there are more.
  static std::optional<size_t> OnlyDifference(const Entry& a, const Entry& b) {
    if (a.words.size() != b.words.size() || a.at_start != b.at_start ||
        a.whole != b.whole || a.numbers != b.numbers ||
        a.counter != b.counter) {
      return std::nullopt;
    }
    std::optional<size_t> at;
    for (size_t i = 0; i < a.words.size(); ++i) {
      if (a.words[i] == b.words[i]) continue;
      if (at) return std::nullopt;
      at = i;
    }
    return at;
  }

  static bool HasCounter(const std::string& word) {
    return word.find('*') != std::string::npos;
  }

  // Two that differ in one part become one, until none are left.
  static void Join(std::vector<Entry>& entries) {
    if (entries.size() > kMostJoined) return;
    for (size_t before = 0; before != entries.size();) {
      before = entries.size();
      JoinOnce(entries);
    }
  }

  static void JoinOnce(std::vector<Entry>& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      for (size_t j = i + 1; j < entries.size();) {
        const auto at = OnlyDifference(entries[i], entries[j]);
        if (!at || HasCounter(entries[i].words[*at]) ||
            HasCounter(entries[j].words[*at])) {
          ++j;
          continue;
        }
        entries[i].words[*at] += "|" + entries[j].words[*at];
        auto& kinds = entries[i].kinds;
        kinds.insert(kinds.end(), entries[j].kinds.begin(),
                     entries[j].kinds.end());
        std::sort(kinds.begin(), kinds.end());
        entries.erase(entries.begin() + static_cast<long>(j));
        j = i + 1;
      }
    }
  }

  std::string EntryText(const Entry& entry) const {
    std::string text = WordsText(entry.words, tree_.separator);
    if (entry.counter >= 0) {
      size_t at = 0;
      for (int c = 0;; ++c) {
        at = text.find("\\d+", at);
        if (at == std::string::npos) break;
        if (c == entry.counter) {
          text.replace(at, 3, entry.numbers);
          break;
        }
        at += 3;
      }
    }
    const bool bare = entry.counter >= 0 &&
                      entry.words.front().find('*') != std::string::npos;
    return (entry.whole ? "^" : Start(entry.at_start || bare)) + text + "$";
  }

  std::string Start(bool anchored) const {
    if (!anchored) return "";
    if (tree_.separator == 0) return "(^|[^0-9A-Za-z_])";
    return "(^|" + Escaped(std::string_view(&tree_.separator, 1)) + ")";
  }

  PatternOf NamesPattern(uint32_t k) const {
    PatternOf out;
    out.kinds = {k};
    for (const uint32_t member : tree_.Members(KindAt(k))) {
      out.text +=
          (out.text.empty() ? "" : "|") + EscapedName(tree_.NameOf(member));
    }
    out.text = Start(true) + "(" + out.text + ")$";
    return out;
  }

  // What lints will say of anchors.
  void FindMissed(Patterns& made) const {
    const bool anchored =
        std::any_of(finders_.begin(), finders_.end(),
                    [](const Finder& finder) { return finder.whole; });
    if (!anchored || !made.proven || tree_.separator == 0) return;
    std::vector<std::string_view> texts;
    std::vector<Pattern> patterns;
    std::vector<PatternOf*> of;
    for (auto& group : made.groups) {
      for (PatternOf& one : group) {
        texts.push_back(one.text);
        patterns.push_back({one.text, {}, tree_.separator});
        of.push_back(&one);
      }
    }
    std::vector<std::string_view> names;
    std::vector<uint32_t> kind_of(tree_.manifest->tensors.size(), 0);
    for (const Tensor& tensor : tree_.manifest->tensors) {
      names.push_back(tensor.name);
    }
    for (uint32_t k = 0; k < tree_.kinds.size(); ++k) {
      for (const uint32_t member : tree_.Members(KindAt(k)))
        kind_of[member] = k;
    }
    Findings ignored;
    const auto matcher = Matcher::Compile(patterns, ignored);
    if (!matcher) return;
    const Matches matches = matcher->Match(names, tree_.separator);
    for (const MissedState& one :
         FindMissedStates(texts, matches, names, tree_.separator)) {
      auto& missed = of[one.pattern]->missed;
      const uint32_t kind = kind_of[one.state];
      if (std::find(missed.begin(), missed.end(), kind) == missed.end()) {
        missed.push_back(kind);
      }
    }
  }

  // ---- proof

  // Kinds whose patterns find what they should not, or not what they should.
  std::set<uint32_t> Prove(Patterns& made) const {
    std::vector<Pattern> patterns;
    std::vector<const PatternOf*> of;
    for (const auto& group : made.groups) {
      for (const PatternOf& one : group) {
        patterns.push_back(
            {one.text, {}, tree_.separator == 0 ? '/' : tree_.separator});
        of.push_back(&one);
      }
    }
    std::set<uint32_t> wrong;
    Findings ignored;
    const auto matcher = Matcher::Compile(patterns, ignored);
    if (!matcher) {
      made.unproven = "the patterns are more than can be compiled";
      return {0};
    }
    std::vector<std::string_view> names;
    for (const Tensor& tensor : tree_.manifest->tensors) {
      names.push_back(tensor.name);
    }
    const Matches matches = matcher->Match(names, tree_.separator);
    for (uint32_t k = 0; k < tree_.kinds.size(); ++k) {
      for (const uint32_t member : tree_.Members(KindAt(k))) {
        const auto found = matches.Of(member);
        const bool right =
            found.size() == 1 &&
            std::find(of[found[0]]->kinds.begin(), of[found[0]]->kinds.end(),
                      k) != of[found[0]]->kinds.end();
        if (right) continue;
        made.unproven = std::string(names[member]);
        for (const uint32_t index : found) {
          const auto& kinds = of[index]->kinds;
          const bool own =
              std::find(kinds.begin(), kinds.end(), k) != kinds.end();
          if (!own) wrong.insert(kinds.begin(), kinds.end());
        }
        if (found.empty()) wrong.insert(k);
        break;
      }
    }
    return wrong;
  }

  const Tree& tree_;
  const std::vector<std::vector<uint32_t>>& groups_;
  std::vector<Finder> finders_;
  std::vector<size_t> group_of_;
  std::map<std::string_view, std::vector<uint32_t>> by_name_;
  std::vector<std::string> reversed_;
  std::vector<const std::vector<uint32_t>*> reversed_kinds_;
};

}  // namespace

std::string NumbersPattern(std::vector<std::string> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() <= kListedNumbers) {
    std::sort(numbers.begin(), numbers.end(),
              [](const std::string& a, const std::string& b) {
                return std::pair(a.size(), a) < std::pair(b.size(), b);
              });
    if (numbers.size() == 1) return numbers[0];
    std::string out;
    for (const std::string& number : numbers) {
      out += (out.empty() ? "" : "|") + number;
    }
    return "(" + out + ")";
  }
  Trie trie;
  for (const std::string& number : numbers) {
    Trie* at = &trie;
    for (const char c : number) at = &at->next[c];
    at->end = true;
  }
  std::string text = TrieText(trie);
  return text;
}

Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& groups) {
  return Maker(tree, groups).Make();
}

}  // namespace shardc::suggest
