// Compiles a target. For each parameter, finds the first rule that matches the
// parameter's name (the winner). The winner determines the spec and the shard:
//
//   names --match--> winner --spec of each mode--> resolved spec
//         --legalize by shape--> layout --> parameter
//
// A model has many parameters and few distinct layouts. Two parameters share a
// layout if they have the same winner, shape and dtype, and if their specs come
// from the same rules. Therefore a spec is resolved once for each rule and
// mode, and legalized once for each layout. Only `like`, by which a rule copies
// the spec of another parameter, is followed for each parameter.
#include "plan/compile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "facts/parameters.h"
#include "legalize/legalize.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "plan/axis_facts.h"
#include "plan/fingerprint.h"
#include "plan/placement.h"
#include "roles/described.h"
#include "source/list.h"
#include "source/size.h"
#include "step/role_uses.h"

namespace shardc {
namespace {

// Returns the mesh with the axes that specs name and the mesh lacks, each with
// size 1. eformer knows no names but those of the mesh: it drops such an axis
// when it corrects the spec, where another compat mode reports the name.
Mesh WithNamedAxes(const RuleSet& rules, Mesh mesh) {
  const auto add = [&](const SpecSource& source) {
    const auto* list = std::get_if<SpecList>(&source);
    if (list == nullptr) return;
    for (const SpecEntry& entry : list->entries) {
      for (const SpecName& name : entry.names) {
        if (!rules.IsLogical(name.text) && !mesh.Find(name.text)) {
          mesh.axes.push_back({name.text, 1});
        }
      }
    }
  };
  for (const Rule& rule : rules.rules) {
    add(rule.spec);
    for (const auto& [mode, source] : rule.modes) add(source);
  }
  return mesh;
}

constexpr uint32_t kNoLayout = UINT32_MAX;
// The dimension of the heads in the specs of keys and values.
constexpr size_t kKvHeadDim = 2;

// Returns train, followed by the other requested modes in the order of
// kAllModes.
std::vector<Mode> ComputedModes(const std::vector<Mode>& asked) {
  std::vector<Mode> modes = {Mode::kTrain};
  for (Mode mode : kAllModes) {
    if (mode != Mode::kTrain && IsAmong(mode, asked)) {
      modes.push_back(mode);
    }
  }
  return modes;
}

// Appends each finding (error or warning) only once. Otherwise, a spec that two
// modes share, or a bundle that two rules share, would report a mistake twice.
class UniqueFindings {
 public:
  void Append(const Findings& own, Findings& to) {
    for (const Finding& finding : own.all()) {
      const Place& at = finding.place;
      if (seen_.emplace(at.source.get(), at.begin, finding.message).second) {
        to.Add(finding);
      }
    }
  }

 private:
  std::set<std::tuple<const Source*, size_t, std::string>> seen_;
};

class Compiler {
 public:
  // `matched` is an earlier result for the same patterns and names, whose
  // matches are reused. If `matched` is null, the names are matched with the
  // patterns.
  Compiler(Compiled& compiled, const Compiled* matched, Findings& findings)
      : c_(compiled), matched_(matched), findings_(findings) {}

  bool Run();

 private:
  bool CompilePatterns();
  void ResolveRules();
  void MatchNames();
  void FindKvHeads();
  void PlanParams();
  void PlanRules();
  ActivationLayout LegalLayout(std::string_view tensor, Resolved resolved,
                               IllegalPolicy illegal) const;
  void PlanAttention();
  void PlanActivations();
  void MarkWeightDecay();

  bool IsScalar(const TensorType& type) const {
    return shardc::IsScalar(type, c_.CompatMode());
  }
  std::optional<int64_t> CoordinateOf(uint32_t tensor, int32_t rule);
  uint32_t LayoutFor(uint32_t tensor, int32_t rule);
  ParamLayout MakeLayout(int32_t rule, uint32_t type,
                         const std::vector<SpecOrigin>& origins, uint32_t kv);
  ModeLayout MakeMode(Mode mode, int32_t rule, const SpecOrigin& origin,
                      bool is_like, const DimParts& dim_parts,
                      const TensorType& type, const KvHeadsDim* kv);

