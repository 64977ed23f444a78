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
#include "lint/analysis/fall_through.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "lint/analysis/groups.h"
#include "source/edit_distance.h"

namespace shardc {
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
