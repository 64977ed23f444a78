// The reference of a case, and its run on one device, made in parts: rows of
// the batch and key heads with their queries, which no sum crosses. Ranks take
// some each, so that none needs the memory for all.
#ifndef SHARDC_VERIFY_JUDGE_PARTS_H_
#define SHARDC_VERIFY_JUDGE_PARTS_H_

#include <functional>
#include <optional>
#include <vector>

#include "dense/attention.h"
#include "exec/attention/attention_problem.h"
#include "exec/machine/buffer.h"
#include "exec/machine/transport.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Rows [rows, end_rows) and key heads [heads, end_heads).
struct Part {
  int64_t rows = 0, end_rows = 0;
  int64_t heads = 0, end_heads = 0;
};

// Whether a case's rows and heads can be judged apart: not packed tokens, a
// latent, a table of blocks, dropout (counted over all heads) or quantised
// arithmetic.
bool HasParts(const Case& test, const exec::AttentionProblem& problem);
// At least one for each rank where there are as many rows and heads.
std::vector<Part> PartsFor(const exec::AttentionProblem& problem, int ranks);
exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const Part& part);

struct WholeOfParts {
  dense::Array reference;  // [B, T, H, Dv]
  exec::Buffer unsharded;  // in the problem's layout
  double largest_logit = 0;
};
// The operation on one device; nothing where it cannot run.
using OnOneDevice =
    std::function<std::optional<exec::Buffer>(const exec::AttentionProblem&)>;

// Every rank does some and the first one gets all: an empty result on the
// others. Nothing, on all, where a part of any rank could not be made.
// `logits`: the largest one is asked for.
std::optional<WholeOfParts> JudgeInParts(const Case& test,
                                         const exec::AttentionProblem& problem,
                                         const dense::Options& options,
                                         bool logits, const OnOneDevice& run,
                                         exec::Transport& transport);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_PARTS_H_
