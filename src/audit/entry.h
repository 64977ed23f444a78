// Finds the parameters of a program's entry computation, and which of them a
// collective moves.
#ifndef SHARDC_AUDIT_ENTRY_H_
#define SHARDC_AUDIT_ENTRY_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "audit/graph.h"
#include "hlo/shapes.h"

namespace shardc::audit {

enum class What : uint8_t { kActivation, kParameter, kGradient, kInput };
std::string_view WhatName(What what);  // "activation"

struct Moved {
  What what = What::kActivation;
  std::string name;   // parameter's name; empty if unknown
  std::string shape;  // "f32[64,64]", the operand's shape on a device
};

class Entry {
 public:
  explicit Entry(const Graph& graph);

  // Returns the kind and the name of an entry parameter. The name is the
  // parameter's path inside its argument (`layers/gate` for
  // `p['layers']['gate']`), or the argument's name if it has no path. The kind
  // is kInput for an argument without a path, and for an argument whose name or
  // dtype suggests a batch (`batch['image']`, or tokens). The kind of all other
  // entry parameters is kParameter. For other instructions, returns an
  // activation without a name.
  Moved Of(Node parameter) const;
  // Returns whether a parameter has this shape on a device. The array is in a
  // computation that runs `runs` times. It may be one layer of a stacked
  // parameter: [16,64] is one layer of [4,16,64] if `runs` is a multiple of 4,
  // as in a loop over the layers, or if `runs` is 1. If `sliced`, [1,16,64] is
  // one layer as well. A matrix also matches a parameter with the transposed
  // shape. If `name` is not empty, only parameters with this name are compared.
  // Equal shapes do not show that the array is the parameter.
  bool HasShape(const hlo::Array& array, int64_t runs,
                std::string_view name = {}, bool sliced = true) const;
  // Returns whether the gradient of a parameter may have this shape before a
  // reduction over `members` devices. The gradient has the parameter's shape as
  // in HasShape, or it has one dimension that is `members` times as large.
  bool HasGradient(const hlo::Array& array, int64_t runs,
                   int64_t members) const;

 private:
  struct Param {
    std::string name;
    hlo::Array array;
    bool is_input = true;
  };
  using Dims = std::vector<int64_t>;

  // Returns whether a parameter has these dimensions or, for a matrix, their
  // transpose.
  bool Look(const Dims& dims, int64_t runs, std::string_view name,
            bool transposed = false) const;

  std::map<Node, Param> params_;
  // The parameters, keyed by the dimensions of their shape on a device. The
  // keys of `by_layer_` lack the first dimension, which may count layers.
  std::map<Dims, std::vector<const Param*>> by_dims_, by_layer_;
  std::multimap<std::string_view, const Param*> by_name_;
};

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ENTRY_H_
