// Splits Python source into tokens in one pass. Ends of lines inside brackets
// are ignored. Outside of brackets, a change of the indentation opens or closes
// a block:
//
//   if x:          name name : newline
//     y = 'a' 'b'  indent name = string string newline dedent
//
// The text of a string token is the string's value, so `'\\d'` and `r'\d'` have
// equal tokens.
#include "importers/rules/python_tokens.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "importers/rules/scan.h"
#include "source/utf8.h"

namespace shardc::imports {
namespace {

constexpr size_t kSourceLimit = size_t{16} << 20;
constexpr size_t kBracketLimit = 100;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Tokenizer {
 public:
  Tokenizer(const SourceRef& source, Findings& findings)
      : source_(source), text_(source->text()), findings_(findings) {}

  std::optional<PyTokens> Run() {
    if (text_.size() > kSourceLimit) {
      findings_.Add(code::kLimit, {source_}, "this file is larger than 16 MiB");
      return std::nullopt;
    }
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    while (good_ && at_ < text_.size()) Step();
    if (good_ && !brackets_.empty()) {
      Refuse(brackets_.back(), brackets_.back() + 1,
             "this bracket is never closed");
    }
    if (!good_) return std::nullopt;
    if (!out_.tokens.empty() && out_.tokens.back().kind != PyToken::kNewline) {
      Add(PyToken::kNewline, at_, at_);
    }
    for (; indents_.size() > 1; indents_.pop_back()) {
      Add(PyToken::kDedent, at_, at_);
    }
    Add(PyToken::kEnd, at_, at_);
    return std::move(out_);
  }

 private:
  void Refuse(size_t begin, size_t end, std::string message,
              std::string help = {}) {
    if (good_) {
      findings_.Add(code::kPythonSyntax, {source_, begin, end},
                    std::move(message), std::move(help));
    }
    good_ = false;
  }

  void Add(PyToken kind, size_t begin, size_t end, std::string text = {}) {
    out_.tokens.push_back({kind, begin, end, std::move(text), {}});
  }

  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void Step() {
    if (line_start_ && brackets_.empty()) {
      line_start_ = false;
      if (Indentation()) return;
    }
    const char c = Peek();
    if (c == ' ' || c == '\t' || c == '\f' || c == '\r') {
      ++at_;
    } else if (c == '\n') {
      NewLine();
    } else if (c == '#') {
      Comment();
    } else if (c == '\\') {
      Continuation();
    } else if (StringAhead()) {
      String();
    } else if (IsNameStart(c)) {
      const size_t begin = at_;
      while (IsPyNamePart(Peek())) ++at_;
      Add(PyToken::kName, begin, at_,
          std::string(text_.substr(begin, at_ - begin)));
    } else if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      const size_t begin = at_;
      while (IsPyNamePart(Peek()) || Peek() == '.') ++at_;
      Add(PyToken::kNumber, begin, at_,
          std::string(text_.substr(begin, at_ - begin)));
    } else {
      Operator();
    }
  }

  // Reads the indentation of a line. An empty line, and a line with only a
  // comment, open and close no block. Returns true at the end of the text.
  bool Indentation() {
    size_t width = 0, i = at_;
    for (; i < text_.size(); ++i) {
      if (text_[i] == ' ') {
        ++width;
      } else if (text_[i] == '\t') {
        width += 8 - width % 8;
      } else if (text_[i] != '\f') {
        break;
      }
    }
    if (i == text_.size() || text_[i] == '\n' || text_[i] == '#' ||
        text_[i] == '\r') {
      at_ = i;
      return i == text_.size();
    }
    at_ = i;
    if (width > indents_.back()) {
      if (indents_.size() > kBracketLimit) {
        Refuse(i, i + 1, "blocks are nested too deeply");
      }
      indents_.push_back(width);
      Add(PyToken::kIndent, i, i);
    }
    while (width < indents_.back()) {
      indents_.pop_back();
      Add(PyToken::kDedent, i, i);
    }
    if (width != indents_.back()) {
      Refuse(i, i + 1, "this line's indentation fits no block above it");
    }
    return false;
  }