  Compiled& c_;
  const Compiled* const matched_;
  Findings& findings_;
  // The modes to compile: train first, then the other requested modes.
  std::vector<Mode> modes_;
  // Indexed by rule: the resolved spec of each mode. A mode is absent if its
  // spec is copied from another parameter (`like`).
  std::vector<std::map<Mode, Resolved>> resolved_;
  // The last part is the number of the dimension of KV heads (KvHeadDims).
  using LayoutKey =
      std::tuple<int32_t, uint32_t, std::vector<SpecOrigin>, uint32_t>;
  std::map<LayoutKey, uint32_t> layouts_;
  // The layouts of parameters whose rule has no `like`, keyed by rule and type
  // (shape and dtype). The small cache `last_layouts_` is searched first.
  struct Known {
    uint64_t key = 0;
    uint32_t layout = kNoLayout;
  };
  std::unordered_map<uint64_t, uint32_t> plain_layouts_;
  std::array<Known, 1024> last_layouts_;
  // Indexed by layout: the number of parameters with this layout.
  std::vector<int64_t> counts_;
  // Indexed by type (shape and dtype): whether the type is a scalar.
  std::vector<bool> scalar_;
  // Indexed by rule: whether the rule has a `like`.
  std::vector<bool> has_like_;
  // Indexed by rule: whether its parameters may be placed, which means that
  // only the devices at one coordinate of a mesh axis hold them. They may be
  // placed if the rule has a `place`. They also may if the rule has a `like`,
  // because the rule of the parameter that `like` names may have a `place`.
  std::vector<bool> may_place_;
  LikeChains like_{c_, findings_};
  Placements placements_;
  // The dimensions of KV heads; nullopt without `kv_replicate`.
  std::optional<KvHeadDims> kv_heads_;
  // The axes of the axis rule for KV heads in each mode.
  std::map<Mode, AxisGroup> kv_axes_;
  // The patterns that exclude parameters from weight decay, if there are any.
  std::optional<Matcher> decay_exclusions_;
};

bool Compiler::CompilePatterns() {
  const size_t before = findings_.errors();
  SettleSeparators(c_.rules, c_.manifest.separator, c_.CompatMode(), findings_);
  if (findings_.errors() > before) return false;
  if (matched_ != nullptr) {
    c_.matcher = matched_->matcher;
    c_.uses = matched_->uses;
  } else if (auto matcher =
                 Matcher::Compile(PatternsOf(c_.rules.rules), findings_)) {
    c_.matcher = std::make_shared<const Matcher>(std::move(*matcher));
    c_.uses = std::make_shared<step::ParameterUses>();
  }
  const WeightDecayExclusions& exclusions =
      c_.options.weight_decay_exclude ? c_.options.weight_decay_exclude
                                      : c_.rules.weight_decay_exclude;
  c_.plan.has_weight_decay = exclusions.has_value();
  if (exclusions && !exclusions->empty()) {
    std::vector<Pattern> patterns;
    for (const NamePattern& pattern : *exclusions) {
      const char own = PatternSeparator(pattern.match);
      // A compat mode converts no separators, like the library it imitates.
      const bool converts = c_.CompatMode() == Compat::kNone && own != 0;
      patterns.push_back({pattern.match, pattern.place,
                          converts ? own : c_.manifest.separator});
    }
    decay_exclusions_ = Matcher::Compile(patterns, findings_);
  }
  placements_ = Placements::Compile(c_.rules.rules, c_.manifest, findings_);
  return c_.matcher != nullptr;
}

void Compiler::ResolveRules() {
  const auto& rules = c_.rules.rules;
  resolved_.resize(rules.size());
  has_like_.resize(rules.size());
  UniqueFindings reported;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (Mode mode : kAllModes) {
      const SpecSource& source = SourceOf(rules[i], mode);
      if (std::holds_alternative<SpecLike>(source)) {
        has_like_[i] = true;
        continue;
      }
      Findings own;
      auto resolved = c_.resolver->Resolve(source, mode, own);
      if (resolved) {
        if (c_.CompatMode() == Compat::kNone) KeepExpertsWhole(*resolved);
        resolved_[i].emplace(mode, std::move(*resolved));
      } else {
        reported.Append(own, findings_);
      }
    }
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    may_place_.push_back(rules[i].placement || has_like_[i]);
    if (rules[i].placement) {
      CheckPlacedSpecs(*rules[i].placement, resolved_[i], findings_);
    }
  }
}

void Compiler::MatchNames() {
  c_.plan.names = NamesOf(c_.manifest.tensors);
  if (matched_ != nullptr) {
    c_.matches = matched_->matches;
    return;
  }
  c_.matches = c_.matcher->Match(c_.plan.names, c_.manifest.separator,
                                 {.threads = c_.options.threads});
}

ModeLayout Compiler::MakeMode(Mode mode, int32_t rule, const SpecOrigin& origin,
                              bool is_like, const DimParts& dim_parts,
                              const TensorType& type, const KvHeadsDim* kv) {
  ModeLayout out;
  out.mode = mode;
  if (origin.rule != kNoRule) {
    out.why = resolved_[AsIndex(origin.rule)].at(mode);
    out.resolved = out.why.spec;
    out.spec_rule = origin.rule;
  }
  // A spec that is copied from another parameter (`like`) is shortened or
  // padded with nulls to this parameter's rank. This change is not listed in
  // `edits`.
  if (is_like && type.shape) out.resolved.resize(type.shape->size());

  LegalizeOptions options;
  options.illegal = c_.IllegalFor(rule);
  options.min_size = c_.MinSizeFor(rule);
  options.compat = c_.CompatMode();
  options.parts = dim_parts;
  Spec wanted = out.resolved;
  KvReplication replication;
  if (kv != nullptr) {
    replication = ReplicateKvHeads(*kv, c_.mesh, kv_axes_.at(mode), wanted);
  }
  Legal legal = LegalizeStored(wanted, type, c_.mesh, options);
  // An axis that the mesh lacks is reported by Legalize, and small tensors are
  // replicated.
  if (replication.problem && !IsReplicated(legal.spec) &&
      std::none_of(
          legal.problems.begin(), legal.problems.end(),
          [](const Edit& one) { return one.reason == Reason::kMissingAxis; })) {
    legal.problems.insert(legal.problems.begin(),
                          std::move(*replication.problem));
  }
  out.spec = std::move(legal.spec);
  out.edits = std::move(legal.edits);
  out.problems = std::move(legal.problems);
  if (!out.problems.empty()) {
    // The illegal spec is stored uncorrected, without the sizes of its shards.
    out.spec = out.resolved;
    out.edits.clear();
    return out;
  }
  if (!type.shape) return out;
  if (replication.replicas && !out.spec.empty()) out.kv = replication.replicas;

  out.shard_shape = ShardShape(c_.mesh, *type.shape, out.spec);
  if (!type.dtype) return out;
  const auto elements = CheckedProduct(*out.shard_shape);
  if (elements) out.bytes_per_device = BytesOf(*elements, *type.dtype);
  if (const auto bytes = type.Bytes()) {
    int64_t parts = 1;
    for (const AxisGroup& group : out.resolved) {
      const auto of_group = c_.mesh.Parts(group);
      const auto all = of_group ? CheckedMul(parts, *of_group) : of_group;
      parts = all.value_or(std::numeric_limits<int64_t>::max());
    }
    out.uncorrected_bytes_per_device = *bytes / parts;
  }
  return out;
}

ParamLayout Compiler::MakeLayout(int32_t rule, uint32_t type,
                                 const std::vector<SpecOrigin>& origins,
                                 uint32_t kv) {
  ParamLayout layout;
  layout.rule = rule;
  layout.type = type;
  layout.unmatched = rule == kNoRule && !IsScalar(c_.manifest.types[type]);
  // The parts are a property of the tensor, so all modes have those of the rule
  // from which the spec in train comes.
  DimParts parts;
  if (!origins.empty() && origins[0].rule != kNoRule) {
    parts = c_.rules.rules[AsIndex(origins[0].rule)].parts;
  }
  Spec sharded;  // has an axis in each dimension that some mode shards
  for (size_t m = 0; m < modes_.size(); ++m) {
    const bool is_like =
        rule != kNoRule && std::holds_alternative<SpecLike>(SourceOf(
                               c_.rules.rules[AsIndex(rule)], modes_[m]));
    const ModeLayout& mode = layout.modes.emplace_back(MakeMode(
        modes_[m], rule, origins[m], is_like, parts, c_.manifest.types[type],
        kv_heads_ ? kv_heads_->At(kv) : nullptr));
    layout.uneven =
        layout.uneven ||
        (mode.shard_shape &&
         !DividesEvenly(c_.mesh, *c_.manifest.types[type].shape, mode.spec));
    sharded.resize(std::max(sharded.size(), mode.spec.size()));
    for (size_t dim = 0; dim < mode.spec.size(); ++dim) {
      if (sharded[dim].empty()) sharded[dim] = mode.spec[dim];
    }
  }
  layout.parts = ShardedParts(parts, sharded);
  const auto& shape = c_.manifest.types[type].shape;
  if (shape) layout.parts = NumbersOfEqual(std::move(layout.parts), *shape);
  return layout;
}

uint32_t Compiler::LayoutFor(uint32_t tensor, int32_t rule) {
  const uint32_t type = c_.manifest.tensors[tensor].type;
  const uint32_t kv = kv_heads_ ? kv_heads_->Of(tensor) : 0;
  const bool plain = kv == 0 && (rule == kNoRule || !has_like_[AsIndex(rule)]);
  const uint64_t key = (uint64_t{static_cast<uint32_t>(rule)} << 32) | type;
  Known& last = last_layouts_[((key >> 32) * 31 + type) % last_layouts_.size()];
  if (plain) {
    if (last.key == key && last.layout != kNoLayout) return last.layout;
    const auto found = plain_layouts_.find(key);
    if (found != plain_layouts_.end()) {
      last = {key, found->second};
      return found->second;
    }
  }
  std::vector<SpecOrigin> origins;
  for (Mode mode : modes_) {
    if (rule == kNoRule) {
      origins.push_back({});
      continue;
    }
    const auto origin = like_.Follow(tensor, mode);
    // Follow() has added an error, so Compile() returns no plan.
    if (!origin) return 0;
    origins.push_back(*origin);
  }
  const auto [at, inserted] =
      layouts_.try_emplace(LayoutKey{rule, type, origins, kv},
                           static_cast<uint32_t>(c_.plan.layouts.size()));
  if (inserted) {
    c_.plan.layouts.push_back(MakeLayout(rule, type, origins, kv));
  }
  if (plain) plain_layouts_.emplace(key, at->second);
  return at->second;
}

void Compiler::FindKvHeads() {
  kv_heads_.emplace(c_);
  for (const Mode mode : modes_) {
    for (const AttentionTensor& one : AttentionSpecs(*c_.resolver, mode, {})) {
      if (one.name == "key") {
        kv_axes_[mode] = AxesAt(one.resolved.spec, kKvHeadDim);
      }
    }
  }
}

void Compiler::PlanParams() {
  Plan& plan = c_.plan;
  const auto& tensors = c_.manifest.tensors;
  plan.params.reserve(tensors.size());
  for (const TensorType& type : c_.manifest.types) {
    scalar_.push_back(IsScalar(type));
  }
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    if (findings_.Full()) return;
    // A scalar cannot be sharded. No rule applies to a scalar, and a scalar is
    // not reported as unmatched.
    const bool scalar = scalar_[tensors[i].type];
    const int32_t rule = scalar ? kNoRule : c_.matches.first[i];
    PlannedParam param;
    param.layout = LayoutFor(i, rule);
    if (param.layout >= counts_.size()) counts_.resize(param.layout + 1);
    ++counts_[param.layout];
    if (rule != kNoRule && may_place_[AsIndex(rule)]) {
      const auto coordinate = CoordinateOf(i, rule);
      if (coordinate) plan.Place(param, *coordinate);
    }
    plan.params.push_back(param);
  }
}

