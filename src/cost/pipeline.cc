// Computes the cost of a pipeline. A stage is costed as a model with fewer
// layers, on the mesh without the pipeline's axis, by the same formulas as a
// complete model. The parameters of a rank are those of all its stages. The
// number of micro-batches whose activations a rank keeps changes during the
// schedule. The activations of a rank are the most bytes that it keeps at any
// time.
//
// For example, Llama 3 8B in bfloat16 on pp:4,tp:2, with 8 layers on each rank,
// has these bytes of parameters on each device:
//
//   rank 0         2,270,298,112, with the embedding
//   ranks 1 and 2  1,744,961,536
//   rank 3         2,270,306,304, with the final norm and the head
#include "cost/pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "cost/stack.h"
#include "cost/stage_inputs.h"
#include "cost/time.h"
#include "schedule/assign.h"
#include "source/index.h"
#include "source/stage_code.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// The report suggests another division of the layers if its step takes less
// than this fraction of the time of a step with the current division.
constexpr double kClearlyBetter = 0.99;

// The largest number of divisions that are tried to find one that fits in
// memory.
constexpr size_t kMostDivisions = 4;
// The largest number of operations in one search for a division of the layers.
// A search takes stages * units^2 operations, where the units are the layers,
// the embedding and the head.
constexpr int64_t kMostSteps = int64_t{1} << 30;

// Returns the bytes of the fullest stage, as AssignUnits computes them: the
// states of its units, and their activations for each micro-batch in flight.
int64_t FullestStageBytes(std::span<const schedule::Unit> units,
                          std::span<const int64_t> in_flight,
                          const schedule::StageBounds& bounds) {
  int64_t most = 0;
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    Size held = 0;
    for (size_t u = AsIndex(bounds[s]); u < AsIndex(bounds[s + 1]); ++u) {
      held += Size(units[u].bytes) + Size(units[u].kept) * in_flight[s];
    }
    most = std::max(most, held.value());
  }
  return most;
}

class Pipeline {
 public:
  Pipeline(const StagedModel& model, const CostInputs& work,
           const Settings& settings, const PlannedStages& planned, bool exposed,
           Findings& findings)
      : model_(model),
        work_(work),
        settings_(settings),
        planned_(planned),
        units_(planned.units),
        exposed_(exposed),
        findings_(findings) {
    settings_.microbatches = planned.table.microbatches;
    if (settings_.profile == nullptr && work.mesh.device) {
      settings_.profile = FindDeviceProfile(work.mesh.device->profile);
    }
    const step::Reduction given = settings_.reduction;
    settings_ = StageSettings(work, settings_, planned.table.ranks());
    reduces_once_ = settings_.zero == 2 && settings_.reduction != given;
    // Without virtual stages, a rank has no other micro-batch to compute while
    // it sends tokens to experts.
    if (planned.table.ranks() > 1 &&
        planned.table.stages <= planned.table.ranks()) {
      settings_.overlap_experts = false;
    }
  }

  std::optional<PipelineCost> Run() {
    if (!CheckRows()) return std::nullopt;
    out_.axis = planned_.axis;
    out_.layers = units_.layers;
    out_.table = planned_.table;
    out_.capacity = CapacityOf(work_.mesh.device.value_or(Device{}), settings_);
    out_.settings = settings_;
    FindBoundary();
    const StageBounds bounds = Choose();
    Fill(bounds, out_);
    if (timed_) {
      out_.least = StepAt(&StageCost::least, false);
      out_.most = StepAt(&StageCost::most, true);
    }
    AddCommunicationOfOne();
    Suggest(bounds);
    AddAssumptions();
    return std::move(out_);
  }

 private:
  using StageBounds = schedule::StageBounds;

  // Returns true if the rows (sequences) of the batch can be divided equally
  // over the replicas, and the rows of a replica equally over the
  // micro-batches. Otherwise adds an error to `findings_` and returns false.
  bool CheckRows() {
    const int64_t parts = work_.Parts(work_.Batch());
    const int64_t rows = *settings_.batch / parts;
    if (*settings_.batch % parts == 0 && rows % settings_.microbatches == 0) {
      return true;
    }
    std::string message = "a batch of " + CountText(*settings_.batch);
    if (*settings_.batch % parts != 0) {
      message += " is not divided by the " + CountText(parts) +
                 " replicas over " + GroupText(work_.Batch());
    } else {
      if (parts > 1) {
        message += " over " + GroupText(work_.Batch()) + " is " +
                   Counted(rows, "row") + " a replica,";
      } else {
        message += " is";
      }
      message += " not divided by " + Counted(settings_.microbatches,
                                              "micro-batch", "micro-batches");
    }
    findings_.Add(code::kMicrobatchesIndivisible, {}, std::move(message),
                  "give a `--batch` that is a multiple of " +
                      CountText(Times(parts, settings_.microbatches)));
    return false;
  }

