// Parses sizes such as `1.5GiB`. The integral part and the fraction are read as
// integers, so that no size is rounded by a float: 1.5 GiB is 1 * 2^30 + 5 *
// 2^30 / 10 = 1610612736 bytes.
#include "source/size.h"

#include <array>
#include <charconv>
#include <system_error>

#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<ByteUnit, 27> kUnits = {{
    {"", 1},
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"PiB", int64_t{1} << 50},
    {"EiB", int64_t{1} << 60},
    {"K", int64_t{1} << 10},
    {"M", int64_t{1} << 20},
    {"G", int64_t{1} << 30},
    {"T", int64_t{1} << 40},
    {"P", int64_t{1} << 50},
    {"E", int64_t{1} << 60},
    {"Ki", int64_t{1} << 10},
    {"Mi", int64_t{1} << 20},
    {"Gi", int64_t{1} << 30},
    {"Ti", int64_t{1} << 40},
    {"Pi", int64_t{1} << 50},
    {"Ei", int64_t{1} << 60},
    {"kB", 1'000},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
    {"EB", 1'000'000'000'000'000'000},
}};
constexpr size_t kMostPlaces = 6;
constexpr int64_t kLeastBareBytes = int64_t{1} << 20;

// Removes and returns the leading digits of `text`.
std::string_view TakeDigits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && IsDigit(text[count])) {
    ++count;
  }
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// The reasons why a text is not a size.
enum class SizeFault { kNoSize, kNoUnit, kBelowOne, kTooLarge };

// Returns the value of decimal digits; nullopt if there are no digits or the
// value overflows.
std::optional<int64_t> ValueOf(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// Returns the bytes of a fraction of a unit, rounded down. `places` are its
// decimal places: half of `unit` for "5", a quarter for "25".
int64_t Share(int64_t unit, std::string_view places) {
  int64_t scale = 1;
  for (size_t i = 0; i < places.size(); ++i) scale *= 10;
  const int64_t part = ValueOf(places).value_or(0);
  // Divide before multiplying, so that no product exceeds 2^60, the largest
  // unit.
  return unit / scale * part + unit % scale * part / scale;
}

// Returns the size in bytes. If the text is not a size, sets `fault` to the
// reason and returns nullopt.
std::optional<int64_t> ParseSize(std::string_view text, SizeFault& fault) {
  fault = SizeFault::kNoSize;
  const std::string_view digits = TakeDigits(text);
  if (digits.empty()) return std::nullopt;
  std::string_view places;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    places = TakeDigits(text);
    if (places.empty() || places.size() > kMostPlaces) return std::nullopt;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  for (const ByteUnit& unit : kUnits) {
    // `gb` is GB, but `Gb` may be gigabits.
    if (text != unit.name && text != FoldCase(unit.name)) continue;
    if (!places.empty() && unit.bytes == 1) return std::nullopt;
    const auto whole = ValueOf(digits);
    const auto bytes = whole ? CheckedMul(*whole, unit.bytes) : std::nullopt;
    const auto all =
        bytes ? CheckedAdd(*bytes, Share(unit.bytes, places)) : std::nullopt;
    if (!all) {
      fault = SizeFault::kTooLarge;
    } else if (*all == 0) {
      fault = SizeFault::kBelowOne;
    } else if (unit.name.empty() && *all < kLeastBareBytes) {
      // `80` without a unit is more likely 80 GiB with a forgotten unit than 80
      // bytes.
      fault = SizeFault::kNoUnit;
    } else {
      return all;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> ParseByteSize(std::string_view text) {
  SizeFault fault = SizeFault::kNoSize;
  return ParseSize(text, fault);
}

std::string NotByteSize(std::string_view what, std::string_view seen) {
  const std::string said = std::string(what) + " is " + std::string(seen);
  std::string_view bare = seen;
  if (bare.starts_with('`')) bare = bare.substr(1, bare.size() - 2);
  SizeFault fault = SizeFault::kNoSize;
  ParseSize(bare, fault);
  switch (fault) {
    case SizeFault::kNoSize:
      break;
    case SizeFault::kNoUnit:
      return said + ", of what unit?";
    case SizeFault::kBelowOne:
      return said + ", and a size is at least one byte";
    case SizeFault::kTooLarge:
      return said + ", which does not fit in 64 bits";
  }
  return said + ", not a size in bytes";
}

}  // namespace shardc
