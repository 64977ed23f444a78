// Writes what `torch.save` writes: zip archives of a pickle and a tensor's
// bytes.
#ifndef SHARDC_STORED_WRITE_TORCH_H_
#define SHARDC_STORED_WRITE_TORCH_H_

#include <string>
#include <string_view>

#include "model/manifest.h"
#include "stored/torch_dtypes.h"

namespace shardc::stored {

// The archive of a tensor with these elements, in row-major order, of less than
// 2 GiB.
std::string TorchTensorArchive(const TorchDtype& dtype, const Shape& shape,
                               std::string_view elements);
// The archive of another value, given as its pickle.
std::string TorchValueArchive(std::string_view pickle);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_TORCH_H_
