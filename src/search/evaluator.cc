// Computes the time and memory of many meshes with one rules file. Patterns are
// matched and parameters are grouped once for the file. For a mesh, only one
// parameter of each group is compiled. The compiled mesh is evaluated with any
// number of settings. For example, one mesh and setting of a model have this
// result:
//
//   builtin:llama/hf on dp:2,fsdp:32, no rematerialisation, 1 micro-batch
//     ->  1.70 s and 61 GiB
#include "search/evaluator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "cost/memory.h"
#include "cost/settings.h"
#include "model/mesh_layout.h"
#include "plan/mesh_purposes.h"
#include "source/size.h"

namespace shardc::search {
namespace {

// ZeRO stages above 0 are tried only if more than this fraction of a device's
// parameters is replicated. If only routers and the weights of norms are
// replicated, they are a smaller part of the parameters.
constexpr double kFewReplicas = 0.01;
constexpr double kForever = std::numeric_limits<double>::infinity();
// A setting sends at least kLeastParts / kParts of the bytes that its reference
// sends. The reference is another setting, which keeps the most activations for
// the backward pass.
constexpr int64_t kLeastParts = 97, kParts = 100;

// Returns the part of the settings on which the communication depends when it
// is computed by formulas.
std::tuple<int, bool, int64_t> FormulaKey(const cost::Settings& settings) {
  return {settings.zero, cost::RecomputesOutputProjection(settings),
          settings.microbatches};
}

}  // namespace

std::unique_ptr<Evaluator> Evaluator::Make(
    RuleSet rules, const std::vector<std::string>& axes, const Request& request,
    const SettingsGrid& grid, std::shared_ptr<cost::StepGraphs> graphs) {
  Mesh single;
  for (const std::string& axis : axes) {
    single.axes.push_back({axis, 1, AxisType::kAuto});
  }
  single.devices = 1;
  Findings unreported;
  auto all = Compile(std::move(single), std::move(rules), request.manifest,
                     request.options, unreported);
  if (all == nullptr || all->HasUnmatched()) return nullptr;
  return std::unique_ptr<Evaluator>(
      new Evaluator(request, grid, std::move(all), std::move(graphs)));
}

Evaluator::Evaluator(const Request& request, const SettingsGrid& grid,
                     std::unique_ptr<const Compiled> all,
                     std::shared_ptr<cost::StepGraphs> graphs)
    : request_(request),
      grid_(grid),
      all_(std::move(all)),
      representatives_(RepresentativesOf(
          *all_, all_->rules, request.model ? &*request.model : nullptr)),
      graphs_(std::move(graphs)) {
  Findings unreported;
  auto few = Compile(all_->mesh, representatives_.rules,
                     representatives_.manifest, request.options, unreported);
  if (few != nullptr) few->parameters = ParametersOfChosen(*all_, *few);
  few_ = std::move(few);
  traffic_.resize(static_cast<size_t>(std::max(1, request.threads)));
}

std::optional<Prepared> Evaluator::On(const Mesh& mesh) const {
  if (few_ == nullptr) return std::nullopt;
  Mesh own = mesh;
  own.device = request_.device;
  RuleSet rules = representatives_.rules;
  ChoosePackAxes(rules, request_.model ? &*request_.model : nullptr, own);
  Findings unreported;
  Prepared out;
  out.compiled = CompileOn(*few_, std::move(own), std::move(rules), unreported);
  if (out.compiled == nullptr) return std::nullopt;
  out.work = cost::MakeCostInputs(*out.compiled, request_.model, Mode::kTrain,
                                  &representatives_);
  return out;
}

std::vector<std::string> Evaluator::ReasonsAgainst(const Prepared& on) const {
  cost::Settings settings = request_.settings;
  if (!request_.microbatches_fixed) settings.microbatches = 1;
  return cost::ReasonsAgainst(*on.compiled, on.work, settings);
}

bool Evaluator::Divides(const Prepared& on, int64_t micro) const {
  const int64_t parts = on.work.Parts(on.work.Batch());
  const int64_t batch = request_.settings.batch.value_or(1);
  return batch % parts == 0 && batch / parts % micro == 0;
}

bool Evaluator::HasReplicas(const Prepared& on) const {
  double all = 0, replicated = 0;
  for (const cost::ParamClass& param : on.work.params) {
    const int64_t parts = cost::ReplicaParts(on.work, param);
    const auto elements =
        CheckedProduct(ShardShape(on.work.mesh, *param.type.shape, param.spec));
    const double held =
        cost::Real(param.CountOnDevice()) * cost::Real(elements.value_or(0));
    all += held;
    if (parts > 1) replicated += held;
  }
  return replicated > kFewReplicas * all;
}

cost::Memory Evaluator::MemoryOf(const Prepared& on, size_t setting) const {
  return cost::MemoryOf(on.work, grid_[setting]);
}

Room Evaluator::RoomOf(const cost::Memory& memory) {
  // A size that does not fit in 64 bits exceeds the memory of every device.
  const auto bytes = memory.Expected();
  if (!bytes || (!memory.taken && !memory.lacks_layers)) {
    return {INT64_MAX, cost::Fit::kExceeds};
  }
  const auto fit = memory.VerdictOfKnown().value_or(cost::Fit::kExceeds);
  // Whether the layers that are left out fit as well is not known.
  const bool open = memory.lacks_layers && fit == cost::Fit::kFits;
  return {*bytes, open ? cost::Fit::kMayFit : fit};
}

cost::StepTraffic& Evaluator::TrafficOf(size_t setting, int worker) {
  auto& own = traffic_[static_cast<size_t>(worker)];
  if (!own) own.emplace(*all_, request_.model, grid_[setting], graphs_);
  own->Use(grid_[setting]);
  return *own;
}

std::optional<cost::Communication> Evaluator::ProgramOf(const Prepared& on,
                                                        size_t setting,
                                                        int worker) {
  std::string why;
  return TrafficOf(setting, worker)
      .On(*on.compiled, on.work, why, &representatives_);
}

cost::Communication Evaluator::MovesOf(Prepared& on, size_t setting,
                                       int worker) {
  if (auto program = ProgramOf(on, setting, worker)) return std::move(*program);
  const cost::Settings& settings = grid_[setting];
  const auto [at, fresh] = on.formulas.try_emplace(FormulaKey(settings));
  if (fresh) at->second = cost::CommunicationOf(on.work, settings);
  return at->second;
}

double Evaluator::SecondsOf(Prepared& on, size_t setting,
                            const cost::Memory& memory, int worker) {
  return SecondsWith(on, setting, memory, MovesOf(on, setting, worker));
}

// The reference setting keeps the most activations, so it sends the least: a
// policy that keeps fewer values repeats collectives, and activations have the
// same bytes for any number of micro-batches. How gradients are reduced depends
// on the ZeRO stage and the number of micro-batches, so kNoGradients leaves
// these transfers out. A setting that keeps a value in another sharding can
// send a few bytes less than the reference, so 3 % are subtracted.
cost::Communication Evaluator::LeastMovesOf(
    const cost::Communication& reference, Shared shared) const {
  if (!RatesAscend()) return {};
  cost::Communication out = reference;
  std::erase_if(out.transfers, [&](const cost::Transfer& one) {
    return shared == Shared::kNoGradients &&
           (one.part == "gradients" || one.part == "optimizer");
  });
  for (cost::Transfer& one : out.transfers) {
    one.sent = one.sent / kParts * kLeastParts;
    one.count = std::max<int64_t>(1, one.count * kLeastParts / kParts);
  }
  return out;
}

bool Evaluator::RatesAscend() const {
  const auto& curves = request_.settings.profile->efficiency.rate_curves;
  return std::all_of(curves.begin(), curves.end(), Ascends);
}

double Evaluator::SecondsWith(const Prepared& on, size_t setting,
                              const cost::Memory& memory,
                              const cost::Communication& moves) const {
  return cost::ExpectedSecondsOf(on.work, grid_[setting], memory, moves)
      .value_or(kForever);
}

std::optional<cost::StepSeconds> Evaluator::StagedSeconds(
    Prepared& on, const cost::Settings& settings, const cost::Memory& memory,
    const std::vector<cost::Transfer>& attention) {
  const auto [at, fresh] = on.staged.try_emplace(FormulaKey(settings));
  if (fresh) {
    at->second = cost::CommunicationWithoutAttention(on.work, settings);
  }
  if (attention.empty()) {
    return cost::ExpectedStepSecondsOf(on.work, settings, memory, at->second);
  }
  cost::Communication all = at->second;
  all.transfers.insert(all.transfers.end(), attention.begin(), attention.end());
  return cost::ExpectedStepSecondsOf(on.work, settings, memory, all);
}

cost::Report Evaluator::ReportOf(const Prepared& on, size_t setting,
                                 int worker) {
  return cost::ReportOf(on.work, grid_[setting],
                        ProgramOf(on, setting, worker));
}

// Lists the settings of a training step that a search tries. The
// rematerialisation policies range from keeping everything to keeping only the
// input of each layer. A policy need not keep everything that the next policy
// keeps, but it keeps everything that the policy after the next keeps. Unless
// the user has fixed the number of micro-batches, each divisor of the batch up
// to 4,096 is tried. For each mesh, the search checks later whether the number
// also divides the part of the batch on a device:
//
//   --batch 128  ->  1, 2, 4, 8, 16, 32, 64 and 128 micro-batches

namespace {

constexpr std::array<std::string_view, 7> kPolicies = {
    "everything_saveable",
    "save_from_both_policies(dots_with_no_batch_dims_saveable,"
    "save_only_these_names(context))",
    "dots_with_no_batch_dims_saveable",
    "save_only_these_names(q_proj,k_proj,v_proj,qkv_proj,context,out_proj)",
    "save_only_these_names(q_proj,k_proj,v_proj,qkv_proj)",
    "save_only_these_names(context)",
    "nothing_saveable"};
constexpr int64_t kMostMicrobatches = 4096;
constexpr int kStages = 4;

}  // namespace

SettingsGrid::SettingsGrid(const Request& request) {
  const cost::Settings& fixed = request.settings;
  if (request.zero_fixed) {
    zeros_ = {fixed.zero};
  } else {
    for (int stage = 0; stage < kStages; ++stage) zeros_.push_back(stage);
  }
  if (request.remat_fixed) {
    remats_ = {fixed.remat};
  } else {
    for (const std::string_view policy : kPolicies) {
      std::string why;
      auto remat = step::ParseRemat(policy, why);
      if (remat) remats_.push_back(std::move(*remat));
    }
  }
  const int64_t batch = fixed.batch.value_or(1);
  for (int64_t parts = 1; parts <= kMostMicrobatches; ++parts) {
    const bool fits = request.microbatches_fixed ? parts == fixed.microbatches
                                                 : batch % parts == 0;
    if (fits) micros_.push_back(parts);
  }
  if (micros_.empty()) micros_ = {fixed.microbatches};
  for (const int zero : zeros_) {
    for (size_t remat = 0; remat < remats_.size(); ++remat) {
      for (const int64_t parts : micros_) {
        all_.push_back(fixed);
        all_.back().zero = zero;
        all_.back().remat = remats_[remat];
        all_.back().microbatches = parts;
      }
    }
  }
}

}  // namespace shardc::search
