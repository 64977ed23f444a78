// Computes what a pipeline's figures say together: whether all ranks fit, and
// what a device of a rank sends in a step. A rank with several stages sends the
// collectives of each:
//
//   a rank with two stages of 4 layers each, all_reduce over tp of 2 GiB each
//     ->  all_reduce over tp of 4 GiB, and the messages of both stages
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "cost/pipeline.h"
#include "source/index.h"

namespace shardc::cost {

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
    const auto tensors = Fullest();
    if (!tensors) return std::nullopt;
    return *tensors <= *capacity ? Fit::kFits : Fit::kExceeds;
  }
  bool fits = true;
  for (const RankCost& rank : ranks) {
    if (rank.taken->least > *capacity) return Fit::kExceeds;
    fits = fits && rank.taken->most <= *capacity;
  }
  return fits ? Fit::kFits : Fit::kMayFit;
}

std::optional<bool> PipelineCost::Fits() const {
  const auto verdict = Verdict();
  return verdict ? std::optional(*verdict == Fit::kFits) : std::nullopt;
}

Communication CommunicationOf(const PipelineCost& cost, const RankCost& rank) {
  Communication out;
  std::map<std::tuple<std::string_view, bool, Collective, AxisGroup>, size_t>
      known;
  for (const int32_t stage : rank.stages) {
    const Communication& own = cost.stages[AsIndex(stage)].communication;
    for (const Transfer& one : own.transfers) {
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
    for (const std::string& text : own.unknown) {
      if (std::find(out.unknown.begin(), out.unknown.end(), text) ==
          out.unknown.end()) {
        out.unknown.push_back(text);
      }
    }
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

}  // namespace shardc::cost
