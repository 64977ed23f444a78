// Classifies scalars by YAML's core schema, and describes nodes in messages.
#ifndef SHARDC_YAML_CORE_H_
#define SHARDC_YAML_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace shardc

#endif  // SHARDC_YAML_CORE_H_
