// Formats the figures of a cost report for people.
#ifndef SHARDC_EMIT_COSTS_FIGURES_H_
#define SHARDC_EMIT_COSTS_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/memory.h"

namespace shardc {

// Returns "1.5 GiB", or "-" if the number of bytes is unknown.
std::string BytesOr(const std::optional<int64_t>& bytes);
std::string SecondsText(double seconds);  // "1.03 s", "470 ms", "11.7 us"
std::string ShareText(int64_t part, int64_t whole);  // "88.5 %"
std::string PercentText(double part);                // "88.5 %" for 0.885
std::string ChangeText(double ratio);                // "+12.5 %" for 1.125
// Returns "at least 1.5 GiB" for the bytes "1.5 GiB" if they are a lower bound.
std::string AtLeast(bool lower_bound, std::string bytes);
// Returns "88.5 % free": the part of the capacity that remains; empty if a
// component of the memory is unknown. The capacity and the expected bytes must
// be known, and the capacity must be larger than the bytes.
std::string FreeShareText(const cost::Memory& memory);
// Returns the line "assumed: ..." if kDtypeAssumed is among the assumptions,
// and otherwise an empty text. It may double all bytes, so reports print it
// even if they do not print the other assumptions.
std::string AssumedDtypeText(const std::vector<std::string>& assumptions);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_FIGURES_H_
