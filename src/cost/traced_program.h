// Computes the cost of a user's traced program (program/program.h) under the
// specs of its inputs. The shardings, and with them the collectives, are those
// that `verify step --program` runs (program/sharding.h).
#ifndef SHARDC_COST_TRACED_PROGRAM_H_
#define SHARDC_COST_TRACED_PROGRAM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "cost/time.h"
#include "devices/profiles.h"
#include "model/mesh.h"
#include "model/not_known.h"
#include "program/program.h"

namespace shardc::cost {

struct ProgramRequest {
  const program::Program* program = nullptr;
  Mesh mesh;
  std::vector<Spec> specs;  // of each input
  const DeviceProfile* profile = nullptr;
  std::optional<int64_t> capacity;  // bytes of memory of a device
  // Whether results take the memory of the inputs that they replace.
  bool donates = false;
};

// The collectives of a line of the user's that have the same op, kind and axes.
struct ProgramTransfer {
  std::string line;  // "model.py:41", or empty if it is unknown
  program::Phase phase = program::Phase::kForward;
  std::string op;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;
  int64_t sent = 0;  // bytes that the busiest device sends in all `count`
  double seconds = 0;
};

enum class ProgramMemory : uint8_t {
  kParameters,
  kState,
  kData,
  kResults,
  // The bytes of other values at the peak, without those of results.
  kTemporaries,
};
inline constexpr std::array<std::string_view, 5> kProgramMemoryNames = {
    "parameters", "state", "data", "results", "temporaries"};

struct ProgramCost {
  // The bytes of a device, by ProgramMemory. INT64_MAX if they overflow.
  std::array<int64_t, kProgramMemoryNames.size()> memory = {};
  std::optional<int64_t> capacity;
  // The operations of matmuls and convolutions: of the program on one
  // device, and of the busiest device. `masked` are those of both that a causal
  // mask hides, which are not in `flops`.
  double flops = 0, masked = 0, device_flops = 0, device_masked = 0;
  // The elements that a device computes in all other ops.
  double elements = 0;
  // The bytes that a device reads from its memory and writes to it.
  double moved = 0;
  std::vector<ProgramTransfer> transfers;
  std::optional<Time> time;
  // Why there is no time although a profile was given; empty otherwise.
  std::string no_time;
  // With any of these, figures are lower bounds.
  std::vector<NotKnown> not_known;
  std::vector<std::string> assumptions;

  std::optional<int64_t> Total() const;  // nullopt if it overflows
  int64_t Sent() const;
  // Returns whether the bytes fit; nullopt if no capacity is given, or if only
  // a lower bound fits.
  std::optional<bool> Fits() const;
};

// Returns whether a program is cheaper on the mesh of `a`: first by whether it
// fits, then by the time without overlap, then by the operations of a device,
// the bytes sent and the memory. Without a time, the operations decide.
bool IsCheaper(const ProgramCost& a, const ProgramCost& b);

ProgramCost CostOfProgram(const ProgramRequest& request);

}  // namespace shardc::cost

#endif  // SHARDC_COST_TRACED_PROGRAM_H_