// Returns the coordinate at which a tensor is placed, by the `place` of its
// rule or, if its rule only copies a spec (`like`), of the rule from which the
// copied spec comes. Returns nullopt if neither rule has a `place`.
std::optional<int64_t> Compiler::CoordinateOf(uint32_t tensor, int32_t rule) {
  auto at = AsIndex(rule);
  if (!c_.rules.rules[at].placement && has_like_[at] &&
      !findings_.HasErrors()) {
    const auto end = like_.Follow(tensor, Mode::kTrain);
    if (!end || end->rule == kNoRule) return std::nullopt;
    at = AsIndex(end->rule);
    tensor = end->tensor;
  }
  return placements_.Coordinate(c_.rules.rules[at], at, c_.manifest, tensor,
                                c_.mesh, findings_);
}

void Compiler::PlanRules() {
  Plan& plan = c_.plan;
  const auto matched = c_.matches.Counts(c_.rules.rules.size());
  for (const Rule& rule : c_.rules.rules) {
    PlannedRule planned{.match = rule.match, .source = rule.source_name};
    planned.matched = matched[plan.rules.size()];
    if (rule.place.HasPosition()) {
      planned.source +=
          ":" + std::to_string(rule.place.source->At(rule.place.begin).line);
    }
    plan.rules.push_back(std::move(planned));
    plan.placement_axes.push_back(rule.placement ? rule.placement->axis : "");
  }
  for (size_t i = 0; i < counts_.size(); ++i) {
    const int32_t rule = plan.layouts[i].rule;
    if (rule != kNoRule) plan.rules[AsIndex(rule)].params += counts_[i];
  }
}