  void NewLine() {
    const bool blank = out_.tokens.empty() ||
                       out_.tokens.back().kind == PyToken::kNewline ||
                       out_.tokens.back().kind == PyToken::kIndent ||
                       out_.tokens.back().kind == PyToken::kDedent;
    if (brackets_.empty() && !blank) Add(PyToken::kNewline, at_, at_ + 1);
    line_start_ = brackets_.empty();
    ++at_;
  }

  void Comment() {
    const size_t begin = at_;
    at_ = std::min(text_.find('\n', at_), text_.size());
    size_t from = begin;
    while (from < at_ && text_[from] == '#') ++from;
    std::string_view text = text_.substr(from, at_ - from);
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
      text.remove_prefix(1);
    }
    while (!text.empty() &&
           (text.back() == ' ' || text.back() == '\r' || text.back() == '\t')) {
      text.remove_suffix(1);
    }
    const size_t line = text_.rfind('\n', begin);
    const std::string_view before =
        text_.substr(line == std::string_view::npos ? 0 : line + 1,
                     begin - (line == std::string_view::npos ? 0 : line + 1));
    const bool alone =
        before.find_first_not_of(" \t\f") == std::string_view::npos;
    out_.comments.push_back({begin, std::string(text), alone});
  }

  void Continuation() {
    size_t i = at_ + 1;
    if (i < text_.size() && text_[i] == '\r') ++i;
    if (i < text_.size() && text_[i] == '\n') {
      at_ = i + 1;
    } else {
      Refuse(at_, at_ + 1, "a backslash stands before a line's end only");
    }
  }

  bool StringAhead() const {
    size_t i = 0;
    while (i < 3 &&
           std::string_view("rRbBuUfFtT").find(Peek(i)) !=
               std::string_view::npos &&
           Peek(i) != '\0') {
      ++i;
    }
    return Peek(i) == '\'' || Peek(i) == '"';
  }

