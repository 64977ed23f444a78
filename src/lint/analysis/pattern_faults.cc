// Escapes the dots of a pattern that an author meant as separators of a path.
// Such a dot follows a word, a group, a class or a `+`, and precedes a word, a
// group, a class or an escape. A dot that is quantified, escaped, in a class or
// between `\Q` and `\E` is not changed:
//
//   `layers.\d+.mlp`  ->  `layers\.\d+\.mlp`     `.*kernel`, `a[.]b`  no change
#include "lint/analysis/pattern_faults.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "lint/analysis/groups.h"
#include "match/match.h"
#include "match/re2_finder.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {

namespace {

// Before returns whether the character may precede a dot that separates parts
// of a path. After returns whether it may follow such a dot.
bool Before(char c) {
  return IsWordByte(c) || c == ')' || c == ']' || c == '+';
}
bool After(char c) {
  return IsWordByte(c) || c == '(' || c == '[' || c == '\\';
}

}  // namespace

std::optional<std::string> EscapeDots(std::string_view pattern) {
  std::string out;
  bool changed = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' || pattern[i] == '[') {
      const size_t end = AtomEnd(pattern, i);
      out += pattern.substr(i, end - i);
      i = end - 1;
      continue;
    }
    const bool alone = pattern[i] == '.' && i > 0 && i + 1 < pattern.size() &&
                       Before(pattern[i - 1]) && After(pattern[i + 1]);
    if (alone) {
      out += '\\';
      changed = true;
    }
    out += pattern[i];
  }
  if (!changed) return std::nullopt;
  return out;
}

std::optional<std::string> WithLowerBounds(std::string_view pattern) {
  std::string out;
  bool changed = false;
  for (size_t i = 0; i < pattern.size();) {
    const size_t end = AtomEnd(pattern, i);
    out += pattern.substr(i, end - i);
    const bool opens = pattern.substr(i, end - i) == "{" && i > 0;
    i = end;
    if (!opens || i >= pattern.size() || pattern[i] != ',') continue;
    const size_t close = pattern.find_first_not_of("0123456789", i + 1);
    if (close == pattern.npos || pattern[close] != '}') continue;
    out += '0';
    changed = true;
  }
  if (!changed) return std::nullopt;
  return out;
}

std::string WithEnd(const std::string& pattern, std::string_view end) {
  const bool alternatives = pattern.find('|') != std::string::npos;
  return (alternatives ? "(?:" + pattern + ")" : pattern) + std::string(end);
}

// Finds out whether the match of a pattern ends at the end of a word. RE2
// returns the first alternative that matches, which may end inside a word
// although another alternative would not. A match that ends inside a word is
// therefore repeated with `\b` (the boundary of a word) after the pattern:
//
//   kernel|kernel_scale in q/kernel_scale  ->  the match `kernel` ends inside a
//   word; with `\b` the match is `kernel_scale`, which does not
//
// The names of a group differ only in numbers, so only the first name is
// tested. If its match ends with a digit, all names of the group are tested.

namespace {

// Returns whether a match that ends at `end` ends inside a word of the name, as
// `kernel` does in `kernel_scale`.
bool EndsInsideWord(std::string_view name, size_t end) {
  return end > 0 && end < name.size() && IsWordByte(name[end - 1]) &&
         IsWordByte(name[end]);
}

std::optional<Regex> RegexOf(const Rule& rule, const std::string& pattern) {
  Findings ignored;
  return Regex::Compile({pattern, rule.match_place, rule.separator}, ignored);
}

bool IsFound(const Facts& facts, const Rule& rule, const Regex& regex,
             std::string_view name) {
  std::string scratch;
  return regex.Found(Convert(name, facts.separator(), rule.separator, scratch));
}

// Returns whether the pattern ends with a class of all digits, as `layers.\d`
// does. An author who writes such a pattern means numbers of any length.
bool EndsWithAnyDigit(std::string_view pattern) {
  while (pattern.ends_with(')')) pattern.remove_suffix(1);
  return pattern.ends_with("\\d") || pattern.ends_with("[0-9]");
}

// Finds where the matches of one rule's pattern end.
class EndFinder {
 public:
  EndFinder(const Facts& facts, size_t rule)
      : facts_(facts), rule_(rule), any_digit_(EndsWithAnyDigit(Written())) {}

  // Adds the parameters of a group to `out`. Only the first name is searched if
  // its match does not end in a number: the matches in the other names of the
  // group then end in the same way.
  void Add(const ParameterGroup& group, PatternEnds& out) {
    const auto members = facts_.Members(group);
    const auto first = EndOf(members.front());
    if (!first.found) return;
    if (!first.in_number) {
      if (first.inside) {
        out.inside.push_back({&group, {members.begin(), members.end()}});
      } else {
        out.words.push_back(members.front());
      }
      return;
    }
    GroupPart inside{&group, {}};
    for (const uint32_t param : members) {
      const End end = EndOf(param);
      if (end.found) (end.inside ? inside.params : out.words).push_back(param);
    }
    if (!inside.params.empty()) out.inside.push_back(std::move(inside));
  }

