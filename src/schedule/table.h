// Directory: schedule. Pipeline schedules as tables of tasks: generators,
// files, proofs of the order of tasks and messages, and simulated times and
// memory.
// Its files include headers of these directories: source.
//
// A table has a row for each rank of the pipeline, with the rank's tasks in
// order but without times. With `p` ranks and `v` virtual stages on each, the
// model is divided into p * v stages. A batch is divided into m micro-batches.
// For 2 ranks, 1 virtual stage and 2 micro-batches, the schedule 1f1b is
//
//   rank 0   0F0 0F1 0B0 0B1
//   rank 1   1F0 1B0 1F1 1B1
//
// where 1F0 is the forward pass of micro-batch 0 through stage 1.
#ifndef SHARDC_SCHEDULE_TABLE_H_
#define SHARDC_SCHEDULE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc::schedule {

enum class TaskKind : uint8_t {
  kForward,   // F
  kBackward,  // B: gradients of inputs and of weights
  kInput,     // I: gradients of inputs only
  kWeight,    // W: gradients of weights, after an I
};

struct Task {
  TaskKind kind = TaskKind::kForward;
  int32_t stage = 0;
  int32_t micro = 0;  // index of the micro-batch

  bool operator==(const Task&) const = default;
  // Returns whether the task sends a gradient to the stage before its own
  // stage, as B and I do.
  bool SendsBack() const {
    return kind == TaskKind::kBackward || kind == TaskKind::kInput;
  }
};

// One task, or a forward task and a backward task that overlap in time.
struct Cell {
  Task task;
  std::optional<Task> overlapped = {};

  bool operator==(const Cell&) const = default;
};

// How the stages are placed on p ranks: the rank that runs stage s.
enum class Placement : uint8_t {
  kLoop,    // rank s mod p
  kV,       // rank s for s < p, and rank 2p - 1 - s for the other stages
  kBoth,    // rank s, or p - 1 - s for the upper half of the micro-batches
  kListed,  // the rank in `owners`; only for tables that are read from files
};

std::string_view PlacementName(Placement placement);
// Returns the placement that has this name; nullopt if there is none.
std::optional<Placement> FindPlacement(std::string_view name);

struct Extent {
  int32_t ranks = 1;
  int32_t virtual_stages = 1;  // number of stages on each rank
  int32_t microbatches = 1;

  int32_t Stages() const { return ranks * virtual_stages; }
  bool operator==(const Extent&) const = default;
};

// The largest number of tasks that a table may have.
inline constexpr int64_t kMostTasks = int64_t{1} << 22;

struct Table {
  std::string name;  // name of the schedule or of the file
  int32_t stages = 0;
  int32_t microbatches = 0;
  Placement placement = Placement::kLoop;
  std::vector<std::vector<Cell>> rows;  // indexed by rank
  // Indexed by At(): the rank that runs a stage and micro-batch.
  std::vector<int32_t> owners;

  int32_t ranks() const { return static_cast<int32_t>(rows.size()); }
  // Returns the index of a stage and micro-batch in `owners`.
  size_t At(int32_t stage, int32_t micro) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(microbatches) +
           static_cast<size_t>(micro);
  }
  int32_t RankOf(int32_t stage, int32_t micro) const {
    return owners[At(stage, micro)];
  }
  // Returns whether a rank holds the parameters of a stage.
  bool Holds(int32_t rank, int32_t stage) const;
};

// Returns the rank that runs a stage for a micro-batch. The placement must not
// be kListed.
int32_t PlacedRank(Placement placement, int32_t ranks, int32_t stage,
                   int32_t micro, int32_t microbatches);

// Sets `owners` according to `placement`.
void PlaceStages(Table& table);

// Returns a cell as CSV files write it: "0F3", or "(0F3;3B1)OVERLAP_F_B".
std::string CellText(const Cell& cell);
std::string TaskText(const Task& task);
// Returns the letter of a kind of task: 'F', 'B', 'I' or 'W'.
char KindLetter(TaskKind kind);

// Calls `visit(task)` for the one or two tasks of a cell, in order.
template <class Visit>
void ForEachTask(const Cell& cell, const Visit& visit) {
  visit(cell.task);
  if (cell.overlapped) visit(*cell.overlapped);
}

// Reads and writes schedules in the compute-only CSV format of
// torch.distributed.pipelining. Each line has the tasks of one rank. A cell is
// a task, `[stage][F|B|I|W][micro-batch]`, or a pair of overlapped tasks. An
// empty cell is a tick without a task:
//
//   0F0,0F1,,(2F0;3B0)OVERLAP_F_B

// Returns the table as CSV, a line for each rank. A step without a task is an
// empty field, such as the second of `0F0,,0B0`.
std::string CsvText(const Table& table);

// The numbers of ranks and micro-batches that a file must have. 0 accepts any
// number.
struct Expected {
  int32_t ranks = 0;
  int32_t microbatches = 0;
};

// Reads a table and proves the order of its tasks. Returns nullopt after a
// finding (foreign-syntax, schedule-unsafe or limit), whose place is a cell, a
// line or the file. The rank that owns each stage and micro-batch is inferred
// from the rows.
std::optional<Table> ReadCsv(const SourceRef& source, const Expected& expected,
                             Findings& findings);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_TABLE_H_
