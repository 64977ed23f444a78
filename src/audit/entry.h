// The parameters of a program's entry computation, and which of them a
// collective moves.
#ifndef SHARDC_AUDIT_ENTRY_H_
#define SHARDC_AUDIT_ENTRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/graph.h"
#include "hlo/shapes.h"

namespace shardc::audit {

enum class What : uint8_t { kActivation, kParameter, kGradient, kInput };
std::string_view WhatName(What what);  // "activation"

struct Moved {
  What what = What::kActivation;
  std::string name;   // name of the parameter; empty if it is not known
  std::string shape;  // "f32[64,64]", the operand's local shape
};

class Entry {
 public:
  explicit Entry(const Graph& graph);

  // Returns the kind and the name of an entry parameter. The name is the
  // parameter's path inside its argument (`layers/gate` for
  // `p['layers']['gate']`), or the argument's name. An argument is an input if
  // it has no path, or if its name or dtype suggests a batch: `batch['image']`,
  // tokens. Other arguments are parameters. An instruction that is no parameter
  // of the entry gives an activation without a name.
  Moved Of(Node parameter) const;
  // Returns the parameter that has this local shape in a computation that runs
  // `runs` times. A computation that runs once for each entry of a parameter's
  // first dimension (stacked layers) sees the parameter without that dimension.
  // A computation outside of loops may also see it without that dimension.
  // Returns an empty name if several parameters have the shape or its
  // transpose, and nullopt if none has. If `sliced`, a first dimension of size
  // 1 may be the layer dimension of one layer's slice.
  std::optional<std::string> OfShape(const hlo::Array& array, int64_t runs,
                                     bool sliced = true) const;
  // Returns the parameter whose gradient has this shape before a reduction over
  // `members` devices. The shape matches as in OfShape, or with one dimension
  // that is larger by a factor of `members`.
  std::optional<std::string> GradientOf(const hlo::Array& array, int64_t runs,
                                        int64_t members) const;

 private:
  struct Param {
    std::string name;
    hlo::Array array;
    bool is_input = true;
  };
  using Dims = std::vector<int64_t>;

  // Sets `name` to the parameter that has these dimensions or, for a matrix,
  // their transpose. Clears `name` if it already holds another parameter.
  void Look(const Dims& dims, int64_t runs, std::optional<std::string>& name,
            bool transposed = false) const;

  std::map<Node, Param> params_;
  // Parameters by all dimensions of their local shape, and by the dimensions
  // after the first.
  std::map<Dims, std::vector<const Param*>> by_dims_, by_layer_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ENTRY_H_
