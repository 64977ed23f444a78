// Finds the texts that a pattern requires. Consecutive literal characters of
// the pattern are one required text. A choice of literal texts requires one of
// them, and a part that is repeated at least once requires the texts of one
// repetition. Any other part except an assertion ends a text:
//
//   (block|blick_17).*17$   ->  (block or blick_17) and 17
//   layers/\d+/(q|k)/(a)+   ->  `layers/`, `/`, (`q` or `k`), `/`, `a`
#include "match/required_texts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "match/automaton/pattern_reader.h"
#include "match/automaton/pattern_tree.h"

namespace shardc {
namespace {

constexpr uint32_t kAsciiEnd = 0x80;

bool IsLiteral(const PatternTree& tree) {
  return tree.kind == TreeKind::kPoint && tree.point < kAsciiEnd;
}

// Returns the text of a tree that consists of ASCII literals, or nullopt for
// any other tree.
std::optional<std::string> TextOf(const PatternTree& tree) {
  if (IsLiteral(tree)) return std::string(1, static_cast<char>(tree.point));
  if (tree.kind != TreeKind::kSequence) return std::nullopt;
  std::string out;
  for (const PatternTree& part : tree.parts) {
    const auto text = TextOf(part);
    if (!text) return std::nullopt;
    out += *text;
  }
  return out;
}

class Gatherer {
 public:
  void Add(const PatternTree& tree) {
    if (IsLiteral(tree)) {
      text_ += static_cast<char>(tree.point);
      return;
    }
    switch (tree.kind) {
      case TreeKind::kSequence:
        for (const PatternTree& part : tree.parts) Add(part);
        return;
      case TreeKind::kRepeat:
        EndText();
        if (tree.least > 0) Add(tree.parts[0]);
        EndText();
        return;
      case TreeKind::kChoice:
        EndText();
        AddChoice(tree);
        return;
      // An assertion matches the empty text. Literal characters before and
      // after the assertion are therefore consecutive in the name.
      case TreeKind::kAssertion:
        return;
      case TreeKind::kPoint:
      case TreeKind::kSet:
        EndText();
        return;
    }
  }

  std::vector<AnyOfTexts> Take() {
    EndText();
    return std::move(out_);
  }

 private:
  void EndText() {
    if (!text_.empty()) out_.push_back({std::exchange(text_, {})});
  }

  void AddChoice(const PatternTree& choice) {
    AnyOfTexts any;
    for (const PatternTree& part : choice.parts) {
      auto text = TextOf(part);
      if (!text || text->empty()) return;
      any.push_back(std::move(*text));
    }
    if (!any.empty()) out_.push_back(std::move(any));
  }

  std::string text_;
  std::vector<AnyOfTexts> out_;
};

}  // namespace

std::vector<AnyOfTexts> RequiredTexts(std::string_view pattern) {
  const auto tree = ReadPatternTree(pattern);
  if (!tree) return {};
  Gatherer gatherer;
  gatherer.Add(*tree);
  return gatherer.Take();
}

}  // namespace shardc
