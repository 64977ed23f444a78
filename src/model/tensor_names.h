// Presents the names of a manifest's tensors as one list.
#ifndef SHARDC_MODEL_TENSOR_NAMES_H_
#define SHARDC_MODEL_TENSOR_NAMES_H_

#include <span>

#include "model/manifest.h"
#include "source/texts.h"

namespace shardc {

// Returns a view of the names, in the order of the tensors. The view is valid
// until `tensors` changes.
inline Texts NamesOf(std::span<const Tensor> tensors) {
  return Texts::Of(tensors, &Tensor::name);
}

}  // namespace shardc

#endif  // SHARDC_MODEL_TENSOR_NAMES_H_
