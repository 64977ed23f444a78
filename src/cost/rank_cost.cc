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
#include "cost/rank_cost.h"

#include <algorithm>

#include "source/index.h"

namespace shardc::cost {
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
    bool known = true, kept = true, logits = true;
    for (int32_t s = 0; s < table_.stages; ++s) {
      if (!table_.Holds(r, s)) continue;
      const bool shared = s > 0 && s + 1 == table_.stages && table_.Holds(r, 0);
      const StageCost& stage = shared ? shared_last_ : stages_[AsIndex(s)];
      out.stages.push_back(s);
      out.microbatches.push_back(MicrobatchesOf(r, s));
      known = known && stage.States();
      kept = kept && stage.unknown.empty();
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
    set(Component::kActivations, Size(peak.kept) + peak.working, kept);
    set(Component::kLogits, peak.logits, kept && logits);
    set(Component::kGathered, gathered + peak.gathered);
    const Size states = parameters + gradients + optimizer + gathered;
    if (known) {
      out.held.total = (states + peak.kept + peak.Besides()).Checked();
    }
    if (out.held.total && kept) {
      out.taken = TakenOf(work_, settings_, states.value(), peak);
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
