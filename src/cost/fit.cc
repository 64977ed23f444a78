// Evaluates the meshes on which a model may run, for `shardc search --all`. The
// meshes are all factorisations of the number of devices into the sizes of the
// axes. For example, 64 devices have 28 meshes of three axes and 84 meshes of
// four axes. Because there are so few, a plan is compiled and costed for every
// mesh.
#include "cost/fit.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "cost/pipeline.h"
#include "cost/settings.h"
#include "cost/unknown_roles.h"
#include "model/dtype.h"
#include "plan/axis_facts.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "source/list.h"
#include "source/process.h"
#include "source/size.h"
#include "step/constraints.h"
#include "step/recompute.h"

namespace shardc::cost {
namespace {

void Split(int64_t devices, const std::vector<std::string>& axes, Mesh& mesh,
           std::vector<Mesh>& out, size_t most) {
  if (out.size() > most) return;
  const size_t at = mesh.axes.size();
  if (at + 1 == axes.size()) {
    mesh.axes.push_back({axes[at], devices, AxisType::kAuto});
    out.push_back(mesh);
    mesh.axes.pop_back();
    return;
  }
  for (int64_t size = 1; size <= devices; ++size) {
    if (devices % size != 0) continue;
    mesh.axes.push_back({axes[at], size, AxisType::kAuto});
    Split(devices / size, axes, mesh, out, most);
    mesh.axes.pop_back();
  }
}

// Returns whether it is not known if a legal mesh fits, because the roles of
// parameters are not known.
bool IsOpen(const FitMesh& one) {
  return one.legal && one.memory.at_least && one.memory.Fits().value_or(true);
}

// Returns a key that sorts meshes into five groups: meshes that fit, meshes
// that may fit, meshes of unknown memory, legal meshes that do not fit, and
// illegal meshes.
int FitOrder(const FitMesh& one) {
  if (!one.legal) return 4;
  if (one.MemoryOrder() == INT64_MAX || IsOpen(one)) return 2;
  if (one.Fits()) return 0;
  return one.MayFit() ? 1 : 3;
}

// Returns whether the time of a mesh is known. Seconds() is 0 if none of the
// parts of the time is known.
bool HasTime(const FitMesh& one) { return one.Seconds().value_or(0) > 0; }

// Returns a key that sorts meshes by time. Meshes whose time is unknown or
// infinite come last.
double TimeOrder(const FitMesh& one) {
  const double seconds = HasTime(one) ? *one.Seconds() : NAN;
  return std::isfinite(seconds) ? seconds
                                : std::numeric_limits<double>::infinity();
}

std::tuple<int, double, int64_t, int64_t> CostOrder(const FitMesh& one) {
  return {FitOrder(one), TimeOrder(one), one.communication.value_or(INT64_MAX),
          one.MemoryOrder()};
}

// Returns a key that sorts meshes whose times tie: first by memory, then by the
// number of axes with more than one device, then by time.
std::tuple<int64_t, int64_t, double> TieOrder(const FitMesh& one) {
  const auto used =
      std::count_if(one.mesh.axes.begin(), one.mesh.axes.end(),
                    [](const MeshAxis& axis) { return axis.size > 1; });
  return {one.MemoryOrder(), used, TimeOrder(one)};
}

}  // namespace

std::optional<double> FitMesh::Seconds() const {
  if (stages) return stages->seconds;
  if (expected) return expected->seconds;
  return time ? std::optional(time->Most()) : std::nullopt;
}

FitMesh FitOf(const Compiled& compiled, const CostInputs& work,
              const Settings& settings, StepTraffic& traffic,
              const Representatives* representatives) {
  FitMesh out;
  out.mesh = compiled.mesh;
  out.reasons = ReasonsAgainst(compiled, work, settings);
  out.legal = out.reasons.empty();
  if (!out.legal) return out;
  std::string why;
  const Report report = ReportOf(
      work, settings, traffic.On(compiled, work, why, representatives));
  out.memory = report.memory;
  out.communication = report.communication.Known(report.communication.Sent());
  out.time = report.time;
  out.expected = report.expected;
  out.flops = report.flops;
  return out;
}

std::unique_ptr<MeshEvaluator> MeshEvaluator::Make(
    const FitInputs& inputs, const std::vector<std::string>& axes,
    Findings& findings) {
  // The mesh for this first compilation has every axis with size 1, so it
  // shards nothing. The mesh needs all axes because the `place` of a rule may
  // name one. `place` puts each tensor at one coordinate of this axis.
  Mesh single;
  for (const std::string& axis : axes) {
    single.axes.push_back({axis, 1, AxisType::kAuto});
  }
  single.devices = 1;
  auto all = Compile(std::move(single), inputs.rules, inputs.manifest,
                     inputs.options, findings);
  if (all == nullptr) return nullptr;
  Representatives representatives = RepresentativesOf(
      *all, inputs.rules, inputs.model ? &*inputs.model : nullptr);
  // Few parameters are compiled, so a single thread is the fastest.
  CompileOptions options = inputs.options;
  options.threads = 1;
  auto few = Compile(all->mesh, representatives.rules, representatives.manifest,
                     options, findings);
  if (few == nullptr) return nullptr;
  few->parameters = ParametersOfChosen(*all, *few);
  return std::unique_ptr<MeshEvaluator>(new MeshEvaluator(
      inputs, std::move(all), std::move(representatives), std::move(few)));
}

MeshEvaluator::MeshEvaluator(const FitInputs& inputs,
                             std::unique_ptr<const Compiled> all,
                             Representatives representatives,
                             std::unique_ptr<const Compiled> few)
    : inputs_(inputs),
      settings_(WithLossOf(inputs.rules, inputs.settings)),
      all_(std::move(all)),
      representatives_(std::move(representatives)),
      few_(std::move(few)) {
  traffic_.emplace(*all_, inputs_.model, settings_);
  const AxisRules& axes = representatives_.rules.axes;
  AxisValue batch = axes.Value(AxisRule::kBatch);
  const AxisGroup experts = axes.Value(AxisRule::kExpertParallel).axes;
  const bool has_experts = inputs_.model && inputs_.model->experts;
  const bool separate =
      std::none_of(experts.begin(), experts.end(),
                   [&](const auto& axis) { return IsAmong(axis, batch.axes); });
  if (!has_experts || experts.empty() || !separate) return;
  batch.is_null = false;
  batch.axes.insert(batch.axes.end(), experts.begin(), experts.end());
  batch_over_experts_ = representatives_.rules;
  batch_over_experts_->axes.Set(AxisRule::kBatch, std::move(batch));
}

void MeshEvaluator::Use(const Settings& settings) {
  settings_ = WithLossOf(inputs_.rules, settings);
  traffic_->Use(settings_);
}

std::optional<FitMesh> MeshEvaluator::On(const Mesh& mesh, Findings& findings) {
  return OnWith(mesh, *traffic_, findings);
}

std::optional<std::vector<FitMesh>> MeshEvaluator::OnEach(
    std::span<const Mesh> meshes, int threads, Findings& findings) {
  std::vector<std::optional<FitMesh>> each(meshes.size());
  std::vector<Findings> wrong(meshes.size());
  const auto most = static_cast<int>(std::min<size_t>(meshes.size(), INT_MAX));
  ThreadPool pool(std::max(1, std::min(threads, most)));
  std::vector<std::optional<StepTraffic>> traffic(AsIndex(pool.threads()));
  // Evaluating the first mesh also finds out which layers of the model have the
  // same ops, and stores this in `traffic_`. The worker threads copy
  // `traffic_`, so that they need not compare the layers again.
  if (!meshes.empty()) each[0] = OnWith(meshes[0], *traffic_, wrong[0]);
  pool.Run(static_cast<int64_t>(meshes.size()), [&](int64_t task, int worker) {
    if (task == 0) return;
    std::optional<StepTraffic>& own = traffic[AsIndex(worker)];
    if (!own) own.emplace(*traffic_);
    each[AsIndex(task)] =
        OnWith(meshes[AsIndex(task)], *own, wrong[AsIndex(task)]);
  });
  std::vector<FitMesh> out;
  for (size_t i = 0; i < meshes.size(); ++i) {
    findings.Append(std::move(wrong[i]));
    if (!each[i]) return std::nullopt;
    out.push_back(std::move(*each[i]));
  }
  return out;
}

std::optional<FitMesh> MeshEvaluator::OnWith(const Mesh& mesh,
                                             StepTraffic& traffic,
                                             Findings& findings) const {
  auto out = Evaluate(mesh, representatives_.rules, traffic, findings);
  // An illegal mesh stays illegal if the batch is sharded over the experts'
  // axis as well, so only legal meshes are evaluated a second time.
  if (!out || !out->legal || !batch_over_experts_) return out;
  const AxisRules& axes = batch_over_experts_->axes;
  const AxisGroup experts = axes.Value(AxisRule::kExpertParallel).axes;
  const bool used = std::any_of(
      mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& axis) {
        return axis.size > 1 && IsAmong(axis.name, experts);
      });
  if (!used) return out;
  auto other = Evaluate(mesh, *batch_over_experts_, traffic, findings);
  if (!other) return std::nullopt;
  if (CostOrder(*other) >= CostOrder(*out)) return out;
  other->batch = axes.Value(AxisRule::kBatch).axes;
  return other;
}

