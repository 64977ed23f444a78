// Reads numbers from their digits as written. yaml-cpp's conversions are not
// used, because they read some digits as octal. Integers and sizes are not
// converted to doubles, which would round large ones. For example:
//
//   16       is an integer
//   1.5 GB   is a size in bytes, read by source/byte_size.h
//
// Where an integer is expected, 010, 1e3, 0x10 and '16' lead to findings.
#include <charconv>
#include <system_error>

#include "source/byte_size.h"
#include "source/wording.h"
#include "yaml/error.h"
#include "yaml/read.h"

namespace shardc {
namespace {

std::optional<int64_t> ParseDigits(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
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
  // from_chars refuses `.inf`, `.nan` and a plus sign, which YAML allows and
  // shardc's files do not.
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
    if (const auto bytes = ParseByteSize(node.text)) return bytes;
  }
  const std::string seen =
      node.IsScalar() ? ShortQuote(node.text) : Describe(node);
  context.Add(code::kNumber, node, NotByteSize(what, seen),
              std::string(kByteSizeHelp));
  return std::nullopt;
}

}  // namespace shardc
