// Combines the figures of a pipeline's stages and ranks. It decides whether all
// ranks fit the memory. It also lists the collectives and messages that a
// device of a rank sends in a step. A rank with several stages sends the
// collectives of all of them. For example:
//
//   a rank with two stages of 4 layers each, all_reduce over tp of 2 GiB each
//     ->  all_reduce over tp of 4 GiB, and the messages of both stages
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/pipeline.h"
#include "source/index.h"

namespace shardc::cost {
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
    known = known && rank.held.Of(Component::kLogits);
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

std::vector<NotKnown> PipelineCost::Unknown() const {
  std::vector<NotKnown> out;
  for (const StageCost& stage : stages) AddNotKnown(stage.unknown, out);
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
    out.memory.at_least = !out.memory.unknown.empty();
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

}  // namespace shardc::cost
