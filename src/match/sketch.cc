// Expands a pattern to the texts that it can match. The texts of
// `layers\.\d+\.(up|gate)` are `layers.?.up` and `layers.?.gate`, where ? is
// any text (kWild). Each group multiplies the number of texts by the number of
// its alternatives, up to a limit.
#include "match/sketch.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>

#include "match/automaton/pattern_tree.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"

namespace shardc {
namespace {

using Texts = std::vector<std::string>;

// Returns whether a character class has all characters that a parameter's name
// may contain.
bool HasEveryCharacter(const CharSet& set) {
  constexpr CodeRange kOfNames[] = {
      {0x20, 0x7E}, {0xA0, 0xD7FF}, {0xE000, kLastCodePoint}};
  return std::all_of(
      std::begin(kOfNames), std::end(kOfNames), [&](const CodeRange& range) {
        return std::any_of(set.begin(), set.end(), [&](const CodeRange& own) {
          return own.low <= range.low && range.high <= own.high;
        });
      });
}

// What is known about the texts that a part of a pattern matches. A member is
// true only if its statement is certain.
struct Reach {
  bool empty = false;  // Whether the part matches the empty text.
  bool one = false;    // Whether the part matches every text of one character.
  // Whether the part matches every text of one or more characters.
  bool all = false;
};

Reach ReachOf(const PatternTree& tree);

// Returns what is known about the texts that consecutive parts match as one
// sequence. Nothing is known if two parts each need at least one character.
Reach ReachOf(std::span<const PatternTree> parts) {
  Reach optional;  // Describes the parts that can match the empty text.
  optional.empty = true;
  std::optional<Reach> required;
  for (const PatternTree& part : parts) {
    const Reach of = ReachOf(part);
    if (of.empty) {
      optional.one = optional.one || of.one;
      optional.all = optional.all || of.all;
    } else if (required) {
      return {};
    } else {
      required = of;
    }
  }
  return required.value_or(optional);
}

Reach ReachOf(const PatternTree& tree) {
  Reach out;
  switch (tree.kind) {
    case TreeKind::kPoint:
    case TreeKind::kAssertion:
      break;
    case TreeKind::kSet:
      out.one = HasEveryCharacter(tree.set);
      break;
    case TreeKind::kSequence:
      return ReachOf(std::span(tree.parts));
    case TreeKind::kChoice:
      for (const PatternTree& part : tree.parts) {
        const Reach of = ReachOf(part);
        out.empty = out.empty || of.empty;
        out.one = out.one || of.one;
        out.all = out.all || of.all;
      }
      break;
    case TreeKind::kRepeat: {
      const Reach of = ReachOf(tree.parts[0]);
      // Whether one repetition is enough to match a text that is not empty.
      const bool once = tree.most != 0 && (tree.least <= 1 || of.empty);
      const bool endless = tree.most == PatternTree::kNoLimit;
      out.empty = tree.least == 0 || of.empty;
      out.one = once && of.one;
      out.all = once && (of.all || (of.one && endless));
      break;
    }
  }
  return out;
}

bool Asserts(const PatternTree& tree, Assertion assertion) {
  return tree.kind == TreeKind::kAssertion && tree.assertion == assertion;
}

// Returns whether the pattern is known to match every name. `.+` and `^.*$`
// match every name; `^[^/]*$` and `[0-9]+` do not.
bool MatchesEveryName(const PatternTree& tree) {
  if (tree.kind == TreeKind::kChoice) {
    return std::any_of(tree.parts.begin(), tree.parts.end(), MatchesEveryName);
  }
  auto parts = tree.kind == TreeKind::kSequence
                   ? std::span<const PatternTree>(tree.parts)
                   : std::span<const PatternTree>(&tree, 1);
  bool begin = false;
  bool end = false;
  while (!parts.empty() && Asserts(parts.front(), kTextBegin)) {
    begin = true;
    parts = parts.subspan(1);
  }
  while (!parts.empty() && Asserts(parts.back(), kTextEnd)) {
    end = true;
    parts = parts.first(parts.size() - 1);
  }
  const Reach reach = ReachOf(parts);
  return begin && end ? reach.all : reach.empty || reach.one;
}

// Parses the part of RE2's syntax that sharding rules use, by recursive
// descent. Most other syntax becomes kWild.
class SketchParser {
 public:
  explicit SketchParser(std::string_view pattern) : text_(pattern) {}

