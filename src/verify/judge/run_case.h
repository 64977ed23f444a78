// Directory: verify/judge. Runs a case and compares its result with the dense
// reference.
// Its files include headers of these directories: source, floats, comm, dense,
// exec/machine, exec/attention, verify/cases.
//
// Runs one case and judges it.
#ifndef SHARDC_VERIFY_JUDGE_RUN_CASE_H_
#define SHARDC_VERIFY_JUDGE_RUN_CASE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dense/attention.h"
#include "exec/attention/attention_problem.h"
#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"
#include "verify/cases/case.h"
#include "verify/judge/explain.h"

namespace shardc::verify {

// A function that replaces the specs and settings that an operation receives.
using ReplaceInputs =
    std::function<void(const exec::AttentionProblem&, const exec::Machine&,
                       exec::AttentionSpecs&, exec::OperationSettings&)>;

// A function that is called with the current stage of a long case, such as `the
// reference` or `step 3 of 16`.
using Stage = std::function<void(const std::string& what)>;

// The names and tensors of a trace, in the order of its steps, for --dump. A
// trace is a sequence of steps on a KV cache or on pages.
using NamedBuffers = std::vector<std::pair<std::string, exec::Buffer>>;

// An output that passed, and what it was compared with.
struct PassedOutput {
  const Case& test;
  const dense::Array& reference;
  const Limits& limits;
  // The inputs of a case; null for a decoding step of a trace.
  const exec::AttentionProblem* problem = nullptr;
  // For a decoding step, the reference without the last key; null for a case.
  const dense::Array* lacking = nullptr;
};
// A function that tests set, to check that wrong outputs in place of one that
// passed do not pass.
using OnPassed = std::function<void(const PassedOutput&)>;

struct RunOptions {
  Checks checks;
  Stage stage = {};
  // Replacements for steps of the program, set by tests (Seams).
  exec::Seams seams;
  ReplaceInputs replace_inputs;
  int threads = 1;  // host threads that simulate devices
  // The ranks (processes) over which the mesh's devices are distributed. Null
  // if one process holds all devices.
  exec::Transport* transport = nullptr;
  OnPassed passed = {};
  // If set, the run of a trace (a sequence of steps on a KV cache or on pages)
  // appends the tensors of its steps to this list. Not supported with several
  // ranks.
  NamedBuffers* record = nullptr;
};

// The unsharded tensors of a run, for --dump, in the case's layout.
struct CaseTensors {
  exec::AttentionProblem problem;
  exec::Buffer output;
  dense::Array reference;  // [B, T, H, Dv]
  // The tensors of a trace. A trace sets only this member; other cases leave it
  // empty.
  NamedBuffers trace;
};

// Runs a case and checks its result. The result does not depend on `threads`.
// Sets `tensors` unless the run ends early. With several ranks, only the first
// rank compares the output, and all ranks return its status. If a check that
// runs on another rank fails, that rank's result has the reason.
CaseResult RunCase(const Case& test, const RunOptions& options = {},
                   CaseTensors* tensors = nullptr);

// Like RunCase, but with the inputs of `problem`, which must have the case's
// shapes.
CaseResult JudgeProblem(const Case& test, const exec::AttentionProblem& problem,
                        const RunOptions& options,
                        CaseTensors* tensors = nullptr);

// Computes the reference of a case, and its run on one device, in parts. A part
// has some batch rows and some key heads with their query heads. No sum extends
// over several parts. Each rank (process) computes some parts, so that no rank
// needs the memory for all parts. For the same reason, a single process
// computes them one after the other.

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

#endif  // SHARDC_VERIFY_JUDGE_RUN_CASE_H_
