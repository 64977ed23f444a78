// The names of the rule packs that the program contains.
#ifndef SHARDC_MODEL_PACK_NAME_H_
#define SHARDC_MODEL_PACK_NAME_H_

#include <string_view>

namespace shardc {

// Returns whether the name of a rules file is the name of a pack, such as
// `builtin:llama`. The pack need not exist.
inline bool IsPackName(std::string_view name) {
  return name.starts_with("builtin:");
}

}  // namespace shardc

#endif  // SHARDC_MODEL_PACK_NAME_H_
