// Whether matrices are stored [in, out] or [out, in], decided by sizes:
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

// Parameters of one name (digit parts as `*`) and shape.
struct ShapedParameter {
  std::string_view name;
  const ParameterRole* role = nullptr;
  const Shape* shape = nullptr;  // null: unknown
  int64_t count = 1;
  bool packed = false;  // one number holds several weights: sizes mislead
  // The path of scanned layers; empty: the name up to its first counter.
  std::string_view stack = {};
};

// The width of every layer stack: the size of the activations that its blocks
// read and write.
class Widths {
 public:
  Widths() = default;
  // `hidden` is the width that the model's configuration gives, if any. It is
  // used for each stack in which some dimension has that size.
  Widths(std::span<const ShapedParameter> parameters,
         std::optional<int64_t> hidden);

  // The width that a matrix of these sides reads or writes: that of its stack,
  // or for a matrix in no stack that of the stack whose path has the longest
  // common prefix with its name. 0 if neither side has that size.
  // `stack` is as in ShapedParameter.
  int64_t Of(std::string_view name, int64_t first, int64_t last,
             std::string_view stack = {}) const;
  const std::map<std::string_view, int64_t>& by_stack() const {
    return by_stack_;
  }

 private:
  std::map<std::string_view, int64_t> by_stack_;
};

// For each parameter whether its last two dimensions are [in, out]; empty where
// sizes do not decide and the name has to.
std::vector<std::optional<bool>> OrientationsOf(
    std::span<const ShapedParameter> parameters, const Widths& widths);

}  // namespace shardc

#endif  // SHARDC_ROLES_ORIENTATION_H_