// Returns the layout of a tensor of attention or of another activation, whose
// spec is legalized under the policy.
ActivationLayout Compiler::LegalLayout(std::string_view tensor,
                                       Resolved resolved,
                                       IllegalPolicy illegal) const {
  LegalizeOptions options;
  options.illegal = illegal;
  options.compat = c_.CompatMode();
  ActivationLayout layout;
  layout.tensor = tensor;
  layout.why = std::move(resolved);
  Legal legal = Legalize(layout.why.spec, std::nullopt, c_.mesh, options);
  layout.problems = std::move(legal.problems);
  if (layout.problems.empty()) {
    layout.edits = std::move(legal.edits);
    layout.spec = std::move(legal.spec);
  } else {
    layout.spec = layout.why.spec;
  }
  return layout;
}

void Compiler::PlanAttention() {
  for (Mode mode : c_.plan.modes) {
    ModeActivations attention;
    attention.mode = mode;
    for (AttentionTensor& tensor : AttentionSpecs(*c_.resolver, mode, {})) {
      ActivationLayout layout = LegalLayout(
          tensor.name, std::move(tensor.resolved), c_.IllegalFor(kNoRule));
      const bool keys = layout.tensor == "key" || layout.tensor == "value";
      if (keys && layout.problems.empty() && layout.spec.size() > kKvHeadDim) {
        AxisGroup& heads = layout.spec[kKvHeadDim];
        heads = AttentionKvAxes(c_.rules, c_.mesh, heads);
      }
      attention.tensors.push_back(std::move(layout));
    }
    c_.plan.attention.push_back(std::move(attention));
  }
}

