// Changes the rules of packs so that they fit scanned layers. A pack describes
// the parameters of one layer. A scan stacks the layers in one tensor, so each
// parameter has one more dimension. The position of this dimension depends on
// the model. A null is inserted into the spec at this position:
//
//   spec: [HEAD, [FSDP, SP]] for o_proj/kernel [4096, 4096]
//     ->  [null, HEAD, [FSDP, SP]] for layers/o_proj/kernel [32, 4096, 4096]
//     ->  [HEAD, null, [FSDP, SP]] for layers/o_proj/kernel [4096, 32, 4096]
//
// One rule may match parameters of several layer stacks. If the dimension of
// layers has the same position in all of them, the rule itself is changed.
// Otherwise each stack gets a changed copy of the rule, which is inserted
// before the rule. The pattern of a copy begins with the path of the stack, so
// it matches only parameters of that stack. A rule whose pattern contains `^`
// gets no copies, because the path could not precede such a match.
#include "target/scanned_rules.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "match/match.h"
#include "model/name.h"
#include "model/pack_name.h"
#include "plan/rule_patterns.h"
#include "roles/layer_stacks.h"
#include "source/index.h"

namespace shardc {
namespace {

bool IsOfPack(const Rule& rule) {
  return rule.place.source != nullptr && IsPackName(rule.place.source->name());
}

// Lists that are indexed by template, which is a parameter name with `*` in
// place of its numbers. `names` and `shapes` are of the first parameter with
// this template. A shape is null if it is unknown.
struct Groups {
  std::vector<std::string> templates;
  std::vector<std::string_view> names;
  std::vector<const Shape*> shapes;
};

Groups GroupsOf(const Manifest& manifest) {
  Groups out;
  std::unordered_set<std::string> seen;
  std::string folded;
  for (const Tensor& tensor : manifest.tensors) {
    const auto& shape = manifest.TypeOf(tensor).shape;
    folded.clear();
    AppendTemplate(tensor.name, manifest.separator, folded);
    if (!seen.insert(folded).second) continue;
    out.templates.push_back(folded);
    out.names.push_back(tensor.name);
    out.shapes.push_back(shape ? &*shape : nullptr);
  }
  return out;
}

LayerStacks StacksOf(const Groups& groups, char separator) {
  std::vector<StackCandidate> candidates;
  for (size_t i = 0; i < groups.names.size(); ++i) {
    candidates.push_back(
        {.name = groups.templates[i], .shape = groups.shapes[i]});
  }
  return FindLayerStacks(candidates, separator);
}

// The dimensions of a parameter that count layers, in ascending order, and the
// path of the stack that the first of them belongs to.
struct Scanned {
  std::vector<int> dims;
  std::string path;

