// The bound of a pipeline is the time that its ranks compute, if the layers
// were divided evenly and nothing was sent, and the schedule's bubble:
//
//   32 layers on pp:4, 8 micro-batches, interleaved with 2 stages a rank
//     ->  a quarter of the model's computation times 1 + 3 / (2 * 8)
//
// Pipelines whose states and activations exceed a device even then are left
// out. The others are evaluated as `cost --stages` does, which takes a hundred
// times as long as the bound.
#include "search/pipelines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/pipeline.h"
#include "cost/stack.h"
#include "plan/planned_stages.h"
#include "search/candidates.h"
#include "search/evidence.h"
#include "search/front.h"

namespace shardc::search {
namespace {

constexpr int64_t kMostParameters = 5000;
// How many pipelines are evaluated to find the fastest one, and how many of
// other numbers of ranks.
constexpr int64_t kMostEvaluated = 48, kMostCompared = 8;
constexpr int32_t kVirtual[] = {1, 2, 3, 4, 5, 6, 8, 10};

struct Draft {
  double bound = 0;
  uint32_t option = 0;
  size_t setting = 0;
  std::string_view schedule;
  int32_t virtual_stages = 1;
  Mesh mesh;  // with the axis of stages, which is the first

  int64_t Ranks() const { return mesh.axes.front().size; }
};

// A schedule with one stage on a rank, the same with several, and what it takes
// at least.
struct Form {
  std::string_view one, several;
  // The bubble as a share of that of 1f1b. A zero-bubble schedule fills it with
  // gradients of weights, which are at most a third of a stage's tasks, twice.
  double bubble = 1;
  // The chunks that a rank keeps beyond those of its earlier stages, for each
  // rank after it.
  int64_t warm = 2;
};
constexpr Form kMeasured = {"1f1b", "interleaved"};
constexpr Form kZeroBubble = {"zb-h1", "interleaved-zb", 1.0 / 3, 1};

// The part of all activations of a micro-batch that the first rank keeps.
double KeptShare(const Form& form, int64_t ranks, int64_t virtual_stages,
                 int64_t micro) {
  const int64_t chunks =
      virtual_stages == 1
          ? std::min(micro, ranks)
          : std::min(micro * virtual_stages, (virtual_stages - 1) * ranks +
                                                 form.warm * (ranks - 1) + 1);
  return cost::Real(chunks) / cost::Real(ranks * virtual_stages);
}

class Finder {
 public:
  Finder(const Request& request, const SettingsGrid& grid, RuleOptions& options,
         const Deadline& deadline)
      : request_(request),
        grid_(grid),
        options_(options),
        deadline_(deadline),
        base_(options.bases().front()) {}

  Pipelines Find() {
    out_.why_not = WhyNot();
    if (!out_.why_not.empty()) return std::move(out_);
    const auto& axes = options_.axes(base_);
    axis_ = std::find(axes.begin(), axes.end(), "pp") == axes.end() ? "pp"
                                                                    : "stages";
    const int64_t layers = *request_.model->layers;
    for (int64_t ranks = 2; ranks <= layers && ranks <= request_.devices;
         ++ranks) {
      if (request_.devices % ranks == 0) DraftRanks(ranks, layers);
    }
    std::stable_sort(
        drafts_.begin(), drafts_.end(),
        [](const Draft& a, const Draft& b) { return a.bound < b.bound; });
    out_.bounded = static_cast<int64_t>(drafts_.size());
    const Draft* fastest = nullptr;
    std::set<int64_t> ranks_seen;
    for (const Draft& one : drafts_) {
      if (out_.fastest && one.bound >= out_.fastest->seconds) break;
      if (IsEnough(kMostEvaluated)) break;
      ranks_seen.insert(one.Ranks());
      if (Take(Evaluate(one, false))) fastest = &one;
    }
    const int64_t most = out_.evaluated + kMostCompared;
    for (const Draft& one : drafts_) {
      const bool close =
          out_.fastest && one.bound < out_.fastest->seconds * kFrontWindow;
      if (!close) break;
      if (!ranks_seen.insert(one.Ranks()).second) continue;
      if (IsEnough(most)) break;
      if (Take(Evaluate(one, false))) fastest = &one;
    }
    if (fastest != nullptr) Take(Evaluate(*fastest, true));
    auto& fitting = out_.fitting;
    std::stable_sort(fitting.begin(), fitting.end(),
                     [](const Pipeline& a, const Pipeline& b) {
                       return a.seconds < b.seconds;
                     });
    return std::move(out_);
  }

