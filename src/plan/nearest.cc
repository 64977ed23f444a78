// Finds the rule that was probably intended for a name that no rule matches, to
// suggest it in a finding. Names and patterns are split at their separators and
// compared part by part from the end, because the last parts describe the
// parameter. If the name and the pattern have different numbers of parts, the
// first parts of the longer one are not compared. The name may also have one
// additional part at its end. A rule is near to a name if exactly one compared
// part differs, and if at least two parts are equal. If the part that differs
// is a typing error, fewer equal parts are enough.
//
// Of several near rules, a rule that matches no parameter is preferred. Then a
// rule with a typing error is preferred, with the fewest edits, and then the
// rule with the most equal parts. Suppose that the rules are
//
//   [0] mlp/up/kernel   [1] moe/(up|down)/kernel   [2] moe/up/bias
//
// The rule nearest to `layers/3/moe/gate/kernel` is [1]. `kernel` and `moe` are
// equal, and only `gate` differs from `up`. [0] has only the equal part
// `kernel`, and [2] only `moe`. For `layers/3/moe/dwn/kernel`, [1] is also the
// nearest, with a typing error of one edit. A rule `router/kernel` is near to
// `router/kernl` with one equal part, because `kernl` is a typing error.
#include "plan/nearest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <tuple>
#include <utility>

#include "match/sketch.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc {
namespace {

struct Fit {
  int matched = 0;
  int run = 0;
  std::string written;
  std::string found;
};

// Compares a pattern with a name part by part from the end. The last `skip`
// parts of the name are left out. Returns nullopt if more than one part
// differs, or if a number in the pattern is compared with a part that is not a
// number.
std::optional<Fit> FitAt(const PatternText& text,
                         std::span<const std::string_view> name, size_t skip) {
  const std::vector<std::string>& pattern = text.parts;
  Fit fit;
  const size_t limit = std::min(pattern.size(), name.size() - skip);
  for (size_t i = 0; i < limit; ++i) {
    std::string part = pattern[pattern.size() - 1 - i];
    const std::string_view word = name[name.size() - 1 - skip - i];
    if (part.empty()) continue;
    const bool first = i + 1 == pattern.size();
    const std::string plain = part;
    if (first && !text.begin_anchor) part.insert(0, 1, Sketch::kWild);
    if (i == 0 && !text.end_anchor) part += Sketch::kWild;
    const bool wild_only = std::all_of(part.begin(), part.end(), [](char c) {
      return c == Sketch::kWild || c == Sketch::kAnyChar;
    });
    if (plain == "*" || (word == "*" && AllDigits(plain))) {
      // Any two numbers are treated as equal. They are not counted in
      // `matched`, because they do not show that the rule was intended for the
      // name.
      if (word != "*") return std::nullopt;
      continue;
    }
    if (SketchFits(part, word)) {
      if (!wild_only) ++fit.matched;
      if (!wild_only && fit.written.empty()) ++fit.run;
      continue;
    }
    if (!fit.written.empty() || plain.empty()) return std::nullopt;
    fit.written = plain;
    fit.found = std::string(word);
  }
  return fit;
}

// Returns whether Rewrite() may remove this text from a pattern or insert it.
// The text must be literal. It must not have a `*`, which represents a number
// in the template of a name, such as `layers.*.up`.
bool IsPlain(std::string_view text) {
  return IsLiteral(text) && text.find('*') == std::string_view::npos;
}

std::string Rewrite(const std::string& pattern, const Fit& fit) {
  if (!IsPlain(fit.written) || !IsPlain(fit.found)) return {};
  const size_t at = pattern.find(fit.written);
  if (at == std::string::npos ||
      pattern.find(fit.written, at + 1) != std::string::npos) {
    return {};
  }
  std::string out = pattern;
  return out.replace(at, fit.written.size(), fit.found);
}

// Returns the pattern's text with `*` in place of each number that the template
// of a name replaces. A first part that is a number is replaced only if the
// pattern begins with `^`, and the last part only if it ends with `$`.
// Otherwise the part may match inside another number, as `1` matches in `12`.
PatternText WithoutNumbers(PatternText text) {
  for (size_t i = 0; i < text.parts.size(); ++i) {
    std::string& part = text.parts[i];
    const size_t stem = StemLength(part);
    const bool begins = i > 0 || text.begin_anchor || stem > 0;
    const bool ends = i + 1 < text.parts.size() || text.end_anchor;
    if (begins && ends && stem < part.size()) {
      part.replace(stem, part.npos, 1, '*');
    }
  }
  return text;
}

std::vector<PatternText> TextsOf(std::span<const Rule> rules,
                                 std::span<const Sketch> sketches) {
  std::vector<PatternText> out;
  for (size_t r = 0; r < rules.size(); ++r) {
    const Sketch& sketch = sketches[r];
    for (const std::string& text : sketch.texts) {
      out.push_back(WithoutNumbers({static_cast<uint32_t>(r),
                                    SketchSegments(text, rules[r].separator),
                                    sketch.begin_anchor, sketch.end_anchor}));
    }
  }
  return out;
}

std::vector<Sketch> SketchesOf(std::span<const Rule> rules) {
  std::vector<Sketch> out;
  out.reserve(rules.size());
  for (const Rule& rule : rules) out.push_back(SketchOf(rule.match));
  return out;
}

}  // namespace

