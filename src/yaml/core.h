// What YAML's core schema takes scalars for, and words for it.
#ifndef SHARDC_YAML_CORE_H_
#define SHARDC_YAML_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "yaml/yaml.h"

namespace shardc {

// Quoted scalars are strings.
enum class CoreType : uint8_t { kString, kBool, kInteger, kReal };
CoreType CoreTypeOf(const YamlNode& scalar);
bool IsCoreInteger(std::string_view text);

// "a list", "the number `8`", "the string `x`", "null" ...
std::string Describe(const YamlNode& node);

// How many decimal digits stand at `at`.
size_t CountDigits(std::string_view text, size_t at);

}  // namespace shardc

#endif  // SHARDC_YAML_CORE_H_
