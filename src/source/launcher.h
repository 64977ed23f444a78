// How a launcher (srun, mpirun, torchrun) tells a process which one it is.
#ifndef SHARDC_SOURCE_LAUNCHER_H_
#define SHARDC_SOURCE_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace shardc {

// Names of the variables of the environment that say so.
struct Launcher {
  const char* index;
  const char* count;
};

// Of the environment; null where it is not set.
using Variable = std::function<const char*(const char* name)>;

struct Seat {
  std::string_view index_text, count_text;
  int64_t index = 0;
  int64_t count = 0;  // 0: the texts name no process of several
};

// Nothing where a variable is not set.
std::optional<Seat> SeatBy(const Launcher& launcher, const Variable& variable);

}  // namespace shardc

#endif  // SHARDC_SOURCE_LAUNCHER_H_
