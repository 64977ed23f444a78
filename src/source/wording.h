// Formats numbers and names for messages.
#ifndef SHARDC_SOURCE_WORDING_H_
#define SHARDC_SOURCE_WORDING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace shardc {

// Returns "0 B", "512 B", "1.5 KiB", "14.96 GiB": binary units, at most four
// digits.
std::string BytesText(int64_t bytes);
// Returns "8,030,261,248".
std::string CountText(int64_t count);
// Returns "1 parameter" or "2 parameters". `plural` is needed only if it is not
// `singular` with an s.
std::string Counted(int64_t count, std::string_view singular,
                    std::string_view plural = {});

// Returns the text without spaces and tabs around it.
std::string_view Trim(std::string_view text);
// Returns the text with blanks before it up to `width` bytes.
std::string PadLeft(std::string text, size_t width);

// Escapes hidden characters (IsHidden) and invalid UTF-8 as \x1b or \u202e, so
// that a hostile name cannot control the terminal.
std::string Printable(std::string_view text);

// Returns the text as a Markdown code span, made printable. Backticks inside
// the text do not end the span.
std::string CodeSpan(std::string_view text);
// Returns a Markdown code span for a table cell, with `|` escaped.
std::string CodeCell(std::string_view text);

// Returns "`text`".
std::string Quote(std::string_view text);
// Returns "`text`", made printable. A text of more than 60 bytes is shortened
// and ends in "...".
std::string ShortQuote(std::string_view text);

// Returns the candidate with the smallest edit distance to `word`, ignoring
// case. Returns nullopt if the distance is more than a third of the length of
// `word`, or if `word` has more than 256 bytes.
std::optional<std::string> Nearest(std::string_view word,
                                   std::span<const std::string> candidates);
// Returns "did you mean `x`?" for the nearest candidate, or `otherwise` if
// there is none.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates,
                       std::string_view otherwise = {});
std::string DidYouMean(std::string_view word,
                       std::span<const std::string_view> candidates,
                       std::string_view otherwise = {});

// Lower-cases ASCII letters: names that differ only in case become equal.
std::string FoldCase(std::string_view name);

// Returns the part of `text` after the last `c`, or all of `text` if it has no
// `c`.
inline std::string_view AfterLast(std::string_view text, char c) {
  const size_t at = text.rfind(c);
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

// Returns the optimal string alignment distance: the least number of
// insertions, deletions, replacements and swaps of neighbouring bytes that turn
// one word into the other, if no byte is edited twice. The time is proportional
// to the product of the lengths.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns the edit distance of two parts of names. If a part has more than 64
// bytes, returns the length of the longer part instead, because the distance
// takes quadratic time.
int64_t PartEdits(std::string_view a, std::string_view b);

// Joins texts into a list such as "a, b, c".

// Appends an item to a list, after a separator unless the list is empty.
inline void AppendItem(std::string& list, std::string_view separator,
                       std::string_view item) {
  if (!list.empty()) list += separator;
  list += item;
}

// Returns the first `most` of the values, or all if there are fewer.
template <class Range>
auto First(const Range& values, size_t most) {
  return std::span(values).first(std::min(most, values.size()));
}

// Returns the values as a list. `project` maps each value to its text or
// number.
template <class Range, class Project = std::identity>
std::string Join(const Range& values, std::string_view separator,
                 const Project& project = {}) {
  std::string list;
  for (const auto& value : values) {
    const auto& item = std::invoke(project, value);
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(item)>>) {
      AppendItem(list, separator, std::to_string(item));
    } else {
      AppendItem(list, separator, item);
    }
  }
  return list;
}

// Returns the values as a list in a sentence: "a, b and c".
template <class Range, class Project = std::identity>
std::string ListInWords(const Range& values, const Project& project = {},
                        std::string_view last = " and ") {
  size_t left = values.size();
  std::string list;
  for (const auto& value : values) {
    AppendItem(list, --left > 0 ? ", " : last, std::invoke(project, value));
  }
  return list;
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_WORDING_H_
