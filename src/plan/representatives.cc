// Chooses the first parameter of each group as its representative. The
// parameters of a group have the same layout, and their names differ only in
// numbers. A search compiles only the representatives for many meshes, which is
// faster than compiling all parameters. For example, a model has 256 experts in
// each of 58 layers:
//
//   layers.0.experts.0.up.weight to layers.57.experts.255.up.weight
//     -> layers.0.experts.0.up.weight represents 14,848 parameters
//
// If the rule of a representative has `like`, the parameter that the rule names
// is also compiled, because its spec is copied.
#include "plan/representatives.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "facts/parameters.h"
#include "model/name.h"
#include "plan/placement.h"
#include "roles/role.h"
#include "source/finding.h"
#include "source/size.h"

namespace shardc {
namespace {

class Grouping {
 public:
  Grouping(const Compiled& compiled, const ModelConfig* model)
      : c_(compiled), model_(model) {}

  Representatives Take(RuleSet rules) {
    FindGroups();
    AddLikeTargets();
    Representatives out;
    TakeManifest(out);
    out.rules = std::move(rules);
    TakePlaces(out);
    return out;
  }

 private:
  void FindGroups() {
    const auto& params = c_.plan.params;
    first_.reserve(params.size());
    std::unordered_map<std::string, uint32_t> first_of;
    // The parameters of a group have the same quantisation block.
    std::optional<QuantisedModules> modules;
    if (model_ != nullptr &&
        !(model_->quant_blocks.empty() && model_->unquantised.empty())) {
      modules.emplace(*model_);
    }
    const char separator = c_.manifest.separator;
    std::string key;
    for (uint32_t i = 0; i < params.size(); ++i) {
      const std::string_view name = c_.plan.names[i];
      key = std::to_string(params[i].layout) + "\n";
      if (modules && modules->Any()) {
        const QuantisedBlock* const block = modules->Of(
            name, separator,
            LeafOfWord(SplitName(name, separator).back()) != Leaf::kOther);
        key += block == nullptr
                   ? "-"
                   : std::to_string(block - modules->blocks().data());
        key += "\n";
      }
      AppendTemplate(name, separator, key);
      const auto found = first_of.find(key);
      first_.push_back(found == first_of.end() ? i : found->second);
      if (found == first_of.end()) {
        first_of.emplace(key, i);
        kept_.insert(i);
      }
    }
  }

  // Adds the parameters from which representatives copy their specs (`like`).
  // Also adds the parameters from which the added parameters copy theirs.
  void AddLikeTargets() {
    std::set<uint32_t> open = kept_;
    while (!open.empty()) {
      std::set<std::string, std::less<>> names;
      for (const uint32_t tensor : open) AddTargetsOf(tensor, names);
      open.clear();
      if (names.empty()) return;
      for (uint32_t i = 0; i < c_.plan.names.size(); ++i) {
        if (names.contains(c_.plan.names[i]) && kept_.insert(i).second) {
          open.insert(i);
        }
      }
    }
  }

  void AddTargetsOf(uint32_t tensor,
                    std::set<std::string, std::less<>>& names) const {
    const int32_t at = c_.matches.first[tensor];
    if (at == kNoRule) return;
    const Rule& rule = c_.rules.rules[AsIndex(at)];
    for (const Mode mode : kAllModes) {
      const auto* like = std::get_if<SpecLike>(&SourceOf(rule, mode));
      if (like == nullptr) continue;
      auto name =
          c_.matcher->Rewrite(AsIndex(at), c_.manifest.tensors[tensor].name,
                              c_.manifest.separator, like->rewrite);
      if (name) names.insert(std::move(*name));
    }
  }

  void TakeManifest(Representatives& out) const {
    const Manifest& from = c_.manifest;
    out.manifest.types = from.types;
    out.manifest.model = from.model;
    out.manifest.naming = from.naming;
    out.manifest.separator = from.separator;
    out.manifest.source = from.source;
    out.manifest.texts = from.texts;
    out.manifest.plain_names = from.plain_names;
    out.manifest.described = from.described;
    std::vector<uint32_t> place(from.tensors.size(), 0);
    for (const uint32_t tensor : kept_) {
      place[tensor] = static_cast<uint32_t>(out.manifest.tensors.size());
      out.manifest.tensors.push_back(from.tensors[tensor]);
    }
    out.counts.resize(out.manifest.tensors.size());
    out.of.reserve(from.tensors.size());
    for (uint32_t i = 0; i < from.tensors.size(); ++i) {
      const uint32_t group = place[first_[i]];
      out.of.push_back(group);
      ++out.counts[group];
    }
  }

