// Computes the reference of a case, and its run on one device, in parts: some
// batch rows and some key heads with their query heads. No sum goes across
// parts. Each rank computes some parts, so that no rank needs the memory for
// all; a single process computes them one after the other for the same reason.
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

// Returns whether a case's rows and heads can be computed separately. They
// cannot for packed tokens, a latent, a table of blocks, dropout (whose random
// numbers depend on the head's number) and arithmetic narrower than float32.
// Query and key must also have equal batches, and the key heads must divide the
// query heads.
bool HasParts(const Case& test, const exec::AttentionProblem& problem);
// Divides a problem into parts: at least one for each rank, if there are enough
// rows and heads.
std::vector<RowsAndHeads> PartsFor(const exec::AttentionProblem& problem,
                                   int ranks);
exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const RowsAndHeads& part);

struct ReferenceOfParts {
  dense::Array output;  // [B, T, H, Dv]
  double largest_logit = 0;
};
// Returns the reference of a case, for which HasParts must hold. It is computed
// part after part, so that the inputs of only one part exist in double: all
// inputs in double would take twice the memory of the case itself. Returns
// nullopt, and the reason in `why`, if the reference is not defined. With
// `logits`, the largest logit is returned too.
std::optional<ReferenceOfParts> ReferenceInParts(
    const Case& test, const exec::AttentionProblem& problem,
    const dense::Options& options, bool logits, std::string& why);

// Runs the operation on one device; returns nullopt if it cannot run.
using OnOneDevice =
    std::function<std::optional<exec::Buffer>(const exec::AttentionProblem&)>;

// Returns whether a case's inputs are so large that ReferenceInParts and
// OutputInParts divide them into parts, provided that there are several rows or
// heads.
bool HasManyParts(const exec::AttentionProblem& problem);
// Returns the output of the operation on one device, in the problem's layout.
// `run` is called for one part after the other, so that copies of only one
// part's inputs exist. HasParts must hold for the case. Returns nullopt as soon
// as `run` does.
std::optional<exec::Buffer> OutputInParts(const Case& test,
                                          const exec::AttentionProblem& problem,
                                          const OnOneDevice& run);

struct JoinedParts {
  dense::Array reference;  // [B, T, H, Dv]
  exec::Buffer unsharded;  // in the problem's layout
  double largest_logit = 0;
};

// Computes the parts on all ranks and returns the joined results on the first
// one; on the other ranks the result is empty. Returns nullopt on all ranks if
// a part of any rank could not be computed. With `logits`, the largest logit is
// returned too.
std::optional<JoinedParts> JudgeInParts(const Case& test,
                                        const exec::AttentionProblem& problem,
                                        const dense::Options& options,
                                        bool logits, const OnOneDevice& run,
                                        exec::Transport& transport);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PARTS_H_
