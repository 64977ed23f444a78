// Writes archives as `torch.save` does: zip archives with a pickle and a
// tensor's bytes.
#ifndef SHARDC_STORED_WRITE_TORCH_H_
#define SHARDC_STORED_WRITE_TORCH_H_

#include <string>
#include <string_view>

#include "model/manifest.h"
#include "stored/torch_dtypes.h"

namespace shardc::stored {

// Returns the archive of a tensor. `elements` are its elements in row-major
// order, of less than 2 GiB.
std::string TorchTensorArchive(const TorchDtype& dtype, const Shape& shape,
                               std::string_view elements);
// Returns the archive of a value that is not a tensor. `pickle` is the value's
// pickle.
std::string TorchValueArchive(std::string_view pickle);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_TORCH_H_
