// Reports rules that match no parameter (dead rules) as warnings. A dead rule
// is only a note if the last parts of its pattern name a parameter that only
// some models of a family have, such as a bias. It stays a warning if a large
// parameter has a similar name and no rule, or only a catch-all, matches this
// parameter.
//
//   self_attn/q_proj/bias  ->  note      unbiased/kernel  ->  warning
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/dots.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/sketch.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Parts of names that mark a parameter as optional, because only some models of
// a family have it. The last part of the name is in kOptionalLeaves, as in
// `q_proj/bias`, or in kOptionalModules, as in `lm_head`. If the last part is
// in kLeaves, the part before it may be in kOptionalModules, as in
// `lm_head/kernel`.
constexpr std::array<std::string_view, 3> kOptionalLeaves = {"bias", "scale",
                                                             "scales"};
constexpr std::array<std::string_view, 6> kLeaves = {
    "kernel", "weight", "bias", "scale", "embedding", "weights"};
constexpr std::array<std::string_view, 11> kOptionalModules = {
    "lm_head",
    "score",
    "classifier",
    "head",
    "wte",
    "wpe",
    "pooler",
    "embed_tokens",
    "embed_positions",
    "position_embeddings",
    "position_embedding"};

bool IsNorm(std::string_view word) {
  while (!word.empty() && word.back() >= '0' && word.back() <= '9') {
    word.remove_suffix(1);
  }
  if (word.ends_with('_')) word.remove_suffix(1);
  return word.ends_with("norm") || word.ends_with("Norm") ||
         word.starts_with("ln_") || word == "ln";
}

// Returns the text without kWild and kAnyChar, which represent wildcards.
std::string Literal(std::string text) {
  std::erase(text, Sketch::kWild);
  std::erase(text, Sketch::kAnyChar);
  return text;
}

// Returns whether a pattern's text ends with a parameter or module that not
// every model has. Complete parts are compared, because `unbiased` contains
// `bias` but is not a bias.
//
//   ln_f/scale  ->  optional     head_proj/kernel  ->  not optional
bool IsOptionalText(std::string_view text, char separator) {
  const std::vector<std::string> parts = SketchSegments(text, separator);
  if (parts.empty()) return false;
  const std::string last = Literal(parts.back());
  if (IsAmong(last, kOptionalLeaves)) return true;
  const std::string module = parts.size() > 1 && IsAmong(last, kLeaves)
                                 ? Literal(parts[parts.size() - 2])
                                 : last;
  return IsAmong(module, kOptionalModules) || IsNorm(module);
}

bool IsOptional(const Sketch& sketch, char separator) {
  return !sketch.texts.empty() &&
         std::all_of(sketch.texts.begin(), sketch.texts.end(),
                     [&](const std::string& text) {
                       return IsOptionalText(text, separator);
                     });
}

struct NearName {
  const ParameterGroup* group = nullptr;
  std::string rewrite;
  int64_t edits = 0;
  // The pattern rewritten to match a second name, whose edit distance to the
  // pattern is at most 1 more than that of the first name. Empty if there is no
  // such name.
  std::string also;
};

// Returns the dead rules that were probably intended for a large parameter that
// no rule, or only a catch-all, matches.
std::set<int32_t> Intended(const Facts& facts) {
  std::set<int32_t> out;
  for (const ParameterGroup& group : facts.groups()) {
    const bool fallen =
        group.rule < 0 ||
        facts.rule_facts()[static_cast<size_t>(group.rule)].sketch.catch_all;
    if (!fallen || facts.Elements(group) < kLargeElements) continue;
    const auto near =
        facts.nearest().Of(group.name, NearestRules::Among::kDead);
    if (near) out.insert(near->rule);
  }
  return out;
}

// Returns, keyed by dead rule, the name in the tree that is nearest to the
// rule's pattern, and the pattern rewritten to match that name. Returns an
// empty map if there are so many names and rules that comparing them would take
// long.
std::map<int32_t, NearName> NearNames(const Facts& facts) {
  constexpr size_t kMostComparisons = 200000;
  std::map<int32_t, NearName> out;
  const size_t rules = facts.rule_facts().size();
  if (rules * facts.groups().size() > kMostComparisons) return out;
  for (const ParameterGroup& group : facts.groups()) {
    const auto near =
        facts.nearest().Of(group.name, NearestRules::Among::kDead);
    if (!near || near->rewrite.empty()) continue;
    const int64_t edits = EditsOf(*near);
    const auto longest = static_cast<int64_t>(
        std::max(near->written.size(), near->found.size()));
    // If more than half of the letters differ, the name is another word and not
    // a typing error.
    if (2 * edits > longest) continue;
    NearName& best = out[near->rule];
    if (best.group == nullptr || edits < best.edits) {
      best = {&group, near->rewrite, edits, {}};
    } else if (edits <= best.edits + 1 && near->rewrite != best.rewrite &&
               best.also.empty()) {
      best.also = near->rewrite;
    }
  }
  return out;
}

std::string HelpFor(const Facts& facts, const NearName& near) {
  return "the tree has " + Quoted(GroupName(facts, *near.group)) + ": write " +
         Quoted(near.rewrite) +
         (near.also.empty() ? "" : " or " + Quoted(near.also)) +
         ", or remove the rule";
}

}  // namespace

void CheckDeadRule(const Facts& facts, FindingSink& sink) {
  if (facts.plan().params.empty()) return;
  const std::set<int32_t> intended = Intended(facts);
  const std::map<int32_t, NearName> near_names = NearNames(facts);
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.found > 0 || rule.builtin) continue;
    const std::string& pattern = facts.rules()[r].match;
    const auto bounded = WithLowerBounds(pattern);
    const bool optional = !bounded &&
                          intended.count(static_cast<int32_t>(r)) == 0 &&
                          IsOptional(rule.sketch, facts.rules()[r].separator);
    LintFinding finding;
    // If another finding explains why the rule is dead, this finding is
    // redundant.
    finding.unless = {DeadRuleTopic(r)};
    finding.code = &kDeadRule.code;
    finding.level = optional ? Level::kNote : kDeadRule.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = "rule " + Quoted(pattern) + " matches no parameter";
    const auto near = near_names.find(static_cast<int32_t>(r));
    finding.help =
        bounded ? "RE2 matches a repetition without a lower bound literally, "
                  "unlike Python's `re`: write " +
                      Quoted(*bounded)
        : optional ? "remove it if none of your models has such a parameter"
        : near == near_names.end() ? "correct the path, or remove the rule"
                                   : HelpFor(facts, near->second);
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
