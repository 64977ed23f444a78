// Sizes in bytes as people write them: one grammar for files and flags.
#ifndef SHARDC_SOURCE_BYTE_SIZE_H_
#define SHARDC_SOURCE_BYTE_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// `80GiB`, `80G`, `1.5 GB`, `512B`, `1048576`: a decimal number with at most
// six places, a space or none, and a unit: of 1024 (`G`, `Gi`, `GiB`), of 1000
// (`GB`) or `B`. Without one the bytes are at least a MiB, so that a forgotten
// unit is asked back. At least one byte, what is over rounded down; nothing
// where it does not fit.
std::optional<int64_t> ParseByteSize(std::string_view text);

// What to say of `seen` where `what` should be such a size, and what to do.
std::string NotByteSize(std::string_view what, std::string_view seen);
inline constexpr std::string_view kByteSizeHelp =
    "write a number and a unit, such as `80GiB`";

}  // namespace shardc

#endif  // SHARDC_SOURCE_BYTE_SIZE_H_
