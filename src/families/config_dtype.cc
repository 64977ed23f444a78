// Reads the dtype of a model's parameters from its config.json:
//
//   {"torch_dtype": "bfloat16", ..}          ->  bfloat16
//   {"text_config": {"dtype": "float16"}}    ->  float16
//   {"dtype": "auto", ..}                    ->  float32, assumed
#include "families/config_dtype.h"

#include <string>
#include <string_view>

#include "source/wording.h"

namespace shardc::families {
namespace {

// A key of the config that names a dtype, and the name.
struct NamedDtype {
  std::string_view key;
  JsonValue name;
};

// Returns the dtype that the config names, or else the one that its nested
// `text_config` names; nullopt if neither names one.
std::optional<NamedDtype> FindDtype(const JsonValue& config) {
  for (const auto& part : {std::optional(config), config.Find("text_config")}) {
    if (!part || !part->IsObject()) continue;
    for (const std::string_view key : {"dtype", "torch_dtype"}) {
      const auto value = part->Find(key);
      if (value && value->IsString() && value->string() != "auto") {
        return NamedDtype{key, *value};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ConfigDtype> ReadConfigDtype(const JsonValue& config,
                                           Findings& findings) {
  const auto named = FindDtype(config);
  if (!named) return ConfigDtype{Dtype::kF32, true};
  constexpr std::string_view kModule = "torch.";
  std::string_view name = named->name.string();
  if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
  if (const auto dtype = ParseDtype(name)) return ConfigDtype{*dtype, false};
  findings.Add(code::kDtype, named->name.place(),
               "`" + std::string(named->key) + "` is " +
                   ShortQuote(named->name.string()) +
                   ", which is no known dtype",
               "write it as PyTorch does, such as `bfloat16`");
  return std::nullopt;
}

}  // namespace shardc::families
