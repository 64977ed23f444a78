// Divides the outputs of a transfer among processes, so that each process
// writes about the same number of bytes. The bytes of all outputs, one output
// after another, are divided into one section of equal size for each process.
// An output belongs to the process whose section contains the output's
// midpoint. Every process computes the same assignment without communication.
// The index of a process comes from a flag or from the launcher's environment
// variables.
//
// Each output counts as one byte more than its size, so that empty outputs are
// distributed too. For example, on 2 processes:
//
//   4, 4 and 8 bytes count as 5, 5 and 9, so the midpoints are 2.5, 7.5 and
//   14.5 of 19  ->  processes 0, 0, 1
#include "checkpoint/ownership.h"

#include <algorithm>

namespace shardc {
namespace {

// SLURM sets SLURM_PROCID=0 and SLURM_NTASKS in a batch script too. The script
// is a single process that has to write everything, so SLURM_NTASKS is not
// read. SLURM sets SLURM_STEP_NUM_TASKS only for the processes that srun
// starts.
constexpr Launcher kLaunchers[] = {
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"RANK", "WORLD_SIZE"},
};

}  // namespace

std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share) {
  // One byte is added to the size of each output, so that empty outputs are
  // distributed too.
  double total = 0;
  for (const int64_t size : bytes) total += static_cast<double>(size) + 1;
  std::vector<bool> own(bytes.size());
  double before = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double size = static_cast<double>(bytes[i]) + 1;
    const auto owner = static_cast<int64_t>((before + size / 2) / total *
                                            static_cast<double>(share.count));
    own[i] = std::min(owner, share.count - 1) == share.index;
    before += size;
  }
  return own;
}

std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings) {
  for (const Launcher& launcher : kLaunchers) {
    const auto seat = SeatBy(launcher, variable);
    if (!seat) continue;
    if (seat->count < 1) {
      findings.Add(code::kUsage, {},
                   "`" + std::string(launcher.index) + "=" +
                       std::string(seat->index_text) + "` and `" +
                       launcher.count + "=" + std::string(seat->count_text) +
                       "` do not identify this process",
                   "give --process-index and --process-count");
      return std::nullopt;
    }
    return ProcessShare{seat->index, seat->count, launcher.index};
  }
  return ProcessShare{};
}

}  // namespace shardc
