// The known keys of one kind of mapping in a YAML file.
#ifndef SHARDC_YAML_KEY_TABLE_H_
#define SHARDC_YAML_KEY_TABLE_H_

#include <span>
#include <string_view>

namespace shardc {

struct KeyTable {
  // Path of the mapping in its file: `rules.rules[]` is a rule of a rules file.
  std::string_view path;
  std::string_view what;  // for messages: "a rule"
  std::span<const std::string_view> keys;
};

}  // namespace shardc

#endif  // SHARDC_YAML_KEY_TABLE_H_
