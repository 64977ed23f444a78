// Finds the rule packs that are embedded in the library, such as
// `builtin:llama` and `builtin:llama/flax`.
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
  std::string name;    // the family, such as "llama"
  std::string naming;  // "flax" or "hf"
  std::string_view text;

  std::string FullName() const { return "builtin:" + name + "/" + naming; }
};

std::vector<BuiltinPack> BuiltinPacks();  // sorted by name, then naming
// Returns `auto` and the names of all packs, each with and without its naming,
// sorted.
std::vector<std::string> PackNames();

// Returns the pack with this name, which may begin with `builtin:`. If the name
// does not contain a naming (/flax or /hf), `separator` decides: hf for '.',
// flax otherwise. Returns null if there is no such pack.
SourceRef FindPack(std::string_view name, char separator);
// Returns the pack in the same way, but `naming` decides if the name has
// neither /flax nor /hf. If `naming` is empty, returns the first pack of the
// family.
SourceRef FindPack(std::string_view name, std::string_view naming);
// Returns the naming of a manifest's names. It is "flax" if the last part of
// some name is `kernel`. Otherwise it is "hf" if the last part of some name is
// `weight`. Otherwise it is "hf" if the separator is '.', and "flax" if not.
std::string_view NamingOf(const Manifest& manifest);

// Returns the full name of the pack that `auto` selects for a manifest. The
// parameter names in the manifest, the model's name in the manifest, and the
// configuration's model type decide; `model_type` may be empty. Returns nullopt
// if no family fits, or if the family has no pack for the naming (flax or hf)
// of the parameter names.
std::optional<std::string> PickPack(const Manifest& manifest,
                                    std::string_view model_type);

}  // namespace shardc

#endif  // SHARDC_TARGET_PACKS_H_
