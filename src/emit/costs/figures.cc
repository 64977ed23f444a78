#include "emit/costs/figures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "cost/inputs.h"
#include "source/wording.h"

namespace shardc {

std::string BytesOr(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "-";
}

std::string SecondsText(double seconds) {
  const std::array<std::pair<double, const char*>, 3> units = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  std::array<char, 32> text{};
  for (const auto& [unit, name] : units) {
    if (seconds < unit && unit > 1e-6) continue;
    const double count = seconds / unit;
    if (count < 999.5) {
      std::snprintf(text.data(), text.size(), "%.3g %s", count, name);
    } else {  // %.3g would write 1000 as 1e+03
      std::snprintf(text.data(), text.size(), "%.0f %s", count, name);
    }
    break;
  }
  return text.data();
}

std::string ShareText(int64_t part, int64_t whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

std::string PercentText(double part) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * part);
  return text.data();
}

std::string ChangeText(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", 100 * (ratio - 1));
  return text.data();
}

std::string AtLeast(bool lower_bound, std::string bytes) {
  return lower_bound && bytes != "-" ? "at least " + bytes : bytes;
}

std::string FreeShareText(const cost::Memory& memory) {
  if (!memory.Complete()) return "";
  return ShareText(*memory.capacity - *memory.Expected(), *memory.capacity) +
         " free";
}

std::string AssumedDtypeText(const std::vector<std::string>& assumptions) {
  const bool found = std::find(assumptions.begin(), assumptions.end(),
                               kDtypeAssumed) != assumptions.end();
  return found ? "assumed: " + std::string(kDtypeAssumed) + "\n" : "";
}

}  // namespace shardc
