// Reads and writes schedules in the compute-only CSV format of
// torch.distributed.pipelining. Each line has the tasks of one rank. A cell is
// a task, `[stage][F|B|I|W][micro-batch]`, or a pair of overlapped tasks. An
// empty cell is a tick without a task:
//
//   0F0,0F1,,(2F0;3B0)OVERLAP_F_B
#ifndef SHARDC_SCHEDULE_CSV_H_
#define SHARDC_SCHEDULE_CSV_H_

#include <optional>
#include <string>
#include <vector>

#include "schedule/table.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::schedule {

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

#endif  // SHARDC_SCHEDULE_CSV_H_
