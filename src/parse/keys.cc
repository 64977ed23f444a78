#include "parse/keys.h"

#include <array>

#include "devices/profiles.h"
#include "model/operation_settings.h"

namespace shardc {
namespace {

using Name = std::string_view;

constexpr std::array<Name, 7> kMeshKeys = {
    "axes", "devices", "axis_types", "processes", "slices", "dcn", "device"};
constexpr std::array<Name, 2> kDeviceKeys = {"profile", "memory"};
// `not_known` and `at_least` are facts that the program which wrote the file
// lacked. They are not read.
constexpr std::array<Name, 15> kRulesKeys = {
    "version",  "extends",     "separator", "axes",      "kv_replicate",
    "register", "bundles",     "rules",     "policy",    "weight_decay",
    "model",    "activations", "stages",    "not_known", "at_least"};
constexpr std::array<Name, 8> kRuleKeys = {
    "match", "spec", "modes", "parts", "illegal", "min_size", "place", "note"};
constexpr std::array<Name, 1> kLikeKeys = {"like"};
constexpr std::array<Name, 3> kPlaceKeys = {"axis", "index", "count"};
constexpr std::array<Name, 5> kRegistrationKeys = {
    "rule", "generation", "override", "unregister", "missing_ok"};
constexpr std::array<Name, 1> kForcedAxisKeys = {"axis"};
constexpr std::array<Name, 2> kBundleKeys = {"axes", "mode"};
constexpr std::array<Name, 2> kActivationKeys = {"spec", "modes"};
constexpr std::array<Name, 4> kPolicyKeys = {"unmatched", "illegal", "min_size",
                                             "compat"};
constexpr std::array<Name, 1> kWeightDecayKeys = {"exclude"};
constexpr std::array<Name, 10> kStagesKeys = {
    "axis",    "layers", "stacked", "first",    "last",
    "virtual", "tied",   "assign",  "schedule", "microbatches"};
constexpr std::array<Name, 2> kStackedKeys = {"match", "dim"};
constexpr std::array<Name, 1> kScheduleKeys = {"file"};
constexpr std::array<Name, 29> kModelKeys = {
    "extends",      "blocks",  "dims",     "axes",   "repeat",     "params",
    "skip",         "begin",   "layer",    "end",    "top_k",      "window",
    "router",       "rope",    "norm",     "scale",  "activation", "soft_cap",
    "extra_layers", "slopes",  "z_loss",   "chunks", "causal",     "constants",
    "per_row",      "encoder", "distance", "loss",   "fused"};
constexpr std::array<Name, 5> kModelOptionKeys = {"tied", "when", "shared",
                                                  "bias", "optional_bias"};
constexpr std::array<Name, 6> kModelEncoderKeys = {
    "repeat", "params", "begin", "layer", "end", "length"};
constexpr std::array<Name, 13> kModelRouterKeys = {
    "score",    "renormalise", "groups", "top_groups", "group_score",
    "scale",    "correction",  "power",  "jitter",     "before",
    "capacity", "balance",     "z_loss"};
constexpr std::array<Name, 5> kModelRopeKeys = {"base", "turned", "pairs",
                                                "when", "plain"};
constexpr std::array<Name, 2> kModelSlopesKeys = {"when", "scaled"};
constexpr std::array<Name, 2> kModelLossKeys = {"kind", "chunk"};
constexpr std::array<Name, 2> kModelNormKeys = {"epsilon", "plus_one"};
constexpr std::array<Name, 5> kProjectKeys = {"version", "targets", "families",
                                              "lint", "weight_decay"};
constexpr std::array<Name, 26> kTargetKeys = {
    "mesh",   "rules",        "manifest", "model",        "modes", "operations",
    "layout", "dtype",        "kv_dtype", "settings",     "batch", "kv_len",
    "memory", "plan",         "step",     "weight_decay", "audit", "stages",
    "seq",    "microbatches", "remat",    "optimizer",    "zero",  "budget",
    "from",   "runtime"};
constexpr std::array<Name, 5> kBudgetKeys = {"mode", "memory", "sent", "time",
                                             "growth"};
constexpr std::array<Name, 3> kAuditKeys = {"program", "locked", "budget"};
constexpr std::array<Name, 5> kLintKeys = {"select", "ignore", "severity",
                                           "fail_on", "baseline"};
constexpr std::array<Name, 35> kRunKeys = {"schema",
                                           "name",
                                           "mesh",
                                           "rules",
                                           "manifest",
                                           "model",
                                           "batch",
                                           "seq",
                                           "microbatches",
                                           "stages",
                                           "virtual",
                                           "schedule",
                                           "assign",
                                           "p2p",
                                           "remat",
                                           "operation",
                                           "optimizer",
                                           "zero",
                                           "grad_dtype",
                                           "master_dtype",
                                           "moments_dtype",
                                           "offload_optimizer",
                                           "dtype",
                                           "logits_dtype",
                                           "matmul_dtype",
                                           "stack",
                                           "overlap_tp",
                                           "dispatcher",
                                           "graphs",
                                           "ep_overlap",
                                           "routing",
                                           "capacity_factor",
                                           "illegal",
                                           "step_s",
                                           "tokens_per_second_per_device"};
constexpr std::array<Name, 3> kOperationsKeys = {"version", "defaults",
                                                 "operations"};

}  // namespace

namespace keys {
const KeyTable kMesh{"mesh", "a mesh", kMeshKeys};
const KeyTable kDevice{"mesh.device", "a device", kDeviceKeys};
const KeyTable kRules{"rules", "a rules file", kRulesKeys};
const KeyTable kRule{"rules.rules", "a rule", kRuleKeys};
const KeyTable kLike{"rules.like", "a spec", kLikeKeys};
const KeyTable kPlace{"rules.place", "`place`", kPlaceKeys};
const KeyTable kRegistration{"rules.register", "a registration",
                             kRegistrationKeys};
const KeyTable kForcedAxis{"rules.forced_axis", "`{axis: NAME}`",
                           kForcedAxisKeys};
const KeyTable kBundle{"rules.bundle", "a bundle", kBundleKeys};
const KeyTable kActivation{"rules.activation", "an activation",
                           kActivationKeys};
const KeyTable kPolicy{"rules.policy", "`policy`", kPolicyKeys};
const KeyTable kWeightDecay{"rules.weight_decay", "`weight_decay`",
                            kWeightDecayKeys};
const KeyTable kStages{"rules.stages", "`stages`", kStagesKeys};
const KeyTable kStacked{"rules.stages.stacked", "an entry of `stacked`",
                        kStackedKeys};
const KeyTable kSchedule{"rules.stages.schedule", "`schedule`", kScheduleKeys};
const KeyTable kModel{"rules.model", "`model`", kModelKeys};
const KeyTable kModelOptions{"rules.model.options", "a role's options",
                             kModelOptionKeys};
const KeyTable kModelEncoder{"rules.model.encoder", "`encoder`",
                             kModelEncoderKeys};
const KeyTable kModelRouter{"rules.model.router", "`router`", kModelRouterKeys};
const KeyTable kModelRope{"rules.model.rope", "`rope`", kModelRopeKeys};
const KeyTable kModelLoss{"rules.model.loss", "`loss`", kModelLossKeys};
const KeyTable kModelNorm{"rules.model.norm", "`norm`", kModelNormKeys};
const KeyTable kModelSlopes{"rules.model.slopes", "`slopes`", kModelSlopesKeys};
const KeyTable kProject{"project", "a project file", kProjectKeys};
const KeyTable kTarget{"project.target", "a target", kTargetKeys};
const KeyTable kBudget{"project.budget", "`budget`", kBudgetKeys};
const KeyTable kAudit{"project.audit", "`audit`", kAuditKeys};
const KeyTable kLint{"project.lint", "`lint`", kLintKeys};
const KeyTable kOperations{"operations", "a settings file", kOperationsKeys};
const KeyTable kSettings{"operations.settings", "a record of settings",
                         kSettingNames};
const KeyTable kRun{"run", "a measured run", kRunKeys};
}  // namespace keys

std::span<const KeyTable* const> AllKeyTables() {
  static constexpr std::array<const KeyTable*, 50> kAll = {
      &keys::kMesh,          &keys::kDevice,         &keys::kRules,
      &keys::kRule,          &keys::kLike,           &keys::kPlace,
      &keys::kRegistration,  &keys::kForcedAxis,     &keys::kBundle,
      &keys::kActivation,    &keys::kPolicy,         &keys::kWeightDecay,
      &keys::kModel,         &keys::kModelOptions,   &keys::kModelRouter,
      &keys::kModelRope,     &keys::kModelLoss,      &keys::kModelNorm,
      &keys::kModelSlopes,   &keys::kProject,        &keys::kTarget,
      &keys::kLint,          &keys::kOperations,     &keys::kSettings,
      &keys::kModelEncoder,  &keys::kProfile,        &keys::kPeaks,
      &keys::kProfileMemory, &keys::kEfficiency,     &keys::kMatmul,
      &keys::kAttention,     &keys::kLinks,          &keys::kLink,
      &keys::kChips,         &keys::kSources,        &keys::kRateCurves,
      &keys::kRun,           &keys::kAudit,          &keys::kStages,
      &keys::kStacked,       &keys::kSchedule,       &keys::kBudget,
      &keys::kServing,       &keys::kServedRates,    &keys::kEngine,
      &keys::kExperts,       &keys::kEngineSettings, &keys::kEngineSetting,
      &keys::kEngineLayout,  &keys::kExpertPadding};
  return kAll;
}

}  // namespace shardc
