// A recursive-descent parser of RE2's syntax, which follows re2/parse.cc. It
// gets only patterns that RE2 has accepted, so it reports no errors. If a
// pattern has a feature that the parser does not support, the parser returns
// nullopt, and RE2 matches the pattern.
//
//   `a(b|c)+$`  ->  sequence(a, repeat(choice(b, c), 1..), end of text)
//   `(?i)\pL`   ->  nullopt
//
// tests/match/differential_test.cc compares the parser with RE2 on random
// patterns and on all small ones.
#include "match/automaton/pattern_reader.h"

#include <algorithm>
#include <array>
#include <string>

namespace shardc {
namespace {

using Ranges = std::vector<CodeRange>;

constexpr int kDeepest = 100;
// The largest number of ranges of a character class that this parser supports.
constexpr size_t kMostRanges = 64;
constexpr int kMostRepeats = 1000;  // The largest repetition that RE2 accepts.

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct NamedClass {
  std::string_view name;
  std::string_view pairs;  // The first and the last character of each range.
};
constexpr std::array kNamedClasses = {
    NamedClass{"\\d", "09"},
    NamedClass{"\\s", "\t\n\f\r  "},
    NamedClass{"\\w", "09AZ__az"},
    NamedClass{"[:alnum:]", "09AZaz"},
    NamedClass{"[:alpha:]", "AZaz"},
    NamedClass{"[:ascii:]", {"\0\x7f", 2}},
    NamedClass{"[:blank:]", "\t\t  "},
    NamedClass{"[:cntrl:]", {"\0\x1f\x7f\x7f", 4}},
    NamedClass{"[:digit:]", "09"},
    NamedClass{"[:graph:]", "!~"},
    NamedClass{"[:lower:]", "az"},
    NamedClass{"[:print:]", " ~"},
    NamedClass{"[:punct:]", "!/:@[`{~"},
    NamedClass{"[:space:]", "\t\r  "},
    NamedClass{"[:upper:]", "AZ"},
    NamedClass{"[:word:]", "09AZ__az"},
    NamedClass{"[:xdigit:]", "09AFaf"},
};

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<PatternTree> Read() {
    auto tree = ReadChoice(0);
    if (!tree || at_ < text_.size()) return std::nullopt;
    return tree;
  }

 private:
  // The flags of RE2. The flag `(?U)` (prefer the shortest match) is not
  // stored, because it does not change whether a pattern matches.
  struct Flags {
    bool fold = false;
    bool dot_is_all = false;
    bool lines = false;
  };

  bool Done() const { return at_ == text_.size(); }
  bool At(std::string_view text) const {
    return text_.substr(at_).starts_with(text);
  }
  bool Take(std::string_view text) {
    if (!At(text)) return false;
    at_ += text.size();
    return true;
  }

  std::optional<uint32_t> TakePoint() {
    if (Done()) return std::nullopt;
    const CodePoint point = DecodeUtf8(text_, at_);
    if (point.length == 0) return std::nullopt;
    at_ += point.length;
    return point.value;
  }

  std::optional<PatternTree> ReadChoice(int depth);
  std::optional<PatternTree> ReadSequence(int depth);
  std::optional<PatternTree> ReadOne(int depth);
  std::optional<PatternTree> ReadGroup(int depth);
  std::optional<PatternTree> ReadEscape();
  std::optional<PatternTree> ReadClass();
  bool ReadFlags(Flags& flags);
  bool ReadClassItem(Ranges& out);
  bool ReadNamedClass(Ranges& out, bool& known);
  std::optional<uint32_t> ReadClassPoint();
  std::optional<uint32_t> ReadEscapedPoint();
  bool ReadCount(int& least, int& most);
  bool AddRange(CodeRange range, Ranges& out) const;
  std::optional<PatternTree> OneOf(Ranges ranges) const;
  std::optional<PatternTree> Literal(std::optional<uint32_t> point) const;
  bool AtRepetition() const { return IsRepetition(at_); }
  bool IsRepetition(size_t at) const;
  bool AtPlain() const;

