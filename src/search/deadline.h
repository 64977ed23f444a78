// The time at which a search stops, even if it is not complete.
#ifndef SHARDC_SEARCH_DEADLINE_H_
#define SHARDC_SEARCH_DEADLINE_H_

#include <chrono>
#include <optional>

namespace shardc::search {

class Deadline {
 public:
  // Starts the clock. If `seconds` is nullopt, the deadline never passes.
  explicit Deadline(std::optional<double> seconds)
      : start_(Clock::now()), seconds_(seconds) {}

  bool IsOver() const {
    return seconds_ &&
           std::chrono::duration<double>(Clock::now() - start_).count() >=
               *seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start_;
  const std::optional<double> seconds_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_DEADLINE_H_