std::optional<FitMesh> MeshEvaluator::Evaluate(const Mesh& mesh,
                                               const RuleSet& rules,
                                               StepTraffic& traffic,
                                               Findings& findings) const {
  Mesh own = mesh;
  own.device = inputs_.like.device;
  RuleSet chosen = rules;
  ChoosePackAxes(chosen, inputs_.model ? &*inputs_.model : nullptr, own);
  if (inputs_.stages && own.Find(inputs_.stages->axis)) {
    return EvaluateStages(std::move(own), std::move(chosen), findings);
  }
  const auto compiled = CompileOn(*few_, own, std::move(chosen), findings);
  if (compiled == nullptr) return std::nullopt;
  const CostInputs work =
      MakeCostInputs(*compiled, inputs_.model, inputs_.mode, &representatives_);
  return FitOf(*compiled, work, settings_, traffic, &representatives_);
}

std::optional<FitMesh> MeshEvaluator::EvaluateStages(Mesh mesh, RuleSet rules,
                                                     Findings& findings) const {
  // All parameters are compiled, because stages need each parameter and not
  // only a representative of each group.
  const auto compiled =
      CompileOn(*all_, std::move(mesh), std::move(rules), findings);
  if (compiled == nullptr) return std::nullopt;
  const CostInputs work =
      MakeCostInputs(*compiled, inputs_.model, inputs_.mode);
  FitMesh out;
  out.mesh = compiled->mesh;
  out.reasons = ReasonsAgainst(*compiled, work, settings_);
  if (!out.reasons.empty()) return out;
  Findings refused;
  std::optional<int64_t> microbatches;
  if (settings_.microbatches != inputs_.settings.microbatches) {
    microbatches = settings_.microbatches;
  }
  const auto request = inputs_.stages->request(out.mesh, microbatches, refused);
  auto cost = request ? StagedFitOf(*compiled, work, settings_, *request,
                                    inputs_.stages->exposed, refused)
                      : std::nullopt;
  if (!cost) {
    out.refused.assign(refused.all().begin(), refused.all().end());
    for (const Finding& finding : out.refused) {
      out.reasons.push_back(finding.message + " (" + finding.code->Id() + ")");
    }
    out.memory.unknown = work.not_known;
    return out;
  }
  out.legal = true;
  out.stages = std::move(cost->stages);
  out.memory = std::move(cost->memory);
  out.communication = cost->communication;
  return out;
}

