// Parses the values of options. For example:
//
//   --memory 1.5GiB  ->  1,610,612,736     --memory 1.5  ->  a finding
#include "model/option_value.h"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "source/size.h"
#include "source/wording.h"

namespace shardc {

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
                               std::to_string(least) + " on");
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

// Explains short names of dtypes. Options accept the names of NumPy and JAX.
// Configurations of PyTorch and of inference engines use shorter names, in
// lower or upper case:
//
//   bf16 -> bfloat16     FP16 -> float16     fp8 -> float8_e4m3fn

std::string DtypeHelp(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10>
      kNames = {{{"bf16", "bfloat16"},
                 {"f16", "float16"},
                 {"fp16", "float16"},
                 {"half", "float16"},
                 {"f32", "float32"},
                 {"fp32", "float32"},
                 {"float", "float32"},
                 {"f8", "float8_e4m3fn"},
                 {"fp8", "float8_e4m3fn"},
                 {"i8", "int8"}}};
  const std::string folded = FoldCase(text);
  for (const auto& [written, name] : kNames) {
    if (folded == written) return "write `" + std::string(name) + "`";
  }
  return {};
}

}  // namespace shardc
