// Computes lower bounds of the times of pipelines, because the exact time of a
// pipeline is expensive to compute. The bound assumes that the layers are
// divided evenly and that nothing is sent between stages. The bound is the time
// that a rank computes and communicates, plus the least bubble (idle time) of
// the schedule. The bubble of the schedule interleaved is a fraction of the
// time of the tasks: (ranks - 1) / (stages on a rank * micro-batches). For
// example, with 4 ranks, 2 stages on each rank and 8 micro-batches, the bound
// is
//
//   tasks / 4 * (1 + 3 / (2 * 8)) + after / 4
//
// where `tasks` is the time of the forward and backward passes of all
// micro-batches on all ranks, and `after` is the time of the reduction of the
// gradients over replicas and of the optimizer's update.
//
// The tasks of a single micro-batch run one after another, because each task
// needs the result of the stage before. With few micro-batches, this chain may
// take longer than the first term above. The bound then has the time of the
// chain instead of this term.
//
// A pipeline is left out if it cannot fit in a device's memory. The check
// assumes that each rank has an equal part of the layers, with their states and
// activations. In reality the fullest rank has at least as much.
#include "search/pipelines.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "cost/rates.h"
#include "cost/stage_cost.h"
#include "schedule/schedules.h"
#include "search/pricer.h"
#include "source/list.h"
#include "source/process.h"
#include "source/size.h"

