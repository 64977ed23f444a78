// Formats the numbers of a cost report for people.
#ifndef SHARDC_EMIT_COSTS_FIGURES_H_
#define SHARDC_EMIT_COSTS_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace shardc {

// "1.5 GiB"; "-" for an unknown number of bytes.
std::string BytesOr(const std::optional<int64_t>& bytes);
std::string SecondsText(double seconds);  // "1.03 s", "470 ms", "11.7 us"
std::string ShareText(int64_t part, int64_t whole);  // "88.5 %"
std::string PercentText(double part);                // "88.5 %" for 0.885
std::string ChangeText(double ratio);                // "+12.5 %" for 1.125

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_FIGURES_H_
