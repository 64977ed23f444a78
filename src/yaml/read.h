// Reads YAML nodes as values of a type. The functions Read... return the value,
// or nullopt after a finding at the node. The finding describes the content of
// the node.
#ifndef SHARDC_YAML_READ_H_
#define SHARDC_YAML_READ_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yaml/yaml.h"

namespace shardc {

// The types of scalars. A quoted scalar or a block scalar is always a string.
enum class CoreType : uint8_t { kString, kBool, kInteger, kReal };
CoreType CoreTypeOf(const YamlNode& scalar);
bool IsCoreInteger(std::string_view text);

// Returns "a list", "the number `8`", "the string `x`", "null" ...
std::string Describe(const YamlNode& node);

// Counts the decimal digits from `at` on.
size_t CountDigits(std::string_view text, size_t at);

struct KeyTable {
  // Path of the mapping in its file: `rules.rules[]` is a rule of a rules file.
  std::string_view path;
  std::string_view what;  // for messages: "a rule"
  std::span<const std::string_view> keys;
};

// A file that is being read, and the list to which its findings are added.
struct YamlContext {
  const YamlDocument& document;
  Findings& findings;

  Finding& Add(const Code& code, const YamlNode& node, std::string message,
               std::string help = {}) const {
    return findings.Add(code, document.PlaceOf(node), std::move(message),
                        std::move(help));
  }
};

class Fields {
 public:
  // Reads the members of a mapping. Returns nullopt after a finding (schema) if
  // the node is not a mapping. Leaves out unknown keys and keys that are not
  // scalars. Reports each unknown key, and the first key that is not a scalar.
  static std::optional<Fields> Read(const YamlContext& context,
                                    const YamlNode& node,
                                    const KeyTable& table);
  const YamlNode* Find(std::string_view key) const;
  // Returns the value of a key. If the key is absent, returns null and adds a
  // finding (schema) with `help`. The finding is not added if a misspelling of
  // the key has been reported.
  const YamlNode* Require(const YamlContext& context, const YamlNode& node,
                          std::string_view key, std::string help = {}) const;

 private:
  explicit Fields(const KeyTable& table) : table_(&table) {}
  const KeyTable* table_;
  // The values of the known keys, in the order of table_->keys; null if the
  // mapping lacks the key.
  std::vector<const YamlNode*> values_;
  // The known keys of which a misspelling was found. Require() does not report
  // them as missing.
  std::vector<std::string> meant_;
};

// Alternatives() returns "`a`, `b` or `c`", and Listed() "`a`, `b` and `c`".
std::string Alternatives(std::span<const std::string_view> choices);
std::string Listed(std::span<const std::string_view> names);

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
// Reads a size in bytes (source/size.h).
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
