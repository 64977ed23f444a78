// Trims the syntax tree of a pattern, counts the NFA nodes that the tree needs,
// and finds the assertions in the tree. The automata determine whether a
// pattern matches anywhere in a name, not where. Therefore trimming removes
// optional parts at both ends, and reduces a repetition there to its minimum:
// `.*k+ernel.*` becomes `kernel`. An example of the number of NFA nodes:
//
//   `a{2,4}b`:  4 for `a`, 2 forks and 1 for `b`, in total 7
#include "match/automaton/pattern_tree.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "match/automaton/classes.h"

namespace shardc {
namespace {

// The largest count of nodes. Larger counts become this number, so that they do
// not overflow.
constexpr int64_t kManyNodes = int64_t{1} << 40;

// Returns whether the tree matches the empty string at every position.
bool IsSkippable(const PatternTree& tree) {
  switch (tree.kind) {
    case TreeKind::kPoint:
    case TreeKind::kSet:
    case TreeKind::kAssertion:
      return false;
    case TreeKind::kSequence:
      return std::all_of(tree.parts.begin(), tree.parts.end(), IsSkippable);
    case TreeKind::kChoice:
      return std::any_of(tree.parts.begin(), tree.parts.end(), IsSkippable);
    case TreeKind::kRepeat:
      return tree.least == 0 || IsSkippable(tree.parts[0]);
  }
  return false;
}

// Trims one end of the tree, the front or the back. A repetition at the end is
// reduced to its minimum: if a name has a match with more repetitions, a
// shorter part of the name matches with the minimum.
void TrimEnd(PatternTree& tree, bool front) {
  switch (tree.kind) {
    case TreeKind::kPoint:
    case TreeKind::kSet:
    case TreeKind::kAssertion:
      return;
    case TreeKind::kChoice:
      for (PatternTree& part : tree.parts) TrimEnd(part, front);
      return;
    case TreeKind::kRepeat:
      tree.most = tree.least;
      if (tree.most == 0) {
        tree = {};
      } else if (tree.most == 1) {
        PatternTree part = std::move(tree.parts[0]);
        tree = std::move(part);
        TrimEnd(tree, front);
      }
      return;
    case TreeKind::kSequence:
      break;
  }
  auto& parts = tree.parts;
  if (front) {
    parts.erase(parts.begin(),
                std::find_if_not(parts.begin(), parts.end(), IsSkippable));
  } else {
    while (!parts.empty() && IsSkippable(parts.back())) parts.pop_back();
  }
  if (!parts.empty()) TrimEnd(front ? parts.front() : parts.back(), front);
}

}  // namespace

void TrimEnds(PatternTree& tree) {
  TrimEnd(tree, true);
  TrimEnd(tree, false);
}

int64_t NodesOf(const PatternTree& tree) {
  if (tree.kind < PatternTree::Kind::kSequence) return 1;
  int64_t nodes = 0;
  for (const PatternTree& part : tree.parts) nodes += NodesOf(part);
  if (tree.kind == PatternTree::Kind::kChoice) {
    nodes += static_cast<int64_t>(tree.parts.size()) - 1;
  } else if (tree.kind == PatternTree::Kind::kRepeat) {
    nodes = tree.most == PatternTree::kNoLimit
                ? nodes * (tree.least + 1) + 1
                : nodes * tree.most + (tree.most - tree.least);
  }
  return std::min(nodes, kManyNodes);
}

bool IsAnchored(const PatternTree& tree) {
  switch (tree.kind) {
    case PatternTree::Kind::kPoint:
    case PatternTree::Kind::kSet:
      return false;
    case PatternTree::Kind::kAssertion:
      return tree.assertion == kTextBegin;
    case PatternTree::Kind::kSequence:
      return std::any_of(tree.parts.begin(), tree.parts.end(), IsAnchored);
    case PatternTree::Kind::kChoice:
      return std::all_of(tree.parts.begin(), tree.parts.end(), IsAnchored);
    case PatternTree::Kind::kRepeat:
      return tree.least > 0 && IsAnchored(tree.parts[0]);
  }
  return false;
}

uint8_t AssertionsOf(const PatternTree& tree) {
  unsigned bits =
      tree.kind == PatternTree::Kind::kAssertion ? tree.assertion : 0;
  for (const PatternTree& part : tree.parts) bits |= AssertionsOf(part);
  return static_cast<uint8_t>(bits);
}

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

namespace {

using Ranges = std::vector<CodeRange>;

constexpr int kDeepest = 100;
// The largest number of ranges of a character class that this parser supports.
// `\w` alone has 734.
constexpr size_t kMostRanges = 1024;
// The largest number of ranges of all classes of a pattern together.
constexpr size_t kMostRangesTogether = 64 * kMostRanges;
constexpr int kMostRepeats = 1000;  // The largest repetition that RE2 accepts.

struct NamedClass {
  std::string_view name;
  std::string_view pairs;  // The first and the last character of each range.
};
// The classes that RE2 names between brackets. They are ASCII in RE2, and
// Python does not have them.
constexpr std::array kNamedClasses = {
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
  // The number of ranges of all classes so far.
  mutable size_t ranges_ = 0;
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
  ranges_ += tree.set.size();
  if (tree.set.size() > kMostRanges || ranges_ > kMostRangesTogether) {
    return std::nullopt;
  }
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
  return (IsWordByte(c) || c == '/') && !flags_.fold && !IsRepetition(at_ + 1);
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

std::span<const CodeRange> PythonClass(char letter) {
  if (letter == 'd') return DigitRanges();
  return letter == 's' ? SpaceRanges() : WordRanges();
}

// Reads a named class such as `\d`, `\W`, `[:alpha:]` or `[:^alpha:]`. Sets
// `known` to whether the text begins with a named class. Returns false if the
// class is not supported. `\d`, `\s` and `\w` are those of Python.
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
    const auto of_python = PythonClass(static_cast<char>(letter | 0x20));
    const CharSet set(of_python.begin(), of_python.end());
    const CharSet wanted = negated ? Complement(set) : set;
    out.insert(out.end(), wanted.begin(), wanted.end());
    known = true;
    at_ += 2;
    return true;
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

// Operations on sets of code points. A set is a sorted list of ranges with gaps
// between them. The complement of a set is therefore the list of its gaps, and
// a member is found by binary search. For example:
//
//   union of [a-c], [b-f] and [x]  ->  a to f, x
//   complement of this union       ->  U+0000 to U+0060, g to w, y to U+10FFFF

namespace {

constexpr uint32_t kKelvinSign = 0x212A;
constexpr uint32_t kLongS = 0x017F;
constexpr uint32_t kCaseBit = 0x20;

// Takes the part of `range` that is within `letters`, such as A-Z. Appends the
// same letters in the other case, and the characters outside ASCII that match
// one of them when case is ignored.
void AddOtherCase(CodeRange range, CodeRange letters,
                  std::vector<CodeRange>& out) {
  const uint32_t low = std::max(range.low, letters.low);
  const uint32_t high = std::min(range.high, letters.high);
  if (low > high) return;
  out.push_back({low ^ kCaseBit, high ^ kCaseBit});
  const auto holds = [&](char letter) {
    const auto point = static_cast<uint32_t>(letter);
    const uint32_t mine = (letters.low & kCaseBit) | (point & ~kCaseBit);
    return mine >= low && mine <= high;
  };
  if (holds('k')) out.push_back({kKelvinSign, kKelvinSign});
  if (holds('s')) out.push_back({kLongS, kLongS});
}

}  // namespace

CharSet Canonical(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharSet out;
  for (const CodeRange& range : ranges) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CharSet Complement(const CharSet& set) {
  CharSet out;
  uint32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.low > next) out.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

bool Contains(const CharSet& set, uint32_t point) {
  const auto after = std::upper_bound(
      set.begin(), set.end(), point,
      [](uint32_t at, const CodeRange& range) { return at < range.low; });
  return after != set.begin() && std::prev(after)->high >= point;
}

bool AddFolded(CodeRange range, std::vector<CodeRange>& out) {
  if (range.high >= 0x80) return false;
  out.push_back(range);
  AddOtherCase(range, {'a', 'z'}, out);
  AddOtherCase(range, {'A', 'Z'}, out);
  return true;
}

}  // namespace shardc