  std::string_view text_;
  size_t at_ = 0;
  Flags flags_;
};

bool PatternParser::AddRange(CodeRange range, Ranges& out) const {
  if (flags_.fold) return AddFolded(range, out);
  out.push_back(range);
  return true;
}

std::optional<PatternTree> PatternParser::OneOf(Ranges ranges) const {
  PatternTree tree;
  tree.kind = TreeKind::kSet;
  tree.set = Canonical(std::move(ranges));
  if (tree.set.size() > kMostRanges) return std::nullopt;
  return tree;
}

std::optional<PatternTree> PatternParser::Literal(
    std::optional<uint32_t> point) const {
  if (!point) return std::nullopt;
  if (flags_.fold) {
    Ranges ranges;
    if (!AddFolded({*point, *point}, ranges)) return std::nullopt;
    return OneOf(std::move(ranges));
  }
  PatternTree tree;
  tree.kind = TreeKind::kPoint;
  tree.point = *point;
  return tree;
}

PatternTree Asserting(Assertion assertion) {
  PatternTree tree;
  tree.kind = TreeKind::kAssertion;
  tree.assertion = assertion;
  return tree;
}

std::optional<PatternTree> PatternParser::ReadChoice(int depth) {
  PatternTree choice;
  choice.kind = TreeKind::kChoice;
  do {
    auto part = ReadSequence(depth);
    if (!part) return std::nullopt;
    choice.parts.push_back(std::move(*part));
  } while (Take("|"));
  if (choice.parts.size() == 1) return std::move(choice.parts[0]);
  return choice;
}

// Reads a repetition `{2}`, `{2,}` or `{2,5}`. Returns false for any other
// braces, which RE2 reads as literal text.
bool PatternParser::ReadCount(int& least, int& most) {
  size_t at = at_ + 1;
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const size_t begin = at;
    for (; at < text_.size() && IsDigit(text_[at]); ++at) {
      value = std::min(value * 10 + (text_[at] - '0'), kMostRepeats + 1);
    }
    const bool leading_zero = at - begin > 1 && text_[begin] == '0';
    if (at == begin || leading_zero) return std::nullopt;
    return value;
  };
  const auto low = number();
  if (!low) return false;
  least = most = *low;
  if (at < text_.size() && text_[at] == ',') {
    ++at;
    most = PatternTree::kNoLimit;
    if (at < text_.size() && text_[at] != '}') {
      const auto high = number();
      if (!high) return false;
      most = *high;
    }
  }
  if (at >= text_.size() || text_[at] != '}') return false;
  at_ = at + 1;
  return true;
}

bool PatternParser::IsRepetition(size_t at) const {
  constexpr std::string_view kSigns = "*+?{";
  return at < text_.size() && kSigns.find(text_[at]) != std::string_view::npos;
}

// Returns whether the next character is a literal letter, digit, `/` or `_`
// with no repetition after it. This fast test comes first, because most
// characters of a pattern pass it.
bool PatternParser::AtPlain() const {
  const char c = text_[at_];
  return (IsLetter(c) || IsDigit(c) || c == '/' || c == '_') && !flags_.fold &&
         !IsRepetition(at_ + 1);
}