NearestRules::NearestRules(std::span<const Rule> rules, const Matches& matches,
                           char separator)
    : rules_(rules),
      separator_(separator),
      sketches_(SketchesOf(rules)),
      texts_(TextsOf(rules, sketches_)),
      index_(texts_),
      dead_(rules.size(), true) {
  for (const uint32_t rule : matches.rules) dead_[rule] = false;
}

std::optional<NearRule> NearestRules::Of(std::string_view name, Among among,
                                         const std::set<int32_t>& taken) const {
  const std::string general = NameTemplate(name, separator_);
  const std::vector<std::string_view> parts = SplitName(general, separator_);
  std::optional<NearRule> best;
  std::tuple<bool, bool, int64_t, int, int, int64_t, bool> best_score;
  for (const uint32_t candidate : index_.Candidates(parts)) {
    const PatternText& text = texts_[candidate];
    const size_t r = text.rule;
    const auto index = static_cast<int32_t>(r);
    if (among == Among::kDead && !dead_[r]) continue;
    for (size_t skip = 0; skip < std::min<size_t>(parts.size(), 2); ++skip) {
      auto fit = FitAt(text, parts, skip);
      if (!fit || fit->written.empty()) continue;
      const bool typing_error = IsTypingError(fit->written, fit->found);
      if (fit->matched < 2 && !typing_error) continue;
      const int64_t edits = PartEdits(fit->written, fit->found);
      const std::tuple score(dead_[r], typing_error, typing_error ? -edits : 0,
                             fit->matched, fit->run, -edits,
                             !taken.contains(index));
      if (best && score <= best_score) continue;
      best =
          NearRule{index,        fit->matched, fit->run,
                   fit->written, fit->found,   Rewrite(rules_[r].match, *fit)};
      best_score = score;
    }
  }
  return best;
}

// Finds the patterns that may be near to a name, without comparing the name
// with every pattern. Each pattern is represented by texts that it can match. A
// text is near to a name if at most one of the compared parts differs, and if
// at least two parts are equal or the different part is a typing error. So of
// any two parts of a near text, at least one is equal to a part of the name.
// Therefore it is enough to list each text under its two rarest parts. For
// example, two texts are listed in this way:
//
//   layers/attn/q_proj/kernel   [0] under `attn` and `q_proj`
//   layers/mlp/up_proj/kernel   [1] under `mlp` and `up_proj`
//
// The only candidate for the name layers/attn/k_proj/kernel is [0], which is
// listed under `attn`. If a text has only two parts, the part under which it is
// listed may be the part with the typing error. Such parts are therefore also
// compared by edits. A text that has too few literal parts to be listed is
// always a candidate.

NearestIndex::NearestIndex(std::span<const PatternText> texts) {
  for (size_t level = 0; level < kDepth; ++level) Build(texts, level);
  for (MisspeltWords& words : words_) words.Finish();
}

