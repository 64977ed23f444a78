// Runs one case and judges it.
#ifndef SHARDC_VERIFY_JUDGE_RUN_CASE_H_
#define SHARDC_VERIFY_JUDGE_RUN_CASE_H_

#include <functional>
#include <optional>

#include "dense/attention.h"
#include "exec/machine/machine.h"
#include "exec/machine/transport.h"
#include "verify/cases/case.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

// What an operation is told in place of the case's own specs and settings.
using Told =
    std::function<void(const exec::AttentionProblem&, const exec::Machine&,
                       exec::AttentionSpecs&, exec::OperationSettings&)>;

// Told of what a long case is at: `of the reference`, `step 3 of 16`.
using Stage = std::function<void(const std::string& what)>;

struct RunOptions {
  Checks checks;
  Stage stage = {};
  exec::Seams seams;  // what programs go through, where it is not the ordinary
  Told told;
  int threads = 1;  // that simulate devices
  // Over whose ranks the mesh's devices are held; null: all are here.
  exec::Transport* transport = nullptr;
  // Where set, a right output is followed by wrong ones, to be refused.
  WrongOutputs* wrong = nullptr;
};

// Whole tensors of a run, for --dump: in the case's layout.
struct CaseTensors {
  exec::AttentionProblem problem;
  exec::Buffer output;
  dense::Array reference;  // [B, T, H, Dv]
};

// Deterministic: the same case and options give the same result, whatever
// `threads`. Fills `tensors` where the run got that far. Over ranks the first
// one judges: the others' results have its status and what their own checks
// found.
CaseResult RunCase(const Case& test, const RunOptions& options = {},
                   CaseTensors* tensors = nullptr);

// The same on a given problem, whose shapes are the case's.
CaseResult JudgeProblem(const Case& test, const exec::AttentionProblem& problem,
                        const RunOptions& options,
                        CaseTensors* tensors = nullptr);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_RUN_CASE_H_