  // Computes the bytes and seconds of sending the hidden state of a micro-batch
  // between stages.
  void FindBoundary() {
    const auto tokens = TokensOf(work_, settings_);
    const auto hidden = work_.Hidden();
    if (!tokens || !hidden) return;
    out_.boundary =
        Times(tokens->All(), ShareOf(*hidden, work_.Parts(work_.hidden)),
              int64_t{DtypeBits(settings_.activations) / 8});
    if (settings_.profile == nullptr) return;
    const Network network = NetworkOf(*settings_.profile, work_.mesh);
    out_.hop = CollectiveSeconds(network,
                                 PlaceOf(work_.mesh, network, {planned_.axis}),
                                 Collective::kPpermute, Real(out_.boundary));
  }

  StageCost CostOf(int64_t begin, int64_t end) {
    return StageCostOf(StageInputs(model_, work_, planned_, begin, end),
                       settings_, units_, begin, end);
  }

  // Returns one value for each rank that runs the last stage: whether the rank
  // runs the first stage as well. Such a rank already has the embedding, whose
  // weights the head may share. Returns no values for a single stage.
  std::vector<bool> SharedEnds() const {
    const schedule::Table& table = planned_.table;
    std::vector<bool> out;
    for (int32_t r = 0; r < table.ranks() && table.stages > 1; ++r) {
      if (table.Holds(r, table.stages - 1)) out.push_back(table.Holds(r, 0));
    }
    return out;
  }

  // Returns the cost of the last stage on a rank that also has the first stage.
  // On such a rank, the last stage needs no copy of an embedding that the head
  // shares.
  StageCost WithoutCopy(StageCost last) const {
    const Memory memory = MemoryOf(
        StageInputs(model_, work_, planned_, last.begin, last.end, false),
        settings_);
    last.parameters = memory.most.Of(Component::kParameters);
    last.gradients = memory.most.Of(Component::kGradients);
    last.optimizer = memory.most.Of(Component::kOptimizer);
    if (memory.weights) last.gathered = memory.weights->held;
    return last;
  }

  static double TimeOf(const StageCost& stage) {
    return stage.times.forward + stage.times.input + stage.times.weight;
  }

  // Returns the time of a unit, which is a layer or an end of the model
  // (embedding or head). `cost` is the cost of a stage with only this unit. A
  // stage without layers lacks the collectives of layers. So the time of an end
  // is the time of a stage with the end and the neighbouring layer, minus the
  // time of a stage with that layer.
  double TimeOfUnit(int64_t u, const StageCost& cost) {
    const bool first = u == 0, last = u + 1 == units_.count();
    if ((!first && !last) || units_.layers == 0) return TimeOf(cost);
    const int64_t layer = first ? u + 1 : u - 1;
    const double both =
        TimeOf(CostOf(std::min(u, layer), std::max(u, layer) + 1));
    return std::max(0.0, both - TimeOf(CostOf(layer, layer + 1)));
  }

  // Returns the units (the layers and both ends of the model) with their costs.
  // The costs of equal units are computed once.
  std::vector<schedule::Unit> Units() {
    const std::vector<size_t> kinds = KindsOfUnits(model_.plan, units_);
    std::map<size_t, schedule::Unit> known;
    std::vector<schedule::Unit> out;
    for (int64_t u = 0; u < units_.count(); ++u) {
      const auto [at, fresh] = known.try_emplace(kinds[AsIndex(u)]);
      if (fresh) {
        const StageCost cost = CostOf(u, u + 1);
        at->second = {
            TimeOfUnit(u, cost),
            (Size(cost.parameters.value_or(0)) + cost.gradients.value_or(0) +
             cost.optimizer.value_or(0) + cost.gathered + cost.peak.logits)
                .value(),
            cost.peak.kept};
      }
      out.push_back(at->second);
    }
    return out;
  }

