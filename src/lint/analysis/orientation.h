// Whether matrices are laid out [in, out] or [out, in], read from sizes: trees
// are turned round on the way from one framework to another, names kept.
#ifndef SHARDC_LINT_ANALYSIS_ORIENTATION_H_
#define SHARDC_LINT_ANALYSIS_ORIENTATION_H_

#include <cstdint>
#include <map>
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

// The width of every stack of layers: what enters and leaves its blocks.
class Widths {
 public:
  Widths() = default;
  // `hidden` is the model's width, where a configuration says it.
  Widths(std::span<const TreeEntry> entries, std::optional<int64_t> hidden);

  // The one that a matrix of these sides has to do with: its stack's, or
  // outside of stacks the nearest's. 0 if neither side is it.
  int64_t Of(std::string_view name, int64_t first, int64_t last) const;
  const std::map<std::string_view, int64_t>& by_stack() const {
    return by_stack_;
  }

 private:
  std::map<std::string_view, int64_t> by_stack_;
};

// One answer for each entry: [in, out] or not, of its last two dimensions.
// Nothing where sizes say nothing and names decide.
std::vector<std::optional<bool>> OrientationsOf(
    std::span<const TreeEntry> entries, const Widths& widths);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ORIENTATION_H_
