#include "checkpoint/transfer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace shardc {
namespace {

TEST_CASE("ownership: every output has one owner, and shares are fair") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> bytes(random() % 60);
    int64_t total = 0, largest = 0;
    for (int64_t& size : bytes) {
      size = random() % 4 == 0 ? 0 : static_cast<int64_t>(random() % 1000);
      total += size + 1;
      largest = std::max(largest, size + 1);
    }
    const auto count = static_cast<int64_t>(1 + random() % 12);
    std::vector<int> owners(bytes.size());
    for (int64_t index = 0; index < count; ++index) {
      const auto own = OwnOutputs(bytes, {index, count, {}});
      int64_t mine = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        if (!own[i]) continue;
        ++owners[i];
        mine += bytes[i] + 1;
      }
      CHECK(mine <= total / count + 2 * largest);
    }
    for (const int owner : owners) CHECK(owner == 1);
  }
}

TEST_CASE("ownership: what launchers say") {
  const auto detect = [](std::map<std::string, std::string> environment,
                         Findings& findings) {
    return DetectProcess(
        [&](const char* name) -> const char* {
          const auto found = environment.find(name);
          return found == environment.end() ? nullptr : found->second.c_str();
        },
        findings);
  };
  Findings findings;
  auto share = detect({}, findings);
  REQUIRE(share);
  CHECK(share->count == 1);
  CHECK(share->from.empty());
  share =
      detect({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}}, findings);
  REQUIRE(share);
  CHECK(share->index == 3);
  CHECK(share->count == 8);
  // A batch script outside srun.
  share = detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, findings);
  REQUIRE(share);
  CHECK(share->count == 1);
  share = detect({{"SLURM_PROCID", "1"},
                  {"SLURM_NTASKS", "8"},
                  {"SLURM_STEP_NUM_TASKS", "2"}},
                 findings);
  CHECK(share->count == 2);
  share = detect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
                 findings);
  CHECK(share->count == 4);
  share = detect({{"RANK", "2"}, {"WORLD_SIZE", "3"}}, findings);
  CHECK(share->index == 2);
  CHECK(detect({{"RANK", "2"}}, findings)->count == 1);
  CHECK_FALSE(findings.HasErrors());
  CHECK_FALSE(detect({{"RANK", "3"}, {"WORLD_SIZE", "3"}}, findings));
  CHECK_FALSE(detect({{"RANK", "x"}, {"WORLD_SIZE", "3"}}, findings));
  CHECK(findings.errors() == 2);
}

}  // namespace
}  // namespace shardc
