// The keys that one mapping of a YAML file knows.
#ifndef SHARDC_YAML_KEY_TABLE_H_
#define SHARDC_YAML_KEY_TABLE_H_

#include <span>
#include <string_view>

namespace shardc {

struct KeyTable {
  // Where the mapping stands: `rules.rules[]` is a rule of a rules file.
  std::string_view path;
  std::string_view what;  // for messages: "a rule"
  std::span<const std::string_view> keys;
};

}  // namespace shardc

#endif  // SHARDC_YAML_KEY_TABLE_H_
