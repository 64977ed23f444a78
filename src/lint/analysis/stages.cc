// Computes how evenly a pipeline divides its work, without a device profile.
// The time of a stage is estimated by the number of multiplications for a
// token. Schedules are simulated with tasks of equal length. For example, four
// stages have 8 layers each, and the output head takes as long as 2.4 layers:
//
//   the mean is 34.4 / 4 = 8.6 layers, and the last stage takes
//   10.4 / 8.6 = 1.21 times the mean
#include "lint/analysis/stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "lint/analysis/phrase.h"
#include "plan/planned_stages.h"
#include "schedule/assign.h"
#include "schedule/schedules.h"
#include "schedule/simulate.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Stages are reported as uneven if the longest stage takes at least kUneven
// times the mean, and another division of the layers reduces this factor to at
// most kShorter of its value.
constexpr double kUneven = 1.15, kShorter = 0.95;
constexpr double kLargeBubble = 0.2;
// The schedules that Megatron-LM or MaxText have for several stages on a rank.
constexpr std::array<std::string_view, 2> kRounds = {"interleaved",
                                                     "looped-bfs"};
// A schedule with more tasks is not simulated, because that would take too
// long.
constexpr int64_t kMostTasks = 1 << 16;
// The search for a better division takes stages * units^2 steps. A unit, such
// as a layer, is a part of the model that is never divided between stages. The
// search is skipped if it would take more steps than this.
constexpr int64_t kMostSteps = int64_t{1} << 28;

std::vector<double> TimesOf(const PlannedStages& stages,
                            const schedule::StageBounds& bounds) {
  std::vector<double> out;
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    double time = 0;
    for (int64_t u = bounds[s]; u < bounds[s + 1]; ++u) {
      time += stages.weights[AsIndex(u)].time;
    }
    out.push_back(time);
  }
  return out;
}

// Returns the longest of the times as a multiple of their mean.
double Unevenness(const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) sum += time;
  const double longest = *std::max_element(times.begin(), times.end());
  return sum > 0 ? longest * static_cast<double>(times.size()) / sum : 1;
}

schedule::Times UnitTimes(int32_t stages) {
  schedule::Times out;
  out.stages.resize(AsIndex(stages));
  return out;
}

int64_t MostHeld(const schedule::Table& table) {
  const auto held = schedule::HeldByRank(table);
  return *std::max_element(held.begin(), held.end());
}

}  // namespace

std::string TimesText(double times) {
  const int64_t hundredths = std::llround(100 * times);
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest.size() < 2 ? ".0" : ".") +
         rest;
}

std::string PartText(double part) {
  constexpr int64_t kMillionth = 1'000'000;
  return PercentText(std::llround(part * static_cast<double>(kMillionth)),
                     kMillionth);
}

std::string StageAxis(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  return stages == nullptr ? std::string() : stages->axis;
}

Place StagesPlace(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  return stages == nullptr ? Place{} : stages->place;
}

std::string AddedOverRanks(const Facts& facts) {
  const std::string axis = StageAxis(facts);
  const int64_t ranks = axis.empty() ? 1 : facts.mesh().SizeOf(axis);
  if (ranks == 1) return "";
  return ", each added over the " + CountText(ranks) + " ranks of the pipeline";
}

std::optional<UnevenStages> UnevenStagesOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  // If a tensor holds several layers, a spec can only divide them evenly, so no
  // other division is possible.
  if (stages == nullptr || !stages->units.stacks.empty()) return std::nullopt;
  const int64_t count = stages->stages(), units = stages->units.count();
  if (count < 2 || count * units > kMostSteps / units) return std::nullopt;
  const auto times = TimesOf(*stages, stages->bounds);
  UnevenStages out;
  out.times = Unevenness(times);
  const std::vector<int64_t> nothing(AsIndex(count), 0);
  const auto best =
      schedule::AssignUnits(stages->weights, nothing, std::nullopt);
  if (out.times < kUneven || !best) return std::nullopt;
  out.better_times = Unevenness(TimesOf(*stages, *best));
  if (out.better_times > kShorter * out.times) return std::nullopt;
  out.stage = static_cast<int32_t>(
      std::max_element(times.begin(), times.end()) - times.begin());
  out.layers = stages->LayersOf(out.stage).count();
  for (size_t s = 0; s + 1 < best->size(); ++s) {
    out.better.push_back(
        LayersIn((*best)[s], (*best)[s + 1], stages->units.layers).count());
  }
  return out;
}

std::optional<LargeBubble> LargeBubbleOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  if (stages == nullptr || !stages->sized || stages->table.ranks() < 2) {
    return std::nullopt;
  }
  const schedule::Table& table = stages->table;
  const schedule::Extent extent{table.ranks(), table.stages / table.ranks(),
                                table.microbatches};
  if (schedule::TaskCount(extent) > kMostTasks) return std::nullopt;
  LargeBubble out;
  out.part = schedule::Simulate(table, UnitTimes(table.stages)).StepBubble();
  if (out.part < kLargeBubble) return std::nullopt;
  out.schedule = table.name;
  out.ranks = extent.ranks;
  out.microbatches = extent.microbatches;
  out.held = MostHeld(table);
  out.better_part = out.part;
  for (const schedule::Schedule& one : schedule::Schedules()) {
    // Two kinds of schedules are skipped. Schedules that hold parameters twice
    // need more memory. Schedules with another number of stages need another
    // division of the layers.
    if (one.placement == schedule::Placement::kBoth ||
        extent.Stages() != table.stages || schedule::Refusal(one, extent)) {
      continue;
    }
    const schedule::Table other = schedule::MakeTable(one, extent);
    if (MostHeld(other) > out.held) continue;
    const double part =
        schedule::Simulate(other, UnitTimes(other.stages)).StepBubble();
    if (part >= 0.99 * out.better_part) continue;
    out.better_part = part;
    out.better = one.name;
  }
  return out;
}

std::optional<UnevenRounds> UnevenRoundsOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  if (stages == nullptr || !stages->sized) return std::nullopt;
  const schedule::Table& table = stages->table;
  const int32_t ranks = table.ranks();
  if (ranks < 2 || table.stages <= ranks || table.microbatches % ranks == 0 ||
      !IsAmong(table.name, kRounds)) {
    return std::nullopt;
  }
  return UnevenRounds{table.name, table.stages, ranks, table.microbatches};
}

}  // namespace shardc
