// Finds the model type that a misspelled one stands for. Names of different
// models are often a letter or a digit apart, as `bart` and `bert`, so names
// are compared word by word. A word is a sequence of letters or of digits:
//
//   Qwen-2, qwen2    ->  qwen 2 in both: the same type
//   mistrl, mistral  ->  one edit in a word of seven letters: a misspelling
//   bart, bert       ->  one edit in a word of four letters: another model
//   qwen3_5, qwen3   ->  qwen 3 5 and qwen 3: another model
#include "families/misspelling.h"

#include <algorithm>
#include <string>
#include <vector>

#include "source/edit_distance.h"
#include "source/wording.h"

namespace shardc::families {
namespace {

// A longer name is not compared, because the edit distance takes time quadratic
// in the length of the words.
constexpr size_t kLongestType = 256;
// The least number of letters of a word in which any single edit is taken for a
// typing error.
constexpr size_t kLongWord = 6;

bool IsNumeral(char c) { return c >= '0' && c <= '9'; }
bool IsLowerCase(char c) { return c >= 'a' && c <= 'z'; }

std::vector<std::string> WordsOf(std::string_view type) {
  std::vector<std::string> words;
  char before = 0;
  for (const char c : FoldCase(type)) {
    const bool digit = IsNumeral(c);
    if (digit || IsLowerCase(c)) {
      const bool goes_on = digit ? IsNumeral(before) : IsLowerCase(before);
      if (!goes_on) words.emplace_back();
      words.back() += c;
    }
    before = c;
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word;
  return out;
}

std::string WithoutDoubles(std::string word) {
  word.erase(std::unique(word.begin(), word.end()), word.end());
  return word;
}

bool IsTypingError(std::string a, std::string b) {
  if (IsNumeral(a[0]) || IsNumeral(b[0])) return false;
  if (WithoutDoubles(a) == WithoutDoubles(b)) return true;
  if (EditDistance(a, b) != 1) return false;
  if (std::max(a.size(), b.size()) >= kLongWord) return true;
  // If two words have the same letters, the single edit is a swap of two
  // neighbouring letters.
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

bool IsMisspelled(const std::vector<std::string>& a,
                  const std::vector<std::string>& b) {
  if (a.size() != b.size()) return false;
  int errors = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (!IsTypingError(a[i], b[i])) return false;
    ++errors;
  }
  return errors == 1;
}

}  // namespace

std::optional<std::string_view> FindMisspelled(
    std::string_view word, std::span<const std::string_view> types) {
  if (word.size() > kLongestType) return std::nullopt;
  const std::vector<std::string> words = WordsOf(word);
  if (words.empty()) return std::nullopt;
  const std::string joined = Joined(words);
  for (const std::string_view type : types) {
    if (Joined(WordsOf(type)) == joined) return type;
  }
  for (const std::string_view type : types) {
    if (IsMisspelled(words, WordsOf(type))) return type;
  }
  return std::nullopt;
}

}  // namespace shardc::families
