// Finds the likely cause of a syntax error. yaml-cpp reports the position where
// it could not continue, which is often far after the mistake. The text from
// the last complete token on is therefore searched for the usual causes. The
// most certain come first: an open quote, an open bracket, a tab or a no-break
// space in the indentation, a line between two indentation levels. If none is
// found, a table gives a message for the reason that yaml-cpp reports. A reason
// that the table lacks is printed as it is. For example:
//
//   a: {b: 1    yaml-cpp reports `end of map flow not found` at the end of the
//               file; the finding is placed at `{`, which is never closed
#include "yaml/error.h"

#include <algorithm>
#include <array>

#include "source/other_text.h"
#include "source/wording.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

struct Wording {
  std::string_view reason;  // prefix of yaml-cpp's message
  std::string_view message;
  std::string_view help;
};

constexpr std::array<Wording, 16> kWordings = {{
    {"illegal map value", "this `:` follows nothing that can be a key",
     "quote a text that holds `: `, fix the indentation, or end the key above "
     "with `:`"},
    {"illegal map key", "no key can stand here", "fix the indentation"},
    {"illegal block entry", "no list item can stand here",
     "begin the list on a line of its own"},
    {"illegal flow end", "this bracket closes nothing", "remove it"},
    {"illegal EOF in scalar", "the file ends inside a string",
     "close the quote"},
    {"illegal document indicator in scalar",
     "a document marker inside a string", "close the quote"},
    {"unknown escape character", "an escape that YAML does not have",
     "put patterns in single quotes: '\\d+'"},
    {"bad character found while scanning hex", "an escape with bad digits",
     "put patterns in single quotes: '\\x2f'"},
    {"invalid unicode", "an escape that is no Unicode character", ""},
    {"the referenced anchor is not defined",
     "this alias refers to no anchor before it",
     "quote a text that begins with `*`"},
    {"alias not found after", "an alias without a name",
     "quote a text that begins with `*`"},
    {"anchor not found after", "an anchor without a name",
     "quote a text that begins with `&`"},
    {"illegal tab", "a tab where indentation is expected",
     "indent with spaces"},
    {"cannot assign multiple", "two anchors or tags on one value", ""},
    {"unexpected character in block scalar",
     "text after the head of a block string",
     "begin the text on the next line"},
    {"cannot set zero indentation", "a block string with indentation 0", ""},
}};

bool IsBlankLineHead(std::string_view text, size_t at) {
  const size_t line = LineBegin(text, at);
  return text.substr(line, at - line).find_first_not_of(" \t") ==
         std::string_view::npos;
}

struct Report {
  const SourceRef& source;
  const YamlFailure& failure;
  Findings& findings;

  void Add(size_t begin, size_t end, std::string message,
           std::string_view help) const {
    findings.Add(code::kYamlSyntax,
                 {source, begin, std::min(end, source->text().size())},
                 std::move(message), std::string(help));
  }

  // Reports a tab or a blank such as a no-break space at the head of a line,
  // where YAML usually does not accept it. Returns false if there is none in
  // the lines from the last complete token to where the parser stopped.
  bool BadIndentation() const {
    const std::string_view text = source->text();
    size_t line = LineBegin(text, std::min(failure.offset, text.size()));
    const size_t first = LineBegin(text, failure.last_end);
    for (;;) {
      size_t at = line;
      while (at < text.size() && text[at] == ' ') ++at;
      if (at < text.size() && text[at] == '\t') {
        Add(at, at + 1, "a tab is used as indentation", "indent with spaces");
        return true;
      }
      if (const size_t blank = OddBlank(text, at); blank > 0) {
        Add(at, at + blank, std::string(kOddBlankMessage), kOddBlankHelp);
        return true;
      }
      if (line <= first || line == 0) return false;
      line = LineBegin(text, line - 1);
    }
  }

  bool OpenQuote() const {
    const std::string_view text = source->text();
    const auto quote =
        FindOpenQuote(text, std::min(failure.last_end, text.size()));
    if (!quote) return false;
    Add(*quote, *quote + 1,
        std::string("the quote `") + text[*quote] + "` is never closed",
        "close it on the same line");
    return true;
  }

  // Returns whether the parser stopped at the dash of the next item of a list
  // because a bracket above has entries and is not closed.
  bool IsItemAfterBracket() const {
    const std::string_view text = source->text();
    if (!failure.open_flow ||
        SkipBlank(text, *failure.open_flow + 1) >= failure.offset) {
      return false;
    }
    const size_t own = LineBegin(text, failure.offset);
    const size_t above = LineBegin(text, *failure.open_flow);
    const auto indent = [&](size_t line) {
      return std::min(text.find_first_not_of(' ', line), text.size()) - line;
    };
    return own > above && own + indent(own) == failure.offset &&
           indent(own) <= indent(above);
  }