std::vector<std::string> UsualAxes(const RuleSet& rules, bool experts,
                                   bool sequence) {
  std::vector<std::string> out;
  const auto add = [&](AxisRule rule) {
    const AxisValue value = rules.axes.Value(rule);
    for (const std::string& axis : value.axes) {
      AddOnce(out, axis);
    }
  };
  add(AxisRule::kDataParallel);
  add(AxisRule::kFullyShardedDataParallel);
  if (experts) add(AxisRule::kExpertParallel);
  if (sequence) add(AxisRule::kSequenceParallel);
  add(AxisRule::kTensorParallel);
  return out;
}

std::optional<std::vector<Mesh>> MeshesOf(int64_t devices,
                                          const std::vector<std::string>& axes,
                                          size_t most) {
  std::vector<Mesh> out;
  Mesh mesh;
  mesh.devices = devices;
  if (!axes.empty()) Split(devices, axes, mesh, out, most);
  if (out.size() > most) return std::nullopt;
  return out;
}

void SortByCost(std::vector<FitMesh>& meshes) {
  std::stable_sort(meshes.begin(), meshes.end(),
                   [](const FitMesh& a, const FitMesh& b) {
                     return CostOrder(a) < CostOrder(b);
                   });
  for (FitMesh& one : meshes) one.rank.reset();
  const auto ranked = [](const FitMesh& one) {
    return (one.Fits() || one.MayFit()) && HasTime(one);
  };
  // Only meshes of known time get a rank. The meshes that fit come first, and
  // the meshes that may fit follow. In both groups, meshes of unknown time come
  // last. So there may be meshes without a rank between the two groups. The
  // loop skips them.
  for (auto first = std::find_if(meshes.begin(), meshes.end(), ranked);
       first != meshes.end();
       first = std::find_if(first, meshes.end(), ranked)) {
    const double most =
        *first->Seconds() * (1 + static_cast<double>(kTiePerHundred) / 100);
    const int order = FitOrder(*first);
    const auto next =
        std::find_if(first + 1, meshes.end(), [&](const FitMesh& one) {
          return TimeOrder(one) >= most || FitOrder(one) != order;
        });
    std::stable_sort(first, next, [](const FitMesh& a, const FitMesh& b) {
      return TieOrder(a) < TieOrder(b);
    });
    const int64_t rank = first - meshes.begin() + 1;
    for (; first != next; ++first) first->rank = rank;
  }
}

