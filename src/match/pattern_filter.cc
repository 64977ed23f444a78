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

#include "match/literal_finder.h"
#include "match/required_texts.h"

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

}  // namespace shardc