  // Counts the placed parameters of each group by the index in their names,
  // such as the number of an expert. A parameter without a valid index is
  // skipped: either the compiler has already reported the parameter, or the
  // mesh lacks the axis of the rule's `place`, so that the parameter is not
  // placed.
  void TakePlaces(Representatives& out) const {
    out.placed.resize(out.manifest.tensors.size());
    const auto& rules = c_.rules.rules;
    const bool places = std::any_of(
        rules.begin(), rules.end(),
        [](const Rule& rule) { return rule.placement.has_value(); });
    if (!places) return;
    Findings unreported;
    const Placements placements =
        Placements::Compile(rules, c_.manifest, unreported);
    LikeChains like(c_, unreported);
    for (uint32_t i = 0; i < c_.manifest.tensors.size(); ++i) {
      const ParamLayout& layout = c_.plan.layouts[c_.plan.params[i].layout];
      if (PlacementAxis(c_.plan, layout).empty()) continue;
      SpecOrigin by{.rule = layout.rule, .tensor = i};
      if (!rules[AsIndex(by.rule)].placement) {
        by = like.Follow(i, Mode::kTrain).value_or(SpecOrigin{});
      }
      if (by.rule == kNoRule || !rules[AsIndex(by.rule)].placement) continue;
      const auto at = AsIndex(by.rule);
      const int64_t count = placements.Count(at);
      const int64_t index =
          placements.Index(rules[at], at, c_.manifest, by.tensor);
      if (index < 0 || index >= count) continue;
      Representatives::Placed& placed = out.placed[out.of[i]];
      placed.count = count;
      ++placed.parameters[index];
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      auto& placement = out.rules.rules[i].placement;
      if (placement) placement->count = placements.Count(i);
    }
  }

  const Compiled& c_;
  const ModelConfig* model_;
  // Indexed by tensor: the first tensor of the tensor's group.
  std::vector<uint32_t> first_;
  // The representatives, and the parameters from which they copy specs
  // (`like`).
  std::set<uint32_t> kept_;
};

}  // namespace

std::map<int64_t, int64_t> Representatives::Placed::Along(
    int64_t axis_size) const {
  std::map<int64_t, int64_t> out;
  for (const auto& [index, members] : parameters) {
    out[index * axis_size / count] += members;
  }
  return out;
}

Representatives RepresentativesOf(const Compiled& compiled, RuleSet rules,
                                  const ModelConfig* model) {
  return Grouping(compiled, model).Take(std::move(rules));
}

std::shared_ptr<facts::TargetParameters> ParametersOfChosen(
    const Compiled& whole, const Compiled& few) {
  return std::make_shared<facts::TargetParameters>(
      whole.Parameters(), whole.plan.names, few.plan.names);
}

namespace {

// Compares the names of modules with the lists of a quantisation_config. An
// entry is a pattern, a name, or a class of modules:
//
//   re:.*down_proj       all modules whose name begins with a match
//   *.down_proj          the same with a wildcard
//   layers.0.mlp         the module, those below it, and below any prefix
//   Linear               all projections, if no other entry names the module
//
// A name applies to prefixes too, because the trees of one model differ in
// them. If a pattern cannot be read, no module has a known block.

// Returns whether an entry is a class such as `Linear`, and not a name.
bool IsClass(std::string_view text) {
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z' &&
         text.find('.') == std::string_view::npos;
}

}  // namespace

QuantisedModules::QuantisedModules(const ModelConfig& model)
    : blocks_(model.quant_blocks) {
  if (blocks_.empty()) {
    blocks_.push_back({{}, model.quant_group.value_or(1), model.quant_rows});
  }
  for (const QuantisedBlock& block : blocks_) {
    targets_.push_back(Read(block.targets));
  }
  excluded_ = Read(model.unquantised);
}

QuantisedModules::Entries QuantisedModules::Read(
    const std::vector<std::string>& list) {
  Entries out;
  for (const std::string& text : list) {
    std::string pattern;
    if (text.starts_with("re:")) {
      pattern = "^(?:" + text.substr(3) + ")";
    } else if (text.find('*') != std::string::npos) {
      for (const char c : text) {
        pattern += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
      }
      pattern = "^(?:" + pattern + ")$";
    } else {
      out.names.insert(text);
      continue;
    }
    Findings ignored;
    auto regex = Regex::Compile({pattern, {}, '.'}, ignored);
    unknown_ |= !regex;
    if (regex) out.patterns.push_back(*std::move(regex));
  }
  return out;
}

// Looks up all sequences of complete parts of the module's name, because a list
// may have thousands of names.
bool QuantisedModules::Entries::Name(std::string_view module) const {
  size_t begin = 0;
  while (!names.empty() && begin < module.size()) {
    for (size_t end = module.find('.', begin);;
         end = module.find('.', end + 1)) {
      if (names.contains(module.substr(begin, end - begin))) return true;
      if (end == std::string_view::npos) break;
    }
    const size_t dot = module.find('.', begin);
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const Regex& one) { return one.Found(module); });
}

bool QuantisedModules::Any() const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [](const QuantisedBlock& one) {
                       return one.columns > 1 || one.rows > 1;
                     });
}

const QuantisedBlock* QuantisedModules::Of(std::string_view weight,
                                           char separator, bool leaf) const {
  std::string module(leaf ? weight.substr(0, weight.rfind(separator)) : weight);
  std::replace(module.begin(), module.end(), separator, '.');
  if (unknown_ || excluded_.Name(module)) return nullptr;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (targets_[i].Name(module)) return &blocks_[i];
  }
  for (const QuantisedBlock& block : blocks_) {
    if (block.targets.empty() ||
        std::any_of(block.targets.begin(), block.targets.end(), IsClass)) {
      return &block;
    }
  }
  return nullptr;
}

}  // namespace shardc
