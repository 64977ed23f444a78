// Explains why one sharding is slower than another. The times of both have the
// same parts in the same order, so the differences of the parts add up to the
// difference of the times. For example, two parts of the slower sharding and of
// the faster one are compared:
//
//   products 1.02 s and 1.00 s, optimizer 20 ms and 30 ms
//     ->  products +20 ms, optimizer -10 ms
#include "search/difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace shardc::search {
namespace {

// A part is not printed if its difference is smaller than this fraction of the
// largest difference. At most kMostParts parts are printed.
constexpr double kSmallPart = 0.25;
constexpr size_t kMostParts = 3;

std::string SignedSeconds(double seconds) {
  const double size = std::abs(seconds);
  const char* const unit = size >= 1 ? "s" : size >= 1e-3 ? "ms" : "us";
  const double scaled = size >= 1      ? size
                        : size >= 1e-3 ? size * 1e3
                                       : size * 1e6;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%c%.3g %s", seconds < 0 ? '-' : '+',
                scaled, unit);
  return text.data();
}

// Returns a name as words: "tensor_collectives" becomes "tensor collectives".
std::string Words(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

}  // namespace

std::vector<cost::TimePart> PartsOfDifference(const Sharding& best,
                                              const Sharding& other) {
  std::vector<cost::TimePart> out = other.report.expected->parts;
  const auto& less = best.report.expected->parts;
  for (size_t i = 0; i < out.size() && i < less.size(); ++i) {
    out[i].seconds -= less[i].seconds;
  }
  return out;
}

std::string DifferenceText(const std::vector<cost::TimePart>& parts) {
  std::vector<cost::TimePart> sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const cost::TimePart& a, const cost::TimePart& b) {
                     return std::abs(a.seconds) > std::abs(b.seconds);
                   });
  std::string out;
  for (size_t i = 0; i < sorted.size() && i < kMostParts; ++i) {
    const double size = std::abs(sorted[i].seconds);
    if (size == 0 || size < kSmallPart * std::abs(sorted[0].seconds)) break;
    out += (out.empty() ? "" : ", ") + Words(sorted[i].name) + " " +
           SignedSeconds(sorted[i].seconds);
  }
  return out;
}

}  // namespace shardc::search
