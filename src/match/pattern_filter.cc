// Matches each name by RE2, one pattern at a time, but only against the
// patterns whose required texts the name contains. Required texts are literal
// texts without which a pattern cannot match.
//
// This is for lists for which one automaton of all patterns is slow, such as a
// thousand patterns `(block|blick_N).*N$` with different N. After `block`, each
// pattern has active nodes that wait for its own N. Every further byte of a
// name then makes a state of a thousand nodes, which no other name needs. The
// filter leaves most patterns out:
//
//   pattern                 required                      name block_17/kernel
//   (block|blick_17).*17$   (block or blick_17) and 17    matched by RE2
//   (block|blick_23).*23$   (block or blick_23) and 23    left out
//
// A requirement such as (block or blick_17) is met if the name contains one of
// its texts. All texts are found in one pass over a name. One requirement of
// each pattern is its key: the pattern is considered only if the name contains
// a text of the key. RE2 then matches the pattern if all its requirements are
// met. FindKeys() chooses as the key a requirement whose texts are rare. In the
// example this is `17`. With the key (block or blick_17), the pattern would be
// considered for every name that contains `block`.
#include "match/pattern_filter.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "match/automaton/pattern_tree.h"

namespace shardc {
namespace {

// RE2 stores states for each pattern. kAllBytes, the limit on the bytes of all
// states, is divided equally among the patterns. A pattern gets at least
// kLeastBytes, because with less memory many patterns would not compile.
constexpr int64_t kAllBytes = int64_t{256} << 20;
constexpr int64_t kLeastBytes = int64_t{128} << 10;

// Returns `pattern` compiled again, with an equal share of kAllBytes as its
// memory limit. Returns `pattern` itself if its limit is not larger than this
// share, or if it does not compile with the share.
std::shared_ptr<const RE2> WithShare(const std::shared_ptr<const RE2>& pattern,
                                     size_t patterns) {
  RE2::Options options = pattern->options();
  const int64_t share = kAllBytes / static_cast<int64_t>(patterns);
  if (share >= options.max_mem()) return pattern;
  options.set_max_mem(std::max(share, kLeastBytes));
  auto re = std::make_shared<const RE2>(pattern->pattern(), options);
  return re->ok() ? re : pattern;
}

}  // namespace

struct PatternFilter::State {
  // One requirement, as indices into `texts`. A pattern can match a name only
  // if the name contains at least one of these texts.
  using AnyOf = std::vector<uint32_t>;

  void AddTexts(std::span<const std::shared_ptr<const RE2>> patterns);
  void FindKeys();
  bool MayMatch(uint32_t pattern, const std::vector<bool>& has) const;
  void AddIfFound(uint32_t pattern, std::string_view text,
                  std::vector<uint32_t>& out) const;