const FitMesh* NearestToFit(const std::vector<FitMesh>& meshes) {
  const FitMesh* out = nullptr;
  for (const FitMesh& one : meshes) {
    if (!one.legal) continue;
    if (out == nullptr || one.MemoryOrder() < out->MemoryOrder()) {
      out = &one;
    }
  }
  return out;
}

// Finds a change of the training settings with which a mesh fits the memory, if
// no mesh fits without a change. The changes are to keep fewer activations for
// the backward pass, and to use more micro-batches. They are tried from the
// smallest to the largest, and the first with which a mesh fits is the result.
// For example:
//
//   without a change, 1 micro-batch: no mesh fits
//   --remat nothing_saveable: no mesh fits
//   --microbatches 2: the mesh dp=8 fits

namespace {

// Only the kMostChanged meshes that need the least memory are tried, with at
// most kMostMicrobatches micro-batches.
constexpr size_t kMostChanged = 32;
constexpr int64_t kMostMicrobatches = 64;

struct ChangedSettings {
  std::vector<std::string> flags;
  Settings settings;
};

// Returns the changes of the settings that need less memory, from the smallest
// to the largest change. Each number of micro-batches divides the batch.
std::vector<ChangedSettings> Changes(const Settings& settings, int64_t batch) {
  std::vector<ChangedSettings> out;
  const auto add_parts = [&](const ChangedSettings& from) {
    for (int64_t parts = 2; parts <= kMostMicrobatches; ++parts) {
      if (parts <= from.settings.microbatches || batch % parts != 0) continue;
      out.push_back(from);
      out.back().flags.push_back("--microbatches " + std::to_string(parts));
      out.back().settings.microbatches = parts;
    }
  };
  ChangedSettings less{{"--remat nothing_saveable"}, settings};
  std::string why;
  if (auto nothing = step::ParseRemat("nothing_saveable", why)) {
    less.settings.remat = std::move(*nothing);
  }
  const bool keeps = less.settings.remat.text != settings.remat.text;
  if (keeps) out.push_back(less);
  add_parts({{}, settings});
  if (keeps) add_parts(less);
  return out;
}

}  // namespace

