// Compiles a target (a mesh, rules and a model's parameters) to a plan:
// resolves the specs of the rules for the mesh, matches names with rules, and
// legalizes the spec of each parameter by its shape.
#ifndef SHARDC_PLAN_COMPILE_H_
#define SHARDC_PLAN_COMPILE_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "legalize/legalize.h"
#include "match/match.h"
#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/plan.h"
#include "resolve/resolve.h"
#include "source/finding.h"

namespace shardc::step {
class ParameterUses;
}  // namespace shardc::step

namespace shardc::facts {
struct ParameterTable;
class TargetParameters;
}  // namespace shardc::facts

namespace shardc {

class DescribedRoles;
class TargetAxes;
struct FigureAxes;
struct PlannedStages;

// Options of the command line, which override the same settings in files.
struct CompileOptions {
  std::vector<Mode> modes = {kAllModes.begin(), kAllModes.end()};
  // Overrides the policies of rules files and the settings of rules.
  Policy policy;
  int threads = 1;  // The number of threads, which does not change the result.
  // If given, overrides the exclusions from weight decay in the rules files.
  WeightDecayExclusions weight_decay_exclude;
  // The model's configuration, by which facts about the parameters are found;
  // null if there is none.
  std::shared_ptr<const ModelConfig> config;
};

// Returns a configuration for CompileOptions::config.
inline std::shared_ptr<const ModelConfig> SharedConfig(
    const std::optional<ModelConfig>& config) {
  return config ? std::make_shared<const ModelConfig>(*config) : nullptr;
}

// The result of compiling a target, together with the compiled inputs. It
// cannot be copied, because the names in `plan` point into `manifest`.
struct Compiled {
  Compiled() = default;
  Compiled(Compiled&&) = default;
  Compiled& operator=(Compiled&&) = default;

  Mesh mesh;
  // The mesh with factors in place of axes that have sub-axes in the plan's
  // specs (RefinedMesh() in model/mesh_layout.h). The program of a step runs on
  // this mesh. Without `kv_replicate` it is `mesh`.
  Mesh step_mesh;
  RuleSet rules;
  Manifest manifest;
  CompileOptions options;
  std::optional<Resolver> resolver;
  // The compiled patterns. A result of CompileOn() shares them with the earlier
  // result from which it was compiled.
  std::shared_ptr<const Matcher> matcher;
  // What the parameters do by the `model:` section of the rules. A result of
  // CompileOn() shares it with the earlier result.
  std::shared_ptr<step::ParameterUses> uses;
  // What the description of the model's family shows; never null. A result of
  // CompileOn() shares it with the earlier result.
  std::shared_ptr<const DescribedRoles> family;
  // What the parameters do, by all evidence. A result of CompileOn() shares it
  // with the earlier result. Read by Parameters().
  std::shared_ptr<facts::TargetParameters> parameters;
  // What the axes of the mesh are for in figures. Read by Axes().
  std::shared_ptr<TargetAxes> axes;
  Matches matches;  // The rules that match each tensor.
  Plan plan;
  // The stages of the pipeline that the inputs declare (planned_stages.h). Null
  // if they declare no stages, or if the stages are refused.
  std::shared_ptr<const PlannedStages> stages;
  // The mesh axis of the declared stages; empty if no stages are declared.
  std::string stage_axis;
  // The reasons why declared stages are refused; empty if they are not refused.
  std::vector<Finding> stage_findings;

  // These functions return a setting as it applies to the parameters of a rule
  // (-1 if no rule applies), or, for Unmatched() and CompatMode(), to all
  // parameters. A setting of the command line overrides the rule's own setting,
  // and the rule's own setting overrides the files' policy.
  IllegalPolicy IllegalFor(int32_t rule) const;
  int64_t MinSizeFor(int32_t rule) const;
  UnmatchedPolicy Unmatched() const;
  Compat CompatMode() const;
  // Returns the facts about the parameters, which are found at the first call.
  const facts::ParameterTable& Parameters() const;
  // Returns what the axes of the mesh are for in figures (axis_facts.h), which
  // is found at the first call.
  const FigureAxes& Axes() const;
  // Returns whether the spec of a parameter, or of a tensor of attention such
  // as the query, is illegal in one of the modes.
  bool HasIllegal() const;
  bool HasUnmatched() const { return plan.summary.unmatched > 0; }
};

// Compiles a target. Returns null after a finding if an input cannot be
// compiled, for example because of a bad regex, an unknown name, or a `like`
// whose target does not exist. Unmatched and illegal parameters are part of the
// result and not findings.
std::unique_ptr<Compiled> Compile(Mesh mesh, RuleSet rules, Manifest manifest,
                                  const CompileOptions& options,
                                  Findings& findings);

// Compiles a target for another mesh, and reuses the matches of names in
// `earlier`. `rules` may differ from the earlier rules only in axis rules,
// which map logical axes such as HEAD to mesh axes. Returns the same result and
// adds the same findings as Compile(). Neither function divides the model into
// stages (planned_stages.h).
std::unique_ptr<const Compiled> CompileOn(const Compiled& earlier, Mesh mesh,
                                          RuleSet rules, Findings& findings);

// Converts rules to patterns for the matcher. For a pattern that is not in a
// rule, finds whether the pattern is written for names with dots or with
// slashes.

// Returns one pattern for each rule, as views into the rules.
inline std::vector<Pattern> PatternsOf(std::span<const Rule> rules) {
  std::vector<Pattern> out;
  out.reserve(rules.size());
  for (const Rule& rule : rules) {
    out.push_back({rule.match, rule.match_place, rule.separator});
  }
  return out;
}

// Returns the separator of names that a pattern outside of the rules expects:
// `.` if the pattern has an escaped dot and no slash, `/` if it has a slash and
// no escaped dot, and 0 otherwise.
inline char PatternSeparator(std::string_view pattern) {
  const bool dot = pattern.find("\\.") != std::string_view::npos;
  const bool slash = pattern.find('/') != std::string_view::npos;
  if (dot == slash) return 0;
  return dot ? '.' : '/';
}

// Returns the layout in a mode, or the layout in train if the mode was not
// requested. Do not use the mode's index in Plan::modes instead: the modes of a
// layout begin with train even if train was not requested.
inline const ModeLayout& LayoutIn(const ParamLayout& layout, Mode mode) {
  for (const ModeLayout& one : layout.modes) {
    if (one.mode == mode) return one;
  }
  return layout.modes.front();
}

}  // namespace shardc

