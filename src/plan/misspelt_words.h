// Finds the words of a list that differ from a given word by a typing error.
#ifndef SHARDC_PLAN_MISSPELT_WORDS_H_
#define SHARDC_PLAN_MISSPELT_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace shardc

#endif  // SHARDC_PLAN_MISSPELT_WORDS_H_
