// Proves a step that is divided into pipeline stages. The order, the channels
// and the memory of the schedule's table are proven at its real size, which
// needs no tensors. The step then runs with a smaller table of the same
// schedule, unless the table is from a file. For example:
//
//   interleaved on 8 ranks with 4 stages each and 64 micro-batches: proven; the
//   step runs on 2 ranks with 2 stages each and 2 micro-batches
#include "verify/step/stage_proof.h"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/channels.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "schedule/simulate.h"
#include "source/index.h"

namespace shardc::verify {
namespace {

using schedule::Table;

// The largest number of forward tasks (stages times micro-batches) with which a
// step runs under a table from a file. Tables of known schedules are made
// smaller instead.
constexpr int64_t kMostTasks = 512;

int64_t TasksOf(const Table& table) {
  int64_t out = 0;
  for (const auto& row : table.rows) {
    for (const schedule::Cell& cell : row) out += cell.overlapped ? 2 : 1;
  }
  return out;
}

std::string PlaceText(const Table& table, const schedule::Fault& fault) {
  const auto& row = table.rows[AsIndex(fault.rank)];
  const std::string rank = "rank " + std::to_string(fault.rank);
  if (AsIndex(fault.position) >= row.size()) return rank + ", at its end";
  return rank + ", `" + schedule::CellText(row[AsIndex(fault.position)]) + "`";
}

}  // namespace

std::optional<int32_t> StagesOfEachRank(const Table& table) {
  const int32_t each = table.stages / table.ranks();
  if (table.placement == schedule::Placement::kBoth) return each;
  std::vector<int32_t> held(AsIndex(table.ranks()), 0);
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    ++held[AsIndex(table.RankOf(stage, 0))];
  }
  const bool equal = std::all_of(held.begin(), held.end(),
                                 [&](int32_t own) { return own == each; });
  return equal ? std::optional(each) : std::nullopt;
}

StageProof ProveTable(const StageSettings& stages,
                      std::vector<std::string>& problems) {
  const Table& table = stages.table;
  StageProof out;
  out.axis = stages.axis;
  out.all_mesh = stages.all_mesh;
  out.schedule = table.name;
  out.ranks = table.ranks();
  out.stages = table.stages;
  out.virtual_stages = StagesOfEachRank(table);
  out.microbatches = table.microbatches;
  out.layers = stages.layers;
  out.tasks = TasksOf(table);
  const auto faults = schedule::CheckOrder(table);
  for (const schedule::Fault& fault : faults) {
    problems.push_back("order: " + PlaceText(table, fault) + ": " + fault.text);
  }
  if (!faults.empty()) return out;
  const schedule::ChannelRun run = schedule::RunChannels(
      schedule::Lower(table, schedule::Receives::kInSendOrder), 0,
      schedule::ChannelScope::kPair);
  if (!run.passes) problems.push_back("channels: " + run.text);
  out.capacity = schedule::LeastCapacity(
      schedule::Lower(table, schedule::Receives::kAtUse),
      schedule::ChannelScope::kPairAndKind);
  out.held = schedule::HeldByRank(table);
  return out;
}

std::optional<Table> ReducedTable(const Table& table, std::string& why) {
  const schedule::Schedule* const schedule = schedule::FindSchedule(table.name);
  if (schedule == nullptr) {
    if (table.microbatches >= 2 && table.ranks() >= 2 &&
        int64_t{table.stages} * table.microbatches <= kMostTasks) {
      return table;
    }
    why =
        "a step runs under a schedule of a file with two micro-batches or "
        "more, on two ranks or more, and " +
        std::to_string(kMostTasks) + " forward tasks at most";
    return std::nullopt;
  }
  const int32_t virtual_stages =
      schedule->fixed_virtual
          ? schedule->virtual_stages
          : std::min<int32_t>(2, table.stages / table.ranks());
  for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
    // With at least as many micro-batches as ranks, every rank alternates
    // between forward and backward.
    for (int32_t micro = ranks; micro <= 4 * ranks; ++micro) {
      const schedule::Extent extent{ranks, virtual_stages, micro};
      const bool small = schedule->name.starts_with("dualpipe") && ranks < 4;
      if (small || schedule::Refusal(*schedule, extent)) continue;
      return schedule::MakeTable(*schedule, extent);
    }
  }
  why = "the schedule has no small table";
  return std::nullopt;
}

ReducedDivision DivideLayers(const StageSettings& stages, int32_t reduced,
                             std::vector<int32_t> kinds, int32_t all) {
  const int32_t begin = stages.layers.front() == 0 ? 1 : 0;
  const int32_t end = stages.layers.back() == 0 ? reduced - 1 : reduced;
  const int32_t wanted = std::max(1, end - begin);
  std::set<int32_t> layers(kinds.begin(), kinds.end());
  for (int32_t layer = 0; layer < all; ++layer) {
    if (static_cast<int32_t>(layers.size()) >= wanted) break;
    layers.insert(layer);
  }
  ReducedDivision out;
  out.layers.assign(layers.begin(), layers.end());
  out.division.stages = reduced;
  out.division.of_layer.assign(AsIndex(all), -1);
  const auto count = static_cast<int64_t>(out.layers.size());
  for (int64_t i = 0; i < count; ++i) {
    out.division.of_layer[AsIndex(out.layers[AsIndex(i)])] =
        begin + static_cast<int32_t>(i * wanted / count);
  }
  return out;
}

}  // namespace shardc::verify