  // Returns the largest number of micro-batches whose activations each stage
  // keeps at the same time.
  std::vector<int64_t> InFlight() const {
    const schedule::Table& table = planned_.table;
    std::vector<int64_t> out;
    for (int32_t stage = 0; stage < table.stages; ++stage) {
      std::vector<int64_t> weights(AsIndex(table.stages), 0);
      weights[AsIndex(stage)] = 1;
      const auto held = schedule::HeldByRank(table, weights);
      out.push_back(*std::max_element(held.begin(), held.end()));
    }
    return out;
  }

  StageBounds Choose() {
    if (planned_.listed || planned_.balance != StageBalance::kSearched) {
      return planned_.bounds;
    }
    std::vector<Division> tried = Search();
    if (tried.empty() && CanSearch()) {
      const auto found =
          schedule::AssignUnits(Units(), InFlight(), std::nullopt);
      if (found) tried.push_back(DivisionOf(*found));
    }
    // The division whose slowest stage is fastest may not have the fastest
    // step. So the schedule is also run with the even division, and the better
    // of the two divisions is returned.
    tried.push_back(DivisionOf(planned_.bounds));
    return BestOf(tried).bounds;
  }

  // A division of the layers into stages that Search has tried.
  struct Division {
    StageBounds bounds;
    // Whether the division fits the memory. If that is unknown, it is kFits.
    Fit fit = Fit::kFits;
    double step = 0;
    // Bytes by which the fullest rank exceeds the capacity.
    int64_t missing = 0;
  };

  static const Division& BestOf(const std::vector<Division>& tried) {
    return *std::min_element(
        tried.begin(), tried.end(), [](const Division& a, const Division& b) {
          return std::tie(a.fit, a.step) < std::tie(b.fit, b.step);
        });
  }

  bool CanSearch() const {
    const int64_t units = units_.count();
    return (Size(planned_.table.stages) * units * units).value() <= kMostSteps;
  }

  // Tries divisions from AssignUnits until one fits in memory, and returns all
  // divisions that were tried. Returns no divisions if a search takes too long.
  std::vector<Division> Search() {
    if (!CanSearch()) return {};
    const std::vector<schedule::Unit> units = Units();
    const std::vector<int64_t> in_flight = InFlight();
    std::vector<Division> tried;
    auto limit = out_.capacity;
    while (tried.size() < kMostDivisions) {
      const auto found = schedule::AssignUnits(units, in_flight, limit);
      if (!found) break;
      tried.push_back(DivisionOf(*found));
      if (!limit || tried.back().fit == Fit::kFits) break;
      // AssignUnits underestimates the bytes of a rank: it ignores the rank's
      // other stages and the allocator's reserve. So the next search allows
      // fewer bytes for each stage than the fullest stage of this division has.
      // The difference is the number of bytes by which the fullest rank exceeds
      // the capacity.
      limit =
          FullestStageBytes(units, in_flight, *found) - tried.back().missing;
    }
    return tried;
  }

  Division DivisionOf(const StageBounds& bounds) {
    PipelineCost cost;
    cost.table = out_.table;
    cost.boundary = out_.boundary;
    cost.hop = out_.hop;
    cost.capacity = out_.capacity;
    Fill(bounds, cost);
    Division out{bounds, cost.Verdict().value_or(Fit::kFits), cost.Step(), 0};
    for (const RankCost& rank : cost.ranks) {
      const int64_t bytes =
          rank.taken ? rank.taken->most : rank.held.total.value_or(0);
      out.missing =
          std::max(out.missing, bytes - out_.capacity.value_or(bytes));
    }
    return out;
  }

