// Room: verify/judge. Runs a case and compares its result with the dense
// reference.
// Includes: source, floats, dense, exec/machine, exec/attention, verify/cases.
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
#include "exec/machine/machine.h"
#include "exec/machine/transport.h"
#include "verify/cases/case.h"
#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {

// Replaces the specs and settings that an operation receives.
using ReplaceInputs =
    std::function<void(const exec::AttentionProblem&, const exec::Machine&,
                       exec::AttentionSpecs&, exec::OperationSettings&)>;

// A function that is called with the current stage of a long case, such as `the
// reference` or `step 3 of 16`.
using Stage = std::function<void(const std::string& what)>;

// The names and tensors of a trace, which is a sequence of steps on a KV cache
// or on pages, in the order of the steps. For --dump.
using NamedBuffers = std::vector<std::pair<std::string, exec::Buffer>>;

struct RunOptions {
  Checks checks;
  Stage stage = {};
  exec::Seams seams;  // the steps that a test replaces (seams.h)
  ReplaceInputs replace_inputs;
  int threads = 1;  // host threads that simulate devices
  // The ranks over which the mesh's devices are distributed; null if one
  // process holds all.
  exec::Transport* transport = nullptr;
  // If set, each correct output is followed by wrong ones, which must be
  // detected.
  WrongOutputs* wrong = nullptr;
  // If set, the run of a trace (a sequence of steps on a KV cache or on pages)
  // appends the tensors of its steps to this list. Only for runs in a single
  // process.
  NamedBuffers* record = nullptr;
};

// The unsharded tensors of a run, for --dump, in the case's layout.
struct CaseTensors {
  exec::AttentionProblem problem;
  exec::Buffer output;
  dense::Array reference;  // [B, T, H, Dv]
  // The tensors of a trace. If the case is a trace, only this member is set;
  // otherwise it is empty.
  NamedBuffers trace;
};

// Runs a case and checks its result. The same case and options give the same
// result for any `threads`. Sets `tensors` unless the run ends early. With
// several ranks the first one compares the output; the results of the other
// ranks have the first rank's status, and the findings of their own checks.
CaseResult RunCase(const Case& test, const RunOptions& options = {},
                   CaseTensors* tensors = nullptr);

// Runs and checks the case with the inputs of `problem`, which must have the
// case's shapes.
CaseResult JudgeProblem(const Case& test, const exec::AttentionProblem& problem,
                        const RunOptions& options,
                        CaseTensors* tensors = nullptr);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_RUN_CASE_H_