  bool OpenBracket(const std::string& reason) const {
    if (reason.starts_with("illegal block entry") && IsItemAfterBracket()) {
      const char open = source->text()[*failure.open_flow];
      Add(*failure.open_flow, *failure.open_flow + 1,
          std::string("the bracket `") + open +
              "` is not closed before the next item",
          std::string("close it with `") + (open == '{' ? "}`" : "]`"));
      return true;
    }
    if (!reason.starts_with("end of map flow") &&
        !reason.starts_with("end of sequence flow")) {
      return false;
    }
    const std::string_view text = source->text();
    const char open = failure.open_flow ? text[*failure.open_flow] : '[';
    const std::string close = open == '{' ? "}" : "]";
    if (SkipBlank(text, failure.offset) >= text.size() && failure.open_flow) {
      Add(*failure.open_flow, *failure.open_flow + 1,
          std::string("the bracket `") + open + "` is never closed",
          "close it with `" + close + "`");
    } else {
      Add(failure.offset, failure.offset + 1,
          "neither `,` nor `" + close + "` before this",
          std::string("separate the entries with commas, or close `") + open +
              "` with `" + close + "` where it ends");
    }
    return true;
  }

  // Reports a missing closing quote, as in `match: 'foo`: the string then
  // extends over several lines to the quote that opens the next pattern.
  // Returns false if the error has another cause.
  bool LongQuote() const {
    if (!failure.long_quote) return false;
    const auto end = QuotedEnd(source->text(), *failure.long_quote);
    if (!end || *end != failure.last_end) return false;
    Add(*failure.long_quote, *failure.long_quote + 1,
        std::string("the quote `") + source->text()[*failure.long_quote] +
            "` is closed on line " + std::to_string(source->At(*end - 1).line) +
            " only",
        "close it on the same line");
    return true;
  }

  bool Misplaced(const std::string& reason) const {
    const bool map = reason.starts_with("end of map");
    if (!map && !reason.starts_with("end of sequence")) return false;
    const std::string_view text = source->text();
    const std::string what = map ? "key" : "item";
    if (IsBlankLineHead(text, failure.offset)) {
      Add(failure.offset, failure.offset + 1,
          "this line is neither the next " + what +
              " of what stands above nor inside it",
          "give it the same indentation as the " + what + "s above");
    } else if (!LongQuote()) {
      Add(failure.offset, failure.offset + 1, "text after a whole value",
          "remove it, or quote the whole value");
    }
    return true;
  }
};

}  // namespace

void ReportYamlError(const SourceRef& source, const std::string& reason,
                     const YamlFailure& failure, Findings& findings) {
  const Report report{source, failure, findings};
  const std::string_view text = source->text();
  if (reason.starts_with("bad file")) {
    findings.Add(code::kYamlDepth, {source, failure.offset, failure.offset},
                 "nested too deeply");
    return;
  }
  if (ReportOtherText(source, findings, code::kYamlSyntax)) return;
  if (report.OpenQuote()) return;
  if (report.OpenBracket(reason)) return;
  if (report.BadIndentation()) return;
  if (report.Misplaced(reason)) return;
  if (reason.starts_with("unknown token") && failure.offset < text.size()) {
    report.Add(failure.offset, failure.offset + 1,
               "no value can begin with `" +
                   Printable(text.substr(failure.offset, 1)) + "`",
               "quote the text");
    return;
  }
  // If the line has more bytes before the error than a key may have, it begins
  // with a key that is too long. This is not so if `: ` comes before the error,
  // as in `match: long text: end`: the long text is then a value.
  const size_t line = LineBegin(text, failure.offset);
  const std::string_view before = text.substr(line, failure.offset - line);
  if (reason.starts_with("illegal map value") &&
      before.size() > kLongestKeyBytes &&
      before.find(": ") == std::string_view::npos) {
    report.Add(line, failure.offset, std::string(kLongKeyMessage),
               kLongKeyHelp);
    return;
  }
  for (const Wording& wording : kWordings) {
    if (!reason.starts_with(wording.reason)) continue;
    report.Add(failure.offset, failure.offset + 1, std::string(wording.message),
               wording.help);
    return;
  }
  report.Add(failure.offset, failure.offset + 1,
             "the YAML parser reports: " + reason, "");
}

}  // namespace shardc
