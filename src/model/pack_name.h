// The names of rule packs, which are rules files that are built into the
// program.
#ifndef SHARDC_MODEL_PACK_NAME_H_
#define SHARDC_MODEL_PACK_NAME_H_

#include <string_view>

namespace shardc {

// Returns whether the name of a rules file has the form of a rule pack's name,
// such as `builtin:llama`. A pack of this name need not exist.
inline bool IsPackName(std::string_view name) {
  return name.starts_with("builtin:");
}

}  // namespace shardc

#endif  // SHARDC_MODEL_PACK_NAME_H_
