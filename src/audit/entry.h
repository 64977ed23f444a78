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
  // `p['layers']['gate']`), or the argument's name. The kind is kInput for an
  // argument without a path, and for one whose name or dtype suggests a batch
  // (`batch['image']`, or tokens). It is kParameter for every other argument.
  // For an instruction that is not a parameter of the entry, returns an
  // activation without a name.
  Moved Of(Node parameter) const;
  // Returns the name of the parameter with this local shape, for an array in a
  // computation that runs `runs` times. In a loop over stacked layers the array
  // may lack the parameter's first dimension; `runs` is then a multiple of the
  // number of layers. Outside of loops (`runs` is 1) the array may lack that
  // dimension as well. Returns an empty name if several parameters have the
  // shape or its transpose, and nullopt if no parameter has it. If `sliced`, a
  // first dimension of size 1 may be the layer dimension of one layer's slice.
  std::optional<std::string> OfShape(const hlo::Array& array, int64_t runs,
                                     bool sliced = true) const;
  // Returns the name of the parameter whose gradient has this shape before a
  // reduction over `members` devices. The shape either matches as in OfShape,
  // or has one dimension that is `members` times as large as the parameter's.
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
  // The parameters by the dimensions of their local shape. The keys of
  // `by_layer_` lack the first dimension, which may be the layers'.
  std::map<Dims, std::vector<const Param*>> by_dims_, by_layer_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ENTRY_H_
