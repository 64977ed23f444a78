// Runs random legal cases and writes them as `shardc verify --dump` does:
// `dump_random DIR SEED COUNT`.
#include <cstdlib>
#include <string>

#include "emit/verify/dump.h"
#include "source/sink.h"
#include "verify/cases/random_cases.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

int Run(const std::string& folder, uint64_t seed, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const Case test = RandomCase(seed, i);
    CaseTensors tensors;
    const CaseResult result = RunCase(test, {}, &tensors);
    std::string number = std::to_string(i);
    number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
    const std::string path = folder + "/case-" + number;
    Findings findings;
    FileSink json(path + ".json");
    WriteDumpJson(test, result, tensors, Metrics::kReduced, json);
    if (!WriteToFile(path + ".safetensors", DumpTensors(tensors), findings) ||
        !json.Commit(findings)) {
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace shardc::verify

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return shardc::verify::Run(argv[1], std::strtoull(argv[2], nullptr, 10),
                             std::strtoull(argv[3], nullptr, 10));
}
