// Evaluates the tests of a shell script. A test is known if its operands are:
//
//   [ -z "$A" ]   [[ $A == b ]]   test $A -gt 4   ! [ $A != b ]
#include "systems/shell_branches.h"

#include <algorithm>
#include <utility>

#include "source/utf8.h"
#include "systems/system.h"

namespace shardc::systems {
namespace {

// A script that nests deeper is not written by people.
constexpr size_t kDeepestFrame = 256;

Truth Not(Truth truth) {
  return truth == Truth::kTrue    ? Truth::kFalse
         : truth == Truth::kFalse ? Truth::kTrue
                                  : Truth::kUnknown;
}
Truth And(Truth a, Truth b) { return std::min(a, b); }
Truth Or(Truth a, Truth b) { return std::max(a, b); }
Truth Of(bool truth) { return truth ? Truth::kTrue : Truth::kFalse; }

std::optional<int64_t> NumberOf(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 18 ||
      !std::all_of(text.begin(), text.end(), IsDigit)) {
    return std::nullopt;
  }
  int64_t out = 0;
  for (const char c : text) out = out * 10 + (c - '0');
  return negative ? -out : out;
}

std::optional<Truth> Compare(const std::string& left, std::string_view sign,
                             const std::string& right, bool globs) {
  if (sign == "=" || sign == "==") {
    return Of(globs ? FitsGlob(right, left) : left == right);
  }
  if (sign == "!=") {
    return Of(globs ? !FitsGlob(right, left) : left != right);
  }
  const auto a = NumberOf(left), b = NumberOf(right);
  if (!a || !b) return std::nullopt;
  if (sign == "-eq") return Of(*a == *b);
  if (sign == "-ne") return Of(*a != *b);
  if (sign == "-gt" || sign == ">") return Of(*a > *b);
  if (sign == "-ge") return Of(*a >= *b);
  if (sign == "-lt" || sign == "<") return Of(*a < *b);
  if (sign == "-le") return Of(*a <= *b);
  return std::nullopt;
}

// Returns why a word of the condition is not known.
std::string WhyOf(const std::vector<Word>& words) {
  for (const Word& word : words) {
    if (!word.unknown.empty()) return word.unknown;
  }
  return "a condition is not known";
}

}  // namespace

std::optional<Truth> TestOf(std::span<const Word> words) {
  bool negated = false;
  while (!words.empty() && words.front().text == "!") {
    negated = !negated;
    words = words.subspan(1);
  }
  if (words.empty()) return std::nullopt;
  const std::string& first = words.front().text;
  const bool globs = first == "[[";
  if (first == "true" || first == "false") {
    return Of((first == "true") != negated);
  }
  if (first == "[" || first == "[[") {
    const std::string_view close = globs ? "]]" : "]";
    if (words.size() < 2 || words.back().text != close) return Truth::kUnknown;
    words = words.subspan(1, words.size() - 2);
  } else if (first == "test") {
    words = words.subspan(1);
  } else {
    return std::nullopt;
  }
  while (!words.empty() && words.front().text == "!") {
    negated = !negated;
    words = words.subspan(1);
  }
  const auto known =
      std::all_of(words.begin(), words.end(), [](const Word& word) {
        return word.unknown.empty() && !word.conditional;
      });
  if (!known || words.empty()) return Truth::kUnknown;
  std::optional<Truth> out;
  if (words.size() == 1) {
    out = Of(!words[0].text.empty());
  } else if (words.size() == 2 && words[0].text == "-z") {
    out = Of(words[1].text.empty());
  } else if (words.size() == 2 && words[0].text == "-n") {
    out = Of(!words[1].text.empty());
  } else if (words.size() == 3) {
    out = Compare(words[0].text, words[1].text, words[2].text, globs);
  }
  if (!out) return Truth::kUnknown;
  return negated ? Not(*out) : *out;
}

