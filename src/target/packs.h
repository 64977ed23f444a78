// Rule packs that are embedded in the library: `builtin:llama`,
// `builtin:llama/flax`.
#ifndef SHARDC_TARGET_PACKS_H_
#define SHARDC_TARGET_PACKS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

struct BuiltinPack {
  std::string name;    // "llama"
  std::string naming;  // "flax" or "hf"
  std::string_view text;

  std::string FullName() const { return "builtin:" + name + "/" + naming; }
};

std::vector<BuiltinPack> BuiltinPacks();  // sorted by name, then naming
// The values that `--rules` takes besides files, sorted.
std::vector<std::string> PackNames();

// The pack of that name, with or without `builtin:` before it. A name without
// /flax or /hf takes the naming of `separator`: hf for '.', else flax. Null if
// there is none.
SourceRef FindPack(std::string_view name, char separator);
// Returns the pack of that name as above, but a name without /flax or /hf takes
// `naming`.
SourceRef FindPack(std::string_view name, std::string_view naming);
// The naming of a manifest's names by their last parts, "flax" for `kernel` and
// "hf" for `weight`, or without these by the separator.
std::string_view NamingOf(const Manifest& manifest);

// The full name of the pack for a manifest, for `auto`: selected by the names,
// the `model` of the manifest and the configuration's model type (may be
// empty). Nothing if no pack knows the names.
std::optional<std::string> PickPack(const Manifest& manifest,
                                    std::string_view model_type);

}  // namespace shardc

#endif  // SHARDC_TARGET_PACKS_H_