  void Fill(const StageBounds& bounds, PipelineCost& out) {
    std::map<std::pair<std::vector<size_t>, bool>, StageCost> known;
    const std::vector<size_t> kinds = KindsOfUnits(model_.plan, units_);
    for (size_t s = 0; s + 1 < bounds.size(); ++s) {
      const std::vector<size_t> own(kinds.begin() + bounds[s],
                                    kinds.begin() + bounds[s + 1]);
      const auto [at, fresh] =
          known.try_emplace({own, bounds[s + 1] == units_.count()});
      if (fresh) at->second = CostOf(bounds[s], bounds[s + 1]);
      StageCost cost = at->second;
      cost.begin = bounds[s];
      cost.end = bounds[s + 1];
      out.stages.push_back(cost);
    }
    // In a schedule that was read from a file, some ranks may have only the
    // last stage, and others both the first and the last stage.
    const std::vector<bool> shared = SharedEnds();
    StageCost last = out.stages.back();
    if (std::count(shared.begin(), shared.end(), true) > 0) {
      last = WithoutCopy(std::move(last));
      if (std::count(shared.begin(), shared.end(), false) == 0) {
        out.stages.back() = last;
      }
    }
    timed_ = timed_ ||
             std::any_of(out.stages.begin(), out.stages.end(),
                         [](const StageCost& stage) { return stage.timed; });
    out.timed = timed_;
    RunTable(out);
    out.ranks = RankCostsOf(out.table, out.stages, last, out.boundary, work_,
                            settings_);
    for (const RankCost& rank : out.ranks) {
      out.after = std::max(out.after, rank.after);
    }
  }

  // Returns whether ranks share the micro-batches of a stage, as in dualpipe.
  bool SharesMicrobatches() const {
    return std::any_of(
        out_.ranks.begin(), out_.ranks.end(), [&](const RankCost& rank) {
          return std::any_of(
              rank.microbatches.begin(), rank.microbatches.end(),
              [&](int64_t own) { return own != settings_.microbatches; });
        });
  }

  void AddCommunicationOfOne() {
    if (!SharesMicrobatches()) return;
    Settings one = settings_;
    one.batch = *settings_.batch / settings_.microbatches;
    one.microbatches = 1;
    for (StageCost& stage : out_.stages) {
      stage.of_one = CommunicationOf(
          StageInputs(model_, work_, planned_, stage.begin, stage.end), one);
    }
  }

  void RunTable(PipelineCost& out) const {
    schedule::Times times;
    for (const StageCost& stage : out.stages) {
      times.stages.push_back(stage.times);
    }
    if (timed_) {
      if (exposed_) {
        times.hop_forward = ExposedHops(out);
      } else {
        times.hop_forward.assign(out.stages.size(), out.hop);
      }
      times.hop_back = times.hop_forward;
    }
    times.exposed = exposed_;
    out.timeline = schedule::Simulate(out.table, times);
  }

  // Returns the seconds of a step in which each stage takes `factor` times as
  // long as expected. Without `exposed`, messages take no time.
  double StepAt(double StageCost::*factor, bool exposed) const {
    schedule::Times times;
    double after = 0;
    for (const StageCost& stage : out_.stages) {
      const double by = stage.*factor;
      times.stages.push_back({by * stage.times.forward, by * stage.times.input,
                              by * stage.times.weight});
      after = std::max(after, by);
    }
    if (exposed) {
      times.hop_forward = ExposedHops(out_);
      times.hop_back = times.hop_forward;
      times.exposed = true;
    }
    return schedule::Simulate(out_.table, times).step + after * out_.after;
  }

  // Returns, for each stage, the seconds of its message to the next stage,
  // during which a rank computes nothing. The links reach the rates of
  // published runs. Ranks in the same host, or in the same rack with one
  // switch, send within it. With virtual stages, a rank computes another stage
  // during half of its messages.
  std::vector<double> ExposedHops(const PipelineCost& cost) const {
    const size_t stages = cost.stages.size();
    if (cost.boundary == 0 || settings_.profile == nullptr) {
      return std::vector<double>(stages, cost.hop);
    }
    const Efficiency& of = settings_.profile->efficiency;
    const Network network = NetworkOf(*settings_.profile, work_.mesh);
    const Place place = PlaceOf(work_.mesh, network, {planned_.axis});
    const double far = of.far * network.leaving / Real(network.inside);
    const double near = of.near * NearRate(network, place);
    const double part = cost.table.stages > cost.table.ranks() ? 0.5 : 1;
    const int64_t ranks = cost.table.ranks();
    std::vector<double> out;
    for (size_t s = 0; s < stages; ++s) {
      const int64_t from = static_cast<int64_t>(s) % ranks;
      const int64_t to = (from + 1) % ranks;
      const bool inside = place.domains <= 1 ||
                          (cost.table.placement == schedule::Placement::kLoop &&
                           from / place.near == to / place.near);
      out.push_back(
          part * (Real(cost.boundary) / (inside ? near : far) + of.latency_s));
    }
    return out;
  }