// An activation that the rules do not state never makes a plan illegal: nothing
// states that the model has it. What it cannot be sharded over is left out, and
// the plan lists it as a correction.
void Compiler::PlanActivations() {
  const IllegalPolicy stated = c_.IllegalFor(kNoRule);
  // eformer drops all axes of a dimension that has one which the mesh lacks.
  const IllegalPolicy derived = c_.CompatMode() == Compat::kEformer
                                    ? IllegalPolicy::kDrop
                                    : IllegalPolicy::kShrink;
  for (Mode mode : c_.plan.modes) {
    auto found = ActivationSpecs(*c_.resolver, mode, findings_);
    if (!found) return;
    ModeActivations activations;
    activations.mode = mode;
    for (ActivationSpec& one : *found) {
      ActivationLayout layout =
          LegalLayout(one.name, one.resolved, one.stated ? stated : derived);
      if (!one.stated && !layout.problems.empty()) {
        layout = LegalLayout(one.name, std::move(one.resolved),
                             IllegalPolicy::kShrink);
      }
      layout.place = one.place;
      activations.tensors.push_back(std::move(layout));
    }
    c_.plan.activations.push_back(std::move(activations));
  }
}

void Compiler::MarkWeightDecay() {
  if (!c_.plan.has_weight_decay) return;
  c_.plan.weight_decay.assign(c_.plan.names.size(), true);
  if (!decay_exclusions_) return;
  const Matches excluded = decay_exclusions_->Match(
      c_.plan.names, c_.manifest.separator, {.threads = c_.options.threads});
  for (size_t i = 0; i < excluded.first.size(); ++i) {
    c_.plan.weight_decay[i] = excluded.first[i] == Matches::kNone;
  }
}