std::string NearestIndex::KeyOf(size_t depth, Fit fit, std::string_view text) {
  std::string key(1, static_cast<char>(depth * 4 + static_cast<size_t>(fit)));
  return key.append(text);
}

// Returns those of the last `compared` parts of the text that are literal.
std::vector<NearestIndex::LiteralPart> NearestIndex::LiteralParts(
    const PatternText& text, size_t compared) {
  std::vector<LiteralPart> out;
  const size_t size = text.parts.size();
  for (size_t depth = 0; depth < std::min(size, compared); ++depth) {
    const std::string& part = text.parts[size - 1 - depth];
    if (part.empty() || !IsLiteral(part)) continue;
    const bool ends = depth + 1 == size && !text.begin_anchor;
    const bool begins = depth == 0 && !text.end_anchor;
    out.push_back({depth,
                   ends && begins ? Fit::kContained
                   : ends         ? Fit::kEnds
                   : begins       ? Fit::kBegins
                                  : Fit::kEqual,
                   &part});
  }
  return out;
}

void NearestIndex::Build(std::span<const PatternText> texts, size_t level) {
  Level& out = levels_[level];
  const size_t compared = level + 1;
  std::unordered_map<std::string, size_t> counts;
  for (const PatternText& text : texts) {
    for (const LiteralPart& part : LiteralParts(text, compared)) {
      ++counts[KeyOf(part.depth, part.fit, *part.text)];
    }
  }
  for (size_t t = 0; t < texts.size(); ++t) {
    const PatternText& text = texts[t];
    const auto number = static_cast<uint32_t>(t);
    std::vector<LiteralPart> parts = LiteralParts(text, compared);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const LiteralPart& a, const LiteralPart& b) {
                       return counts[KeyOf(a.depth, a.fit, *a.text)] <
                              counts[KeyOf(b.depth, b.fit, *b.text)];
                     });
    // Whether the text has a part that may be compared but is in no list,
    // because the part is not literal or is not one of the last three parts.
    const size_t last = std::min(text.parts.size(), compared);
    bool others = compared == kDepth && text.parts.size() > kDepth;
    for (size_t depth = 0; depth < last; ++depth) {
      const std::string& part = text.parts[text.parts.size() - 1 - depth];
      others = others || (!part.empty() && !IsLiteral(part));
    }
    const auto list = [&](const LiteralPart& part) {
      out.fitting[KeyOf(part.depth, part.fit, *part.text)].push_back(number);
      out.lengths[part.depth][static_cast<size_t>(part.fit)].insert(
          part.text->size());
    };
    const auto list_word = [&](const LiteralPart& part) {
      TextsOfWords& of_words = out.texts[part.depth];
      const size_t word = words_[part.depth].Add(*part.text);
      if (word >= of_words.size()) of_words.resize(word + 1);
      of_words[word].push_back(number);
    };
    const size_t literal = parts.size();
    if (literal >= 3 || (literal == 2 && others)) {
      list(parts[0]);
      list(parts[1]);
    } else if (literal >= 1 && !others) {
      list_word(parts[0]);
      if (literal == 2) list(parts[0]);
    } else if (others) {
      out.always.push_back(number);
    }
  }
}

void NearestIndex::AddFitting(const Level& level, size_t depth,
                              std::string_view word,
                              std::vector<uint32_t>& out) {
  const auto& lengths = level.lengths[depth];
  for (const Fit fit : {Fit::kEqual, Fit::kEnds, Fit::kBegins}) {
    for (const size_t length : lengths[static_cast<size_t>(fit)]) {
      if (length > word.size()) break;
      if (fit == Fit::kEqual && length != word.size()) continue;
      const std::string_view part = fit == Fit::kEnds
                                        ? word.substr(word.size() - length)
                                        : word.substr(0, length);
      const auto at = level.fitting.find(KeyOf(depth, fit, part));
      if (at == level.fitting.end()) continue;
      out.insert(out.end(), at->second.begin(), at->second.end());
    }
  }
}

