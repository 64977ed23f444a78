// Parses the values of options. For example:
//
//   --memory 1.5GiB  ->  1,610,612,736     --memory 1.5  ->  a finding
#include "model/option_value.h"

#include <charconv>
#include <system_error>

#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns how to write a number that has a suffix or separators: "write `4096`"
// for `4,096` and for `4096s`, and both meanings of `4k`. Returns an empty text
// for any other text.
std::string HelpForNumber(std::string_view text, int64_t least) {
  std::string digits;
  while (!text.empty() && (IsDigit(text.front()) || text.front() == ',' ||
                           text.front() == '_')) {
    if (IsDigit(text.front())) digits += text.front();
    text.remove_prefix(1);
  }
  int64_t value = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || value < least || error != std::errc()) return {};
  if (text.empty() || text == ".0" || text == "s")
    return "write `" + std::to_string(value) + "`";
  const std::string suffix = FoldCase(text);
  // `8xH100`, of devices and what they are.
  const bool of_kind = suffix.size() > 1 && suffix.front() == 'x' &&
                       suffix[1] >= 'a' && suffix[1] <= 'z';
  if (of_kind) {
    return "write `" + std::to_string(value) +
           "`; what the devices are is said with `--profile`";
  }
  if (suffix.front() == 'x') {
    return "write one whole number, such as `" + std::to_string(value) + "`";
  }
  const int power = suffix == "k" || suffix == "ki"   ? 1
                    : suffix == "m" || suffix == "mi" ? 2
                    : suffix == "g" || suffix == "b"  ? 3
                                                      : 0;
  std::optional<int64_t> binary = value, decimal = value;
  for (int i = 0; i < power && binary && decimal; ++i) {
    binary = CheckedMul(*binary, 1024);
    decimal = CheckedMul(*decimal, 1000);
  }
  if (power == 0 || !binary || !decimal) return {};
  return "write `" + std::to_string(*binary) + "` or `" +
         std::to_string(*decimal) + "`: a number has no suffix here";
}

}  // namespace

Place FlagPlace(std::string_view flag, const std::string& value) {
  return {MakeSource(std::string(flag), value), 0, value.size()};
}

std::optional<int64_t> ParseInteger(const Place& place, const std::string& text,
                                    int64_t least, Findings& findings) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool leading_zero =
      text.size() > 1 && (text[0] == '0' || text.starts_with("-0"));
  if (error == std::errc() && stop == end && value >= least && !leading_zero) {
    return value;
  }
  const bool too_large = error == std::errc::result_out_of_range &&
                         stop == end && text[0] != '-' && !leading_zero;
  findings.Add(code::kNumber, place,
               too_large ? "`" + text + "` is larger than " +
                               std::to_string(INT64_MAX) +
                               ", the largest number that is read"
                         : "`" + text + "` is not a whole number from " +
                               std::to_string(least) + " on",
               too_large ? "" : HelpForNumber(text, least));
  return std::nullopt;
}

std::optional<int64_t> ParseInteger(std::string_view flag,
                                    const std::string& text, int64_t least,
                                    Findings& findings) {
  return ParseInteger(FlagPlace(flag, text), text, least, findings);
}

std::optional<int64_t> ParseBytes(const Place& place, std::string_view flag,
                                  const std::string& text, Findings& findings) {
  const auto bytes = ParseByteSize(text);
  if (!bytes) {
    findings.Add(code::kNumber, place,
                 NotByteSize("`" + std::string(flag) + "`", ShortQuote(text)),
                 std::string(kByteSizeHelp));
  }
  return bytes;
}

std::optional<int64_t> ParseBytes(std::string_view flag,
                                  const std::string& text, Findings& findings) {
  return ParseBytes(FlagPlace(flag, text), flag, text, findings);
}

}  // namespace shardc
