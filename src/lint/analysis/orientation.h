// Whether matrices are laid out [in, out] or [out, in], read from sizes: trees
// are turned round on the way from one framework to another, names kept.
#ifndef SHARDC_LINT_ANALYSIS_ORIENTATION_H_
#define SHARDC_LINT_ANALYSIS_ORIENTATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lint/analysis/roles.h"
#include "model/manifest.h"

namespace shardc {

// Parameters of one name (digit parts as `*`) and shape.
struct TreeEntry {
  std::string_view name;
  const GroupRole* role = nullptr;
  const Shape* shape = nullptr;  // null: unknown
  int64_t count = 1;
  bool packed = false;  // several weights in one number: sizes mislead
};

// One answer for each entry: [in, out] or not, of its last two dimensions.
// Nothing where sizes say nothing and names decide. `hidden` is the model's
// width, where a configuration says it.
std::vector<std::optional<bool>> OrientationsOf(
    std::span<const TreeEntry> entries, std::optional<int64_t> hidden);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ORIENTATION_H_
