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
#include "suggest/pattern_text.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardc::suggest {
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
  std::string middle;
  for (const std::string& word : words) {
    middle +=
        (middle.empty() ? "" : "|") +
        Escaped(std::string_view(word).substr(head, word.size() - head - tail));
  }
  return Escaped(words[0].substr(0, head)) + "(" + middle + ")" +
         Escaped(words[0].substr(words[0].size() - tail));
}

}  // namespace

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
  return TrieText(trie);
}

}  // namespace shardc::suggest
