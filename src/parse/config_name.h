// The name by which a configuration of another system is an input: as a mesh,
// as rules and as a manifest. For example, `from: {megatron: train.sh, devices:
// 16}` of a target is `config:megatron:train.sh?devices=16`.
#ifndef SHARDC_PARSE_CONFIG_NAME_H_
#define SHARDC_PARSE_CONFIG_NAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

struct ConfigOrigin {
  std::string system;  // such as `megatron`
  std::string file;
  std::string symbol;    // of a configuration in Python; else empty
  std::string model;     // the path of the config.json; empty to look for it
  std::string manifest;  // parameters in place of those of the model
  std::string families;  // the folder of the user's descriptions
  std::optional<int64_t> devices;
  std::vector<std::string> set = {};  // further keys, as `KEY=VALUE`
};

// The name of the options of a target (StepOption) that name a runtime.
inline constexpr std::string_view kRuntimeOption = "--runtime";

inline constexpr std::string_view kConfigPrefix = "config:";
// Returns whether an input is named by a configuration.
inline bool IsConfigName(std::string_view name) {
  return name.starts_with(kConfigPrefix);
}
std::string ConfigNameOf(const ConfigOrigin& origin);
// Returns nullopt if the name has another form.
std::optional<ConfigOrigin> ParseConfigName(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_PARSE_CONFIG_NAME_H_