std::optional<PatternTree> PatternParser::ReadSequence(int depth) {
  PatternTree sequence;
  sequence.parts.reserve(
      std::min(text_.find_first_of("|)", at_), text_.size()) - at_);
  while (!Done() && text_[at_] != '|' && text_[at_] != ')') {
    if (AtPlain()) {
      PatternTree& plain = sequence.parts.emplace_back();
      plain.kind = TreeKind::kPoint;
      plain.point = static_cast<unsigned char>(text_[at_++]);
      continue;
    }
    auto one = ReadOne(depth);
    if (!one) return std::nullopt;
    int least = 0;
    int most = PatternTree::kNoLimit;
    bool repeated = false;
    if (Take("*")) {
      repeated = true;
    } else if (Take("+")) {
      least = 1;
      repeated = true;
    } else if (Take("?")) {
      most = 1;
      repeated = true;
    } else if (At("{")) {
      repeated = ReadCount(least, most);
    }
    if (repeated) {
      Take("?");
      // RE2 refuses two repetitions in a row (`a**`) and counts above
      // kMostRepeats. It accepts a literal `{` after a repetition, as in `a*{`,
      // but this parser does not support it.
      const bool too_many = least > kMostRepeats || most > kMostRepeats;
      if (AtRepetition() || too_many) return std::nullopt;
      PatternTree repeat;
      repeat.kind = TreeKind::kRepeat;
      repeat.least = least;
      repeat.most = most;
      repeat.parts.push_back(std::move(*one));
      one = std::move(repeat);
    }
    sequence.parts.push_back(std::move(*one));
  }
  if (sequence.parts.size() == 1) return std::move(sequence.parts[0]);
  return sequence;
}

std::optional<PatternTree> PatternParser::ReadOne(int depth) {
  if (At("(")) return ReadGroup(depth);
  if (At("[")) return ReadClass();
  if (At("\\")) return ReadEscape();
  if (Take("^")) return Asserting(flags_.lines ? kLineBegin : kTextBegin);
  if (Take("$")) return Asserting(flags_.lines ? kLineEnd : kTextEnd);
  if (Take(".")) {
    if (flags_.dot_is_all) return OneOf({{0, kLastCodePoint}});
    return OneOf({{0, '\n' - 1}, {'\n' + 1, kLastCodePoint}});
  }
  return Literal(TakePoint());
}

// Reads the flags after `(?` and stops before the `:` or `)` that ends them.
// Returns false for an unknown flag, or if the end is missing.
bool PatternParser::ReadFlags(Flags& flags) {
  bool on = true;
  while (!Done() && text_[at_] != ':' && text_[at_] != ')') {
    switch (text_[at_++]) {
      case 'i':
        flags.fold = on;
        break;
      case 's':
        flags.dot_is_all = on;
        break;
      case 'm':
        flags.lines = on;
        break;
      case 'U':
        break;
      case '-':
        on = false;
        break;
      default:
        return false;
    }
  }
  return !Done();
}

std::optional<PatternTree> PatternParser::ReadGroup(int depth) {
  if (depth == kDeepest) return std::nullopt;
  Take("(");
  const Flags outer = flags_;
  if (Take("?P<")) {
    const size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) return std::nullopt;
    at_ = end + 1;
  } else if (Take("?")) {
    Flags inner = flags_;
    if (!ReadFlags(inner)) return std::nullopt;
    flags_ = inner;
    // The flags of `(?i)` apply up to the end of the enclosing group. In
    // `a(?i)*`, RE2 applies the repetition to `a`, which this parser does not
    // support.
    if (Take(")")) {
      if (AtRepetition()) return std::nullopt;
      return PatternTree{};
    }
    Take(":");
  }
  auto tree = ReadChoice(depth + 1);
  flags_ = outer;
  if (!tree || !Take(")")) return std::nullopt;
  return tree;
}

std::optional<uint32_t> HexValue(std::string_view digits) {
  uint32_t value = 0;
  for (char c : digits) {
    uint32_t digit = 0;
    if (IsDigit(c)) {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
    if (value > kLastCodePoint) return std::nullopt;
  }
  if (digits.empty()) return std::nullopt;
  return value;
}

// Reads an escape for one code point. The syntax is the same inside and outside
// of character classes.
std::optional<uint32_t> PatternParser::ReadEscapedPoint() {
  Take("\\");
  if (Done()) return std::nullopt;
  const char c = text_[at_++];
  if (c == 'x') {
    if (Take("{")) {
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) return std::nullopt;
      const auto value = HexValue(text_.substr(at_, end - at_));
      at_ = end + 1;
      return value;
    }
    if (text_.size() - at_ < 2) return std::nullopt;
    at_ += 2;
    return HexValue(text_.substr(at_ - 2, 2));
  }
  constexpr std::string_view kLetters = "aftnrv";
  constexpr std::string_view kPoints = "\a\f\t\n\r\v";
  const size_t known = kLetters.find(c);
  if (known != std::string_view::npos) {
    return static_cast<uint32_t>(kPoints[known]);
  }
  const bool plain =
      static_cast<unsigned char>(c) < 0x80 && !IsLetter(c) && !IsDigit(c);
  if (!plain) return std::nullopt;
  return static_cast<uint32_t>(c);
}

