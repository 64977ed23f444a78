// Compares the outputs of decoding steps with dense attention over the expected
// content of the cache, and with the same operation on one device.
#ifndef SHARDC_VERIFY_TRACES_TRACE_JUDGE_H_
#define SHARDC_VERIFY_TRACES_TRACE_JUDGE_H_

#include <string>
#include <utility>
#include <vector>

#include "dense/array.h"
#include "exec/attention/attention_problem.h"
#include "verify/judge/run_case.h"
#include "verify/traces/cache_trace.h"
#include "verify/traces/remembered.h"

namespace shardc::verify {

// One decoding step: its number, the rows' lengths and starts, and its output.
struct DecodedStep {
  int64_t step = 0;
  std::vector<int64_t> lengths, starts;  // [B]
  exec::Buffer output;                   // [B, 1, H, D]
};

struct JudgedStep {
  int64_t step = 0;
  std::string refused;  // why there is no reference, or empty
  // The error of the output against the reference.
  ErrorOf error;
  // The error of the same operation on one device.
  ErrorOf alone;
  double largest = 0;  // the largest magnitude of the reference
  double tolerance = 0;
  std::vector<double> device_error;
  // If the output is wrong: the reason, the axis and the help of the message.
  CaseResult explained;
};

class TraceJudge {
 public:
  // With a transport, each rank (process) computes some of the rows.
  TraceJudge(const CacheTrace& trace, const Remembered& memory,
             exec::Transport* transport = nullptr);

  const exec::AttentionOptions& options() const { return options_; }

  void Add(DecodedStep step) { waiting_.push_back(std::move(step)); }
  size_t Waiting() const { return waiting_.size(); }
  // Compares the collected steps row by row. A row's past tokens are computed
  // once for all steps. `passed` is called with each output that passed.
  std::vector<JudgedStep> Judge(int threads, const OnPassed& passed = {});

  // Returns a case of attention with the sizes of one step.
  Case StepCase() const;

 private:
  struct Outputs {
    // [B, 1, H, D]: the reference, and the operation on one device.
    dense::Array reference, alone;
    // The reference without the last key, which only OnPassed reads. It is
    // empty without this function.
    dense::Array lacking;
  };
  // Sends `reference` and `alone` of each rank's rows to all ranks, and a
  // reason if a row has no reference. `lacking` is not sent.
  void ShareRows(std::vector<Outputs>& out,
                 std::vector<std::string>& refused) const;
  bool IsOwn(int64_t row) const;
  void Row(int64_t row, std::vector<Outputs>& out, std::string& refused) const;
  // Computes the reference of one row for all steps. Key and value begin at
  // position `begin`. The position of each query is lowered by `back`: if
  // `back` is 1, a query does not attend to the last key. Returns false, and
  // sets `refused`, if there is no reference.
  bool Reference(int64_t row, int64_t begin, const exec::Buffer& key,
                 const exec::Buffer& value,
                 const std::vector<exec::Buffer>& queries, int64_t back,
                 dense::Array Outputs::*to, std::vector<Outputs>& out,
                 std::string& refused) const;

  const CacheTrace& trace_;
  const Remembered& memory_;
  exec::Transport* transport_;
  exec::AttentionOptions options_;
  std::vector<DecodedStep> waiting_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_JUDGE_H_
