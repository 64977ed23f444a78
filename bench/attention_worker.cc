// Times one case for each line of standard input. Prints `SECONDS WORK` of a
// call, or `absent REASON`. The other workers of bench/ have the same protocol.
// An argument names the kernel target to use, such as AVX3; without one the
// best is used.

#include <time.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "attention_cases.h"
#include "exec/kernels/kernels.h"
#include "source/process.h"

namespace {

// Processor time of this process, so that other processes do not affect the
// result.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// The median of the calls that fit in 60 ms, at least one.
double Seconds(const shardc::bench::TimedCase& timed) {
  std::vector<double> calls;
  const double start = Now();
  while (calls.empty() || Now() - start < 0.06) {
    const double before = Now();
    timed.run();
    calls.push_back(Now() - before);
  }
  std::sort(calls.begin(), calls.end());
  return calls[calls.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && !shardc::exec::UseKernelTarget(argv[1])) {
    std::cerr << "this processor has no kernel target `" << argv[1] << "`\n";
    return 2;
  }
  shardc::KeepFreedMemory();
  shardc::bench::AttentionCases cases;
  std::string line;
  while (std::getline(std::cin, line)) {
    const shardc::bench::TimedCase* const timed = cases.Find(line);
    if (timed == nullptr) {
      std::cout << "absent unknown case" << std::endl;
      continue;
    }
    std::cout.precision(9);
    std::cout << Seconds(*timed) << ' ' << timed->work << std::endl;
  }
  return 0;
}
