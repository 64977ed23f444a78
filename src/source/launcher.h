// Reads a process's rank from the environment that a launcher (srun, mpirun,
// torchrun) sets.
#ifndef SHARDC_SOURCE_LAUNCHER_H_
#define SHARDC_SOURCE_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace shardc {

// The environment variables in which a launcher passes the index of a process
// and the number of processes.
struct Launcher {
  const char* index;
  const char* count;
};

// A function that returns the value of an environment variable, or null if the
// variable is not set.
using Variable = std::function<const char*(const char* name)>;

// The values of a launcher's two variables, as texts and as numbers.
struct Seat {
  std::string_view index_text, count_text;
  int64_t index = 0;
  // The number of processes. If a text is not a number, or the index is not
  // from 0 to count - 1, then `index` and `count` are both 0.
  int64_t count = 0;
};

// Returns the index of this process and the number of processes that the
// launcher set; nullopt if one of its two variables is not set.
std::optional<Seat> SeatBy(const Launcher& launcher, const Variable& variable);

}  // namespace shardc

#endif  // SHARDC_SOURCE_LAUNCHER_H_