namespace shardc::search {
namespace {

// The limits of models with experts that hold without --unmeasured, because no
// measured run is beyond them: the ranks, the chunks, the part of the memory,
// the sequences of a micro-batch in each replica, and the fraction of all
// experts over whose number of devices tokens are sent at least.
constexpr int64_t kMostRanksWithExperts = 16;
constexpr int32_t kMostChunksWithExperts = 8;
constexpr double kMemoryWithExperts = 0.9;
constexpr int64_t kMostSequencesWithExperts = 3;
constexpr int64_t kExpertsOnDevice = 16;

// The numbers of stages per rank (chunks) that are tried.
constexpr int32_t kChunks[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
constexpr int32_t kMostChunks = 10;
// A forward task takes at least this fraction of a stage's time. A backward
// task takes at most 3.5 times as long as the forward task: at most 2.5 times
// for its gradients, and once for rematerialisation. The fraction is therefore
// at least 1 / (1 + 3.5) = 0.22, and 0.2 leaves a margin.
constexpr double kLeastForward = 0.2;
// The least bubble of zero-bubble schedules, as a fraction of 1f1b's. With
// tasks F (forward), B (gradients of inputs) and W (gradients of weights), the
// bubble is (ranks - 1)(F + B + W) in 1f1b and (ranks - 1)(F + B - W) in zb-h1.
// W is at most a third of F + B + W, so at least a third remains.
constexpr double kFilled = 1.0 / 3;
// The least fraction of a micro-batch's tasks that are not gradients of
// weights.
constexpr double kWithoutWeights = 2.0 / 3;

int64_t AllOthers(int64_t ranks) { return ranks - 1; }
int64_t OneForEachRank(int64_t ranks, int64_t /*chunks*/, int64_t micro) {
  return std::min(micro, ranks);
}
int64_t HalfOfOthers(int64_t ranks) { return ranks / 2 - 1; }

// Each function `kept` returns the same numbers as schedule::HeldByRank, which
// counts the kept activations in the table of a schedule.
constexpr std::array kBounds = {
    ScheduleBound{.name = "1f1b",
                  .measured = true,
                  .waits_for = AllOthers,
                  .kept = OneForEachRank},
    ScheduleBound{.name = "interleaved",
                  .least_chunks = 2,
                  .most_chunks = kMostChunks,
                  .measured = true,
                  .waits_for = AllOthers,
                  .kept =
                      [](int64_t ranks, int64_t chunks, int64_t micro) {
                        return std::min(micro * chunks,
                                        (chunks + 1) * ranks - 1);
                      }},
    ScheduleBound{.name = "zb-h1",
                  .bubble = kFilled,
                  .waits_for = AllOthers,
                  .kept = OneForEachRank,
                  .chain = kWithoutWeights},
    ScheduleBound{.name = "interleaved-zb",
                  .least_chunks = 2,
                  .most_chunks = kMostChunks,
                  .bubble = kFilled,
                  .waits_for = AllOthers,
                  .kept =
                      [](int64_t ranks, int64_t chunks, int64_t micro) {
                        return std::min(micro * chunks, chunks * ranks);
                      },
                  .chain = kWithoutWeights},
    ScheduleBound{
        .name = "zb-h2",
        .bubble = kLeastForward,
        .waits_for = AllOthers,
        .kept = [](int64_t ranks, int64_t,
                   int64_t micro) { return std::min(micro, 2 * ranks - 1); },
        .chain = kWithoutWeights},
    ScheduleBound{
        .name = "zbv",
        .least_chunks = 2,
        .most_chunks = 2,
        .bubble = kLeastForward,
        .waits_for = AllOthers,
        .kept = [](int64_t ranks, int64_t,
                   int64_t micro) { return 2 * std::min(micro, ranks); },
        .chain = kWithoutWeights},
    ScheduleBound{
        .name = "dualpipe",
        .bubble = kLeastForward,
        .waits_for = HalfOfOthers,
        .kept = [](int64_t ranks, int64_t, int64_t) { return ranks + 1; },
        .copies = 2,
        .chain = kWithoutWeights},
    ScheduleBound{
        .name = "dualpipev",
        .least_chunks = 2,
        .most_chunks = 2,
        .bubble = kLeastForward,
        .waits_for = AllOthers,
        .kept = [](int64_t ranks, int64_t, int64_t) { return 2 * ranks + 1; },
        .chain = kWithoutWeights},
};

class Drafter {
 public:
  Drafter(const Request& request, const SettingsGrid& grid,
          RuleOptions& options, Base base, const std::string& axis,
          const Deadline& deadline)
      : request_(request),
        grid_(grid),
        options_(options),
        base_(base),
        axis_(axis),
        deadline_(deadline),
        layers_(request.model->layers.value_or(0)),
        experts_(request.unmeasured ? 0 : request.model->experts.value_or(0)) {}

  PipelineDrafts Draft() {
    for (int64_t ranks = 2; ranks <= layers_ && ranks <= request_.devices;
         ++ranks) {
      if (experts_ > 0 && ranks > kMostRanksWithExperts) break;
      if (request_.devices % ranks == 0) CollectMeshes(ranks);
    }
    // The candidates are made on one thread, because a new candidate may add a
    // rules file to `options_`. The lower bounds of the times of their
    // pipelines are computed on several threads.
    std::vector<DraftsOfMesh> each(meshes_.size());
    ThreadPool threads(std::max(1, request_.threads));
    threads.Run(static_cast<int64_t>(meshes_.size()),
                [&](int64_t task, int /*worker*/) {
                  each[AsIndex(task)] = DraftSettings(meshes_[AsIndex(task)]);
                });
    bool gathers_once = false;
    for (DraftsOfMesh& one : each) {
      out_.finished = out_.finished && one.finished;
      if (!one.mesh) continue;
      gathers_once = gathers_once || one.gathers_once;
      for (PipelineDraft& draft : one.all) {
        draft.mesh = static_cast<uint32_t>(out_.meshes.size());
      }
      out_.meshes.push_back(std::move(*one.mesh));
      out_.all.insert(out_.all.end(), one.all.begin(), one.all.end());
    }
    if (gathers_once) DropEquals();
    std::stable_sort(out_.all.begin(), out_.all.end(),
                     [](const PipelineDraft& a, const PipelineDraft& b) {
                       return a.expected < b.expected;
                     });
    return std::move(out_);
  }

 private:
  // Of pipelines that take nearly equal times, keeps only the one that needs
  // the least memory. DraftPipelines() specifies which pipelines these are.
  void DropEquals() {
    using Key = std::tuple<uint32_t, int64_t, int64_t, int64_t, int64_t,
                           int64_t, uint32_t, int32_t, size_t, int64_t>;
    const auto order = [&](const PipelineDraft& one) {
      return std::tuple(one.bytes, one.expected, grid_[one.setting].zero);
    };
    std::map<Key, size_t> known;
    std::vector<PipelineDraft> kept;
    for (const PipelineDraft& one : out_.all) {
      const AxisSizes& sizes = out_.meshes[one.mesh].sizes;
      const auto [at, fresh] = known.try_emplace(
          {one.option, out_.RanksOf(one), sizes.data * sizes.sharded,
           sizes.experts, sizes.sequence, sizes.tensor, one.schedule,
           one.chunks, grid_.RematOf(one.setting),
           grid_[one.setting].microbatches},
          kept.size());
      if (fresh) {
        kept.push_back(one);
      } else if (PipelineDraft& other = kept[at->second];
                 order(one) < order(other)) {
        other = one;
      }
    }
    out_.all = std::move(kept);
  }

  // Divides the devices equally among `ranks` ranks, and appends the meshes of
  // the devices of one rank to `meshes_`.
  void CollectMeshes(int64_t ranks) {
    Request own = request_;
    own.devices = request_.devices / ranks;
    for (const Mesh& mesh : MeshesOf(own, options_, base_)) {
      // The rules as they are, with the batch over the experts' axis, and with
      // whole experts over tp as well.
      for (int change = 0; change < 3; ++change) {
        const bool over_experts = change > 0;
        RuleChanges changes;
        changes.batch_over_experts = over_experts;
        changes.whole_experts = change > 1;
        auto candidate =
            MakeCandidate(request_, options_, base_, mesh, changes);
        if (!candidate) break;
        const AxisSizes& sizes = candidate->sizes;
        if (over_experts && (sizes.experts == 1 || request_.keep_rules)) break;
        if (changes.whole_experts && sizes.tensor == 1) break;
        if (!candidate->unmeasured.empty() ||
            sizes.holders * kExpertsOnDevice < experts_) {
          continue;
        }
        if (deadline_.IsOver()) {
          out_.finished = false;
          return;
        }
        meshes_.push_back({std::move(*candidate), ranks});
      }
    }
  }

  // The mesh of the devices of one rank, and the number of ranks.
  struct RankMesh {
    Candidate candidate;
    int64_t ranks = 0;
  };
  // The pipelines on one mesh, with their lower bounds. `mesh` is nullopt if
  // the mesh is illegal, or if the deadline had already passed.
  struct DraftsOfMesh {
    std::optional<PipelineDrafts::StagedMesh> mesh;
    std::vector<PipelineDraft> all;
    // Settings::gathers_once is the same for all pipelines on the mesh.
    bool gathers_once = false;
    bool finished = true;
  };

  DraftsOfMesh DraftSettings(const RankMesh& of) {
    DraftsOfMesh out;
    if (deadline_.IsOver()) {
      out.finished = false;
      return out;
    }
    const Candidate& candidate = of.candidate;
    const Evaluator& evaluator = *options_[candidate.option].evaluator;
    auto on = evaluator.On(candidate.mesh);
    if (!on || !evaluator.ReasonsAgainst(*on).empty()) return out;
    Mesh mesh = candidate.mesh;
    mesh.axes.insert(mesh.axes.begin(), {axis_, of.ranks, AxisType::kAuto});
    mesh.devices = request_.devices;
    out.mesh = {std::move(mesh), candidate.sizes};
    const bool has_replicas = evaluator.HasReplicas(*on);
    for (size_t setting = 0; setting < grid_.size(); ++setting) {
      const int zero = grid_[setting].zero;
      if (zero > 0 && !has_replicas) break;
      // In a pipeline, ZeRO stage 2 holds the same bytes as stage 1.
      if (zero == 2 && !request_.zero_fixed) continue;
      if (!evaluator.DividesAt(*on, setting)) continue;
      const int64_t sequences = request_.settings.batch.value_or(0) /
                                on->work.Parts(on->work.Batch()) /
                                grid_[setting].microbatches;
      if (experts_ > 0 && sequences > kMostSequencesWithExperts) continue;
      DraftSchedules(*on, of, setting, out);
    }
    return out;
  }

  // Returns what the attention operation of the complete model sends in a step
  // over the axes that shard the sequence. Devices along a batch axis send
  // equal bytes, so the bytes are computed on a mesh without batch axes. Meshes
  // share the result if their other axes are equal and a device has equally
  // many sequences of the batch.
  const std::vector<cost::Transfer>& AttentionOf(const Prepared& on,
                                                 const Candidate& candidate,
                                                 cost::Settings settings) {
    cost::CostInputs work = on.work;
    const int64_t parts = work.Parts(work.Batch());
    for (MeshAxis& axis : work.mesh.axes) {
      const AxisGroup& batch = work.Batch();
      if (!IsAmong(axis.name, batch)) {
        continue;
      }
      work.mesh.devices /= axis.size;
      axis.size = 1;
    }
    settings.batch = settings.batch.value_or(1) / parts;
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = attention_.try_emplace(
        {candidate.option, MeshText(WithoutTrivial(work.mesh)),
         *settings.batch / settings.microbatches, settings.microbatches});
    if (!fresh) return at->second;
    const AxisGroup length = work.Length();
    for (cost::Transfer& one :
         cost::CommunicationOf(work, settings).transfers) {
      const bool divides = std::any_of(
          one.axes.begin(), one.axes.end(),
          [&](const std::string& axis) { return IsAmong(axis, length); });
      if (one.part == "attention" && divides) at->second.push_back(one);
    }
    return at->second;
  }

  void DraftSchedules(Prepared& on, const RankMesh& from, size_t setting,
                      DraftsOfMesh& out) {
    const Candidate& candidate = from.candidate;
    const int64_t ranks = from.ranks;
    const cost::Settings settings =
        cost::StageSettings(on.work, grid_[setting], ranks);
    const cost::Memory memory = cost::MemoryOf(on.work, settings);
    if (!memory.capacity || !memory.activations || !memory.weights) return;
    const int64_t micro = settings.microbatches;
    out.gathers_once = settings.gathers_once;
    // The seconds are the same for all schedules. `least` leaves out what the
    // attention operation sends, so it is a lower bound. `seconds` includes it.
    std::optional<cost::StepSeconds> least, seconds;
    for (size_t i = 0; i < kBounds.size(); ++i) {
      const ScheduleBound& bound = kBounds[i];
      if (!bound.measured && !request_.unmeasured) continue;
      for (const int32_t chunks : kChunks) {
        if (ranks * chunks > layers_) break;
        if (experts_ > 0 && chunks > kMostChunksWithExperts) break;
        if (chunks < bound.least_chunks || chunks > bound.most_chunks ||
            !Accepts(bound, ranks, chunks, micro)) {
          continue;
        }
        const double bytes =
            BytesOf(bound, on.work, settings, memory, ranks, chunks);
        const double usable = experts_ > 0 ? kMemoryWithExperts : 1;
        if (bytes > usable * cost::Real(*memory.capacity)) continue;
        if (!seconds) {
          least = Evaluator::StagedSeconds(on, settings, memory, {});
          seconds = candidate.sizes.sequence == 1
                        ? least
                        : Evaluator::StagedSeconds(
                              on, settings, memory,
                              AttentionOf(on, candidate, settings));
        }
        if (!seconds) return;
        // `longest` is the number of layers of the longest chunk. If two
        // numbers of chunks result in the same `longest`, the pipelines have
        // the same expected bubble. The pipeline with fewer chunks is appended
        // first.
        const int64_t stages = ranks * chunks;
        const int64_t longest = (layers_ + stages - 1) / stages;
        const double waits = bound.bubble * cost::Real(bound.waits_for(ranks)) /
                             cost::Real(micro);
        const double bubble = waits / cost::Real(chunks);
        const double uneven =
            waits * cost::Real(longest * ranks) / cost::Real(layers_);
        const auto step = [&](const cost::StepSeconds& of, double idle) {
          return std::max(of.tasks * (1 + idle) / cost::Real(ranks),
                          of.tasks * bound.chain / cost::Real(micro)) +
                 of.after / cost::Real(ranks);
        };
        out.all.push_back({.bound = step(*least, bubble),
                           .expected = step(*seconds, uneven),
                           .bytes = bytes,
                           .option = candidate.option,
                           .mesh = 0,
                           .schedule = static_cast<uint32_t>(i),
                           .chunks = chunks,
                           .setting = setting});
      }
    }
  }

  static bool Accepts(const ScheduleBound& bound, int64_t ranks, int32_t chunks,
                      int64_t micro) {
    const schedule::Schedule* const own = schedule::FindSchedule(bound.name);
    return own != nullptr &&
           !schedule::Refusal(*own, {static_cast<int32_t>(ranks), chunks,
                                     static_cast<int32_t>(micro)});
  }

  // Returns the bytes that the fuller of the first and the last rank is
  // expected to need. The first rank keeps the activations of as many
  // micro-batches as the schedule's fullest rank does, and the temporary
  // tensors of a layer's backward pass. The last rank keeps the activations of
  // one micro-batch, and the larger of two things: the logits, or the temporary
  // tensors of a layer's backward pass. Both ranks have an equal part of the
  // states, and of the weights that are gathered once per step.
  static double BytesOf(const ScheduleBound& bound,
                        const cost::CostInputs& work,
                        const cost::Settings& settings,
                        const cost::Memory& memory, int64_t ranks,
                        int64_t chunks) {
    double bytes = cost::Real(bound.copies) * cost::Real(memory.weights->held) /
                   cost::Real(ranks);
    for (const cost::Component one :
         {cost::Component::kParameters, cost::Component::kGradients,
          cost::Component::kOptimizer}) {
      bytes += cost::Real(bound.copies) *
               cost::Real(memory.most.Of(one).value_or(0)) / cost::Real(ranks);
    }
    const cost::Stack& stack = cost::StackOf(work, settings);
    const cost::Peak peak =
        cost::PeakOf(work, settings, *memory.activations, *memory.weights);
    const double chunk = cost::Real(peak.kept) / cost::Real(ranks * chunks);
    const double held =
        chunk * cost::Real(bound.kept(ranks, chunks, settings.microbatches));
    const double layer = cost::Real(peak.layer);
    bytes += std::max(held + layer,
                      chunk + std::max(layer, cost::Real(peak.logits)));
    return bytes * stack.memory.allocator +
           cost::Real(cost::ContextBytes(work, stack));
  }

  const Request& request_;
  const SettingsGrid& grid_;
  RuleOptions& options_;
  const Base base_;
  const std::string& axis_;
  const Deadline& deadline_;
  const int64_t layers_;
  const int64_t experts_;  // 0 if the limits of experts do not hold
  std::vector<RankMesh> meshes_;
  std::mutex mutex_;  // guards `attention_`
  // The results of AttentionOf(). The key has the index of the rules, the mesh
  // without batch axes, the rows of a micro-batch, and the number of
  // micro-batches.
  std::map<std::tuple<uint32_t, std::string, int64_t, int64_t>,
           std::vector<cost::Transfer>>
      attention_;
  PipelineDrafts out_;
};

}  // namespace

std::span<const ScheduleBound> ScheduleBounds() { return kBounds; }

PipelineDrafts DraftPipelines(const Request& request, const SettingsGrid& grid,
                              RuleOptions& options, Base base,
                              const std::string& axis,
                              const Deadline& deadline) {
  return Drafter(request, grid, options, base, axis, deadline).Draft();
}

}  // namespace shardc::search