bool Compiler::Run() {
  // The compat mode changes how specs are resolved, and an option may override
  // the mode of the files. So the mode that applies is determined first.
  c_.rules.policy.compat = c_.CompatMode();
  auto resolver = Resolver::Make(c_.rules,
                                 c_.rules.policy.compat == Compat::kEformer
                                     ? WithNamedAxes(c_.rules, c_.mesh)
                                     : c_.mesh,
                                 findings_);
  CompilePatterns();
  if (!resolver) return false;
  c_.resolver = std::move(resolver);
  for (Rule& rule : c_.rules.rules) {
    if (!rule.placement) continue;
    rule.placement->axis = c_.resolver->PlacementAxis(rule.placement->axis);
  }
  modes_ = ComputedModes(c_.options.modes);
  // Rules are resolved even if a pattern is invalid, so that invalid patterns
  // and unknown names are reported together.
  ResolveRules();
  if (findings_.HasErrors()) return false;
  MatchNames();

  Plan& plan = c_.plan;
  plan.mesh = c_.mesh;
  for (Mode mode : kAllModes) {
    if (IsAmong(mode, c_.options.modes)) {
      plan.modes.push_back(mode);
    }
  }
  plan.types = c_.manifest.types;
  plan.by_name = std::move(c_.manifest.by_name);
  plan.plain_names = c_.manifest.plain_names;
  if (c_.rules.policy.kv_replicate.value_or(false)) FindKvHeads();
  PlanParams();
  if (findings_.HasErrors()) return false;
  PlanRules();
  PlanAttention();
  PlanActivations();
  if (findings_.HasErrors()) return false;
  MarkWeightDecay();
  if (auto refined = RefinedMeshOf(plan)) {
    c_.step_mesh = std::move(*refined);
  } else {
    findings_.Add(code::kUsage, {},
                  "`kv_replicate`: layers with different numbers of KV heads "
                  "need factors of one axis that do not divide each other",
                  "give these layers different axes, or leave out "
                  "`kv_replicate`");
    return false;
  }
  plan.summary = Summarize(plan);
  return true;
}

}  // namespace