  std::vector<std::shared_ptr<const RE2>> patterns;
  // Indexed by pattern: all requirements of the pattern.
  std::vector<std::vector<AnyOf>> required;
  std::vector<std::string> texts;
  // Indexed by text: the patterns whose key (FindKeys) contains the text.
  std::vector<std::vector<uint32_t>> by_text;
  std::vector<uint32_t> always;  // The patterns without a required text.
  std::optional<LiteralFinder> finder;
};

void PatternFilter::State::AddTexts(
    std::span<const std::shared_ptr<const RE2>> all) {
  std::map<std::string, uint32_t, std::less<>> numbers;
  for (const auto& re : all) {
    patterns.push_back(WithShare(re, all.size()));
    std::vector<AnyOf>& own = required.emplace_back();
    for (const AnyOfTexts& any : RequiredTexts(re->pattern())) {
      AnyOf& one = own.emplace_back();
      for (const std::string& text : any) {
        const auto next = static_cast<uint32_t>(texts.size());
        const auto [at, fresh] = numbers.try_emplace(text, next);
        if (fresh) texts.push_back(text);
        one.push_back(at->second);
      }
      std::sort(one.begin(), one.end());
      one.erase(std::unique(one.begin(), one.end()), one.end());
    }
  }
}

void PatternFilter::State::FindKeys() {
  // Indexed by text: the number of requirements that have the text.
  std::vector<size_t> used(texts.size());
  for (const auto& own : required) {
    for (const AnyOf& any : own) {
      for (const uint32_t text : any) ++used[text];
    }
  }
  // Returns the cost of a requirement. The cheapest requirement of a pattern
  // becomes its key. The first number of the cost is the largest used[text] of
  // the requirement's texts, so rare texts are cheap. If two first numbers are
  // equal, the requirement whose shortest text is longer has the lower cost,
  // because short texts are in many names.
  const auto cost = [&](const AnyOf& any) {
    std::pair<size_t, size_t> out{0, 0};
    size_t least = SIZE_MAX;
    for (const uint32_t text : any) {
      out.first = std::max(out.first, used[text]);
      least = std::min(least, texts[text].size());
    }
    out.second = SIZE_MAX - least;
    return out;
  };
  by_text.resize(texts.size());
  for (uint32_t p = 0; p < patterns.size(); ++p) {
    const auto key = std::min_element(
        required[p].begin(), required[p].end(),
        [&](const AnyOf& a, const AnyOf& b) { return cost(a) < cost(b); });
    if (key == required[p].end()) {
      always.push_back(p);
      continue;
    }
    for (const uint32_t text : *key) by_text[text].push_back(p);
  }
}

bool PatternFilter::State::MayMatch(uint32_t pattern,
                                    const std::vector<bool>& has) const {
  return std::all_of(required[pattern].begin(), required[pattern].end(),
                     [&](const AnyOf& any) {
                       return std::any_of(
                           any.begin(), any.end(),
                           [&](uint32_t text) { return has[text]; });
                     });
}

void PatternFilter::State::AddIfFound(uint32_t pattern, std::string_view text,
                                      std::vector<uint32_t>& out) const {
  if (patterns[pattern]->Match({text.data(), text.size()}, 0, text.size(),
                               RE2::UNANCHORED, nullptr, 0)) {
    out.push_back(pattern);
  }
}

PatternFilter::~PatternFilter() = default;
PatternFilter::PatternFilter(PatternFilter&&) noexcept = default;
PatternFilter& PatternFilter::operator=(PatternFilter&&) noexcept = default;

PatternFilter::PatternFilter(
    std::span<const std::shared_ptr<const re2::RE2>> patterns)
    : state_(std::make_unique<State>()) {
  state_->AddTexts(patterns);
  state_->FindKeys();
  state_->finder.emplace(state_->texts);
}

void PatternFilter::Find(std::string_view text, Scratch& scratch,
                         std::vector<uint32_t>& out) const {
  const State& state = *state_;
  auto& [found, has] = scratch;
  found.clear();
  has.resize(state.texts.size());
  state.finder->Find(text, found);
  for (const uint32_t one : found) has[one] = true;
  for (const uint32_t pattern : state.always) {
    state.AddIfFound(pattern, text, out);
  }
  const size_t begin = out.size();
  for (const uint32_t one : found) {
    for (const uint32_t pattern : state.by_text[one]) {
      if (state.MayMatch(pattern, has)) state.AddIfFound(pattern, text, out);
    }
  }
  // A pattern was found once for each text of its key that the name contains.
  // The repetitions are removed.
  const auto own = out.begin() + static_cast<std::ptrdiff_t>(begin);
  std::sort(own, out.end());
  out.erase(std::unique(own, out.end()), out.end());
  for (const uint32_t one : found) has[one] = false;
}

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

// Finds the texts that a pattern requires. Consecutive literal characters of
// the pattern are one required text. A choice of literal texts requires one of
// them, and a part that is repeated at least once requires the texts of one
// repetition. Any other part except an assertion ends a text:
//
//   (block|blick_17).*17$   ->  (block or blick_17) and 17
//   layers/\d+/(q|k)/(a)+   ->  `layers/`, `/`, (`q` or `k`), `/`, `a`

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
