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
#include "plan/misspelt_words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "source/edit_distance.h"

namespace shardc {
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