std::optional<FitChange> ChangeThatFits(const std::vector<FitMesh>& meshes,
                                        const Settings& settings, Mode mode,
                                        MeshEvaluator& evaluator,
                                        Findings& findings) {
  if (mode != Mode::kTrain || !settings.batch || !settings.length) {
    return std::nullopt;
  }
  std::vector<const FitMesh*> legal;
  for (const FitMesh& one : meshes) {
    if (one.legal) legal.push_back(&one);
  }
  std::stable_sort(legal.begin(), legal.end(),
                   [](const FitMesh* a, const FitMesh* b) {
                     return a->MemoryOrder() < b->MemoryOrder();
                   });
  if (legal.size() > kMostChanged) legal.resize(kMostChanged);
  for (ChangedSettings& changed : Changes(settings, *settings.batch)) {
    evaluator.Use(changed.settings);
    std::vector<FitMesh> fitting;
    for (const FitMesh* one : legal) {
      auto fit = evaluator.On(one->mesh, findings);
      if (fit && fit->Fits()) {
        fitting.push_back(std::move(*fit));
      }
    }
    if (fitting.empty()) continue;
    SortByCost(fitting);
    return FitChange{std::move(changed.flags), std::move(fitting.front())};
  }
  return std::nullopt;
}

// Reduces the cost of a pipeline to the figures by which `shardc search --all`
// compares meshes. A pipeline fits if each of its ranks fits. The memory of the
// pipeline is therefore between two numbers: the largest lower estimate of all
// ranks, and the largest upper estimate of all ranks. For example:
//
//   rank 0 takes 40 to 52 GiB, rank 1 takes 44 to 50 GiB  ->  44 to 52 GiB

namespace {

// Returns the rank that is expected to take the most memory. If a component of
// any rank is unknown, returns the rank with the most known bytes.
const RankCost& FullestOf(const PipelineCost& cost) {
  if (const RankCost* const rank = cost.FullestRank()) return *rank;
  return *std::max_element(cost.ranks.begin(), cost.ranks.end(),
                           [](const RankCost& a, const RankCost& b) {
                             return a.held.total < b.held.total;
                           });
}

Memory MemoryOfRanks(const PipelineCost& cost) {
  Memory out;
  out.capacity = cost.capacity;
  out.most = FullestOf(cost).held;
  out.most.total = cost.Fullest();
  out.taken = FullestOf(cost).taken;
  out.unknown = cost.Unknown();
  out.at_least = CanBeSettled(cost.UnknownBesidesSums());
  for (const RankCost& rank : cost.ranks) {
    // The logits of a rank other than the fullest one may be unknown. The
    // logits of the pipeline are then unknown too.
    if (!rank.held.Of(Component::kLogits)) {
      out.most.by[static_cast<size_t>(Component::kLogits)].reset();
    }
  }
  for (const RankCost& rank : cost.ranks) {
    if (!out.taken || !rank.taken) {
      out.taken.reset();
      if (!out.most.total) {
        out.unknown.push_back(
            {.what =
                 "parameters: the manifest has no shape or dtype for some"});
      }
      break;
    }
    out.taken->least = std::max(out.taken->least, rank.taken->least);
    out.taken->most = std::max(out.taken->most, rank.taken->most);
  }
  return out;
}

}  // namespace

