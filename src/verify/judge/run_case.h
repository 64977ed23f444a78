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
#include "exec/machine/machine.h"
#include "exec/machine/transport.h"
#include "verify/cases/case.h"
#include "verify/judge/tolerance.h"

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
  // Replacements for steps of the program, set by tests (seams.h).
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

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_RUN_CASE_H_
