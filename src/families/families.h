// Room: families. The parameter tree of a model from its config.json: names,
// shapes and data types, by descriptions that are data (families/ at the top).
// Knows source, model, yaml and parse.
#ifndef SHARDC_FAMILIES_FAMILIES_H_
#define SHARDC_FAMILIES_FAMILIES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::families {

// How parameters are called: as transformers builds the model, as it writes
// it to files, as its Flax classes did, and as EasyDeL does.
inline constexpr std::array<std::string_view, 4> kNamings = {"hf", "hf-files",
                                                             "flax", "easydel"};

// A tree has no more tensors than this.
inline constexpr int64_t kMostTensors = 1000000;

// The whole tree. Findings, at their place in the file: no model type or one
// that is not described, another class than those described, sizes that are
// missing or absurd, a naming that the family does not have.
std::optional<Manifest> BuildTree(const std::string& config_path,
                                  std::string_view naming, Findings& findings);
// The same of a document whose root is an object.
std::optional<Manifest> BuildTree(const JsonDocument& document,
                                  std::string_view naming, Findings& findings);

// The model types that are described, sorted.
std::vector<std::string_view> ModelTypes();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_FAMILIES_H_
