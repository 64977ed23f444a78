// Typed reading of YAML nodes: each reader gives the value or says, at the
// value's place, what it saw instead.
#ifndef SHARDC_YAML_READ_H_
#define SHARDC_YAML_READ_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yaml/core.h"
#include "yaml/fields.h"

namespace shardc {

struct IntegerRange {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();
};
inline constexpr IntegerRange kAnyInteger = {
    std::numeric_limits<int64_t>::min()};
// Decimal digits with an optional minus, unquoted; `number` otherwise. `what`
// is the subject of the message: "`devices`".
std::optional<int64_t> ReadInteger(const YamlContext& context,
                                   const YamlNode& node, std::string_view what,
                                   IntegerRange range);
// The same over bare text: the error's wording, or nothing if it is good.
struct IntegerFault {
  std::string message;  // continues `what`: "is `0x10`, not ..."
  std::string help;
};
std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range,
                                    IntegerFault* fault);

struct RealRange {
  double least = 0;
  double most = 0;
  bool below_most = false;  // `most` itself is too much
};
// A plain decimal number, an integer too; `number` otherwise.
std::optional<double> ReadReal(const YamlContext& context, const YamlNode& node,
                               std::string_view what, RealRange range);

// True with a finding for a tag, which the file's reader leaves to readers.
bool RefuseTag(const YamlContext& context, const YamlNode& node);

// A string. What YAML reads as a number or a boolean is refused when
// `strict`: a pattern `123` or `true` is a slip.
std::optional<std::string> ReadText(const YamlContext& context,
                                    const YamlNode& node, std::string_view what,
                                    bool strict = false);
std::optional<bool> ReadBool(const YamlContext& context, const YamlNode& node,
                             std::string_view what);
// The index of one of `choices`.
std::optional<size_t> ReadChoice(const YamlContext& context,
                                 const YamlNode& node, std::string_view what,
                                 std::span<const std::string_view> choices);
// A size in bytes (source/byte_size.h).
std::optional<int64_t> ReadBytes(const YamlContext& context,
                                 const YamlNode& node, std::string_view what);
// A list of strings; one string serves for a list of one.
std::optional<std::vector<std::string>> ReadTexts(const YamlContext& context,
                                                  const YamlNode& node,
                                                  std::string_view what);
// `version: 1`.
void CheckVersion(const YamlContext& context, const YamlNode* node);

// A key as text; a finding of `code` where it is not a plain word or string.
std::optional<std::string> ReadKey(const YamlContext& context,
                                   const YamlNode& key, const Code& code,
                                   std::string_view what);

// Why a text cannot be a mesh axis's name; empty if it can.
std::string AxisNameFault(std::string_view name);

// "`a`, `b` or `c`", "`a`, `b` and `c`"
std::string Alternatives(std::span<const std::string_view> choices);
std::string Listed(std::span<const std::string_view> names);

}  // namespace shardc

#endif  // SHARDC_YAML_READ_H_
