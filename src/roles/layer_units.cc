// Reads the number of a layer from a name, and finds the end of the model of a
// parameter outside of layers. Its role comes first, and the words of its name
// decide only where the role does not:
//
//   embed_out.weight              ->  after the layers: a head
//   token_type_embeddings.weight  ->  before the layers, by `embed`
//   head_table.weight             ->  neither: it may be a head or a table
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

// Returns whether a part of the name ends with `head` or `heads`, as
// `classification_head` does. The part `head_table` does not.
bool HasHeadWord(std::string_view name) {
  constexpr std::string_view kHead = "head";
  for (size_t at = name.find(kHead); at != name.npos;
       at = name.find(kHead, at + 1)) {
    std::string_view rest = name.substr(at + kHead.size());
    if (rest.starts_with('s')) rest.remove_prefix(1);
    const auto in_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             (c >= '0' && c <= '9') || c == '_';
    };
    if (rest.empty() || !in_part(rest.front())) return true;
  }
  return false;
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

ParameterRole RoleOfEnd(std::string_view name, char separator) {
  ParameterRole out = Classify(name, separator, Confidence::kLikely);
  const std::string_view path = out.module_path;
  const bool output =
      path == "output" || path.ends_with(std::string(1, separator) + "output");
  if (out.module_role == Role::kDown && output) {
    out.role = out.module_role = Role::kHead;
  }
  return out;
}

bool IsBeforeLayers(const ParameterRole& role, std::string_view name) {
  if (role.module_role == Role::kHead) return false;
  return role.module_role == Role::kEmbedding || role.role == Role::kPosition ||
         (name.find("embed") != name.npos && name.find("unembed") == name.npos);
}

bool IsAfterLayers(const ParameterRole& role, std::string_view name) {
  return role.module_role == Role::kHead || IsNorm(role.role) ||
         IsNorm(role.module_role) || name.find("norm") != name.npos ||
         HasHeadWord(name);
}

}  // namespace shardc
