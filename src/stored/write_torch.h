// Writes archives as `torch.save` does. An archive is a zip archive that
// contains a pickle and, for a tensor, the bytes of its elements.
#ifndef SHARDC_STORED_WRITE_TORCH_H_
#define SHARDC_STORED_WRITE_TORCH_H_

#include <string>
#include <string_view>

#include "model/manifest.h"
#include "stored/torch_dtypes.h"

namespace shardc::stored {

// Returns the archive of a tensor. `elements` has the tensor's elements in
// row-major order, and must be shorter than 2 GiB.
std::string TorchTensorArchive(const TorchDtype& dtype, const Shape& shape,
                               std::string_view elements);
// Returns the archive of a value that is not a tensor. `pickle` is the value's
// pickle.
std::string TorchValueArchive(std::string_view pickle);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_TORCH_H_
