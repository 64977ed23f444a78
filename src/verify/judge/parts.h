// Computes the reference of a case, and its run on one device, in parts. A part
// has some batch rows and some key heads with their query heads. No sum extends
// over several parts. Each rank (process) computes some parts, so that no rank
// needs the memory for all parts. For the same reason, a single process
// computes them one after the other.
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

// A part: batch rows [rows, end_rows) and key heads [heads, end_heads).
struct RowsAndHeads {
  int64_t rows = 0, end_rows = 0;
  int64_t heads = 0, end_heads = 0;
};

// Returns true if a case's rows and heads can be computed separately. Returns
// false for packed tokens, a latent, a table of blocks, arithmetic narrower
// than float32, and dropout, whose random numbers depend on the head's number.
// Query and key must also have equal batches, and the key heads must divide the
// query heads.
bool HasParts(const Case& test, const exec::AttentionProblem& problem);
// Divides a problem into parts. There is at least one part for each of the
// `ranks` processes, if there are enough rows and heads.
std::vector<RowsAndHeads> PartsFor(const exec::AttentionProblem& problem,
                                   int ranks);
exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const RowsAndHeads& part);

struct ReferenceOfParts {
  dense::Array output;  // [B, T, H, Dv]
  double largest_logit = 0;
};
// Returns the reference of a case for which HasParts is true. It is computed
// one part after the other, so that the inputs of only one part exist in
// double. All inputs in double would need twice the memory of the case itself.
// With `logits`, also returns the largest logit. Returns nullopt, and sets
// `why`, if the reference is not defined.
std::optional<ReferenceOfParts> ReferenceInParts(
    const Case& test, const exec::AttentionProblem& problem,
    const dense::Options& options, bool logits, std::string& why);

// A function that runs the operation on one device. It returns nullopt if the
// operation cannot run.
using OnOneDevice =
    std::function<std::optional<exec::Buffer>(const exec::AttentionProblem&)>;

// Returns true if a case's inputs are so large that ReferenceInParts and
// OutputInParts compute the case in several parts. They still compute it in one
// part if it has only one row and one key head.
bool HasManyParts(const exec::AttentionProblem& problem);
// Returns the output of the operation on one device, in the problem's layout.
// `run` is called for one part after the other, so that copies of only one
// part's inputs exist. HasParts must be true for the case. Returns nullopt as
// soon as `run` returns nullopt.
std::optional<exec::Buffer> OutputInParts(const Case& test,
                                          const exec::AttentionProblem& problem,
                                          const OnOneDevice& run);

struct JoinedParts {
  dense::Array reference;  // [B, T, H, Dv]
  // The operation's output on one device, in the case's layout.
  exec::Buffer unsharded;
  double largest_logit = 0;
};

// Computes the parts on all ranks. Returns the joined results on the first
// rank, and an empty result on all other ranks. With `logits`, the largest
// logit is included. Returns nullopt on all ranks if a part of any rank could
// not be computed.
std::optional<JoinedParts> JudgeInParts(const Case& test,
                                        const exec::AttentionProblem& problem,
                                        const dense::Options& options,
                                        bool logits, const OnOneDevice& run,
                                        exec::Transport& transport);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PARTS_H_
