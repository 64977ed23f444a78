#include "source/launcher.h"

#include <charconv>

namespace shardc {
namespace {

// Returns the number in the text; -1 if the text is not a number.
int64_t Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  return error == std::errc() && whole ? value : -1;
}

}  // namespace

std::optional<Seat> SeatBy(const Launcher& launcher, const Variable& variable) {
  const char* index = variable(launcher.index);
  const char* count = variable(launcher.count);
  if (index == nullptr || count == nullptr) return std::nullopt;
  Seat seat{index, count};
  const int64_t i = Number(index), n = Number(count);
  if (i >= 0 && i < n) {
    seat.index = i;
    seat.count = n;
  }
  return seat;
}

}  // namespace shardc
