// The operations, each the program that its real counterpart runs.
//
// Two kinds. Of the global view (vanilla) the compiler inserts collectives,
// so that any legal layout is right and only bytes are judged. The others see
// the local view: the kernel trusts its slices, so that a layout it does not
// expect shows as wrong numbers.
#ifndef SHARDC_EXEC_OPERATION_H_
#define SHARDC_EXEC_OPERATION_H_

#include <span>
#include <string_view>

#include "exec/attention_problem.h"
#include "exec/machine.h"
#include "exec/page_pool.h"

namespace shardc::exec {

// What an operation does with a dimension's axes: "local" needs nothing,
// "-" is unsupported, the rest names the collective.
struct Supports {
  std::string_view batch, query_length, key_length, heads, dim;
};

struct Operation {
  std::string_view name;
  std::string_view summary;
  Supports supports;
  bool global_view;
  // Key and value are split over the query's head axes (the MHA spec).
  bool heads_on_keys;
  bool decode_only;  // T = 1
  MaskedRows masked_rows;
  OperationOutcome (*run)(Machine& machine, const AttentionProblem& problem,
                          const AttentionSpecs& specs,
                          const OperationSettings& settings);
};

// Keys lie in pages: causal attention of whole requests, without masks.
bool IsPaged(const Operation& operation);

// How its pages hold keys and values; for those with pages of both.
PageFormat PageFormatOf(const Operation& operation);

// blocksparse's table: BOOL [B|1, H|1, blocks of T, blocks of S].
Buffer BlockTable(const AttentionProblem& problem,
                  const OperationSettings& settings, int64_t rows,
                  int64_t keys);

std::span<const Operation> Operations();
const Operation* FindOperation(std::string_view name);

OperationOutcome RunVanilla(Machine&, const AttentionProblem&,
                            const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunSdpa(Machine&, const AttentionProblem&,
                         const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunFlashAttention(Machine&, const AttentionProblem&,
                                   const AttentionSpecs&,
                                   const OperationSettings&);
OperationOutcome RunRing(Machine&, const AttentionProblem&,
                         const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunBlockSparse(Machine&, const AttentionProblem&,
                                const AttentionSpecs&,
                                const OperationSettings&);
OperationOutcome RunFlashDecoding(Machine&, const AttentionProblem&,
                                  const AttentionSpecs&,
                                  const OperationSettings&);
OperationOutcome RunUlysses(Machine&, const AttentionProblem&,
                            const AttentionSpecs&, const OperationSettings&);

OperationOutcome RunRaggedV2(Machine&, const AttentionProblem&,
                             const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunRaggedV3(Machine&, const AttentionProblem&,
                             const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunUnified(Machine&, const AttentionProblem&,
                            const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunLatent(Machine&, const AttentionProblem&,
                           const AttentionSpecs&, const OperationSettings&);
OperationOutcome RunPagedFlash(Machine&, const AttentionProblem&,
                               const AttentionSpecs&, const OperationSettings&);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATION_H_
