// Decides by sizes whether matrices are stored [in, out] or [out, in], because
// conversions between frameworks transpose matrices and keep their names.
#ifndef SHARDC_ROLES_ORIENTATION_H_
#define SHARDC_ROLES_ORIENTATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "roles/classify.h"

namespace shardc {

// The parameters of one shape whose names differ only in numbers. `name` has
// `*` in place of each part that is a number.
struct ShapedParameter {
  std::string_view name;
  const ParameterRole* role = nullptr;
  const Shape* shape = nullptr;  // null: unknown
  int64_t count = 1;
  bool packed = false;  // a stored number may hold several weights
  // The path of the layer stack. If it is empty, the name up to its first
  // number is used.
  std::string_view stack = {};
};

// The width of every layer stack, which is the size of the activations that its
// blocks read and write.
class Widths {
 public:
  Widths() = default;
  // `hidden` is the width in the model's configuration, if it is known. It is
  // used for each stack in which a dimension has that size.
  Widths(std::span<const ShapedParameter> parameters,
         std::optional<int64_t> hidden);

  // Returns which of these two sizes of a matrix is the width that it reads or
  // writes; 0 if neither is. Each stack has its own width. For a matrix in no
  // stack, the stacks whose width is one of its two sizes are considered, and
  // the one whose path has the longest common prefix with the name is used.
  // `stack` is as in ShapedParameter.
  int64_t Of(std::string_view name, int64_t first, int64_t last,
             std::string_view stack = {}) const;
  const std::map<std::string_view, int64_t>& by_stack() const {
    return by_stack_;
  }

 private:
  std::map<std::string_view, int64_t> by_stack_;
};

// Returns, for each parameter, whether its last two dimensions are [in, out].
// An entry is nullopt if the parameter is not a matrix, or if its sizes do not
// decide, so that the caller has to use the name.
std::vector<std::optional<bool>> OrientationsOf(
    std::span<const ShapedParameter> parameters, const Widths& widths);

}  // namespace shardc

#endif  // SHARDC_ROLES_ORIENTATION_H_