  Sketch Run() {
    Sketch out;
    out.texts = Alternation();
    out.complete = complete_;
    out.begin_anchor = text_.starts_with("^");
    out.end_anchor = text_.ends_with("$") && !text_.ends_with("\\$");
    const bool wild = std::all_of(
        out.texts.begin(), out.texts.end(), [](const std::string& one) {
          return std::all_of(one.begin(), one.end(), [](char c) {
            return c == Sketch::kWild || c == Sketch::kAnyChar;
          });
        });
    if (wild && complete_) {
      const auto tree = ReadPatternTree(text_);
      out.catch_all = tree && MatchesEveryName(*tree);
    }
    return out;
  }

 private:
  bool End() const { return at_ >= text_.size(); }
  char Peek() const { return text_[at_]; }

  Texts Alternation() {
    Texts out = Sequence();
    while (!End() && Peek() == '|') {
      ++at_;
      Texts more = Sequence();
      out.insert(out.end(), more.begin(), more.end());
      Cap(out);
    }
    return out;
  }

  Texts Sequence() {
    Texts out = {""};
    while (!End() && Peek() != '|' && Peek() != ')') {
      Texts atom = Quantified(Atom());
      if (atom.size() == 1) {
        // Appending in place takes only linear time for a long literal text.
        for (std::string& one : out) one += atom.front();
        continue;
      }
      Texts joined;
      for (const std::string& head : out) {
        for (const std::string& tail : atom) {
          if (joined.size() >= Sketch::kLimit) {
            complete_ = false;
            break;
          }
          joined.push_back(head + tail);
        }
      }
      out = std::move(joined);
    }
    return out;
  }

  Texts Quantified(Texts atom) {
    while (!End()) {
      const char c = Peek();
      if (c == '*') {
        atom = {std::string(1, Sketch::kWild)};
        ++at_;
      } else if (c == '+') {
        for (std::string& one : atom) one += Sketch::kWild;
        ++at_;
      } else if (c == '?') {
        if (!AllWild(atom)) atom.push_back("");
        ++at_;
      } else if (c == '{' && Repetition()) {
        for (std::string& one : atom) one += Sketch::kWild;
      } else {
        break;
      }
    }
    Cap(atom);
    return atom;
  }

  // Skips a repetition `{2}`, `{2,}` or `{2,3}`. Returns false for any other
  // braces, which are literal, as in RE2.
  bool Repetition() {
    const size_t close = text_.find('}', at_);
    if (close == std::string_view::npos) return false;
    const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
    const size_t comma = inside.find(',');
    if (!IsCount(inside.substr(0, comma))) return false;
    if (comma != std::string_view::npos && comma + 1 < inside.size() &&
        !IsCount(inside.substr(comma + 1))) {
      return false;
    }
    at_ = close + 1;
    return true;
  }