  // Sets `better` and `better_step` if the best division that Search finds is
  // clearly faster than the requested division and also fits. Does nothing if
  // the layers are unknown, or if the requested division was itself found by a
  // search.
  void Suggest(const StageBounds& bounds) {
    if (!model_.layers_known) return;
    if (!planned_.listed && planned_.balance == StageBalance::kSearched) {
      return;
    }
    const std::vector<Division> tried = Search();
    if (tried.empty()) return;
    const Division& best = BestOf(tried);
    if (best.bounds == bounds ||
        best.fit > out_.Verdict().value_or(Fit::kFits) ||
        best.step >= kClearlyBetter * out_.Step()) {
      return;
    }
    out_.better_step = best.step;
    for (size_t s = 0; s + 1 < best.bounds.size(); ++s) {
      out_.better.push_back(
          LayersIn(best.bounds[s], best.bounds[s + 1], units_.layers).count());
    }
  }

  void AddAssumptions() {
    auto& out = out_.assumptions;
    if (!planned_.listed && planned_.balance == StageBalance::kSearched &&
        !CanSearch()) {
      out.push_back("the division of " + CountText(units_.layers) +
                    " layers takes too long to search for, so that they are "
                    "divided evenly");
    }
    out.push_back(timed_ ? "a task takes its part of the expected time of its "
                           "stage's own program"
                         : "without a profile, a task takes the time of its "
                           "floating-point operations, and messages none");
    out.emplace_back(exposed_ ? "a rank computes nothing while it sends"
                              : "messages overlap with computation");
    out.emplace_back(
        "the optimizer waits for all ranks, so that the bubble of a step "
        "counts");
    out.emplace_back(
        "a rank keeps a message that it received and one that it "
        "sends");
    if (reduces_once_) {
      out.emplace_back(
          "gradients are reduced after the last micro-batch, so that ZeRO "
          "stage 2 does not shard them until then");
    }
    if (std::any_of(
            out_.stages.begin(), out_.stages.end(),
            [](const StageCost& stage) { return stage.gathered > 0; })) {
      const bool once = settings_.reduction == step::Reduction::kOnce;
      out.push_back(
          std::string("weights are gathered once a step and held until its "
                      "end") +
          (once ? ", and gradients are reduced after the last micro-batch"
                : ""));
    }
    const Stack& stack = StackOf(work_, settings_);
    out.push_back("memory as the software " + std::string(stack.name) +
                  " takes it" +
                  (settings_.stack == nullptr ? " (assumed: --stack)" : ""));
    if (!work_.hidden_known) {
      out.emplace_back(
          "the plan file does not contain the sharding of the hidden state: "
          "assumed to be that of the query's heads");
    }
    out.insert(out.end(), work_.notes.begin(), work_.notes.end());
    const auto at = work_.mesh.Find(planned_.axis);
    if (at && std::any_of(work_.mesh.axes.begin(),
                          work_.mesh.axes.begin() + static_cast<ptrdiff_t>(*at),
                          [](const MeshAxis& axis) { return axis.size > 1; })) {
      out.push_back(
          "the devices of a stage are taken as neighbours, although `" +
          planned_.axis + "` is not the outermost axis");
    }
  }

  const StagedModel model_;
  const CostInputs& work_;
  // The caller's settings, adapted to the pipeline: the number of micro-batches
  // is that of the schedule, and a missing profile is replaced by the mesh's
  // profile.
  Settings settings_;
  const PlannedStages& planned_;
  const StageUnits& units_;
  const bool exposed_;
  Findings& findings_;
  PipelineCost out_;
  bool timed_ = false;
  // True if the caller's settings reduce gradients in each micro-batch, and
  // StageSettings() changed this to once a step because of ZeRO stage 2.
  bool reduces_once_ = false;
};

}  // namespace

std::optional<PipelineCost> PipelineCostOf(const StagedModel& model,
                                           const CostInputs& work,
                                           const Settings& settings,
                                           const PlannedStages& stages,
                                           bool exposed, Findings& findings) {
  return Pipeline(model, work, settings, stages, exposed, findings).Run();
}

}  // namespace shardc::cost