 private:
  // Counts the pipelines that are evaluated, up to a limit.
  bool IsEnough(int64_t most) {
    if (out_.evaluated >= most || IsOver()) return true;
    ++out_.evaluated;
    return false;
  }

  // Returns whether the pipeline is the fastest so far.
  bool Take(std::optional<Pipeline> one) {
    if (!one) return false;
    const bool first = !out_.fastest || one->seconds < out_.fastest->seconds;
    if (first) out_.fastest = one;
    out_.fitting.push_back(std::move(*one));
    return first;
  }

  bool IsOver() {
    out_.finished = out_.finished && !deadline_.IsOver();
    return !out_.finished;
  }

  std::string WhyNot() const {
    if (request_.mesh) return "the mesh is given";
    if (!request_.model || !request_.model->layers) {
      return "the number of layers is not known";
    }
    if (request_.model->experts) {
      return "the times of experts are not calibrated";
    }
    if (request_.manifest.tensors.size() > kMostParameters) {
      return "the model has more than 5,000 parameters";
    }
    const Fabric fabric = request_.settings.profile->fabric;
    const bool torus = fabric == Fabric::kTorus2d || fabric == Fabric::kTorus3d;
    return torus ? "no measured TPU run has a pipeline" : "";
  }

  // Adds the pipelines of so many ranks that a measured run supports.
  void DraftRanks(int64_t ranks, int64_t layers) {
    Request own = request_;
    own.devices = request_.devices / ranks;
    for (const Mesh& mesh : MeshesOf(own, options_, base_)) {
      const auto candidate = MakeCandidate(request_, options_, base_, mesh, {});
      if (!candidate || !candidate->unmeasured.empty()) continue;
      const AxisSizes& sizes = candidate->sizes;
      if (sizes.sharded * sizes.sequence * sizes.experts > 1) continue;
      if (IsOver()) return;
      DraftSettings(*candidate, ranks, layers);
    }
  }

  void DraftSettings(const Candidate& candidate, int64_t ranks,
                     int64_t layers) {
    const Evaluator& evaluator = *options_[candidate.option].evaluator;
    const auto on = evaluator.On(candidate.mesh);
    if (!on || !evaluator.ReasonsAgainst(*on).empty()) return;
    Mesh mesh = candidate.mesh;
    mesh.axes.insert(mesh.axes.begin(), {axis_, ranks, AxisType::kAuto});
    mesh.devices = request_.devices;
    for (size_t setting = 0; setting < grid_.size(); ++setting) {
      const cost::Settings& settings = grid_[setting];
      if (settings.zero > 1 && !request_.zero_fixed) break;
      if (settings.zero > 0 && !evaluator.HasReplicas(*on)) break;
      if (!evaluator.DividesAt(*on, setting)) continue;
      const cost::Memory memory = evaluator.MemoryOf(*on, setting);
      const double alone = evaluator.SecondsWith(*on, setting, memory, {});
      for (const int32_t chunks : kVirtual) {
        if (ranks * chunks > layers) break;
        const double bubble =
            cost::Real(ranks - 1) / cost::Real(chunks * settings.microbatches);
        const auto draft = [&](const Form& form) {
          if (!MayFit(form, memory, ranks, chunks, settings.microbatches)) {
            return;
          }
          drafts_.push_back(
              {alone / cost::Real(ranks) * (1 + form.bubble * bubble),
               candidate.option, setting, chunks > 1 ? form.several : form.one,
               chunks, mesh});
        };
        draft(kMeasured);
        if (request_.unmeasured) draft(kZeroBubble);
      }
    }
  }

  static bool MayFit(const Form& form, const cost::Memory& memory,
                     int64_t ranks, int64_t chunks, int64_t micro) {
    if (!memory.capacity || !memory.activations) return false;
    double bytes = 0;
    for (const cost::Component one :
         {cost::Component::kParameters, cost::Component::kGradients,
          cost::Component::kOptimizer}) {
      bytes += cost::Real(memory.most.Of(one).value_or(0)) / cost::Real(ranks);
    }
    bytes += cost::Real(memory.activations->kept) *
             KeptShare(form, ranks, chunks, micro);
    return bytes <= cost::Real(*memory.capacity);
  }

