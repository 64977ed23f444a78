// Decides by sizes whether matrices are stored as [in, out] or as [out, in].
// Names alone are not reliable, because a conversion between frameworks may
// transpose a matrix and keep its name.
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
// `*` in place of each part that is a number, and `count` is the number of
// parameters.
struct ShapedParameter {
  std::string_view name;
  const ParameterRole* role = nullptr;
  const Shape* shape = nullptr;  // null if unknown
  int64_t count = 1;
  bool packed = false;  // whether a stored number may hold several weights
  // The path of the layer stack; if it is empty, the name up to its first
  // number is used.
  std::string_view stack = {};
};

// The width of every layer stack. It is the size of the activations that the
// blocks of the stack read and write.
class Widths {
 public:
  Widths() = default;
  // `hidden` is the width in the model's configuration; nullopt if it is
  // unknown. This width is used for each stack in which some dimension has this
  // size.
  Widths(std::span<const ShapedParameter> parameters,
         std::optional<int64_t> hidden);

  // Returns the model's width if a side of the matrix has this size, else 0.
  // `first` and `last` are the sizes of the sides. `stack` is the path of the
  // layer stack that contains the matrix, as in ShapedParameter, and the width
  // is that of this stack. A matrix outside of all stacks, such as an
  // embedding, may have the width of any stack. If the widths of several stacks
  // fit, the stack whose path has the longest common prefix with `name`
  // decides.
  int64_t Of(std::string_view name, int64_t first, int64_t last,
             std::string_view stack = {}) const;
  const std::map<std::string_view, int64_t>& by_stack() const {
    return by_stack_;
  }

 private:
  // The width of each stack, keyed by its path.
  std::map<std::string_view, int64_t> by_stack_;
  // The sorted paths of the stacks of each width.
  std::map<int64_t, std::vector<std::string_view>> by_width_;
};

// Returns true if the last two dimensions are [in, out] by the matrix's own
// role and sizes, and false if they are [out, in]. Returns nullopt if these
// show no order.
std::optional<bool> OrientationBySizes(const ShapedParameter& entry,
                                       const Widths& widths);

// Returns, for each parameter, true if its last two dimensions are [in, out]
// and false if they are [out, in]. An element is nullopt if the parameter is
// not a matrix, or if its sizes allow both orders. The caller then has to use
// the name.
std::vector<std::optional<bool>> OrientationsOf(
    std::span<const ShapedParameter> parameters, const Widths& widths);

}  // namespace shardc

#endif  // SHARDC_ROLES_ORIENTATION_H_