void NearestIndex::AddMisspelt(const Level& level, size_t depth,
                               std::string_view word,
                               std::vector<uint32_t>& out) const {
  const TextsOfWords& of_words = level.texts[depth];
  if (of_words.empty()) return;
  for (const size_t near : words_[depth].Find(word)) {
    if (near >= of_words.size()) continue;
    const auto& texts = of_words[near];
    out.insert(out.end(), texts.begin(), texts.end());
  }
}

std::vector<uint32_t> NearestIndex::Candidates(
    std::span<const std::string_view> parts) const {
  std::vector<uint32_t> out;
  // The second pass leaves out the last part of the name, because a name may
  // have one more part at its end than the text.
  for (size_t skip = 0; skip < std::min<size_t>(parts.size(), 2); ++skip) {
    const size_t compared = std::min(parts.size() - skip, kDepth);
    const Level& level = levels_[compared - 1];
    for (size_t depth = 0; depth < compared; ++depth) {
      const std::string_view word = parts[parts.size() - 1 - skip - depth];
      AddFitting(level, depth, word, out);
      AddMisspelt(level, depth, word, out);
    }
    out.insert(out.end(), level.always.begin(), level.always.end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Finds the words of a list that differ from a given word by a typing error,
// which is at most two edits. A short list is compared word by word. A long
// list has an index of remainders: the texts that remain of each word after up
// to two of its letters are deleted. Two words that differ by two edits have a
// common remainder, because an edit concerns at most one letter of each word.
// If two letters are swapped, it is enough to delete one of them in each word:
//
//   kernle  ->  kernle, ernle, krnle, ..., kerne (without l), kernl, ...
//   kernel  ->  kernel, ernel, krnel, ..., kerne (without l), kernl, ...
//
// If two words have a common remainder, the edits between the words are
// counted. This is the method of SymSpell
// (https://github.com/wolfgarbe/SymSpell). A word of 24 letters has 301
// remainders; longer words are compared word by word. The index takes 5 bytes
// for each remainder, and at most 2 more for the start of its hash bucket.

namespace {

constexpr int64_t kMostEdits = 2;
// If two words differ by at most kMostEdits edits, at most this many letters
// occur in only one of them, because an edit removes at most one letter and
// adds at most one. Words with more such letters are excluded before the edits
// are counted, because counting takes longer.
constexpr int kMostOtherLetters = 2 * kMostEdits;
// A list of at most kShortList words, and a word of more than kMostLetters
// letters, are compared word by word.
constexpr size_t kShortList = 256;
constexpr size_t kMostLetters = 24;

uint64_t LettersOf(std::string_view word) {
  uint64_t letters = 0;
  for (const char c : word) {
    letters |= uint64_t{1} << (static_cast<unsigned char>(c) % 64);
  }
  return letters;
}

// Calls `take` with the hash of each remainder of a word. The word has at most
// kMostLetters + kMostEdits letters. A hash is a number in base kBase whose
// digits are the letters of the text. The hash of a remainder can therefore be
// computed from the hashes of the parts between the deleted letters.
template <class Take>
void ForEachRemainder(std::string_view word, const Take& take) {
  constexpr uint64_t kBase = 0x9E3779B97F4A7C15;
  constexpr size_t kMost = kMostLetters + kMostEdits;
  // before[n] is the hash of the first n letters, and power[n] is kBase to the
  // power of n.
  std::array<uint64_t, kMost + 1> before{}, power{};
  power[0] = 1;
  const size_t size = word.size();
  for (size_t i = 0; i < size; ++i) {
    // Letters are numbered from 1, so that a text and the same text with a
    // letter of value 0 in front have different hashes.
    before[i + 1] = before[i] * kBase + static_cast<unsigned char>(word[i]) + 1;
    power[i + 1] = power[i] * kBase;
  }
  const auto part = [&](size_t begin, size_t end) {
    return before[end] - before[begin] * power[end - begin];
  };
  // The upper bits of a hash choose its bucket, and the lowest bits are
  // compared inside the bucket. After mixing, both depend on all bits of the
  // hash.
  const auto mixed = [](uint64_t hash) {
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93;
    return hash ^ hash >> 32;
  };
  take(mixed(before[size]));
  // A word of fewer than four letters may have only one edit.
  const bool two = size >= 4;
  for (size_t i = 0; i < size; ++i) {
    take(mixed(before[i] * power[size - i - 1] + part(i + 1, size)));
    for (size_t j = i + 1; two && j < size; ++j) {
      const uint64_t start = before[i] * power[j - i - 1] + part(i + 1, j);
      take(mixed(start * power[size - j - 1] + part(j + 1, size)));
    }
  }
}

}  // namespace

bool IsTypingError(std::string_view a, std::string_view b) {
  const auto longest = static_cast<int64_t>(std::max(a.size(), b.size()));
  const int64_t edits = PartEdits(a, b);
  return edits <= kMostEdits && 3 * edits <= longest;
}

size_t MisspeltWords::Add(const std::string& word) {
  const auto [at, fresh] = numbers_.try_emplace(word, words_.size());
  if (fresh) {
    by_length_[word.size()].push_back(static_cast<uint32_t>(words_.size()));
    words_.push_back(word);
    letters_.push_back(LettersOf(word));
  }
  return at->second;
}

void MisspeltWords::Finish() {
  if (words_.size() <= kShortList) return;
  const auto for_each = [&](const auto& take) {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w].size() > kMostLetters) continue;
      ForEachRemainder(words_[w], [&](uint64_t hash) { take(w, hash); });
    }
  };
  size_t count = 0;
  for_each([&](size_t, uint64_t) { ++count; });
  // Without an index, words are compared one by one.
  if (count == 0 || count > UINT32_MAX) return;
  // A bucket has two to four remainders on average.
  const size_t buckets = std::max<size_t>(2, std::bit_floor(count / 2));
  shift_ = 64 - std::countr_zero(buckets);
  starts_.assign(buckets + 1, 0);
  for_each([&](size_t, uint64_t hash) { ++starts_[hash >> shift_]; });
  for (size_t b = 1; b <= buckets; ++b) starts_[b] += starts_[b - 1];
  // Now starts_[b] is the end of bucket b. Each remainder that is put into the
  // bucket decrements it, so finally it is the start of the bucket.
  owners_.resize(count);
  marks_.resize(count);
  for_each([&](size_t w, uint64_t hash) {
    const uint32_t at = --starts_[hash >> shift_];
    owners_[at] = static_cast<uint32_t>(w);
    marks_[at] = static_cast<uint8_t>(hash);
  });
}

