// Finds many literal texts in a name in one pass, whatever their number, by the
// automaton of Aho and Corasick (Efficient string matching, 1975). The
// automaton is a tree of all literals. Each node represents a text and has a
// link to the longest suffix of its text that is also a node. With the literals
// `attn` and `tn/k`, the text `attn/` is read as follows:
//
//   attn  --/-->  no edge; its suffix `tn`  --/-->  tn/
//
// From the node `attn` there is no edge for `/`, so the search continues at the
// node `tn`.
#include "match/literal_finder.h"

#include <algorithm>

namespace shardc {

LiteralFinder::LiteralFinder(std::span<const std::string> literals)
    : nodes_(1) {
  struct Step {
    uint32_t from = 0;
    uint32_t to = 0;
    char byte = 0;
    size_t depth = 0;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < literals.size(); ++i) {
    uint32_t at = kRoot;
    for (size_t depth = 0; depth < literals[i].size(); ++depth) {
      const char byte = literals[i][depth];
      const auto fresh = static_cast<uint32_t>(nodes_.size());
      const auto [edge, added] = edges_.try_emplace(Edge(at, byte), fresh);
      if (added) {
        nodes_.emplace_back();
        steps.push_back({at, fresh, byte, depth});
      }
      at = edge->second;
    }
    nodes_[at].literal = static_cast<uint32_t>(i);
  }
  // The link of a node depends on the links of nodes with shorter texts, so the
  // links are computed in ascending order of the lengths of the texts.
  std::stable_sort(
      steps.begin(), steps.end(),
      [](const Step& a, const Step& b) { return a.depth < b.depth; });
  for (const Step& step : steps) {
    // The text has one character, so its only suffix is the empty text.
    if (step.from == kRoot) continue;
    Node& node = nodes_[step.to];
    node.shorter = Next(nodes_[step.from].shorter, step.byte);
    const Node& suffix = nodes_[node.shorter];
    node.ending = suffix.literal != kNoLiteral ? node.shorter : suffix.ending;
  }
}

uint32_t LiteralFinder::Next(uint32_t from, char byte) const {
  while (true) {
    const auto edge = edges_.find(Edge(from, byte));
    if (edge != edges_.end()) return edge->second;
    if (from == kRoot) return kRoot;
    from = nodes_[from].shorter;
  }
}

void LiteralFinder::Find(std::string_view text,
                         std::vector<uint32_t>& out) const {
  uint32_t at = kRoot;
  for (char byte : text) {
    at = Next(at, byte);
    for (uint32_t end = at; end != kRoot; end = nodes_[end].ending) {
      if (nodes_[end].literal != kNoLiteral) {
        out.push_back(nodes_[end].literal);
      }
    }
  }
}

}  // namespace shardc