 private:
  struct End {
    bool found = false, inside = false, in_number = false;
  };

  std::string_view Written() const { return facts_.rules()[rule_].match; }

  End EndOf(uint32_t param) {
    const std::string_view name = facts_.plan().names[param];
    const auto found =
        facts_.compiled().matcher->Find(rule_, name, facts_.separator());
    if (!found) return {};
    End out{.found = true, .inside = EndsInsideWord(name, found->second)};
    out.in_number = found->second > 0 && IsDigit(name[found->second - 1]);
    if (!out.inside) return out;
    if (out.in_number && any_digit_ && IsDigit(name[found->second])) {
      out.inside = false;
      return out;
    }
    const Rule& rule = facts_.rules()[rule_];
    if (!words_) words_ = RegexOf(rule, "(?:" + rule.match + ")\\b");
    out.inside = !words_ || !IsFound(facts_, rule, *words_, name);
    return out;
  }

  const Facts& facts_;
  size_t rule_;
  bool any_digit_;
  std::optional<Regex> words_;  // the pattern with `\b`; compiled when needed
};

}  // namespace

PatternEnds PatternEndsOf(const Facts& facts, size_t rule) {
  EndFinder finder(facts, rule);
  PatternEnds out;
  for (uint32_t index : facts.rule_facts()[rule].groups) {
    finder.Add(facts.groups()[index], out);
  }
  return out;
}

std::optional<std::string> EndedPattern(const Facts& facts, size_t rule) {
  const Rule& written = facts.rules()[rule];
  const PatternEnds ends = PatternEndsOf(facts, rule);
  for (const std::string_view end : {"$", "\\b"}) {
    const std::string pattern = WithEnd(written.match, end);
    const auto regex = RegexOf(written, pattern);
    if (regex &&
        std::all_of(ends.words.begin(), ends.words.end(), [&](uint32_t param) {
          return IsFound(facts, written, *regex, facts.plan().names[param]);
        })) {
      return pattern;
    }
  }
  return std::nullopt;
}

// Finds rules with the same file, pattern and separator. Each of them is
// compared with the first one. `same_spec` is true if the two rules have equal
// placements, equal parts and equal specs in every mode. For rules with `like`,
// the parameter that `like` names must be the same.
//
//   [0] `up` ColumnWise, [2] `up` RowWise  ->  {0, 2, not the same spec}

namespace {

bool SamePlacement(const Rule& a, const Rule& b) {
  if (a.placement.has_value() != b.placement.has_value()) return false;
  if (!a.placement) return true;
  return a.placement->axis == b.placement->axis &&
         a.placement->index_pattern == b.placement->index_pattern &&
         a.placement->count == b.placement->count;
}

// Returns whether neither rule has `like`, or both have a `like` that names the
// same parameter. If `like` has a group such as `\1`, the parameter is the same
// only if the patterns are equal.
bool SameLike(const Rule& a, const Rule& b) {
  const auto* mine = std::get_if<SpecLike>(&a.spec);
  const auto* other = std::get_if<SpecLike>(&b.spec);
  if (mine == nullptr || other == nullptr) return mine == other;
  return mine->rewrite == other->rewrite &&
         (a.match == b.match || mine->rewrite.find('\\') == std::string::npos);
}

}  // namespace

bool SpecComparison::Same(int32_t a, int32_t b) {
  const Rule& first = facts_->rules()[static_cast<size_t>(a)];
  const Rule& later = facts_->rules()[static_cast<size_t>(b)];
  return SamePlacement(first, later) && SameLike(first, later) &&
         first.parts == later.parts && SpecsOf(a) == SpecsOf(b);
}

const SpecComparison::Specs& SpecComparison::SpecsOf(int32_t rule) {
  const auto [at, added] = specs_.try_emplace(rule);
  if (added) {
    for (const Mode mode : facts_->plan().modes) {
      at->second.push_back(facts_->RuleSpec(rule, mode));
    }
    at->second.push_back(facts_->RuleSpec(rule));
  }
  return at->second;
}

std::vector<Repeat> RepeatsOf(const Facts& facts) {
  std::map<std::tuple<const Source*, std::string_view, char>, int32_t> seen;
  std::vector<Repeat> out;
  SpecComparison specs(facts);
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const Rule& rule = facts.rules()[r];
    const auto index = static_cast<int32_t>(r);
    const auto [at, fresh] = seen.try_emplace(
        {rule.place.source.get(), rule.match, rule.separator}, index);
    if (fresh) continue;
    out.push_back({at->second, index, specs.Same(at->second, index)});
  }
  return out;
}