  auto operator<=>(const Scanned&) const = default;
};
// Describes the parameters that a rule is the first to match. The key is the
// scanned dimensions of a parameter. The value is the lowest rank of the
// parameters with this key.
using Matched = std::map<Scanned, size_t>;

// Returns the list of dimensions of a spec that is a list or a bundle. Returns
// null if the spec has another form, if its bundle does not exist, or if it
// shards no dimension.
const SpecList* ListOf(const SpecSource& spec, const RuleSet& rules) {
  const auto* list = std::get_if<SpecList>(&spec);
  if (const auto* bundle = std::get_if<SpecBundle>(&spec)) {
    const auto own = std::find_if(
        rules.bundles.begin(), rules.bundles.end(),
        [&](const Bundle& one) { return one.name == bundle->name; });
    const Bundle* const found =
        own != rules.bundles.end() ? &*own : FindBuiltinBundle(bundle->name);
    list = found == nullptr ? nullptr : &found->axes;
  }
  const bool shards =
      list != nullptr &&
      std::any_of(list->entries.begin(), list->entries.end(),
                  [](const SpecEntry& entry) { return !entry.names.empty(); });
  return shards ? list : nullptr;
}

void Insert(SpecSource& spec, const std::vector<int>& dims,
            const RuleSet& rules) {
  const SpecList* const list = ListOf(spec, rules);
  if (list == nullptr) return;
  SpecList out = *list;
  for (const int dim : dims) {
    // A dimension after the last entry of the spec is unsharded, so it needs no
    // entry.
    if (AsIndex(dim) > out.entries.size()) break;
    out.entries.insert(out.entries.begin() + dim, SpecEntry{});
  }
  spec = std::move(out);
}

Rule WithDims(Rule rule, const std::vector<int>& dims, const RuleSet& rules) {
  Insert(rule.spec, dims, rules);
  for (auto& [mode, spec] : rule.modes) Insert(spec, dims, rules);
  return rule;
}

// Returns whether the rule's specs have at most `rank` entries after the
// scanned dimensions are inserted. Specs that Insert() does not change are not
// checked.
bool Fits(const Rule& rule, const Scanned& scanned, size_t rank,
          const RuleSet& rules) {
  const auto fits = [&](const SpecSource& spec) {
    const SpecList* const list = ListOf(spec, rules);
    return list == nullptr ||
           list->entries.size() + scanned.dims.size() <= rank;
  };
  return fits(rule.spec) &&
         std::all_of(rule.modes.begin(), rule.modes.end(),
                     [&](const auto& mode) { return fits(mode.second); });
}

// Returns a pattern for names below the path of a stack. `separator` separates
// the parts of `path`, and `own` is the separator of the rule's pattern.
std::string PathPattern(std::string_view path, char separator, char own) {
  std::string out = "^";
  for (const char c : path) {
    if (c == separator) {
      out += own == '.' ? "\\." : "/";
    } else if (c == '*') {  // `*` stands for a number
      out += "\\d+";
    } else {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '_' || c == '/' ||
                         static_cast<unsigned char>(c) >= 0x80;
      if (!plain) out += '\\';
      out += c;
    }
  }
  return out + ".*";
}

std::vector<Matched> MatchedBy(const RuleSet& rules, const Groups& groups,
                               const LayerStacks& stacks, char separator) {
  std::vector<Matched> out(rules.rules.size());
  Findings unreported;  // the compiler reports the same findings
  const auto matcher = Matcher::Compile(PatternsOf(rules.rules), unreported);
  if (!matcher) return out;
  const Matches matches = matcher->Match(groups.names, separator);
  for (size_t i = 0; i < groups.names.size(); ++i) {
    if (matches.first[i] < 0 || groups.shapes[i] == nullptr) continue;
    Scanned scanned;
    for (const ScannedDim& found : stacks.dims[i]) {
      const LayerStack& stack = stacks.stacks[found.stack];
      if (stack.confidence == StackConfidence::kUndecided) continue;
      if (scanned.dims.empty()) scanned.path = stack.path;
      scanned.dims.push_back(found.dim);
    }
    const size_t rank = groups.shapes[i]->size();
    const auto [at, added] =
        out[AsIndex(matches.first[i])].try_emplace(std::move(scanned), rank);
    at->second = std::min(at->second, rank);
  }
  return out;
}

// Appends the rule, changed to fit the scanned dimensions of its parameters. If
// these dimensions are the same for all parameters, appends one changed rule.
// Otherwise appends a changed copy for each stack that fits, and then the
// original rule. A rule that cannot be changed to fit is appended unchanged.
void AppendFitted(const Rule& rule, const Matched& matched, char separator,
                  const RuleSet& rules, std::vector<Rule>& out) {
  const bool one = std::all_of(
      matched.begin(), matched.end(), [&](const Matched::value_type& other) {
        return other.first.dims == matched.begin()->first.dims;
      });
  for (const auto& [scanned, rank] : matched) {
    if (scanned.dims.empty() || !Fits(rule, scanned, rank, rules)) continue;
    Rule fitted = WithDims(rule, scanned.dims, rules);
    if (one) {
      out.push_back(std::move(fitted));
      return;
    }
    // A pattern with `^` gets no copy. It may require the start of a name, and
    // the path of the stack could then not precede the match.
    if (rule.match.find('^') != std::string::npos) continue;
    fitted.match = PathPattern(scanned.path, separator, rule.separator) +
                   "(?:" + rule.match + ")";
    out.push_back(std::move(fitted));
  }
  out.push_back(rule);
}

}  // namespace

void FitPacksToStacks(RuleSet& rules, const Manifest& manifest) {
  const auto is_stacked = [](const TensorType& type) {
    return type.shape && type.shape->size() > 2;
  };
  if (std::none_of(manifest.types.begin(), manifest.types.end(), is_stacked) ||
      std::none_of(rules.rules.begin(), rules.rules.end(), IsOfPack)) {
    return;
  }
  const Groups groups = GroupsOf(manifest);
  const LayerStacks stacks = StacksOf(groups, manifest.separator);
  if (stacks.stacks.empty()) return;
  const auto matched = MatchedBy(rules, groups, stacks, manifest.separator);
  std::vector<Rule> fitted;
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    const Rule& rule = rules.rules[i];
    const bool same = !IsOfPack(rule) || (ListOf(rule.spec, rules) == nullptr &&
                                          rule.modes.empty());
    if (same) {
      fitted.push_back(rule);
    } else {
      AppendFitted(rule, matched[i], manifest.separator, rules, fitted);
    }
  }
  rules.rules = std::move(fitted);
}

}  // namespace shardc
