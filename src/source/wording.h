// Words for numbers and names, the same in every message.
#ifndef SHARDC_SOURCE_WORDING_H_
#define SHARDC_SOURCE_WORDING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardc {

// "0 B", "512 B", "1.5 KiB", "14.96 GiB": binary units, four digits at most.
std::string BytesText(int64_t bytes);
// "8,030,261,248"
std::string CountText(int64_t count);
// "1 parameter", "2 parameters"
std::string Counted(int64_t count, std::string_view singular,
                    std::string_view plural = {});

// Control characters, bidi overrides and invalid UTF-8 as \x1b or \u202e, so
// that a hostile name cannot drive a terminal. Everything else as it is.
std::string Printable(std::string_view text);

// The text as code in Markdown, printable, whatever backticks it holds.
std::string CodeSpan(std::string_view text);
// The same in a table's cell, which a bar would end.
std::string CodeCell(std::string_view text);

// "`text`", made printable and cut to a readable length.
std::string ShortQuote(std::string_view text);

// The candidate nearest to `word` (edit distance at most a third of its
// length, case ignored), or nothing.
std::optional<std::string> Nearest(std::string_view word,
                                   std::span<const std::string> candidates);
// "did you mean `x`?" of the nearest, or else `otherwise`.
std::string DidYouMean(std::string_view word,
                       std::span<const std::string> candidates,
                       std::string_view otherwise = {});
std::string DidYouMean(std::string_view word,
                       std::span<const std::string_view> candidates,
                       std::string_view otherwise = {});

// Names that differ in the case of ASCII letters alone become the same.
std::string FoldCase(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_SOURCE_WORDING_H_