  void String() {
    const size_t begin = at_;
    bool raw = false, formatted = false, inserts = false;
    std::vector<std::string> parts;
    plain_ = true;
    for (; Peek() != '\'' && Peek() != '"'; ++at_) {
      const char c = Peek();
      raw = raw || c == 'r' || c == 'R';
      inserts = inserts || c == 'f' || c == 'F';
      formatted = formatted || inserts || c == 't' || c == 'T';
      plain_ = plain_ && c != 'b' && c != 'B';
    }
    const char quote = Peek();
    const bool triple = Peek(1) == quote && Peek(2) == quote;
    at_ += triple ? 3 : 1;
    std::string value;
    while (true) {
      if (at_ >= text_.size() || (!triple && Peek() == '\n')) {
        Refuse(begin, begin + 1, "this string is never closed");
        return;
      }
      if (Peek() == quote &&
          (!triple || (Peek(1) == quote && Peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        break;
      }
      if (formatted && (Peek() == '{' || Peek() == '}') && Peek(1) == Peek()) {
        value += Peek();
        at_ += 2;
      } else if (formatted && Peek() == '{') {
        const size_t from = at_ + 1;
        const bool plain = plain_;
        Replacement();
        if (!good_) return;
        plain_ = plain;  // restored, because strings in the braces set it
        parts.push_back(std::move(value));
        parts.emplace_back(text_.substr(from, at_ - 1 - from));
        value.clear();
      } else if (Peek() != '\\') {
        value += text_[at_++];
      } else if (raw) {
        value += text_[at_++];
        if (at_ < text_.size() && !(formatted && Peek() == '{')) {
          value += text_[at_++];
        }
      } else {
        Escape(value);
      }
    }
    if (inserts) parts.push_back(value);
    Add(plain_ && !formatted ? PyToken::kString : PyToken::kTemplate, begin,
        at_, std::move(value));
    if (inserts && plain_) out_.tokens.back().parts = std::move(parts);
  }

  // Skips a replacement field such as `{x["a"]!r:>{width}}` of an f-string.
  // Strings inside it may use the same quotes as the f-string.
  void Replacement() {
    const size_t begin = at_++;
    if (++nested_ > kBracketLimit) {
      Refuse(begin, begin + 1, "brackets are nested too deeply");
    }
    size_t inside = 0;
    bool format = false;
    while (good_ && !(inside == 0 && Peek() == '}')) {
      const char c = Peek();
      if (at_ >= text_.size()) {
        Refuse(begin, begin + 1, "this bracket is never closed");
      } else if (format && c == '{') {
        Replacement();
      } else if (!format && c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (!format && StringAhead()) {
        const size_t tokens = out_.tokens.size();
        String();
        out_.tokens.resize(tokens);
      } else {
        inside += c == '(' || c == '[' || c == '{' ? 1 : 0;
        inside -= inside > 0 && (c == ')' || c == ']' || c == '}') ? 1 : 0;
        format = format || (c == ':' && inside == 0);
        ++at_;
      }
    }
    ++at_;
    --nested_;
  }

  void Escape(std::string& value) {
    const size_t begin = at_;
    const char c = Peek(1);
    at_ += 2;
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const size_t known = kFrom.find(c);
    if (c == '\n') return;
    if (c != '\0' && known != std::string_view::npos) {
      value += kTo[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t number = 0;
      for (size_t i = 0; i < digits; ++i, ++at_) {
        const int digit = HexDigit(Peek());
        if (digit < 0) {
          if (plain_) Refuse(begin, at_, "this escape lacks digits");
          return;
        }
        number = number << 4 | static_cast<uint32_t>(digit);
      }
      if (number >= 0xd800 && number < 0xe000) {
        plain_ = false;  // half of a surrogate pair, which UTF-8 cannot encode
        return;
      }
      if (number > kLastCodePoint) {
        if (plain_) Refuse(begin, at_, "this escape is no character");
        return;
      }
      AppendUtf8(value, number);
    } else if (c >= '0' && c <= '7') {
      uint32_t number = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i, ++at_) {
        number = number * 8 + static_cast<uint32_t>(Peek() - '0');
      }
      AppendUtf8(value, number);
    } else if (c == 'N') {
      plain_ = false;  // the value of a \N{...} escape is not computed
    } else {
      // Python keeps the backslash of an unknown escape.
      value += '\\';
      at_ = begin + 1;
    }
  }

  void Operator() {
    const char c = Peek();
    const size_t begin = at_;
    if (c == '(' || c == '[' || c == '{') {
      if (brackets_.size() >= kBracketLimit) {
        Refuse(begin, begin + 1, "brackets are nested too deeply");
      }
      brackets_.push_back(begin);
    } else if (c == ')' || c == ']' || c == '}') {
      constexpr std::string_view kOpen = "([{", kClose = ")]}";
      if (brackets_.empty() ||
          kOpen.find(text_[brackets_.back()]) != kClose.find(c)) {
        Refuse(begin, begin + 1, "this bracket closes nothing");
        return;
      }
      brackets_.pop_back();
    } else if (std::string_view("+-*/%@&|^~<>=!.,:;").find(c) ==
               std::string_view::npos) {
      Refuse(begin, begin + 1, "this begins nothing in Python");
      return;
    }
    constexpr std::string_view kLong[] = {
        "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=",
        ">=",  "->",  ":=",  "+=",  "-=",  "*=", "/=", "%=",
        "@=",  "&=",  "|=",  "^=",  "**",  "//", "<<", ">>"};
    at_ = begin + 1;
    for (const std::string_view word : kLong) {
      if (text_.substr(begin).starts_with(word)) {
        at_ = begin + word.size();
        break;
      }
    }
    Add(PyToken::kOperator, begin, at_,
        std::string(text_.substr(begin, at_ - begin)));
  }

  SourceRef source_;
  std::string_view text_;
  Findings& findings_;
  PyTokens out_;
  size_t at_ = 0;
  bool line_start_ = true;
  bool good_ = true;
  bool plain_ = true;  // whether the current string's value is known
  size_t nested_ = 0;
  std::vector<size_t> indents_ = {0};
  std::vector<size_t> brackets_;  // offsets of brackets that are still open
};

}  // namespace

bool IsPyNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

std::optional<PyTokens> TokenizePython(const SourceRef& source,
                                       Findings& findings) {
  size_t bad = 0;
  if (!IsUtf8(source->text(), &bad)) {
    findings.Add(code::kEncoding, {source, bad, bad + 1},
                 "this byte is not UTF-8");
    return std::nullopt;
  }
  return Tokenizer(source, findings).Run();
}

}  // namespace shardc::imports
