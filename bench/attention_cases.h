// The cases that the attention worker can time, by name.
//
//   peak                     fused multiply-adds in registers
//   prefill T MASK DTYPE     MASK causal or full; H 8, D 128, batch 1
//   decode S DTYPE           one query row, cache [S, 8, 128]
//   read S DTYPE             a plain read of the same cache's bytes
//   mesh DEVICES T           flash_attn2, causal, heads over DEVICES
#ifndef SHARDC_BENCH_ATTENTION_CASES_H_
#define SHARDC_BENCH_ATTENTION_CASES_H_

#include <functional>
#include <map>
#include <string>

namespace shardc::bench {

// `work` is the number of floating point operations, or of bytes, of one call
// of `run`. Only those that the result requires count.
struct TimedCase {
  std::function<void()> run;
  double work = 0;
};

class AttentionCases {
 public:
  // Returns null for an unknown name. The inputs of a case are made at its
  // first call and reused.
  const TimedCase* Find(const std::string& name);

 private:
  std::map<std::string, TimedCase> cases_;
};

}  // namespace shardc::bench

#endif  // SHARDC_BENCH_ATTENTION_CASES_H_