std::optional<StagedFit> StagedFitOf(const Compiled& compiled,
                                     const CostInputs& work,
                                     const Settings& settings,
                                     const StageRequest& request, bool exposed,
                                     Findings& findings) {
  const auto planned = DivideIntoStages(
      compiled, work.model ? &*work.model : nullptr, request, findings);
  if (!planned) return std::nullopt;
  const auto cost =
      PipelineCostOf(compiled, work, settings, *planned, exposed, findings);
  if (!cost) return std::nullopt;
  StagedFit out;
  out.memory = MemoryOfRanks(*cost);
  out.communication = 0;
  for (const RankCost& rank : cost->ranks) {
    const Communication own = CommunicationOf(*cost, rank);
    const auto sent = own.Known(own.Sent());
    if (!sent) {
      out.communication.reset();
      break;
    }
    out.communication = std::max(*out.communication, *sent);
  }
  out.stages.axis = cost->axis;
  out.stages.schedule = cost->table.name;
  out.stages.microbatches = cost->table.microbatches;
  for (const StageCost& stage : cost->stages) {
    out.stages.layers.push_back(stage.LayersOf(cost->layers).count());
  }
  if (cost->HasTimes()) out.stages.bubble = cost->timeline.StepBubble();
  if (cost->timed) out.stages.seconds = cost->Step();
  return out;
}

namespace {

// Writes the signature of a target: a text that has all shardings on which the
// cost of a step depends. Targets with the same signature are evaluated only
// once. For example, the rules that are bundled with the program for a family
// of models and the rules that are suggested for a mesh often define the same
// shardings.
//
// A signature begins with the mesh. A line follows for each class of
// parameters, and the axes of activations come last. A line of parameters has
// the name, the number of tensors with the dtype, the sizes and, after the
// colon, the axes of each dimension. In this example, 32 tensors of shape
// [14336, 4096] are sharded over fsdp in dimension 0:
//
//   fsdp=64
//   layers.*.up.weight 32BF16 14336 4096:fsdp,;;

bool IsLegal(const Compiled& compiled) {
  for (const auto& layout : compiled.plan.layouts) {
    for (const ModeLayout& one : layout.modes) {
      if (one.mode == Mode::kTrain && !one.problems.empty()) return false;
    }
  }
  return true;
}

void AppendToSignature(const AxisGroup& axes, const Mesh& mesh,
                       std::string& out) {
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1) out += axis + ",";
  }
  out += ";";
}

void AppendToSignature(const Spec& spec, const Mesh& mesh, std::string& out) {
  for (const AxisGroup& axes : spec) AppendToSignature(axes, mesh, out);
}

void AppendToSignature(const ParamClass& param, const Mesh& mesh,
                       std::string& out) {
  out += param.name + " " + std::to_string(param.count);
  if (param.type.dtype) out += DtypeName(*param.type.dtype);
  if (param.type.shape) {
    for (const int64_t size : *param.type.shape) {
      out += " " + std::to_string(size);
    }
  }
  out += ":";
  AppendToSignature(param.spec, mesh, out);
  out += param.placed_along;
  for (const auto& [coordinate, count] : param.placed) {
    out += " " + std::to_string(coordinate) + "=" + std::to_string(count);
  }
  out += "\n";
}

}  // namespace

std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work) {
  if (!IsLegal(compiled)) return std::nullopt;
  std::string out = MeshText(work.mesh) + "\n";
  std::set<std::string> names;
  for (const ParamClass& param : work.params) {
    if (!names.insert(param.name).second) return std::nullopt;
    AppendToSignature(param, work.mesh, out);
  }
  for (const Spec* spec : {&work.query, &work.key, &work.value, &work.output}) {
    AppendToSignature(*spec, work.mesh, out);
  }
  AppendToSignature(work.hidden, work.mesh, out);
  if (compiled.rules.model == nullptr) return out + "no model";
  const step::ShardingConstraints constraints =
      step::ShardingConstraintsOf(FigureResolver(compiled), Mode::kTrain);
  for (const AxisGroup& axes : constraints.by_axis)
    AppendToSignature(axes, work.mesh, out);
  for (const step::ShardingConstraintOverride& one : constraints.overrides) {
    AppendToSignature(one.axes, work.mesh, out);
  }
  AppendToSignature(constraints.data, work.mesh, out);
  for (const step::ShardingConstraintOverride& one : constraints.overrides) {
    out += one.role + " " + one.token + " ";
    AppendToSignature(one.axes, work.mesh, out);
  }
  return out;
}

}  // namespace shardc::cost
