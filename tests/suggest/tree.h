// Makes trees, meshes and suggestions for tests.
#ifndef SHARDC_TESTS_SUGGEST_TREE_H_
#define SHARDC_TESTS_SUGGEST_TREE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/plans/rules_file.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "suggest/suggest.h"

namespace shardc::suggest {

struct NamedShape {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kBF16;
};

inline Manifest ManifestOf(const std::vector<NamedShape>& tensors,
                           char separator = '.') {
  ManifestBuilder builder;
  for (const NamedShape& one : tensors) {
    builder.Add(one.name, {.shape = one.shape, .dtype = one.dtype});
  }
  builder.manifest().separator = separator;
  return builder.Take();
}

inline Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({.name = name, .size = size});
    mesh.devices *= size;
  }
  return mesh;
}

// Returns the tensors. One with `*` in its name is copied for each of `layers`
// layers, with the layer's number for `*`.
inline std::vector<NamedShape> Layers(const std::vector<NamedShape>& tensors,
                                      int layers) {
  std::vector<NamedShape> out;
  for (const NamedShape& one : tensors) {
    const size_t at = one.name.find('*');
    for (int i = 0; i < (at == std::string::npos ? 1 : layers); ++i) {
      out.push_back(one);
      if (at != std::string::npos) {
        out.back().name.replace(at, 1, std::to_string(i));
      }
    }
  }
  return out;
}

// Returns the spec that the suggested rules give a tensor, as `[HEAD, [FSDP,
// SP]]`.
inline std::string SpecOf(const Suggestion& suggestion, std::string_view name) {
  const auto& tensors = suggestion.tree.manifest->tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != name) continue;
    const auto rule = static_cast<size_t>(suggestion.rule_of[i]);
    return SpecSourceText(suggestion.file.rules[rule].rule.spec);
  }
  return "no such tensor";
}

}  // namespace shardc::suggest

#endif  // SHARDC_TESTS_SUGGEST_TREE_H_
