// Computes the reference of a case, and its run on one device, in parts: rows
// of the batch and key heads with their queries, between which nothing is
// summed. Each rank takes some parts, so none needs the memory for all; one
// process takes them one after the other, for the same reason.
#ifndef SHARDC_VERIFY_JUDGE_PARTS_H_
#define SHARDC_VERIFY_JUDGE_PARTS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dense/attention.h"
#include "exec/attention/attention_problem.h"
#include "exec/machine/buffer.h"
#include "exec/machine/transport.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Rows [rows, end_rows) and key heads [heads, end_heads).
struct RowsAndHeads {
  int64_t rows = 0, end_rows = 0;
  int64_t heads = 0, end_heads = 0;
};

// Returns whether a case's rows and heads can be judged apart. False for packed
// tokens, a latent, a table of blocks, dropout (keyed over all heads) and
// quantised arithmetic.
bool HasParts(const Case& test, const exec::AttentionProblem& problem);
// Returns at least one part for each rank, if there are as many rows and heads.
std::vector<RowsAndHeads> PartsFor(const exec::AttentionProblem& problem,
                                   int ranks);
exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const RowsAndHeads& part);

struct ReferenceOfParts {
  dense::Array output;  // [B, T, H, Dv]
  double largest_logit = 0;
};
// Returns the reference of a case for which HasParts holds, computed part after
// part, so that the inputs of only one part exist in double: those of all rows
// take twice the memory of the case itself. Returns nullopt, and the reason in
// `why`, if the reference is not defined. `logits`: also return the largest
// logit.
std::optional<ReferenceOfParts> ReferenceInParts(
    const Case& test, const exec::AttentionProblem& problem,
    const dense::Options& options, bool logits, std::string& why);

// Runs the operation on one device; nullopt if it cannot run.
using OnOneDevice =
    std::function<std::optional<exec::Buffer>(const exec::AttentionProblem&)>;

// Returns whether a case's inputs are so large that ReferenceInParts and
// OutputInParts compute more than one part.
bool HasManyParts(const exec::AttentionProblem& problem);
// Returns the output in the problem's layout of `run`, the operation on one
// device, called for part after part, so that copies of only one part's inputs
// exist; of a case for which HasParts holds. Returns nullopt as soon as `run`
// does.
std::optional<exec::Buffer> OutputInParts(const Case& test,
                                          const exec::AttentionProblem& problem,
                                          const OnOneDevice& run);

struct JoinedParts {
  dense::Array reference;  // [B, T, H, Dv]
  exec::Buffer unsharded;  // in the problem's layout
  double largest_logit = 0;
};

// Every rank computes some parts, and the first rank gets all; on the others
// the result is empty. Returns nullopt, on all ranks, if a part of any rank
// could not be computed. `logits`: also return the largest logit.
std::optional<JoinedParts> JudgeInParts(const Case& test,
                                        const exec::AttentionProblem& problem,
                                        const dense::Options& options,
                                        bool logits, const OnOneDevice& run,
                                        exec::Transport& transport);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PARTS_H_
