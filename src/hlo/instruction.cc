// Splits a line of HLO text, which is an instruction, into its parts. Types and
// operands have nested brackets, and strings may contain brackets that do not
// count. The parts are therefore found by matching brackets outside strings:
//
//   %s = ((f32[2]{0}), f32[4]{0}) all-gather-start(%x), channel_id=1
//
// The type ends where all its brackets are closed. The operands end at the
// parenthesis that matches the one after the opcode. The attributes, which are
// the longest part of most lines, are not split here.
#include "hlo/instruction.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "source/utf8.h"

namespace shardc::hlo {
namespace {

enum class Class : uint8_t { kOther, kOpens, kCloses, kQuote, kComma };

// The class of each character. A table makes it fast to scan long lines of
// constants.
constexpr auto kClasses = [] {
  std::array<Class, 256> out = {};
  for (const char c : {'(', '[', '{'}) out[size_t(c)] = Class::kOpens;
  for (const char c : {')', ']', '}'}) out[size_t(c)] = Class::kCloses;
  out['"'] = Class::kQuote;
  out[','] = Class::kComma;
  return out;
}();

Class ClassOf(char c) { return kClasses[static_cast<unsigned char>(c)]; }

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Returns whether the text is a byte in three octal digits, such as `303`.
bool IsOctalByte(std::string_view text) {
  return text.size() == 3 && text[0] <= '3' &&
         text.find_first_not_of("01234567") == std::string_view::npos;
}

// Returns the position after the end of the string that begins at `at`.
size_t EndOfString(std::string_view text, size_t at) {
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

// Returns the position after the bracket that matches the bracket at `at`; npos
// if no bracket matches.
size_t EndOfBrackets(std::string_view text, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    switch (ClassOf(text[i])) {
      case Class::kOpens:
        ++depth;
        break;
      case Class::kCloses:
        if (--depth == 0) return i + 1;
        break;
      case Class::kQuote:
        i = EndOfString(text, i) - 1;
        break;
      case Class::kOther:
      case Class::kComma:
        break;
    }
  }
  return std::string_view::npos;
}

void SkipBlanks(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && IsBlank(text[count])) ++count;
  text.remove_prefix(count);
}

// Removes blanks, and comments such as `/*index=5*/`, from the start of the
// text.
void SkipComments(std::string_view& text) {
  SkipBlanks(text);
  while (text.starts_with("/*")) {
    const size_t end = text.find("*/");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    SkipBlanks(text);
  }
}

bool TakeWord(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::optional<Instruction> SplitInstruction(std::string_view line) {
  Instruction out;
  SkipBlanks(line);
  out.root = TakeWord(line, "ROOT ");
  SkipBlanks(line);
  TakeWord(line, "%");
  const size_t equals = line.find(" = ");
  if (equals == std::string_view::npos) return std::nullopt;
  out.name = line.substr(0, equals);
  for (const char c : out.name) {
    if (IsBlank(c) || c == '(' || c == '"' || c == '{') return std::nullopt;
  }
  line.remove_prefix(equals + 3);
  SkipBlanks(line);
  const size_t type =
      line.starts_with('(') ? EndOfBrackets(line, 0) : line.find(' ');
  if (type == std::string_view::npos) return std::nullopt;
  out.type = line.substr(0, type);
  line.remove_prefix(type);
  SkipBlanks(line);
  const size_t open = line.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  out.opcode = line.substr(0, open);
  const size_t close = EndOfBrackets(line, open);
  if (close == std::string_view::npos) return std::nullopt;
  out.operands = line.substr(open + 1, close - open - 2);
  line.remove_prefix(close);
  TakeWord(line, ",");
  out.attributes = line;
  return out;
}

bool NextItem(std::string_view& list, std::string_view& item) {
  SkipComments(list);
  if (list.empty()) return false;
  size_t depth = 0, i = 0;
  for (bool ends = false; i < list.size(); ++i) {
    switch (ClassOf(list[i])) {
      case Class::kOpens:
        ++depth;
        break;
      case Class::kCloses:
        if (depth > 0) --depth;
        break;
      case Class::kQuote:
        i = EndOfString(list, i) - 1;
        break;
      case Class::kComma:
        ends = depth == 0;
        break;
      case Class::kOther:
        break;
    }
    if (ends) break;
  }
  size_t end = i;
  while (end > 0 && IsBlank(list[end - 1])) --end;
  item = list.substr(0, end);
  list.remove_prefix(std::min(i + 1, list.size()));
  return true;
}

std::string_view NameOfOperand(std::string_view operand) {
  size_t begin = operand.size();
  while (begin > 0 && !IsBlank(operand[begin - 1])) --begin;
  operand.remove_prefix(begin);
  TakeWord(operand, "%");
  return operand;
}

std::optional<std::string_view> AttributeOf(std::string_view attributes,
                                            std::string_view key) {
  for (std::string_view item; NextItem(attributes, item);) {
    if (TakeWord(item, key) && TakeWord(item, "=")) return item;
  }
  return std::nullopt;
}

std::optional<std::string_view> MemberOf(std::string_view braces,
                                         std::string_view key) {
  if (!TakeWord(braces, "{")) return std::nullopt;
  if (braces.ends_with('}')) braces.remove_suffix(1);
  while (!braces.empty()) {
    SkipBlanks(braces);
    const size_t equals = braces.find('=');
    if (equals == std::string_view::npos) break;
    const std::string_view name = braces.substr(0, equals);
    braces.remove_prefix(equals + 1);
    const bool quoted = braces.starts_with('"');
    size_t end = braces.find(' ');
    if (quoted) end = EndOfString(braces, 0);
    if (braces.starts_with('{')) end = EndOfBrackets(braces, 0);
    std::string_view value = braces.substr(0, end);
    braces.remove_prefix(value.size());
    if (name != key) continue;
    if (quoted) {
      value.remove_prefix(1);
      if (value.ends_with('"')) value.remove_suffix(1);
    }
    return value;
  }
  return std::nullopt;
}

std::optional<int64_t> LeadingNumber(std::string_view text) {
  int64_t out = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (read.ec != std::errc()) return std::nullopt;
  return out;
}

std::string Unescaped(std::string_view text) {
  // The text in which only escaped quotes and backslashes are replaced. It is
  // returned if the bytes that are written in octal are not valid UTF-8.
  std::string quotes;
  // The text in which bytes in octal are replaced as well. It is returned if it
  // is valid UTF-8.
  std::string all;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i + 1, 3);
    if (text[i] == '\\' && IsOctalByte(rest)) {
      int byte = 0;
      for (const char digit : rest) byte = byte * 8 + (digit - '0');
      all += static_cast<char>(byte);
      quotes += text.substr(i, 1 + rest.size());
      i += rest.size();
      continue;
    }
    const bool quote =
        text[i] == '\\' && !rest.empty() &&
        std::string_view("'\"\\").find(rest[0]) != std::string_view::npos;
    if (quote) ++i;
    all += text[i];
    quotes += text[i];
  }
  return IsUtf8(all) ? all : quotes;
}

std::string_view MetadataOf(const Instruction& instruction) {
  return AttributeOf(instruction.attributes, "metadata")
      .value_or(std::string_view());
}

std::optional<std::string> OpNameOf(const Instruction& instruction) {
  const auto name = MemberOf(MetadataOf(instruction), "op_name");
  return name ? std::optional(Unescaped(*name)) : std::nullopt;
}

}  // namespace shardc::hlo
