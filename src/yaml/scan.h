// Finds where the tokens of a YAML text begin and end. yaml-cpp reports only
// where nodes begin. All positions are byte offsets into the entire text.
#ifndef SHARDC_YAML_SCAN_H_
#define SHARDC_YAML_SCAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

// The reason why bytes are not YAML text. Control characters are refused too,
// because yaml-cpp interprets some of them. FindTextFault() returns nullopt if
// the text can be parsed as YAML text.
struct TextFault {
  size_t offset = 0;
  std::string message;
  std::string help;
};
std::optional<TextFault> FindTextFault(std::string_view text);

// Returns the first offset from `at` on that is not in blanks, line breaks or
// comments.
size_t SkipBlank(std::string_view text, size_t at);
// Returns the first offset from `at` on that is not in blanks, line breaks,
// comments, or lines that contain only `---` or `...`.
size_t SkipEmptyDocument(std::string_view text, size_t at);
// Returns the offset after an anchor (`&a`) and a tag (`!t`) at `at`, and after
// the blanks that follow them. Sets `*tagged` to whether there is a tag.
size_t SkipProperties(std::string_view text, size_t at, bool* tagged);

// Returns the offset after the closing quote of the quoted scalar at `at`, or
// nullopt if it is never closed.
std::optional<size_t> QuotedEnd(std::string_view text, size_t at);
// Returns the text as a scalar in single quotes, in which each of its own is
// doubled. The text must be one line.
std::string SingleQuoted(std::string_view text);
// Returns the end of the plain scalar at `at` whose value, with line breaks
// folded, is `value`.
size_t PlainEnd(std::string_view text, size_t at, std::string_view value);
// Returns the end of the last line with text of a block scalar whose `|` or `>`
// is at `at`.
size_t BlockEnd(std::string_view text, size_t at);
// Returns the offset after the bracket that closes a list or mapping in
// brackets. `at` is the end of its last item. If a character other than a comma
// or a colon comes before the bracket, returns the offset of that character.
size_t FlowEnd(std::string_view text, size_t at, char bracket);
// Returns the offset after a null word (`~`, `null` ...) at `at`, or nullopt if
// there is none.
std::optional<size_t> NullWordEnd(std::string_view text, size_t at);
// Returns the offset of the first quote from `at` on that opens a scalar and is
// never closed, or nullopt if there is none.
std::optional<size_t> FindOpenQuote(std::string_view text, size_t at);

// Returns the length of a character at `at` that looks like a space but is not
// one (no-break space ...), or 0.
size_t OddBlank(std::string_view text, size_t at);
inline constexpr std::string_view kOddBlankMessage =
    "a blank that is not a space";
inline constexpr std::string_view kOddBlankHelp = "use spaces";

size_t LineBegin(std::string_view text, size_t at);

// Returns what to write in place of words of another language in the line of a
// byte: Python's `P('fsdp')`, a pair in parentheses, or a comment after `//`.
// Returns an empty text if the line has none.
std::string_view HelpForOtherSyntax(std::string_view text, size_t at);

size_t LineEnd(std::string_view text, size_t at);
inline size_t ColumnOf(std::string_view text, size_t at) {
  return at - LineBegin(text, at);
}

// The largest size of a YAML key without `?` before it.
inline constexpr size_t kLongestKeyBytes = 1024;
inline constexpr std::string_view kLongKeyMessage =
    "a key of more than 1,024 characters";
inline constexpr std::string_view kLongKeyHelp =
    "shorten it, or write `? ` before it and its `: ` on the next line";

struct YamlFailure {
  size_t offset = 0;                // where the parser stopped
  size_t last_end = 0;              // end of the last complete token
  std::optional<size_t> open_flow;  // innermost open `[` or `{`
  // The beginning of the last quoted string that extends over several lines.
  std::optional<size_t> long_quote;
};

// Adds a finding for a syntax error. `reason` is the event parser's message.
void ReportYamlError(const SourceRef& source, const std::string& reason,
                     const YamlFailure& failure, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_YAML_SCAN_H_
