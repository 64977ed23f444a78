// Reads single fields of a config.json, each within bounds.
#ifndef SHARDC_PARSE_CONFIG_FIELDS_H_
#define SHARDC_PARSE_CONFIG_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

struct ConfigField {
  std::optional<int64_t> value = {};
  Place place = {};     // of the value in the file
  bool nested = false;  // the field is in nested()
};

// Reads fields. All integers that its functions return are at most
// kLargestModelSize, and all reals at most kLargestModelNumber. A wrong field
// is reported once, however often it is read.
class ConfigFields {
 public:
  // `root` must be a JSON object; `findings` must outlive the new object.
  ConfigFields(JsonValue root, Findings& findings);

  const JsonValue& root() const { return root_; }
  // The config of the language model if the file describes a larger model.
  const std::optional<JsonValue>& nested() const { return nested_; }

  // Returns a member, or nullopt if it is absent or null. The nested config has
  // priority. A key `a.b` names member `b` of the object `a`, as in DBRX's
  // `attn_config`.
  std::optional<JsonValue> Find(std::string_view key) const;
  // Returns whether a member is there, even if it is null.
  bool Has(std::string_view key) const;
  // Returns whether the `model_type` of the config, or of the nested config, is
  // one of the names.
  bool IsA(std::span<const std::string_view> families) const;
  // Returns a boolean. Reports values of other types than a boolean or null.
  std::optional<bool> IsTrue(std::string_view key);

  // Size, Count and Number return the value of the first of the names that has
  // a valid value. They report strings, objects, fractions and numbers that are
  // too large. Size also reports booleans and numbers below 1. A list is
  // treated as absent, because its values are for single layers.
  ConfigField Size(std::span<const std::string_view> names);
  ConfigField Size(std::string_view name) { return Size({&name, 1}); }
  // Does the same as Size, but 0, negative numbers and booleans mean "none" and
  // are treated as absent.
  ConfigField Count(std::span<const std::string_view> names);
  ConfigField Count(std::string_view name) { return Count({&name, 1}); }
  // Does the same as Size, but accepts 0.
  ConfigField Number(std::span<const std::string_view> names);
  // Returns the value of the first of the names that has a list of equal
  // integers above 0. Hunyuan lists the experts of a token layer by layer.
  ConfigField EqualInLayers(std::span<const std::string_view> names);
  // Reads one value as a count.
  std::optional<int64_t> CountOf(const JsonValue& value, std::string_view key);

  // Returns a real number above 0. Strings, objects and numbers that are too
  // large are reported; any other value is treated as absent.
  std::optional<double> Real(std::string_view key);
  std::optional<double> RealOf(const JsonValue& value, std::string_view key);

 private:
  enum class Least : uint8_t { kSize, kCount, kNumber };
  ConfigField First(std::span<const std::string_view> names, Least least);
  std::optional<int64_t> Integer(const JsonValue& value, std::string_view key,
                                 Least least);
  void Report(const Code& code, const JsonValue& value, std::string message,
              std::string help = {});

  JsonValue root_;
  std::optional<JsonValue> nested_;
  Findings& findings_;
  std::set<size_t> reported_;  // offsets of the values
};

}  // namespace shardc

#endif  // SHARDC_PARSE_CONFIG_FIELDS_H_
