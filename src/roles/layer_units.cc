#include "roles/layer_units.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "model/name.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 6> kLayerWords = {
    "layer", "layers", "block", "blocks", "h", "encoderblock"};
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
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find(separator, begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (const auto number = Number(part); number && begin > 0) {
      return LayerName{name.substr(0, begin - 1), name.substr(0, end), *number};
    }
    const size_t under = part.rfind('_');
    if (under != part.npos && IsAmong(part.substr(0, under), kLayerWords)) {
      if (const auto number = Number(part.substr(under + 1))) {
        return LayerName{name.substr(0, begin + under), name.substr(0, end),
                         *number};
      }
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::string LayerTemplate(std::string_view name, char separator) {
  const auto layer = LayerOf(name, separator);
  if (!layer || name[layer->chain.size()] != '_') {
    return NameTemplate(name, separator);
  }
  return NameTemplate(layer->chain, separator) + "_*" +
         NameTemplate(name.substr(layer->module.size()), separator);
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
