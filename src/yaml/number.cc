// Numbers are read from their digits as written, never by way of YAML's
// types or of a double, so that nothing is rounded or silently octal:
//
//   16       integer          010, 1e3, 0x10, '16'  findings
//   1.5 GB   1 * 10^9 + 5 * 10^9 / 10^1 = 1,500,000,000 bytes
#include <array>
#include <charconv>
#include <system_error>

#include "source/checked.h"
#include "yaml/error.h"
#include "yaml/read.h"

namespace shardc {
namespace {

struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<ByteUnit, 10> kUnits = {{
    {"", 1},
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
}};

std::optional<int64_t> ParseDigits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// "80GiB", "1.5 GB": whole bytes, rounded down.
std::optional<int64_t> ParseBytes(std::string_view text) {
  const size_t whole_digits = CountDigits(text, 0);
  if (whole_digits == 0) return std::nullopt;
  const auto whole = ParseDigits(text.substr(0, whole_digits));
  if (!whole) return std::nullopt;
  size_t at = whole_digits;
  std::string_view fraction;
  if (at < text.size() && text[at] == '.') {
    const size_t digits = CountDigits(text, ++at);
    if (digits == 0 || digits > 6) return std::nullopt;
    fraction = text.substr(at, digits);
    at += digits;
  }
  while (at < text.size() && text[at] == ' ') ++at;
  for (const ByteUnit& unit : kUnits) {
    if (text.substr(at) != unit.name) continue;
    if (!fraction.empty() && unit.bytes == 1) return std::nullopt;
    const auto bytes = CheckedMul(*whole, unit.bytes);
    if (!bytes) return std::nullopt;
    if (fraction.empty()) return bytes;
    int64_t scale = 1;
    for (size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    // At most 10^6 * 2^40, far below 2^63.
    return CheckedAdd(*bytes, *ParseDigits(fraction) * unit.bytes / scale);
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range,
                                    IntegerFault* fault) {
  const std::string shown = ShortQuote(text);
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const size_t digits = CountDigits(text, sign);
  if (digits == 0 || sign + digits != text.size()) {
    *fault = {"is " + shown + ", which is not a decimal integer",
              "write plain decimal digits, such as 16"};
    return std::nullopt;
  }
  if (text[sign] == '0' && (digits > 1 || sign == 1)) {
    *fault = {"is " + shown + ", an integer with a leading " +
                  (sign == 1 && digits == 1 ? "minus" : "zero"),
              "write plain decimal digits, such as 16"};
    return std::nullopt;
  }
  const auto value = ParseDigits(text);
  if (!value) {
    *fault = {"is " + shown + ", which does not fit in 64 bits", ""};
    return std::nullopt;
  }
  if (*value < range.least) {
    *fault = {"is " + shown + ", less than " + std::to_string(range.least), ""};
    return std::nullopt;
  }
  if (*value > range.most) {
    *fault = {"is " + shown + ", more than " + std::to_string(range.most), ""};
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> ReadInteger(const YamlContext& context,
                                   const YamlNode& node, std::string_view what,
                                   IntegerRange range) {
  const std::string subject(what);
  if (!node.tag.empty()) {
    context.Add(code::kNumber, node,
                subject + " is tagged `!!" + node.tag + "`", "remove the tag");
    return std::nullopt;
  }
  if (!node.IsScalar() || node.style != YamlStyle::kPlain) {
    const bool quoted = node.IsScalar() && IsCoreInteger(node.text);
    context.Add(code::kNumber, node,
                subject + " is " + Describe(node) + ", not an integer",
                quoted ? "write it without quotes"
                       : "write plain decimal digits, such as 16");
    return std::nullopt;
  }
  IntegerFault fault;
  const auto value = ParseInteger(node.text, range, &fault);
  if (!value) {
    context.Add(code::kNumber, node, subject + " " + fault.message, fault.help);
  }
  return value;
}

namespace {

std::string RealText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

}  // namespace

std::optional<double> ReadReal(const YamlContext& context, const YamlNode& node,
                               std::string_view what, RealRange range) {
  if (RefuseTag(context, node)) return std::nullopt;
  const CoreType type = node.IsScalar() ? CoreTypeOf(node) : CoreType::kString;
  double value = 0;
  // `.inf`, `.nan` and a plus sign are reals of YAML too, but none of ours.
  const char* const end = node.text.data() + node.text.size();
  const auto [read, error] = std::from_chars(node.text.data(), end, value);
  const bool number = type == CoreType::kInteger || type == CoreType::kReal;
  if (!number || error != std::errc() || read != end) {
    const bool quoted =
        node.IsScalar() && node.style == YamlStyle::kQuoted && read == end;
    context.Add(
        code::kNumber, node,
        std::string(what) + " is " + Describe(node) + ", not a decimal number",
        quoted && error == std::errc() ? "write it without quotes"
                                       : "write it as 0.125");
    return std::nullopt;
  }
  const bool much = range.below_most ? value >= range.most : value > range.most;
  if (value >= range.least && !much) return value;
  context.Add(code::kNumber, node,
              std::string(what) + " is " + ShortQuote(node.text) +
                  (!much              ? ", less than "
                   : range.below_most ? ", not below "
                                      : ", more than ") +
                  RealText(much ? range.most : range.least));
  return std::nullopt;
}

std::optional<int64_t> ReadBytes(const YamlContext& context,
                                 const YamlNode& node, std::string_view what) {
  if (RefuseTag(context, node)) return std::nullopt;
  if (node.IsScalar()) {
    const auto bytes = ParseBytes(node.text);
    if (bytes && *bytes > 0) return bytes;
  }
  context.Add(
      code::kNumber, node,
      std::string(what) + " is " + Describe(node) + ", not a size in bytes",
      "write a number and a unit, such as `80GiB`");
  return std::nullopt;
}

}  // namespace shardc