bool Branches::Keyword(std::string_view word) {
  if (word == "if") {
    if (frames_.size() >= kDeepestFrame) return false;
    Frame& frame = frames_.emplace_back();
    frame.in_condition = true;
    return true;
  }
  if (word == "case") {
    if (frames_.size() >= kDeepestFrame) return false;
    Frame& frame = frames_.emplace_back();
    frame.of_case = true;
    return true;
  }
  if (word == "fi" || word == "esac") {
    if (!frames_.empty()) frames_.pop_back();
    chain_ = Truth::kTrue;
    joined_ = CommandEnd::kOther;
    return true;
  }
  const bool inside = !frames_.empty() && !frames_.back().of_case;
  if (inside && word == "then") {
    Frame& frame = frames_.back();
    frame.in_condition = false;
    Take(frame, frame.has_condition ? frame.condition : Truth::kUnknown);
    return true;
  }
  if (inside && word == "elif") {
    Frame& frame = frames_.back();
    frame.in_condition = true;
    frame.has_condition = false;
    frame.condition = Truth::kTrue;
    frame.live = Not(frame.taken);
    return true;
  }
  if (inside && word == "else") {
    Take(frames_.back(), Truth::kTrue);
    return true;
  }
  return word == "then" || word == "else" || word == "do" || word == "exec" ||
         word == "time" || word == "{" || word == "eval";
}

void Branches::Take(Frame& frame, Truth condition) {
  frame.live = And(condition, Not(frame.taken));
  frame.taken = Or(frame.taken, condition);
}

bool Branches::Command(const std::vector<Word>& words, CommandEnd end,
                       bool assigns) {
  Frame* const frame = frames_.empty() ? nullptr : &frames_.back();
  if (frame != nullptr && frame->of_case && !frame->value) {
    frame->value = words.empty() ? Word{} : words.front();
    if (!frame->value->unknown.empty()) frame->why = frame->value->unknown;
    frame->in_pattern = true;
    frame->condition = Truth::kFalse;
    frame->live = Truth::kFalse;
    // `case $A in b) ...` has the first pattern in the same words.
    if (words.size() < 3 || end != CommandEnd::kParenthesis) return true;
    return Command({words.begin() + 2, words.end()}, end, false);
  }
  if (frame != nullptr && frame->in_pattern) {
    if (words.empty()) return true;
    const Word& value = *frame->value;
    const Truth fits = words.back().text == "*" ? Truth::kTrue
                       : !value.unknown.empty() || value.conditional
                           ? Truth::kUnknown
                           : Of(FitsGlob(words.back().text, value.text));
    frame->condition = Or(frame->condition, fits);
    if (end != CommandEnd::kParenthesis) return true;
    frame->in_pattern = false;
    Take(*frame, frame->condition);
    return true;
  }
  // A line may end after `&&`.
  if (words.empty() && !assigns) return false;
  const auto test = TestOf(words);
  if (frame != nullptr && frame->in_condition) {
    const Truth truth = test.value_or(Truth::kUnknown);
    if (truth == Truth::kUnknown) frame->why = WhyOf(words);
    frame->condition = !frame->has_condition ? truth
                       : joined_ == CommandEnd::kOr
                           ? Or(frame->condition, truth)
                           : And(frame->condition, truth);
    frame->has_condition = true;
    joined_ = end;
    return test.has_value();
  }
  // What a command other than a test yields: success, as scripts expect.
  const Truth truth = test.value_or(Truth::kTrue);
  if (truth == Truth::kUnknown) chain_why_ = WhyOf(words);
  if (end == CommandEnd::kAnd) {
    chain_ = And(chain_, truth);
  } else if (end == CommandEnd::kOr) {
    if (!test) chain_why_ = "a command may fail";
    chain_ = test ? And(chain_, Not(truth)) : Truth::kUnknown;
  } else {
    chain_ = Truth::kTrue;
  }
  joined_ = end;
  return test.has_value();
}

void Branches::EndOfPattern() {
  if (frames_.empty() || !frames_.back().of_case) return;
  frames_.back().in_pattern = true;
  frames_.back().condition = Truth::kFalse;
  frames_.back().live = Truth::kFalse;
}

Truth Branches::live() const {
  Truth out = chain_;
  for (const Frame& frame : frames_) out = And(out, frame.live);
  return out;
}

std::string Branches::why() const {
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    if (frame->live == Truth::kUnknown && !frame->why.empty()) {
      return frame->why;
    }
  }
  return chain_why_;
}

}  // namespace shardc::systems
