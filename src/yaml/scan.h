// Where pieces of YAML text begin and end: what the event parser does not
// tell. All positions are byte offsets into the whole text.
#ifndef SHARDC_YAML_SCAN_H_
#define SHARDC_YAML_SCAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Why bytes are not YAML text, and where; nothing if they are. Control
// characters are refused too: the event parser gives some of them a meaning.
struct TextFault {
  size_t offset = 0;
  std::string message;
  std::string help;
};
std::optional<TextFault> FindTextFault(std::string_view text);

// Past blanks, line breaks and comments.
size_t SkipBlank(std::string_view text, size_t at);
// As SkipBlank, and past `---` and `...` lines.
size_t SkipEmptyDocument(std::string_view text, size_t at);
// Past `&anchor` and `!tag` and the blanks after them; says whether there
// was a tag.
size_t SkipProperties(std::string_view text, size_t at, bool* tagged);

// Past the closing quote of the quoted scalar that begins at `at`; nothing
// if it is never closed.
std::optional<size_t> QuotedEnd(std::string_view text, size_t at);
// Past a plain scalar whose value, with line breaks folded, is `value`.
size_t PlainEnd(std::string_view text, size_t at, std::string_view value);
// Past the last line of a block scalar whose `|` or `>` is at `at`.
size_t BlockEnd(std::string_view text, size_t at);
// Past the bracket that closes a flow collection whose last item ends at
// `at`.
size_t FlowEnd(std::string_view text, size_t at, char bracket);
// Past a null word (`~`, `null` ...) at `at`; nothing if there is none.
std::optional<size_t> NullWordEnd(std::string_view text, size_t at);
// The first quote from `at` on that opens a scalar and is never closed.
std::optional<size_t> FindOpenQuote(std::string_view text, size_t at);

// The length of a blank at `at` that looks like a space and is none, or 0.
size_t OddBlank(std::string_view text, size_t at);
inline constexpr std::string_view kOddBlankMessage =
    "a blank that is not a space";
inline constexpr std::string_view kOddBlankHelp = "use spaces";

size_t LineBegin(std::string_view text, size_t at);
size_t LineEnd(std::string_view text, size_t at);
inline size_t ColumnOf(std::string_view text, size_t at) {
  return at - LineBegin(text, at);
}

}  // namespace shardc

#endif  // SHARDC_YAML_SCAN_H_
