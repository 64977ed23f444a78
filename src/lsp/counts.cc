// Counts the parameters and bytes of each rule. Many parameters match the same
// set of rules and have the same layout. One pass over the parameters therefore
// counts how many match each set of rules. It also counts how many have the
// same layout and the same first matching rule. The bytes are computed from
// these few counts:
//
//   61 parameters with one layout of 16 KiB  ->  61 x 16 KiB, added once
#include "lsp/counts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc::lsp {
namespace {

void AddTo(std::optional<int64_t>& sum, std::optional<int64_t> each,
           int64_t count) {
  const auto all = each ? CheckedMul(*each, count) : std::nullopt;
  sum = sum && all ? CheckedAdd(*sum, *all) : std::nullopt;
}

}  // namespace

std::vector<RuleCount> CountsOf(const Compiled& compiled) {
  const Plan& plan = compiled.plan;
  const Matches& matches = compiled.matches;
  std::vector<RuleCount> out(compiled.rules.rules.size());
  std::vector<int64_t> of_set(matches.begin.size());
  // The number of parameters, keyed by first matching rule, layout and
  // coordinate. A placed parameter is held by the devices at one coordinate of
  // a mesh axis. The coordinate of other parameters is kNowhere. The rule is a
  // part of the key, because scalars that different rules match may share one
  // layout.
  constexpr int64_t kNowhere = -1;
  using Key = std::tuple<int32_t, uint32_t, int64_t>;
  std::map<Key, int64_t> of_layout;
  int64_t* last = nullptr;
  Key last_key;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    ++of_set[matches.set[i]];
    if (matches.first[i] < 0) continue;
    const PlannedParam& param = plan.params[i];
    const Key key(matches.first[i], param.layout,
                  plan.CoordinateOf(param).value_or(kNowhere));
    if (last == nullptr || key != last_key) last = &of_layout[key];
    last_key = key;
    ++*last;
  }
  for (size_t set = 0; set + 1 < matches.begin.size(); ++set) {
    for (uint32_t i = matches.begin[set]; i < matches.begin[set + 1]; ++i) {
      out[matches.rules[i]].found += of_set[set];
    }
  }
  // The bytes of the parameters that are placed at one coordinate of a mesh
  // axis, keyed by rule and coordinate.
  std::map<std::pair<int32_t, int64_t>, std::optional<int64_t>> placed;
  for (const auto& [key, count] : of_layout) {
    const auto& [first, layout_index, coordinate] = key;
    RuleCount& rule = out[AsIndex(first)];
    const ParamLayout& layout = plan.layouts[layout_index];
    rule.won += count;
    AddTo(rule.bytes, plan.types[layout.type].Bytes(), count);
    auto& held = coordinate == kNowhere
                     ? rule.bytes_per_device
                     : placed.try_emplace({first, coordinate}, 0).first->second;
    AddTo(held, layout.modes.front().bytes_per_device, count);
  }
  // A device has one coordinate on the mesh axis, and of the placed parameters
  // it holds only those at this coordinate. For each rule, the fullest device
  // therefore holds the largest of the sums in `placed`.
  for (auto at = placed.begin(); at != placed.end();) {
    const int32_t rule = at->first.first;
    std::optional<int64_t> most = 0;
    for (; at != placed.end() && at->first.first == rule; ++at) {
      most = most && at->second ? std::optional(std::max(*most, *at->second))
                                : std::nullopt;
    }
    AddTo(out[AsIndex(rule)].bytes_per_device, most, 1);
  }
  return out;
}

std::string RuleCountText(const RuleCount& count) {
  std::string out =
      count.won == count.found
          ? Counted(count.won, "parameter")
          : CountText(count.won) + " of " + Counted(count.found, "parameter");
  if (count.won > 0 && count.bytes) out += ", " + BytesText(*count.bytes);
  return out;
}

}  // namespace shardc::lsp