  // Compiles the complete model for the mesh of a draft; null if that fails.
  const Compiled* CompiledFor(const Draft& draft) {
    const auto [at, fresh] = compiled_.try_emplace(
        std::to_string(draft.option) + " " + MeshText(draft.mesh));
    if (fresh) {
      const Compiled& all = options_[draft.option].evaluator->all();
      Mesh own = draft.mesh;
      own.device = request_.device;
      Findings unreported;
      at->second = CompileOn(all, std::move(own), all.rules, unreported);
    }
    return at->second.get();
  }

  // Returns nullopt if the pipeline does not compile or does not fit.
  std::optional<Pipeline> Evaluate(const Draft& draft, bool balance_times) {
    const Compiled* const compiled = CompiledFor(draft);
    if (compiled == nullptr) return std::nullopt;
    const RuleOption& option = options_[draft.option];
    Pipeline out;
    out.mesh = draft.mesh;
    out.axis = axis_;
    out.schedule = draft.schedule;
    out.virtual_stages = draft.virtual_stages;
    out.settings = grid_[draft.setting];
    out.base = option.base;
    out.rules = option.name;
    out.file = option.file;
    Findings unreported;
    auto request = DeclaredRequest(
        DeclarationOf(out), compiled->mesh,
        static_cast<int32_t>(out.settings.microbatches), unreported);
    if (!request) return std::nullopt;
    if (balance_times) request->balance = StageBalance::kSearched;
    const auto planned =
        DivideIntoStages(*compiled, &*request_.model, *request, unreported);
    if (!planned) return std::nullopt;
    const cost::CostInputs work =
        cost::MakeCostInputs(*compiled, request_.model, Mode::kTrain);
    const auto cost = cost::PipelineCostOf(*compiled, work, out.settings,
                                           *planned, false, unreported);
    if (!cost || !TakeBytes(*cost, work, out)) return std::nullopt;
    for (const cost::StageCost& stage : cost->stages) {
      out.layers.push_back(stage.LayersOf(cost->layers).count());
    }
    out.seconds = cost->Step();
    out.bubble = cost->timeline.StepBubble();
    out.after = cost->after;
    return out;
  }

  // Sets the bytes of the fullest rank. Returns whether they fit with the most
  // that the allocator and the device's context may add.
  static bool TakeBytes(const cost::PipelineCost& cost,
                        const cost::CostInputs& work, Pipeline& out) {
    const auto fullest = cost.Fullest();
    if (!fullest || !cost.capacity) return false;
    const cost::Stack& stack = cost::StackOf(work, out.settings);
    const double context = cost::Real(cost::ContextBytes(work, stack));
    const double most =
        cost::Real(*fullest) * stack.memory.most_allocator + context;
    if (most > cost::Real(*cost.capacity)) return false;
    out.bytes = *fullest;
    out.taken =
        std::llround(cost::Real(*fullest) * stack.memory.allocator + context);
    out.most_taken = std::llround(most);
    return true;
  }

  const Request& request_;
  const SettingsGrid& grid_;
  RuleOptions& options_;
  const Deadline& deadline_;
  const Base base_;
  std::string axis_;
  std::vector<Draft> drafts_;
  std::map<std::string, std::unique_ptr<const Compiled>> compiled_;
  Pipelines out_;
};

}  // namespace

bool IsMeasuredSchedule(std::string_view schedule) {
  return schedule == kMeasured.one || schedule == kMeasured.several;
}

StageDeclaration DeclarationOf(const Pipeline& one) {
  StageDeclaration out;
  out.axis = one.axis;
  out.schedule = one.schedule;
  out.virtual_stages = one.virtual_stages;
  if (!one.layers.empty()) {
    out.assign = StageAssignment::kListed;
    out.listed = one.layers;
  }
  return out;
}

Pipelines FindPipelines(const Request& request, const SettingsGrid& grid,
                        RuleOptions& options, const Deadline& deadline) {
  return Finder(request, grid, options, deadline).Find();
}

}  // namespace shardc::search
