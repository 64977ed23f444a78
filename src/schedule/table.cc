// Computes the rank of each stage, and the text of a cell. For 2 ranks and 4
// stages, the stages 0 to 3 are on these ranks:
//
//   loop  0 1 0 1      v  0 1 1 0
#include "schedule/table.h"

#include <algorithm>

namespace shardc::schedule {

std::string_view PlacementName(Placement placement) {
  switch (placement) {
    case Placement::kLoop:
      return "loop";
    case Placement::kV:
      return "v";
    case Placement::kBoth:
      return "both";
    case Placement::kListed:
      break;
  }
  return "listed";
}

std::optional<Placement> FindPlacement(std::string_view name) {
  for (const Placement placement : {Placement::kLoop, Placement::kV,
                                    Placement::kBoth, Placement::kListed}) {
    if (PlacementName(placement) == name) return placement;
  }
  return std::nullopt;
}

bool Table::Holds(int32_t rank, int32_t stage) const {
  const auto first = owners.begin() + static_cast<ptrdiff_t>(At(stage, 0));
  return std::find(first, first + microbatches, rank) != first + microbatches;
}

int32_t PlacedRank(Placement placement, int32_t ranks, int32_t stage,
                   int32_t micro, int32_t microbatches) {
  if (placement == Placement::kV) {
    return stage < ranks ? stage : 2 * ranks - 1 - stage;
  }
  if (placement == Placement::kBoth) {
    return micro < microbatches / 2 ? stage : ranks - 1 - stage;
  }
  return stage % ranks;
}

void PlaceStages(Table& table) {
  table.owners.resize(table.At(table.stages, 0));
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    for (int32_t micro = 0; micro < table.microbatches; ++micro) {
      table.owners[table.At(stage, micro)] = PlacedRank(
          table.placement, table.ranks(), stage, micro, table.microbatches);
    }
  }
}

char KindLetter(TaskKind kind) { return "FBIW"[static_cast<size_t>(kind)]; }

std::string TaskText(const Task& task) {
  return std::to_string(task.stage) + KindLetter(task.kind) +
         std::to_string(task.micro);
}

std::string CellText(const Cell& cell) {
  if (!cell.overlapped) return TaskText(cell.task);
  return "(" + TaskText(cell.task) + ";" + TaskText(*cell.overlapped) +
         ")OVERLAP_F_B";
}

}  // namespace shardc::schedule