IllegalPolicy Compiled::IllegalFor(int32_t rule) const {
  if (options.policy.illegal) return *options.policy.illegal;
  if (rule >= 0 && rules.rules[AsIndex(rule)].illegal) {
    return *rules.rules[AsIndex(rule)].illegal;
  }
  return rules.policy.illegal.value_or(IllegalPolicy::kError);
}

int64_t Compiled::MinSizeFor(int32_t rule) const {
  if (options.policy.min_size) return *options.policy.min_size;
  if (rule >= 0 && rules.rules[AsIndex(rule)].min_size) {
    return *rules.rules[AsIndex(rule)].min_size;
  }
  return rules.policy.min_size.value_or(0);
}

UnmatchedPolicy Compiled::Unmatched() const {
  if (options.policy.unmatched) return *options.policy.unmatched;
  return rules.policy.unmatched.value_or(UnmatchedPolicy::kError);
}

bool Compiled::HasIllegal() const {
  const auto illegal = [](const ActivationLayout& layout) {
    return !layout.problems.empty();
  };
  const auto any = [&](const ModeActivations& mode) {
    return std::any_of(mode.tensors.begin(), mode.tensors.end(), illegal);
  };
  return plan.summary.illegal > 0 ||
         std::any_of(plan.attention.begin(), plan.attention.end(), any) ||
         std::any_of(plan.activations.begin(), plan.activations.end(), any);
}

const facts::ParameterTable& Compiled::Parameters() const {
  return parameters->Of(manifest, options.config.get(),
                        manifest.described == nullptr ? nullptr : family.get(),
                        rules.model.get(), *uses);
}

const FigureAxes& Compiled::Axes() const { return axes->Of(*this); }

Compat Compiled::CompatMode() const {
  if (options.policy.compat) return *options.policy.compat;
  return rules.policy.compat.value_or(Compat::kNone);
}

namespace {

std::unique_ptr<Compiled> CompileWith(Mesh mesh, RuleSet rules,
                                      Manifest manifest,
                                      const CompileOptions& options,
                                      const Compiled* matched,
                                      Findings& findings) {
  auto compiled = std::make_unique<Compiled>();
  compiled->mesh = std::move(mesh);
  compiled->rules = std::move(rules);
  compiled->manifest = std::move(manifest);
  compiled->options = options;
  compiled->family = matched != nullptr
                         ? matched->family
                         : std::make_shared<const DescribedRoles>(
                               compiled->manifest.described);
  compiled->parameters = matched != nullptr
                             ? matched->parameters
                             : std::make_shared<facts::TargetParameters>();
  compiled->axes = std::make_shared<TargetAxes>();
  const size_t before = findings.errors();
  if (!Compiler(*compiled, matched, findings).Run() ||
      findings.errors() > before) {
    return nullptr;
  }
  compiled->plan.axes = PlanAxesOf(*compiled);
  return compiled;
}

}  // namespace

std::unique_ptr<Compiled> Compile(Mesh mesh, RuleSet rules, Manifest manifest,
                                  const CompileOptions& options,
                                  Findings& findings) {
  return CompileWith(std::move(mesh), std::move(rules), std::move(manifest),
                     options, nullptr, findings);
}

std::unique_ptr<const Compiled> CompileOn(const Compiled& earlier, Mesh mesh,
                                          RuleSet rules, Findings& findings) {
  Manifest manifest = earlier.manifest;
  // Compile() has moved by_name to the plan, so it is copied back.
  manifest.by_name = earlier.plan.by_name;
  return CompileWith(std::move(mesh), std::move(rules), std::move(manifest),
                     earlier.options, &earlier, findings);
}

}  // namespace shardc
