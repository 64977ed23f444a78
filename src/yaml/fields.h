// Reads the members of a mapping by a table of known keys.
#ifndef SHARDC_YAML_FIELDS_H_
#define SHARDC_YAML_FIELDS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yaml/key_table.h"
#include "yaml/yaml.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_YAML_FIELDS_H_