// Finds large parameter groups that are replicated because only a catch-all (a
// rule that matches every name) matches them. The groups are reported if they
// have at least 20 % of the model's bytes in total. If a dead rule (a rule that
// matches nothing) was probably intended for one of the groups, 5 % are enough:
//
//   6 of 100 GB, and a dead rule `moe/experts/up` for mlp/experts/up: reported
//   6 of 100 GB, and no such rule: not reported
//
// A dead rule is assumed to be intended for the group whose name needs the
// fewest edits. For example, `atn/c_proj` is intended for attn/c_proj, even if
// mlp/c_proj is larger.

namespace {

FallThrough FallThroughTo(const Facts& facts, size_t rule) {
  FallThrough out;
  out.rule = static_cast<int32_t>(rule);
  for (uint32_t index : facts.rule_facts()[rule].groups) {
    const ParameterGroup& group = facts.groups()[index];
    if (facts.Elements(group) < kLargeElements || !facts.Replicated(group) ||
        IsReplicatedHalf(facts, group)) {
      continue;
    }
    out.groups.push_back(&group);
    out.bytes += facts.TotalBytes(group);
  }
  std::stable_sort(out.groups.begin(), out.groups.end(),
                   [&](const ParameterGroup* a, const ParameterGroup* b) {
                     return facts.TotalBytes(*a) > facts.TotalBytes(*b);
                   });
  return out;
}

struct Claim {
  NearRule near;
  int64_t edits = 0;  // edit distance from the rule to the name (EditsOf)
  size_t group = 0;   // index into FallThrough::groups
};

// Finds, for each group in `open`, the dead rule (a rule that matches nothing)
// that is nearest to the group's name. Rules in `named` already have a group
// and are skipped. Returns the groups, keyed by this rule.
std::map<int32_t, std::vector<Claim>> ClaimsOf(const Facts& facts,
                                               const FallThrough& fall,
                                               std::span<const size_t> open,
                                               const std::set<int32_t>& named) {
  std::map<int32_t, std::vector<Claim>> claims;
  for (const size_t group : open) {
    const auto near = facts.nearest().Of(fall.groups[group]->name,
                                         NearestRules::Among::kDead, named);
    if (!near || named.contains(near->rule)) continue;
    claims[near->rule].push_back({*near, EditsOf(*near), group});
  }
  for (auto& [rule, list] : claims) {
    std::stable_sort(
        list.begin(), list.end(),
        [](const Claim& a, const Claim& b) { return a.edits < b.edits; });
  }
  return claims;
}

// Sets `fall.intended`, in the order of the groups. If one rule is the nearest
// to several groups, it is assigned to the group with the fewest edits. For the
// other groups, the nearest of the remaining rules is found.
void Assign(const Facts& facts, FallThrough& fall) {
  std::set<int32_t> named;
  std::vector<size_t> open(fall.groups.size());
  std::iota(open.begin(), open.end(), 0);
  // Keyed by the group's index, because `fall.intended` is in the order of the
  // groups.
  std::map<size_t, IntendedFallThrough> intended;
  for (;;) {
    const auto claims = ClaimsOf(facts, fall, open, named);
    if (claims.empty()) break;
    open.clear();
    for (const auto& [rule, list] : claims) {
      named.insert(rule);
      IntendedFallThrough one{
          list[0].near, fall.groups[list[0].group], {}, nullptr};
      if (list.size() > 1 && list[1].near.rewrite != one.intended.rewrite &&
          list[1].edits <= list[0].edits + 1) {
        one.also = list[1].near;
        one.also_group = fall.groups[list[1].group];
      }
      intended.emplace(list[0].group, std::move(one));
      for (const Claim& claim : std::span(list).subspan(1)) {
        open.push_back(claim.group);
      }
    }
  }
  // A group to which a rule is assigned is not suggested as the second
  // candidate of another rule.
  std::set<const ParameterGroup*> settled;
  for (const auto& [group, one] : intended) settled.insert(one.group);
  for (auto& [group, one] : intended) {
    if (settled.contains(one.also_group)) one.also.reset();
    fall.intended.push_back(std::move(one));
  }
}

}  // namespace

int64_t EditsOf(const NearRule& near) {
  return PartEdits(near.written, near.found);
}

std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts) {
  const auto rules = facts.rule_facts();
  const bool only_catch_alls =
      std::all_of(rules.begin(), rules.end(),
                  [](const RuleFacts& rule) { return rule.sketch.catch_all; });
  if (only_catch_alls) return {};
  std::vector<FallThrough> out;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].groups.empty()) continue;
    FallThrough fall = FallThroughTo(facts, r);
    if (fall.bytes == 0 || fall.bytes < facts.total_bytes() / 20) continue;
    Assign(facts, fall);
    if (fall.intended.empty() && fall.bytes < facts.total_bytes() / 5) {
      continue;
    }
    out.push_back(std::move(fall));
  }
  return out;
}

}  // namespace shardc
