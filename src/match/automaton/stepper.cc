// Computes the NFA's step over one symbol, from one set of active nodes to the
// next. An assertion such as `\b` can be evaluated only when the characters on
// both sides are known. Therefore kAssert nodes that are reached remain in the
// set, and the step over the next symbol first evaluates them. For example, the
// pattern `a\b` in the text `a/`:
//
//   {}  --a-->  {assert \b}  --/-->  \b is true between `a` and `/`: found
#include "match/automaton/stepper.h"

#include <algorithm>

namespace shardc {
namespace {

// Visit() gets this value as `holding` if the next character is not known yet.
// Visit() then keeps assertion nodes other than kTextBegin in the set, and the
// next step evaluates them.
constexpr unsigned kLater = UINT32_MAX;
constexpr unsigned kWordAssertions = kWordEdge | kNoWordEdge;

}  // namespace

Stepper::Stepper(const Nfa& nfa, Begin begin)
    : nfa_(nfa), begin_(begin), seen_(nfa.nodes.size()) {
  if (begin == Begin::kNo) return;
  for (uint32_t node : nfa.begin_asserted) {
    begin_asserts_ |= nfa.asserts[nfa.nodes[node].pattern];
  }
}

void Stepper::NewRound() {
  if (++round_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    round_ = 1;
  }
}

// Follows the edges that read no character, beginning at `start`. Adds to `out`
// the kSet nodes that are reached and, with kLater, also the kAssert nodes.
// Adds to `found` the patterns that match. `holding` has the bits of the
// assertions that are true at this position, or is kLater.
void Stepper::Visit(uint32_t start, unsigned holding,
                    std::vector<uint32_t>& out, std::vector<uint32_t>& found) {
  stack_.push_back(start);
  while (!stack_.empty()) {
    const uint32_t at = stack_.back();
    stack_.pop_back();
    if (seen_[at] == round_) continue;
    seen_[at] = round_;
    ++work_;
    const Nfa::Node& node = nfa_.nodes[at];
    switch (node.kind) {
      case NodeKind::kSet:
        out.push_back(at);
        break;
      case NodeKind::kFork:
        // `other` is visited first, so that `out` is often sorted already: in
        // most forks, `other` has the lower number.
        stack_.push_back(node.next);
        stack_.push_back(node.other);
        break;
      case NodeKind::kAssert:
        if (holding != kLater) {
          if ((holding & node.assertion) != 0) stack_.push_back(node.next);
        } else if (node.assertion != kTextBegin) {
          out.push_back(at);
        }
        break;
      case NodeKind::kFound:
        found.push_back(node.pattern);
        break;
    }
  }
}

// Evaluates the assertions at a position. `at` is the NFA's state there, and
// `next` the kind of the character after it. Sets here_ to the kSet nodes that
// are reached through true assertions. Adds the patterns that match at this
// position to `found`.
void Stepper::Look(NfaPlaceView at, Neighbour next,
                   const std::vector<bool>& dead,
                   std::vector<uint32_t>& found) {
  NewRound();
  here_.clear();
  const unsigned holding = HoldingBetween(at.before, next);
  const auto look = [&](uint32_t node) {
    if (nfa_.nodes[node].kind == NodeKind::kAssert) {
      Visit(node, holding, here_, found);
    }
  };
  const auto look_if_live = [&](uint32_t node) {
    if (!dead[nfa_.nodes[node].pattern]) look(node);
  };
  std::for_each(at.nodes.begin(), at.nodes.end(), look);
  if (begin_ == Begin::kNo) return;
  const auto& asserted = nfa_.begin_asserted;
  std::for_each(asserted.begin(), asserted.end(), look_if_live);
  if (at.before != Neighbour::kEdge) return;
  const auto& anchored = nfa_.begin_anchored;
  std::for_each(anchored.begin(), anchored.end(), look_if_live);
}

void Stepper::Step(NfaPlaceView from, uint32_t symbol,
                   const std::vector<bool>& dead, NfaPlace& to,
                   std::vector<uint32_t>& found) {
  const Alphabet& alphabet = nfa_.alphabet;
  Look(from, alphabet.KindOf(symbol), dead, found);
  NewRound();
  to.nodes.clear();
  const auto move = [&](uint32_t at) {
    const Nfa::Node& node = nfa_.nodes[at];
    ++work_;
    if (node.kind == NodeKind::kSet && alphabet.Holds(node.set, symbol)) {
      Visit(node.next, kLater, to.nodes, found);
    }
  };
  std::for_each(from.nodes.begin(), from.nodes.end(), move);
  std::for_each(here_.begin(), here_.end(), move);
  if (begin_ == Begin::kEverywhere) {
    for (uint32_t at : nfa_.after_first[symbol]) {
      if (!dead[nfa_.nodes[at].pattern]) Visit(at, kLater, to.nodes, found);
    }
  }
  if (!std::is_sorted(to.nodes.begin(), to.nodes.end())) {
    std::sort(to.nodes.begin(), to.nodes.end());
  }
  to.before = Behind(to, symbol);
}

void Stepper::End(NfaPlaceView at, const std::vector<bool>& dead,
                  std::vector<uint32_t>& found) {
  Look(at, Neighbour::kEdge, dead, found);
}

// Returns the kind of the character `symbol`, or kOther if no assertion of the
// active nodes depends on this kind. NFA states that differ only in an
// irrelevant kind are then equal, so the automaton has fewer states.
Neighbour Stepper::Behind(const NfaPlace& place, uint32_t symbol) const {
  unsigned asserted = begin_asserts_;
  for (uint32_t at : place.nodes) {
    const Nfa::Node& node = nfa_.nodes[at];
    if (node.kind == NodeKind::kAssert) asserted |= nfa_.asserts[node.pattern];
  }
  const Neighbour kind = nfa_.alphabet.KindOf(symbol);
  const bool asked =
      (kind == Neighbour::kWord && (asserted & kWordAssertions) != 0) ||
      (kind == Neighbour::kNewline && (asserted & kLineBegin) != 0);
  return asked ? kind : Neighbour::kOther;
}

}  // namespace shardc