// Replicates KV heads that are fewer than the devices of their axes
// (`kv_replicate` of a rules file), as serving engines do: of n devices, device
// i has KV head i * heads / n, rounded down, which is the head that its query
// heads use. Of 8 KV heads of size 128 over tp:16, a device has one head, 128
// of 1024 columns, and each head is on two devices.
//
// The sharding is written with a factor of the axis (model/mesh_layout.h), such
// as `tp:(1)8`. So everything that reads a spec computes with one head for each
// device, without knowing about KV heads.

namespace shardc {

class JsonWriter;

// The dimension of a parameter that consists of KV heads.
struct KvHeadsDim {
  // The index of the dimension; -1 if the shape does not show which it is.
  int dim = -1;
  // The possible numbers of heads in ascending order. There are several if
  // layers differ and the size fits several of their numbers. Empty if it fits
  // none.
  std::vector<int64_t> heads = {};
  // Whether the parameter is a fused projection, whose dimension holds query
  // heads next to KV heads, or both keys and values.
  bool fused = false;
  auto operator<=>(const KvHeadsDim&) const = default;
};

// Sets RuleSet::kv_heads by the `model:` section and the configuration, which
// may be null, if the rules replicate KV heads.
void FindKvHeads(RuleSet& rules, const ModelConfig* model);

// Finds the KV heads of parameters: of projections to keys and values, and of
// their biases, scales, adapters and norms by head. Parameters of vision and
// audio towers next to a language model are not those of the configuration's
// heads, and are left out.
class KvHeadDims {
 public:
  // Keeps a reference to the inputs of `compiled`. Sets RuleSet::kv_heads by
  // the shapes and the `model:` section if there is no configuration.
  explicit KvHeadDims(Compiled& compiled);
  // Returns the number of the dimension of KV heads of a tensor, by which At()
  // returns it; 0 if the tensor has no KV heads. Tensors with equal dimensions
  // have the same number.
  uint32_t Of(uint32_t tensor);
  const KvHeadsDim* At(uint32_t number) const {
    return number == 0 ? nullptr : &found_[number - 1];
  }

 private:
  std::optional<KvHeadsDim> Find(uint32_t tensor) const;

  const Compiled& c_;
  bool language_ = false;
  std::vector<KvHeadsDim> found_;
};

// The result of ReplicateKvHeads.
struct KvReplication {
  std::optional<KvReplicas> replicas;
  std::optional<Edit> problem;
};
// Rewrites the axes of the dimension of KV heads in `spec`, if they are more
// devices than heads. If the heads cannot be replicated over these axes, leaves
// the spec unchanged and returns a problem. `head_axes` are the axes of the
// axis rule for KV heads in the mode.
KvReplication ReplicateKvHeads(const KvHeadsDim& of, const Mesh& mesh,
                               const AxisGroup& head_axes, Spec& spec);

// Returns what is wrong in a problem with the reason kKvHeads, such as "12
// devices are no multiple of 8 KV heads".
std::string KvProblemText(const Edit& problem);
// Returns what to do about it.
std::string KvProblemHelp(const Edit& problem);

// Writes the member `kv_replicate` of a parameter in JSON, if it has replicas:
// {"dim": 1, "axes": "tp", "heads": 8}.
void WriteKvReplicas(JsonWriter& json, const std::optional<KvReplicas>& of);

// Returns the axes that shard the KV heads of attention's keys and values, for
// example `tp:(1)8` if `axes` is tp:16 and every layer has 8 KV heads. Returns
// `axes` unchanged if layers have numbers of KV heads that would be sharded
// over different axes.
AxisGroup AttentionKvAxes(const RuleSet& rules, const Mesh& mesh,
                          const AxisGroup& axes);

// Returns the refined mesh of all specs of a plan (RefinedMesh() in
// model/mesh_layout.h).
std::optional<Mesh> RefinedMeshOf(const Plan& plan);

}  // namespace shardc

#endif  // SHARDC_PLAN_COMPILE_H_
