// Reads single fields of a config.json, and checks their values against limits.
#ifndef SHARDC_PARSE_CONFIG_FIELDS_H_
#define SHARDC_PARSE_CONFIG_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "model/project.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

struct ConfigField {
  std::optional<int64_t> value = {};
  Place place = {};  // place of the value in the file
  // Whether the field is in the nested config, such as `text_config`.
  bool nested = false;
};

// Reads fields. All integers that its functions return are at most
// kLargestModelSize, and all real numbers are at most kLargestModelNumber. An
// invalid field is reported once, even if it is read several times.
class ConfigFields {
 public:
  // `root` must be a JSON object. `findings` must outlive this object.
  ConfigFields(JsonValue root, Findings& findings);

  const JsonValue& root() const { return root_; }
  // Returns the config of the language model inside the file. It is nullopt
  // unless the file describes a larger model, such as a multimodal one.
  const std::optional<JsonValue>& nested() const { return nested_; }

  // Returns a member, or nullopt if it is absent or null. A member of the
  // nested config is preferred. A key `a.b` selects member `b` of the object
  // `a`, as in DBRX's `attn_config`.
  std::optional<JsonValue> Find(std::string_view key) const;
  // Returns whether a member exists, even if its value is null.
  bool Has(std::string_view key) const;
  // Returns whether `families` contains the `model_type` of the config or of
  // the nested config.
  bool IsA(std::span<const std::string_view> families) const;
  // Returns the value of the member `key`, which should be a boolean. Returns
  // nullopt if the member is absent or null. Reports any other value.
  std::optional<bool> IsTrue(std::string_view key);

  // Size, Count and Number return the value of the first name in `names` that
  // has a valid value. They report strings, objects, fractions and numbers that
  // are too large. Size also reports booleans and numbers below 1. A list is
  // treated as absent, because its values are for single layers.
  ConfigField Size(std::span<const std::string_view> names);
  ConfigField Size(std::string_view name) { return Size({&name, 1}); }
  // Returns the same as Size, except that 0, negative numbers and booleans mean
  // "none" and are treated as absent.
  ConfigField Count(std::span<const std::string_view> names);
  ConfigField Count(std::string_view name) { return Count({&name, 1}); }
  // Returns the same as Size, except that 0 is valid.
  ConfigField Number(std::span<const std::string_view> names);
  // Returns the value of the first name that has a list of equal integers above
  // 0. For example, Hunyuan lists the number of experts of a token for each
  // layer.
  ConfigField EqualInLayers(std::span<const std::string_view> names);
  // Returns the largest value of the first name that has a list of integers of
  // at least 0, with one value for each layer. If `equal`, all must be equal.
  ConfigField LargestInLayers(std::span<const std::string_view> names,
                              bool equal = false);
  // Reads one value as Count does. `key` names the value in findings.
  std::optional<int64_t> CountOf(const JsonValue& value, std::string_view key);

  // Returns a real number above 0. Strings, objects and numbers that are too
  // large are reported. Any other value is treated as absent.
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
  std::set<size_t> reported_;  // offsets in the file of the reported values
};

// Returns the settings of rotary embeddings. Returns nullopt if the config has
// no rotary base and no scaling, or after a finding about a base that is not
// above 1. `positions` is the model's largest number of positions. It is used
// if a scaling does not state `original_max_position_embeddings`.
std::optional<RopeConfig> ReadRope(ConfigFields& fields,
                                   std::optional<int64_t> positions,
                                   Findings& findings);

// Adds a finding that a value has the wrong type. A null value is treated as
// absent. `wanted` describes the right type, such as "a string".
void RefuseType(std::string_view key, const JsonValue& value,
                std::string_view wanted, Findings& findings);

// The fields of a config.json from which sizes of a ModelConfig were read. A
// member is empty if no field of the file states this size.
struct SizeFields {
  ConfigField heads, kv_heads, head_dim, hidden, experts_per_token;
};

// Adds a finding, placed at the field, for each size that contradicts another
// size (model/legal_sizes.h). Also adds a finding if the number of heads does
// not divide the hidden size, unless a head size is given. Also adds a finding
// if latent attention lacks the size of the unrotated part of a head. `rotates`
// states whether the model's family applies rotary embeddings, even if no field
// mentions them.
void CheckModelSizes(const ModelConfig& config, const SizeFields& read,
                     bool rotates, ConfigFields& fields, Findings& findings);

// Returns a document whose root is an object; null after findings. `NaN` and
// `Infinity` are accepted, because Python writes them although JSON does not
// allow them.
std::unique_ptr<const JsonDocument> ReadModelDocument(const std::string& path,
                                                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_CONFIG_FIELDS_H_
