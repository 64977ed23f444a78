// Packs are files that the library carries, named FAMILY.NAMING; `auto` takes
// the family from parts of names that only it has, and the naming from the
// separator:
//
//   model.layers.0.self_attn..., mlp.gate_proj  ->  builtin:llama/hf
#include "target/packs.h"

#include <algorithm>

#include "source/wording.h"
#include "target/embedded.h"

namespace shardc {
namespace {

bool HasPart(std::string_view name, std::string_view part, char separator) {
  for (size_t at = name.find(part); at != name.npos;
       at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == separator) &&
        (end == name.size() || name[end] == separator)) {
      return true;
    }
  }
  return false;
}

bool AnyHasPart(const Manifest& manifest, std::string_view part) {
  return std::any_of(manifest.tensors.begin(), manifest.tensors.end(),
                     [&](const Tensor& tensor) {
                       return HasPart(tensor.name, part, manifest.separator);
                     });
}

std::string_view NamingOf(char separator) {
  return separator == '.' ? "hf" : "flax";
}

std::string_view PickFamily(const Manifest& manifest, std::string_view model) {
  const auto has = [&](std::string_view part) {
    return AnyHasPart(manifest, part);
  };
  if (has("c_attn") && has("wpe")) return "gpt2";
  if (!has("self_attn")) return {};
  if (has("block_sparse_moe")) return "mixtral";
  if (!has("gate_proj") || has("experts")) return {};
  // Gemma 1 has the same names as Llama: only its own name tells it.
  const bool gemma = has("pre_feedforward_layernorm") ||
                     model.find("gemma") != std::string_view::npos;
  return gemma ? "gemma" : "llama";
}

}  // namespace

std::vector<BuiltinPack> BuiltinPacks() {
  std::vector<BuiltinPack> packs;
  for (const EmbeddedFile& file : EmbeddedPacks()) {
    const size_t dot = file.name.find('.');
    const size_t end = file.name.find('.', dot + 1);
    packs.push_back({std::string(file.name.substr(0, dot)),
                     std::string(file.name.substr(dot + 1, end - dot - 1)),
                     file.text});
  }
  return packs;
}

std::vector<std::string> PackNames() {
  std::vector<std::string> names = {"auto"};
  for (const BuiltinPack& pack : BuiltinPacks()) {
    names.push_back("builtin:" + pack.name);
    names.push_back(pack.FullName());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

SourceRef FindPack(std::string_view name, char separator) {
  constexpr std::string_view kPrefix = "builtin:";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  std::string wanted(kPrefix);
  wanted += name;
  if (name.find('/') == name.npos) {
    wanted += '/';
    wanted += NamingOf(separator);
  }
  for (const BuiltinPack& pack : BuiltinPacks()) {
    if (pack.FullName() == wanted) {
      return MakeSource(pack.FullName(), std::string(pack.text));
    }
  }
  return nullptr;
}

std::optional<std::string> PickPack(const Manifest& manifest,
                                    std::string_view model_type) {
  const std::string model =
      FoldCase(manifest.model) + " " + FoldCase(model_type);
  const std::string_view family = PickFamily(manifest, model);
  if (family.empty()) return std::nullopt;
  return "builtin:" + std::string(family) + "/" +
         std::string(NamingOf(manifest.separator));
}

}  // namespace shardc
