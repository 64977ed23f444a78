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
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/rates.h"
#include "cost/stage_cost.h"
#include "cost/time.h"
#include "cost/unknown_roles.h"
#include "schedule/schedules.h"
#include "source/finding.h"
#include "source/size.h"
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
    overlap_given_ = settings.overlap_experts;
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
      one_stage_ = true;
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
    out_.hop =
        CollectiveSeconds(network, SpanOf(work_.mesh, network, {planned_.axis}),
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

  StageBounds Choose() {
    if (planned_.listed || planned_.balance != StageBalance::kSearched) {
      return planned_.bounds;
    }
    std::vector<Division> tried = Search();
    if (tried.empty() && CanSearch()) {
      const auto found = schedule::AssignUnits(
          Units(), schedule::HeldByStage(planned_.table), std::nullopt);
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
    const std::vector<int64_t> in_flight =
        schedule::HeldByStage(planned_.table);
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
    TakeTimes(out);
    RunTable(out);
    out.ranks = RankCostsOf(out.table, out.stages, last, out.boundary, work_,
                            settings_);
    for (const RankCost& rank : out.ranks) {
      out.after = std::max(out.after, rank.after);
    }
  }

  // Sets whether times are seconds. If a fact is missing that the time of one
  // stage needs, no stage gets a time: the other stages may be known, but a
  // step is as long as all of them, and so is the bubble. FLOPs, the times
  // without a device, need no communication.
  void TakeTimes(PipelineCost& out) {
    const bool known = std::none_of(
        out.stages.begin(), out.stages.end(), [&](const StageCost& stage) {
          return CanBeSettled(stage.unknown) ||
                 (settings_.profile != nullptr &&
                  CanBeSettled(stage.communication.unknown));
        });
    timed_ = known &&
             (timed_ ||
              std::any_of(out.stages.begin(), out.stages.end(),
                          [](const StageCost& stage) { return stage.timed; }));
    out.timed = timed_;
    if (known) return;
    for (StageCost& stage : out.stages) {
      stage.times = {0, 0, 0};
      stage.after = 0;
      stage.timed = false;
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
    const GroupSpan place = SpanOf(work_.mesh, network, {planned_.axis});
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
          part * (Real(cost.boundary) / (inside ? near : far) + of.latency_s) /
          of.messages);
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
    if (timed_) {
      Settings given = settings_;
      given.overlap_experts = overlap_given_;
      AddExpertAssumptions(work_, given, one_stage_, out);
    }
    if (!work_.hidden_known) {
      out.emplace_back(
          "the plan has no `activations`: the hidden state is assumed to be "
          "sharded as the query's heads");
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
  // Whether ranks have no virtual stages, and Settings::overlap_experts of the
  // caller.
  bool one_stage_ = false, overlap_given_ = false;
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

// Combines the figures of a pipeline's stages and ranks. It decides whether all
// ranks fit the memory. It also lists the collectives and messages that a
// device of a rank sends in a step. A rank with several stages sends the
// collectives of all of them. For example:
//
//   a rank with two stages of 4 layers each, all_reduce over tp of 2 GiB each
//     ->  all_reduce over tp of 4 GiB, and the messages of both stages

namespace {

// Returns "rank 3", "ranks 0, 3" or "ranks 1-6" for ascending numbers.
std::string RanksText(const std::vector<size_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    out += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (end > i + 1) {
      out += (end > i + 2 ? "-" : ", ") + std::to_string(ranks[end - 1]);
    }
    i = end;
  }
  return out;
}

bool HoldEqual(const Report& a, const Report& b) {
  return a.memory.most.by == b.memory.most.by &&
         a.memory.Expected() == b.memory.Expected();
}

bool SendEqual(const Report& a, const Report& b) {
  return std::equal(
      a.communication.transfers.begin(), a.communication.transfers.end(),
      b.communication.transfers.begin(), b.communication.transfers.end(),
      [](const Transfer& one, const Transfer& other) {
        return one.part == other.part && one.backward == other.backward &&
               one.kind == other.kind && one.axes == other.axes &&
               one.count == other.count && one.sent == other.sent;
      });
}

// Returns the collectives of one kind that a stage sends for `part` of its
// `all` micro-batches. `sent` are the collectives of all micro-batches, and
// `of_one` those of a step with one micro-batch. The difference shows what each
// further micro-batch adds. So collectives that run once a step, such as the
// all-gather of weights that are then held, are counted only once.
Transfer TransferOfPart(Transfer sent, const Communication& of_one,
                        int64_t part, int64_t all) {
  if (part == all || all < 2 || sent.count == 0) return sent;
  const auto one = std::find_if(
      of_one.transfers.begin(), of_one.transfers.end(),
      [&](const Transfer& other) {
        return other.part == sent.part && other.backward == sent.backward &&
               other.kind == sent.kind && other.axes == sent.axes;
      });
  if (one == of_one.transfers.end()) return sent;
  const auto of_part = [&](int64_t whole, int64_t single) {
    return (Size((whole - single) / (all - 1)) * (part - 1) + single).value();
  };
  const int64_t count = of_part(sent.count, one->count);
  sent.seconds *= Real(count) / Real(sent.count);
  sent.sent = of_part(sent.sent, one->sent);
  sent.count = count;
  return sent;
}

// Returns one report for each set of ranks whose reports are equal. `fill` adds
// the costs of a rank to a report, and `equal` compares these costs.
std::vector<Report> ReportsOf(
    const PipelineCost& cost, const Mesh& mesh,
    const std::function<void(const RankCost&, Report&)>& fill,
    bool (*equal)(const Report&, const Report&)) {
  std::vector<Report> out;
  std::vector<std::vector<size_t>> ranks;
  for (size_t r = 0; r < cost.ranks.size(); ++r) {
    Report one;
    fill(cost.ranks[r], one);
    const auto same =
        std::find_if(out.begin(), out.end(),
                     [&](const Report& other) { return equal(one, other); });
    const auto at = static_cast<size_t>(same - out.begin());
    if (same == out.end()) {
      one.mesh = mesh;
      one.settings = cost.settings;
      one.assumptions = cost.assumptions;
      out.push_back(std::move(one));
      ranks.emplace_back();
    }
    ranks[at].push_back(r);
  }
  for (size_t i = 0; i < out.size(); ++i) out[i].ranks = RanksText(ranks[i]);
  return out;
}

}  // namespace

double PipelineCost::Unevenness() const {
  double longest = 0, sum = 0;
  for (const StageCost& stage : stages) {
    const double time =
        stage.times.forward + stage.times.input + stage.times.weight;
    longest = std::max(longest, time);
    sum += time;
  }
  return sum > 0 ? longest * Real(std::ssize(stages)) / sum : 1;
}

std::optional<int64_t> PipelineCost::Fullest() const {
  std::optional<int64_t> out = 0;
  for (const RankCost& rank : ranks) {
    out = out && rank.held.total
              ? std::optional(std::max(*out, *rank.held.total))
              : std::nullopt;
  }
  return out;
}

const RankCost* PipelineCost::FullestRank() const {
  const RankCost* out = nullptr;
  for (const RankCost& rank : ranks) {
    if (!rank.taken) return nullptr;
    if (out == nullptr || rank.taken->expected > out->taken->expected) {
      out = &rank;
    }
  }
  return out;
}

std::optional<Fit> PipelineCost::Verdict() const {
  if (!capacity) return std::nullopt;
  if (FullestRank() == nullptr) {
    // Even if the known components fit, the unknown ones may exceed the
    // capacity.
    const auto tensors = Fullest();
    if (!tensors || *tensors <= *capacity) return std::nullopt;
    return Fit::kExceeds;
  }
  bool fits = true, known = true;
  for (const RankCost& rank : ranks) {
    if (rank.taken->least > *capacity) return Fit::kExceeds;
    fits = fits && rank.taken->most <= *capacity;
    known = known && rank.held.Of(Component::kLogits) &&
            rank.held.Of(Component::kActivations);
  }
  if (!fits) return Fit::kMayFit;
  return known ? std::optional(Fit::kFits) : std::nullopt;
}

std::optional<bool> PipelineCost::Fits() const {
  const auto verdict = Verdict();
  return verdict ? std::optional(*verdict == Fit::kFits) : std::nullopt;
}

Communication CommunicationOf(const PipelineCost& cost, const RankCost& rank) {
  Communication out;
  std::map<std::tuple<std::string_view, bool, Collective, AxisGroup>, size_t>
      known;
  for (size_t i = 0; i < rank.stages.size(); ++i) {
    const StageCost& stage = cost.stages[AsIndex(rank.stages[i])];
    const Communication& own = stage.communication;
    for (const Transfer& all : own.transfers) {
      const Transfer one = TransferOfPart(
          all, stage.of_one, rank.microbatches[i], cost.table.microbatches);
      const auto [at, fresh] = known.try_emplace(
          {one.part, one.backward, one.kind, one.axes}, out.transfers.size());
      if (fresh) {
        out.transfers.push_back(one);
        continue;
      }
      Transfer& sum = out.transfers[at->second];
      sum.count = (Size(sum.count) + one.count).value();
      sum.sent = (Size(sum.sent) + one.sent).value();
      sum.seconds += one.seconds;
    }
    AddNotKnown(own.unknown, out.unknown);
    out.roles_known = out.roles_known && own.roles_known;
    out.heads_known = out.heads_known && own.heads_known;
    out.lacks_attention = out.lacks_attention || own.lacks_attention;
  }
  for (const bool backward : {false, true}) {
    const int64_t sent = backward ? rank.sent_back : rank.sent_forward;
    if (sent == 0 || cost.boundary == 0) continue;
    const int64_t count = sent / cost.boundary;
    out.transfers.push_back({"stages",
                             backward,
                             Collective::kPpermute,
                             {cost.axis},
                             count,
                             sent,
                             Real(count) * cost.hop});
  }
  return out;
}

bool PipelineCost::KnowsSums() const {
  return std::all_of(stages.begin(), stages.end(),
                     [](const StageCost& stage) { return stage.sums_known; });
}

std::vector<NotKnown> PipelineCost::Unknown() const {
  std::vector<NotKnown> out = UnknownBesidesSums();
  if (!KnowsSums()) AddNotKnown({MissingSums()}, out);
  return out;
}

std::vector<NotKnown> PipelineCost::UnknownBesidesSums() const {
  std::vector<NotKnown> out;
  for (const StageCost& stage : stages) {
    AddNotKnown(stage.unknown, out);
    if (stage.lacking) AddNotKnown({*stage.lacking}, out);
  }
  if (std::any_of(stages.begin(), stages.end(),
                  [](const StageCost& stage) { return !stage.logits_known; })) {
    AddNotKnown({{.what = std::string(kUnknownLogits)}}, out);
  }
  return out;
}

std::vector<Report> ReportsOfMemory(const PipelineCost& cost,
                                    const Mesh& mesh) {
  const auto fill = [&](const RankCost& rank, Report& out) {
    out.memory.most = out.memory.least = rank.held;
    out.memory.taken = rank.taken;
    out.memory.capacity = cost.capacity;
    out.memory.unknown = cost.Unknown();
    out.memory.at_least = !cost.UnknownBesidesSums().empty();
  };
  return ReportsOf(cost, mesh, fill, HoldEqual);
}

std::vector<Report> ReportsOfTraffic(const PipelineCost& cost,
                                     const Mesh& mesh) {
  const auto fill = [&](const RankCost& rank, Report& out) {
    out.communication = CommunicationOf(cost, rank);
  };
  return ReportsOf(cost, mesh, fill, SendEqual);
}

// Adds up the bytes that a rank of a pipeline holds at its peak. During the
// entire step, a rank holds the states of all its stages, and the weights that
// the stages gather once a step. The number of micro-batches whose activations
// it keeps changes during the schedule. The most bytes that these activations
// take at any time are added. A rank that sends messages also holds two
// messages.
//
// Some bytes are needed only while a stage runs a micro-batch. A rank runs one
// stage at a time, so only the bytes of the stage that needs the most are
// added. For example:
//
//   stages 0 and 3: the backward pass of a layer takes 2 GiB in both, the loss
//   of stage 3 takes 3 GiB  ->  3 GiB in addition to states and activations
//
// TakenOf then adds the memory of the software to this peak, as for a step
// without stages.

namespace {

// The number of messages that a rank holds: one received, and one to be sent.
constexpr int64_t kBuffers = 2;

class Ranks {
 public:
  Ranks(const schedule::Table& table, std::span<const StageCost> stages,
        const StageCost& shared_last, int64_t boundary, const CostInputs& work,
        const Settings& settings)
      : table_(table),
        stages_(stages),
        shared_last_(shared_last),
        boundary_(boundary),
        work_(work),
        settings_(settings) {
    std::vector<int64_t> kept, least_kept;
    for (const StageCost& stage : stages) {
      kept.push_back(stage.peak.kept);
      least_kept.push_back(stage.peak.least_kept);
    }
    kept_ = schedule::HeldByRank(table, kept);
    least_kept_ = schedule::HeldByRank(table, least_kept);
  }

  RankCost CostOf(int32_t r) const {
    RankCost out;
    Size parameters = 0, gradients = 0, optimizer = 0, gathered = 0;
    bool known = true, kept = true, sums = true, logits = true;
    for (int32_t s = 0; s < table_.stages; ++s) {
      if (!table_.Holds(r, s)) continue;
      const bool shared = s > 0 && s + 1 == table_.stages && table_.Holds(r, 0);
      const StageCost& stage = shared ? shared_last_ : stages_[AsIndex(s)];
      out.stages.push_back(s);
      out.microbatches.push_back(MicrobatchesOf(r, s));
      known = known && stage.States();
      kept = kept && stage.unknown.empty();
      sums = sums && stage.sums_known;
      logits = logits && stage.logits_known;
      parameters += stage.parameters.value_or(0);
      gradients += stage.gradients.value_or(0);
      optimizer += stage.optimizer.value_or(0);
      gathered += stage.gathered;
      out.after += stage.after;
    }
    CountSends(r, out);
    const bool sends = out.sent_forward + out.sent_back > 0;
    const Peak peak = PeakOfStages(r, out.stages, sends);
    const auto set = [&](Component one, Size bytes, bool is_known = true) {
      out.held.by[static_cast<size_t>(one)] =
          is_known ? bytes.Checked() : std::nullopt;
    };
    set(Component::kParameters, parameters, known);
    set(Component::kGradients, gradients, known);
    set(Component::kOptimizer, optimizer, known);
    set(Component::kCache, 0);
    const Size activations = Size(peak.kept) + peak.working;
    set(Component::kActivations, activations, kept && sums);
    if (kept && !sums) {
      out.held.parts[static_cast<size_t>(Component::kActivations)] =
          activations.value();
    }
    set(Component::kLogits, peak.logits, kept && logits);
    set(Component::kGathered, gathered + peak.gathered);
    const Size states = parameters + gradients + optimizer + gathered;
    if (known) {
      out.held.total = (states + peak.kept + peak.Besides()).Checked();
    }
    if (out.held.total && kept) {
      if (!work_.LacksLayers()) {
        out.taken = TakenOf(work_, settings_, states.value(), peak);
      }
    }
    return out;
  }

 private:
  Peak PeakOfStages(int32_t r, const std::vector<int32_t>& stages,
                    bool sends) const {
    Peak out;
    int64_t least = 0, most = 0;
    for (const int32_t s : stages) {
      const Peak& own = stages_[AsIndex(s)].peak;
      if (s == stages.front() || own.Besides() > out.Besides()) out = own;
      least = std::max(least, own.least);
      most = std::max(most, own.most);
    }
    const int64_t buffers = sends ? Times(kBuffers, boundary_) : 0;
    out.least = least;
    out.most = most;
    out.kept = (Size(kept_[AsIndex(r)]) + buffers).value();
    out.least_kept = (Size(least_kept_[AsIndex(r)]) + buffers).value();
    return out;
  }

  int64_t MicrobatchesOf(int32_t r, int32_t stage) const {
    const auto first =
        table_.owners.begin() + static_cast<ptrdiff_t>(table_.At(stage, 0));
    return std::count(first, first + table_.microbatches, r);
  }

  void CountSends(int32_t r, RankCost& rank) const {
    for (const schedule::Cell& cell : table_.rows[AsIndex(r)]) {
      schedule::ForEachTask(cell, [&](const schedule::Task& task) {
        const bool forward = task.kind == schedule::TaskKind::kForward;
        const int32_t to = task.stage + (forward ? 1 : -1);
        if (to < 0 || to >= table_.stages || (!forward && !task.SendsBack()) ||
            table_.RankOf(to, task.micro) == r) {
          return;
        }
        int64_t& sent = forward ? rank.sent_forward : rank.sent_back;
        sent = (Size(sent) + boundary_).value();
      });
    }
  }

  const schedule::Table& table_;
  const std::span<const StageCost> stages_;
  const StageCost& shared_last_;
  const int64_t boundary_;
  const CostInputs& work_;
  const Settings& settings_;
  // For each rank, the largest number of bytes of activations that it keeps at
  // the same time: the expected number, and a lower estimate.
  std::vector<int64_t> kept_, least_kept_;
};

}  // namespace

std::vector<RankCost> RankCostsOf(const schedule::Table& table,
                                  std::span<const StageCost> stages,
                                  const StageCost& shared_last,
                                  int64_t boundary, const CostInputs& work,
                                  const Settings& settings) {
  const Ranks ranks(table, stages, shared_last, boundary, work, settings);
  std::vector<RankCost> out;
  for (int32_t r = 0; r < table.ranks(); ++r) out.push_back(ranks.CostOf(r));
  return out;
}

}  // namespace shardc::cost
