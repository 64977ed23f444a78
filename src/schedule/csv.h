// Schedules as files: the compute-only CSV of torch.distributed.pipelining. A
// line is a rank; a cell is `[stage][F|B|I|W][micro-batch]`, empty (a tick
// without a task), or an overlapped pair:
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

// Returns the table as CSV. Ticks without a task are left out: a line has the
// rank's tasks only.
std::string CsvText(const Table& table);

// The numbers that a file must have; 0: any number.
struct Expected {
  int32_t ranks = 0;
  int32_t microbatches = 0;
};

// Reads a table and proves its order. Findings: foreign-syntax and
// schedule-unsafe with the cell, limit. The placement of the stages follows
// from the rows.
std::optional<Table> ReadCsv(const SourceRef& source, const Expected& expected,
                             Findings& findings);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_CSV_H_
