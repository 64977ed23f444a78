// Trims the syntax tree of a pattern, counts the NFA nodes that the tree needs,
// and finds the assertions in the tree. The automata determine whether a
// pattern matches anywhere in a name, not where. Therefore trimming removes
// optional parts at both ends, and reduces a repetition there to its minimum:
// `.*k+ernel.*` becomes `kernel`. An example of the number of NFA nodes:
//
//   `a{2,4}b`:  4 for `a`, 2 forks and 1 for `b`, in total 7
#include "match/automaton/pattern_tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

}  // namespace shardc
