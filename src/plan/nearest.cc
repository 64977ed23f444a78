#include "plan/nearest.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace shardc {
namespace {

constexpr double kEnough = 0.5;

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Words of a name, or the literal words of a pattern: an escape such as \d
// is no word, and a digit alone says nothing.
std::vector<std::string_view> Words(std::string_view text, bool pattern) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    if (pattern && text[i] == '\\') {
      i += 2;
      continue;
    }
    size_t end = i;
    while (end < text.size() && IsWordChar(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    const bool digits = std::all_of(word.begin(), word.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (!word.empty() && !digits) words.push_back(word);
    i = std::max(end, i + 1);
  }
  return words;
}

// Longest common subsequence of words, each weighing its place in the
// pattern; as a share of the pattern's whole weight.
double Likeness(std::span<const std::string_view> pattern,
                std::span<const std::string_view> name) {
  if (pattern.empty()) return 0;
  std::vector<double> row(name.size() + 1, 0);
  double whole = 0;
  for (size_t p = 0; p < pattern.size(); ++p) {
    const double weight = static_cast<double>(p + 1);
    whole += weight;
    double diagonal = 0;
    for (size_t n = 0; n < name.size(); ++n) {
      const double above = row[n + 1];
      const double taken = pattern[p] == name[n] ? diagonal + weight : 0.0;
      row[n + 1] = std::max({row[n], above, taken});
      diagonal = above;
    }
  }
  return row.back() / whole;
}

}  // namespace

std::optional<size_t> NearestRule(std::span<const Rule> rules,
                                  std::string_view name) {
  const auto name_words = Words(name, false);
  std::optional<size_t> best;
  double best_likeness = 0;
  for (size_t i = 0; i < rules.size(); ++i) {
    const double likeness = Likeness(Words(rules[i].match, true), name_words);
    if (likeness >= kEnough && likeness > best_likeness) {
      best = i;
      best_likeness = likeness;
    }
  }
  return best;
}

}  // namespace shardc