// Reads a named class such as `\d`, `\W`, `[:alpha:]` or `[:^alpha:]`. Sets
// `known` to whether the text begins with a named class. Returns false if the
// class is not supported.
bool PatternParser::ReadNamedClass(Ranges& out, bool& known) {
  known = false;
  std::string name;
  size_t length = 0;
  bool negated = false;
  if (At("[:")) {
    const size_t end = text_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return true;
    name = text_.substr(at_, end + 2 - at_);
    length = name.size();
    negated = name[2] == '^';
    if (negated) name.erase(2, 1);
  } else if (At("\\") && at_ + 1 < text_.size()) {
    const char letter = text_[at_ + 1];
    if (std::string_view("dswDSW").find(letter) == std::string_view::npos) {
      return true;
    }
    negated = letter < 'a';
    length = 2;
    name = {'\\', static_cast<char>(letter | 0x20)};
  } else {
    return true;
  }
  const auto* const found =
      std::find_if(kNamedClasses.begin(), kNamedClasses.end(),
                   [&](const NamedClass& one) { return one.name == name; });
  if (found == kNamedClasses.end()) return false;
  known = true;
  at_ += length;
  Ranges positive;
  for (size_t i = 0; i + 1 < found->pairs.size(); i += 2) {
    const auto low = static_cast<uint32_t>(found->pairs[i]);
    const auto high = static_cast<uint32_t>(found->pairs[i + 1]);
    if (!AddRange({low, high}, positive)) return false;
  }
  if (negated) positive = Complement(Canonical(std::move(positive)));
  out.insert(out.end(), positive.begin(), positive.end());
  return true;
}

std::optional<uint32_t> PatternParser::ReadClassPoint() {
  return At("\\") ? ReadEscapedPoint() : TakePoint();
}

bool PatternParser::ReadClassItem(Ranges& out) {
  bool known = false;
  if (!ReadNamedClass(out, known)) return false;
  if (known) return true;
  const auto low = ReadClassPoint();
  if (!low) return false;
  uint32_t high = *low;
  if (At("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
    Take("-");
    const auto end = ReadClassPoint();
    if (!end || *end < *low) return false;
    high = *end;
  }
  return AddRange({*low, high}, out);
}

std::optional<PatternTree> PatternParser::ReadClass() {
  Take("[");
  const bool negated = Take("^");
  Ranges ranges;
  // A `]` in the first position is a member of the class.
  do {
    if (Done() || !ReadClassItem(ranges)) return std::nullopt;
  } while (!At("]"));
  Take("]");
  if (negated) ranges = Complement(Canonical(std::move(ranges)));
  return OneOf(std::move(ranges));
}

std::optional<PatternTree> PatternParser::ReadEscape() {
  if (Take("\\A")) return Asserting(kTextBegin);
  if (Take("\\z")) return Asserting(kTextEnd);
  if (Take("\\b")) return Asserting(kWordEdge);
  if (Take("\\B")) return Asserting(kNoWordEdge);
  Ranges ranges;
  bool known = false;
  if (!ReadNamedClass(ranges, known)) return std::nullopt;
  return known ? OneOf(std::move(ranges)) : Literal(ReadEscapedPoint());
}

}  // namespace

std::optional<PatternTree> ReadPatternTree(std::string_view pattern) {
  return PatternParser(pattern).Read();
}

}  // namespace shardc
