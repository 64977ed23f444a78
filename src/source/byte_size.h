// Parses sizes in bytes as users write them in files and flags, such as
// `1.5GiB`.
#ifndef SHARDC_SOURCE_BYTE_SIZE_H_
#define SHARDC_SOURCE_BYTE_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Parses a size such as `80GiB`, `80G`, `1.5 GB`, `512B` or `1048576`. A size
// is a decimal number with at most six decimal places (none for bytes),
// optional spaces, and a unit. Units are powers of 1024 (`G`, `Gi`, `GiB`),
// powers of 1000 (`GB`), or `B`. A number without a unit is a number of bytes
// and must be at least 1 MiB: in a smaller number, the unit was probably
// forgotten. Fractions of a byte are rounded down. Returns nullopt for any
// other text, for sizes below one byte, and for sizes that int64_t cannot hold.
std::optional<int64_t> ParseByteSize(std::string_view text);

// Returns the message for a text `seen` that ParseByteSize rejects, with the
// reason: "`memory` is `80`, of what unit?". `what` names the key or flag that
// has the text. kByteSizeHelp is the advice that is printed below the message.
std::string NotByteSize(std::string_view what, std::string_view seen);
inline constexpr std::string_view kByteSizeHelp =
    "write a number and a unit, such as `80GiB`";

}  // namespace shardc

#endif  // SHARDC_SOURCE_BYTE_SIZE_H_
