#include "roles/layer_units.h"

#include <charconv>

#include "model/name.h"

namespace shardc {
namespace {

// The largest number that is read as a layer number. The number of all layers,
// plus one for the embedding and one for the output head, then still fits in 64
// bits.
constexpr int64_t kLargestLayer = INT64_MAX - 3;

std::optional<int64_t> Number(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0 ||
      out > kLargestLayer) {
    return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<LayerName> LayerOf(std::string_view name, char separator) {
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = PartEnd(name, begin, separator);
    const std::string_view part = name.substr(begin, end - begin);
    const size_t stem = StemLength(part);
    const size_t before = begin + stem;  // the separator or `_` ends here
    const auto number =
        stem < part.size() ? Number(part.substr(stem)) : std::nullopt;
    begin = end + 1;
    if (!number || before == 0 || part.starts_with("expert")) continue;
    while (end < name.size() && name[end] != separator && name[end] != '[') {
      ++end;  // the closing quote and bracket of `['layers_5']`
    }
    return LayerName{name.substr(0, before - 1), name.substr(0, end), *number};
  }
  return std::nullopt;
}

bool IsBeforeLayers(const ParameterRole& role, std::string_view name) {
  return role.module_role == Role::kEmbedding || role.role == Role::kPosition ||
         name.find("embed") != name.npos;
}

bool IsAfterLayers(const ParameterRole& role, std::string_view name) {
  return role.module_role == Role::kHead || IsNorm(role.role) ||
         IsNorm(role.module_role) || name.find("norm") != name.npos ||
         name.find("head") != name.npos;
}

}  // namespace shardc
