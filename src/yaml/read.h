// Reads YAML nodes as values of a type. The functions Read... return the value,
// or nullopt after a finding at the node. The finding describes the content of
// the node.
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
// Reads an unquoted integer: decimal digits, optionally after a minus. Adds the
// finding `number` if the node is not such an integer or is not in the range.
// `what` is the subject of the message, such as "`devices`".
std::optional<int64_t> ReadInteger(const YamlContext& context,
                                   const YamlNode& node, std::string_view what,
                                   IntegerRange range);
// The reason why a text is no valid integer.
struct IntegerFault {
  std::string message;  // follows `what`: "is `0x10`, not ..."
  std::string help;
};
std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range,
                                    IntegerFault* fault);

struct RealRange {
  double least = 0;
  double most = 0;
  bool below_most = false;  // true if `most` is not allowed either
};
// Reads a plain decimal number, which may be an integer. Adds the finding
// `number` if the node is not such a number or is not in the range.
std::optional<double> ReadReal(const YamlContext& context, const YamlNode& node,
                               std::string_view what, RealRange range);

// Returns whether the node has a tag, and adds a finding if so. Most tags are
// refused earlier, when the file is parsed.
bool RefuseTag(const YamlContext& context, const YamlNode& node);

// Reads a string. With `strict`, refuses plain scalars that YAML reads as
// numbers or booleans: an unquoted pattern `123` or `true` is a mistake.
std::optional<std::string> ReadText(const YamlContext& context,
                                    const YamlNode& node, std::string_view what,
                                    bool strict = false);
std::optional<bool> ReadBool(const YamlContext& context, const YamlNode& node,
                             std::string_view what);
// Reads a string that is one of `choices`, and returns its index.
std::optional<size_t> ReadChoice(const YamlContext& context,
                                 const YamlNode& node, std::string_view what,
                                 std::span<const std::string_view> choices);
// Reads a size in bytes (source/byte_size.h).
std::optional<int64_t> ReadBytes(const YamlContext& context,
                                 const YamlNode& node, std::string_view what);
// Reads a list of strings, or one string as a list of one. Refuses plain
// scalars that YAML reads as numbers or booleans.
std::optional<std::vector<std::string>> ReadTexts(const YamlContext& context,
                                                  const YamlNode& node,
                                                  std::string_view what);
// Adds a finding if the node is not the integer 1. A null pointer is accepted,
// because files may omit the version.
void CheckVersion(const YamlContext& context, const YamlNode* node);

// Returns the text of a key. If the key is empty or is not a scalar, adds a
// finding with the code `code` and returns nullopt.
std::optional<std::string> ReadKey(const YamlContext& context,
                                   const YamlNode& key, const Code& code,
                                   std::string_view what);

// Returns why a text cannot name a mesh axis, or an empty text if it can.
std::string AxisNameFault(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_YAML_READ_H_