  // Returns whether RE2 reads the text as a number of repetitions: digits,
  // without a leading zero.
  static bool IsCount(std::string_view text) {
    if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Texts Atom() {
    const char c = text_[at_++];
    switch (c) {
      case '(':
        return Group();
      case '[':
        SkipClass();
        return {std::string(1, Sketch::kWild)};
      case '.':
        return {std::string(1, Sketch::kAnyChar)};
      case '^':
      case '$':
        return {""};
      case '\\':
        return Escape();
      default:
        return {std::string(1, c)};
    }
  }

  Texts Group() {
    if (++depth_ > 50) {  // Real patterns nest fewer groups.
      at_ = text_.size();
      complete_ = false;
      return {std::string(1, Sketch::kWild)};
    }
    if (!End() && Peek() == '?') {
      ++at_;
      while (!End() && Peek() != ':' && Peek() != '>' && Peek() != ')') ++at_;
      if (!End() && Peek() != ')') ++at_;
    }
    Texts out = Alternation();
    if (!End()) ++at_;  // Skips the closing parenthesis.
    --depth_;
    return out;
  }

  void SkipClass() {
    if (!End() && Peek() == '^') ++at_;
    if (!End() && Peek() == ']') ++at_;
    while (!End() && Peek() != ']') {
      if (Peek() == '\\') ++at_;
      if (!End()) ++at_;
    }
    if (!End()) ++at_;
  }

  Texts Escape() {
    if (End()) return {""};
    const char c = text_[at_++];
    const bool letter = IsLetter(c) || IsDigit(c);
    if (!letter) return {std::string(1, c)};
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') return {""};
    if ((c == 'p' || c == 'P') && !End()) {
      if (Peek() == '{') {
        const size_t close = text_.find('}', at_);
        at_ = close == std::string_view::npos ? text_.size() : close + 1;
      } else {
        ++at_;
      }
    }
    return {std::string(1, Sketch::kWild)};
  }

  static bool AllWild(const Texts& texts) {
    return std::all_of(texts.begin(), texts.end(), [](const std::string& t) {
      return t == std::string(1, Sketch::kWild);
    });
  }

  void Cap(Texts& texts) {
    if (texts.size() <= Sketch::kLimit) return;
    texts.resize(Sketch::kLimit);
    complete_ = false;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool complete_ = true;
};

}  // namespace

Sketch SketchOf(std::string_view pattern) {
  return SketchParser(pattern).Run();
}

bool IsLiteral(std::string_view text) {
  return text.find(Sketch::kWild) == std::string_view::npos &&
         text.find(Sketch::kAnyChar) == std::string_view::npos;
}

// Compares `text` and `word` from left to right. After a mismatch, the
// comparison resumes at the last kWild of `text`. This kWild then matches one
// more character of `word`. The time is at most quadratic.
bool SketchFits(std::string_view text, std::string_view word) {
  size_t t = 0;
  size_t w = 0;
  std::optional<size_t> star;
  size_t star_word = 0;
  while (w < word.size()) {
    if (t < text.size() && text[t] == Sketch::kWild) {
      star = t++;
      star_word = w;
    } else if (t < text.size() &&
               (text[t] == word[w] || text[t] == Sketch::kAnyChar)) {
      ++t;
      ++w;
    } else if (star) {
      t = *star + 1;
      w = ++star_word;
    } else {
      return false;
    }
  }
  while (t < text.size() && text[t] == Sketch::kWild) ++t;
  return t == text.size();
}

std::vector<std::string> SketchSegments(std::string_view text, char separator) {
  std::vector<std::string> out(1);
  for (char c : text) {
    const bool cut =
        c == separator || (separator == '.' && c == Sketch::kAnyChar);
    if (cut) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// Finds optimizer states that a rule misses because its pattern is anchored.
// The path of a parameter is its name without a leading `params/`. A name is a
// state if it consists of a prefix and the path of a parameter whose first
// matching pattern is anchored. One more part may follow the path. For example,
// the anchored pattern `^params/dense` is the first that matches
// params/dense/kernel, whose path is dense/kernel:
//
//   opt_state/0/mu/dense/kernel      ends in dense/kernel: a missed state
//   opt_state/0/mu/dense/kernel/row  has one more part: another missed state
//
// Some names that end in the path of another parameter are parameters, not
// states: layers.0.norm.weight ends in norm.weight. Names are therefore grouped
// by their first part, such as `layers` or `opt_state`. The names of a group
// are states only if at least half of them end in the path of a parameter of
// another group.

namespace {

constexpr std::string_view kParams = "params";

// Returns a parameter's path without a leading `params`.
std::string_view Core(std::string_view name, char separator) {
  while (name.size() > kParams.size() && name.starts_with(kParams) &&
         name[kParams.size()] == separator) {
    name.remove_prefix(kParams.size() + 1);
  }
  return name;
}

std::string_view FirstPart(std::string_view name, char separator) {
  return name.substr(0, name.find(separator));
}

using Cores = std::unordered_map<std::string_view, uint32_t>;

// Returns the parameter with the longest path that follows a separator in
// `text` and extends to its end, or nullopt. In `opt_state/0/mu/dense/kernel`,
// this is the parameter with the path `dense/kernel`.
std::optional<uint32_t> Embedded(const Cores& cores, std::string_view text,
                                 char separator) {
  for (size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, at + 1)) {
    auto found = cores.find(text.substr(at + 1));
    if (found != cores.end()) return found->second;
  }
  return std::nullopt;
}

// Returns the result of Embedded() for the text. If it is nullopt, returns the
// result of Embedded() for the text without its last part.
std::optional<uint32_t> ParameterIn(const Cores& cores, std::string_view text,
                                    char separator) {
  if (auto found = Embedded(cores, text, separator)) return found;
  const size_t last = text.rfind(separator);
  if (last == std::string_view::npos) return std::nullopt;
  return Embedded(cores, text.substr(0, last), separator);
}

// Counts the names with the same first part, such as `opt_state`: all of them
// (`names`), and those that look like copies of parameters elsewhere
// (`copies`). `opt_state.0.mu.layers.0.w` is such a copy, because it ends in
// `layers.0.w`, the name of a parameter whose first part is `layers`.
struct Copies {
  size_t names = 0;
  size_t copies = 0;
};

// Removes from `missed` the names that are not states. ParameterIn() is called
// again, with the paths of all `names` and not only those whose pattern is
// anchored. A name is removed if the result has another path than
// MissedState::parameter, such as a longer one. It is also removed if fewer
// than half of the names with its first part are copies (Copies).
void RemoveOthers(std::span<const std::string_view> names, char separator,
                  std::vector<MissedState>& missed) {
  Cores all;
  for (size_t i = 0; i < names.size(); ++i) {
    all.emplace(Core(names[i], separator), static_cast<uint32_t>(i));
  }
  std::unordered_map<std::string_view, Copies> by_first;
  for (const std::string_view name : names) {
    const std::string_view first = FirstPart(name, separator);
    Copies& copies = by_first[first];
    ++copies.names;
    const auto found = ParameterIn(all, name, separator);
    if (found && FirstPart(names[*found], separator) != first) ++copies.copies;
  }
  std::erase_if(missed, [&](const MissedState& one) {
    const std::string_view name = names[one.state];
    const auto found = ParameterIn(all, name, separator);
    const Copies& of = by_first[FirstPart(name, separator)];
    return !found || 2 * of.copies < of.names ||
           Core(names[*found], separator) !=
               Core(names[one.parameter], separator);
  });
}

// Returns the pattern without its opening groups `(`, `(?:`, `(?P<n>` and
// `(?i)`.
std::string_view PastOpening(std::string_view pattern) {
  while (pattern.starts_with('(')) {
    size_t length = 1;
    if (pattern.starts_with("(?")) {
      const size_t end = pattern.find_first_of(":>)");
      if (end == std::string_view::npos) return pattern;
      length = end + 1;
    }
    pattern.remove_prefix(length);
  }
  return pattern;
}

// Returns whether the pattern has a `|` outside of all groups and classes.
bool HasTopLevelAlternation(std::string_view pattern) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == '|' && depth == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsAnchoredAtStart(std::string_view pattern) {
  if (HasTopLevelAlternation(pattern)) return false;
  const std::string_view start = PastOpening(pattern);
  return start.starts_with('^') || start.starts_with("\\A");
}

std::vector<MissedState> FindMissedStates(
    std::span<const std::string_view> patterns, const Matches& matches,
    std::span<const std::string_view> names, char separator) {
  std::vector<MissedState> out;
  std::vector<bool> anchored;
  for (std::string_view pattern : patterns) {
    anchored.push_back(IsAnchoredAtStart(pattern));
  }
  if (!IsAmong(true, anchored)) {
    return out;
  }
  Cores cores;
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t winner = matches.first[i];
    if (winner == Matches::kNone || !anchored[AsIndex(winner)]) {
      continue;
    }
    cores.emplace(Core(names[i], separator), static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const auto parameter = ParameterIn(cores, names[i], separator);
    if (!parameter || *parameter == i) continue;
    const auto pattern = static_cast<uint32_t>(matches.first[*parameter]);
    const auto found = matches.Of(i);
    if (std::binary_search(found.begin(), found.end(), pattern)) continue;
    out.push_back({pattern, *parameter, static_cast<uint32_t>(i)});
  }
  if (!out.empty()) RemoveOthers(names, separator, out);
  return out;
}

}  // namespace shardc
