// dump_random DIR SEED COUNT: random legal cases, run and written as
// `shardc verify --dump` writes its own.
#include <cstdlib>
#include <string>

#include "emit/verify_json.h"
#include "source/file.h"
#include "verify/dump.h"
#include "verify/grid.h"
#include "verify/run_case.h"

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
    const std::string json =
        "{\"case\": " + VerifyCaseJson(test, result, Metrics::kReduced) +
        ", \"settings\": {" + DumpSettings(test, tensors) + "}}\n";
    Findings findings;
    if (!WriteWhole(path + ".safetensors", DumpTensors(tensors), findings) ||
        !WriteWhole(path + ".json", json, findings)) {
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