std::vector<size_t> MisspeltWords::Find(std::string_view word) const {
  std::vector<size_t> out;
  const size_t least = word.size() - std::min<size_t>(word.size(), kMostEdits);
  const size_t most = word.size() + kMostEdits;
  if (owners_.empty()) {
    AddByLength(word, least, most, out);
    return out;
  }
  if (least <= kMostLetters) AddByRemainder(word, out);
  AddByLength(word, std::max(least, kMostLetters + 1), most, out);
  return out;
}

void MisspeltWords::AddByLength(std::string_view word, size_t least,
                                size_t most, std::vector<size_t>& out) const {
  const uint64_t letters = LettersOf(word);
  for (auto at = by_length_.lower_bound(least);
       at != by_length_.end() && at->first <= most; ++at) {
    for (const uint32_t w : at->second) {
      if (std::popcount(letters ^ letters_[w]) > kMostOtherLetters) continue;
      if (IsTypingError(words_[w], word)) out.push_back(w);
    }
  }
}

void MisspeltWords::AddByRemainder(std::string_view word,
                                   std::vector<size_t>& out) const {
  std::vector<uint32_t> found;
  ForEachRemainder(word, [&](uint64_t hash) {
    const uint64_t bucket = hash >> shift_;
    for (uint32_t i = starts_[bucket]; i < starts_[bucket + 1]; ++i) {
      if (marks_[i] == static_cast<uint8_t>(hash)) found.push_back(owners_[i]);
    }
  });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const uint32_t w : found) {
    if (IsTypingError(words_[w], word)) out.push_back(w);
  }
}

}  // namespace shardc
