// Computes the cost of a pipeline. Each stage is costed as a model with fewer
// layers on the mesh without the pipeline's axis, by the same formulas as a
// complete model. A rank has the sums over its stages. Its activations are the
// most bytes that it keeps at any point of its row of the schedule.
//
//   Llama 3 8B on pp:4,tp:2, bfloat16, 8 layers a rank: parameters
//   2,270,298,112 on rank 0, which has the embedding, 1,744,961,536 on ranks 1
//   and 2, 2,270,306,304 on rank 3, which has the final norm and the head.
#include "cost/pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>
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

constexpr int64_t kBuffers = 2;  // messages: one received, one to be sent
// The report names another division of the layers if its step takes less than
// this fraction of the time of a step with the division in use.
constexpr double kClearlyBetter = 0.99;

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
    // Pipelines of PyTorch (torch/distributed/pipelining/stage.py,
    // backward_maybe_with_nosync) and of Megatron-LM add the gradients of a
    // stage's micro-batches and reduce the sum after the last one, under ZeRO
    // stage 2 too.
    if (settings_.zero == 2 &&
        settings_.reduction == step::Reduction::kSharded) {
      settings_.reduction = step::Reduction::kOnce;
      reduces_once_ = true;
    }
    if (settings_.profile == nullptr && work.mesh.device) {
      settings_.profile = FindDeviceProfile(work.mesh.device->profile);
    }
  }

  std::optional<PipelineCost> Run() {
    if (!CheckRows()) return std::nullopt;
    out_.axis = planned_.axis;
    out_.layers = units_.layers;
    out_.table = planned_.table;
    out_.capacity = CapacityOf();
    FindBoundary();
    const StageBounds bounds = Choose();
    Fill(bounds, out_);
    Suggest(bounds);
    AddAssumptions();
    return std::move(out_);
  }

 private:
  using StageBounds = schedule::StageBounds;

  // Returns false after a finding if the number of micro-batches does not
  // divide the rows of a replica.
  bool CheckRows() {
    const int64_t parts = work_.Parts(work_.Batch());
    const int64_t rows = *settings_.batch / parts;
    if (*settings_.batch % parts == 0 && rows % settings_.microbatches == 0) {
      return true;
    }
    findings_.Add(
        code::kMicrobatchesIndivisible, {},
        Counted(*settings_.batch, "row") + " over " + GroupText(work_.Batch()) +
            " are " + CountText(rows) + " a replica, not divided by " +
            Counted(settings_.microbatches, "micro-batch", "micro-batches"),
        "give a `--batch` that is a multiple of " +
            CountText(Times(parts, settings_.microbatches)));
    return false;
  }

  std::optional<int64_t> CapacityOf() const {
    if (settings_.memory) return settings_.memory;
    if (work_.mesh.device && work_.mesh.device->memory_bytes) {
      return work_.mesh.device->memory_bytes;
    }
    if (settings_.profile == nullptr) return std::nullopt;
    return settings_.profile->DeviceMemory();
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

  // Returns whether every rank that has the last stage also has the first one,
  // and so the embedding whose weights the head shares.
  bool SharesEnds() const {
    const schedule::Table& table = planned_.table;
    if (table.stages == 1) return false;
    for (int32_t r = 0; r < table.ranks(); ++r) {
      if (table.Holds(r, table.stages - 1) && !table.Holds(r, 0)) return false;
    }
    return true;
  }

  void DropCopies(StageCost& last) const {
    const Memory memory = MemoryOf(
        StageInputs(model_, work_, planned_, last.begin, last.end, false),
        settings_);
    last.parameters = memory.most.Of(Component::kParameters);
    last.gradients = memory.most.Of(Component::kGradients);
    last.optimizer = memory.most.Of(Component::kOptimizer);
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
        at->second = {cost.times.forward + cost.times.input + cost.times.weight,
                      (Size(cost.parameters.value_or(0)) +
                       cost.gradients.value_or(0) + cost.optimizer.value_or(0))
                          .value(),
                      cost.kept};
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
    const StageBounds& even = planned_.bounds;
    auto balanced = schedule::AssignUnits(Units(), InFlight(), out_.capacity);
    if (!balanced) {
      balanced = schedule::AssignUnits(Units(), InFlight(), std::nullopt);
    }
    // The division whose longest stage is shortest need not have the shortest
    // step, so the schedule is run with this division and with the even one.
    return balanced && StepOf(*balanced) <= StepOf(even) ? *balanced : even;
  }

  double StepOf(const StageBounds& bounds) {
    PipelineCost cost;
    cost.table = out_.table;
    cost.boundary = out_.boundary;
    cost.hop = out_.hop;
    Fill(bounds, cost);
    return cost.Step();
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
    if (SharesEnds()) DropCopies(out.stages.back());
    timed_ = timed_ ||
             std::any_of(out.stages.begin(), out.stages.end(),
                         [](const StageCost& stage) { return stage.timed; });
    out.timed = timed_;
    RunTable(out);
    FillRanks(out);
  }

  void RunTable(PipelineCost& out) const {
    schedule::Times times;
    for (const StageCost& stage : out.stages) {
      times.stages.push_back(stage.times);
    }
    if (timed_) {
      times.hop_forward.assign(out.stages.size(), out.hop);
      times.hop_back = times.hop_forward;
    }
    times.exposed = exposed_;
    out.timeline = schedule::Simulate(out.table, times);
  }

  void FillRanks(PipelineCost& out) const {
    std::vector<int64_t> kept, least_kept;
    for (const StageCost& stage : out.stages) {
      kept.push_back(stage.kept);
      least_kept.push_back(stage.least_kept);
    }
    const auto held = schedule::HeldByRank(out.table, kept);
    const auto least_held = schedule::HeldByRank(out.table, least_kept);
    for (int32_t r = 0; r < out.table.ranks(); ++r) {
      RankCost rank;
      Size parameters = 0, gradients = 0, optimizer = 0;
      int64_t working = 0, logits = 0, gathered = 0;
      double after = 0;
      bool known = true;
      for (int32_t s = 0; s < out.table.stages; ++s) {
        if (!out.table.Holds(r, s)) continue;
        const StageCost& stage = out.stages[AsIndex(s)];
        rank.stages.push_back(s);
        known = known && stage.parameters && stage.gradients && stage.optimizer;
        parameters += stage.parameters.value_or(0);
        gradients += stage.gradients.value_or(0);
        optimizer += stage.optimizer.value_or(0);
        working = std::max(working, stage.working);
        logits = std::max(logits, stage.logits);
        gathered = std::max(gathered, stage.gathered);
        after += stage.after;
      }
      CountSends(r, out, rank);
      const bool sends = rank.sent_forward + rank.sent_back > 0;
      Size activations = Size(held[AsIndex(r)]) + working;
      if (sends) activations += Times(kBuffers, out.boundary);
      const auto set = [&](Component one, std::optional<int64_t> bytes) {
        rank.held.by[static_cast<size_t>(one)] = bytes;
      };
      const auto if_known = [&](Size size) {
        return known ? size.Checked() : std::nullopt;
      };
      set(Component::kParameters, if_known(parameters));
      set(Component::kGradients, if_known(gradients));
      set(Component::kOptimizer, if_known(optimizer));
      set(Component::kCache, 0);
      set(Component::kActivations, activations.Checked());
      set(Component::kLogits, logits);
      set(Component::kGathered, gathered);
      rank.held.total = if_known(parameters + gradients + optimizer +
                                 activations + logits + gathered);
      const int64_t buffers = sends ? Times(kBuffers, out.boundary) : 0;
      rank.taken =
          TakenBy(rank, out, (Size(held[AsIndex(r)]) + buffers).value(),
                  (Size(least_held[AsIndex(r)]) + buffers).value());
      out.after = std::max(out.after, after);
      out.ranks.push_back(std::move(rank));
    }
  }

  // Returns the memory of a rank. `held` are its buffers and the activations
  // that it keeps of all micro-batches. The memory that a stage needs only
  // while it runs one micro-batch is counted for the stage that needs the most,
  // because a rank runs one stage at a time.
  std::optional<TakenBytes> TakenBy(const RankCost& rank,
                                    const PipelineCost& out, int64_t held,
                                    int64_t least_held) const {
    const Stack& stack = StackOf(work_, settings_);
    const double most_factor = stack.memory.most_allocator;
    if (!rank.held.total) return std::nullopt;
    int64_t states = 0, least = 0, most = 0, context = 0;
    for (const int32_t s : rank.stages) {
      const StageCost& stage = out.stages[AsIndex(s)];
      const auto own = stage.States();
      if (!own) return std::nullopt;
      states = (Size(states) + *own).value();
      context = stage.context;
      if (!stage.taken) {  // no layers: the embedding or the head alone
        const int64_t tensors = (Size(stage.logits) + stage.gathered).value();
        most = std::max(most, Grown(tensors, most_factor) + context);
        continue;
      }
      least = std::max(least, stage.taken->least - *own - stage.least_kept);
      most = std::max(
          most, stage.taken->most -
                    Grown((Size(*own) + stage.kept).value(), most_factor));
    }
    TakenBytes taken;
    taken.stack = &stack;
    taken.stack_assumed = settings_.stack == nullptr;
    taken.expected = Grown(*rank.held.total, stack.memory.allocator);
    taken.least =
        std::min((Size(states) + least_held + least).value(), taken.expected);
    // Stages are costed without the pipeline's axis, so the communicators of
    // that axis are added.
    const int64_t axis = ContextBytes(work_, stack) - context;
    taken.most =
        (Size(Grown((Size(states) + held).value(), most_factor)) + most + axis)
            .value();
    taken.most = std::max(taken.most, taken.expected);
    return taken;
  }

  static void CountSends(int32_t r, const PipelineCost& out, RankCost& rank) {
    for (const schedule::Cell& cell : out.table.rows[AsIndex(r)]) {
      schedule::ForEachTask(cell, [&](const schedule::Task& task) {
        const bool forward = task.kind == schedule::TaskKind::kForward;
        const int32_t to = task.stage + (forward ? 1 : -1);
        if (to < 0 || to >= out.table.stages ||
            (!forward && !task.SendsBack()) ||
            out.table.RankOf(to, task.micro) == r) {
          return;
        }
        int64_t& sent = forward ? rank.sent_forward : rank.sent_back;
        sent = (Size(sent) + out.boundary).value();
      });
    }
  }

  // Sets `better` and `better_step` if another division is clearly faster than
  // the requested one.
  void Suggest(const StageBounds& bounds) {
    if (!model_.layers_known) return;
    if (!planned_.listed && planned_.balance == StageBalance::kSearched) {
      return;
    }
    const auto best = schedule::AssignUnits(Units(), InFlight(), out_.capacity);
    if (!best || *best == bounds) return;
    const double step = StepOf(*best);
    if (step >= kClearlyBetter * out_.Step()) return;
    out_.better_step = step;
    for (size_t s = 0; s + 1 < best->size(); ++s) {
      out_.better.push_back(
          LayersIn((*best)[s], (*best)[s + 1], units_.layers).count());
    }
  }

  void AddAssumptions() {
    auto& out = out_.assumptions;
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
    const Stack& stack = StackOf(work_, settings_);
    out.push_back("memory as the software " + std::string(stack.name) +
                  " takes it" +
                  (settings_.stack == nullptr ? " (assumed: --stack)" : ""));
    if (!work_.hidden_known) {
      out.emplace_back(
          "the plan file does not contain the sharding of the hidden state: "
          "assumed to be that of the query's heads");
    }
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
  Settings settings_;  // with the micro-batches and the profile in use
  const PlannedStages& planned_;
  const StageUnits& units_;
  const bool exposed_;
  Findings& findings_;
  PipelineCost out_;
  bool timed_ = false;
  bool reduces_once_ = false;  // ZeRO stage 2, without a requested reduction
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
