// Declares the program that all operations on pages of keys and values share.
// The member `pages` of an operation's record configures this program, for
// example by the format of the pages.
#ifndef SHARDC_EXEC_OPERATIONS_PAGED_OPERATION_H_
#define SHARDC_EXEC_OPERATIONS_PAGED_OPERATION_H_

#include "exec/operations/operation.h"
#include "exec/pages/paged_program.h"

namespace shardc::exec {

inline constexpr Supports kPagedSupports = {
    .batch = "pages by request, all_reduce outputs",
    .query_length = "-",
    .key_length = "-",
    .heads = "local",
    .dim = "-"};

// RunOnPages and BytesOfPages are the functions `run` and `bytes` in the record
// of a paged operation.
template <const Operation& operation>
OperationOutcome RunOnPages(Machine& machine, const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings) {
  return RunPaged(machine, problem, specs, settings, *operation.pages,
                  operation.name);
}

template <const Operation& operation>
void BytesOfPages(Traffic& traffic) {
  PagedBytes(traffic, *operation.pages);
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_PAGED_OPERATION_H_
