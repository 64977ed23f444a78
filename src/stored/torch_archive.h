// Reads a tensor that `torch.save` wrote. The tensor is a zip archive that
// contains a pickle and the bytes of one storage.
#ifndef SHARDC_STORED_TORCH_ARCHIVE_H_
#define SHARDC_STORED_TORCH_ARCHIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "stored/torch_dtypes.h"

namespace shardc::stored {

struct TorchTensor {
  const TorchDtype* dtype = nullptr;  // never null
  Shape shape;
  Shape strides;      // counted in elements
  int64_t first = 0;  // index in the storage of the tensor's first element
  int64_t data_offset = 0;  // offset of the storage in the file
  int64_t data_bytes = 0;
  uint32_t crc = 0;  // CRC-32 of the storage

  // Returns whether the elements of the storage are exactly the elements of the
  // tensor, in row-major order.
  bool IsPlain() const;
};

// Reads the zip directory and the pickle of an archive. The archive has `bytes`
// bytes at byte `offset` of the file. Checks that every element of the tensor
// is inside the storage. Returns nullopt after a finding with the code `header`
// or `unreadable`.
std::optional<TorchTensor> ReadTorchTensor(const InputFile& file,
                                           int64_t offset, int64_t bytes,
                                           Findings& findings);

// Reads the pickle of an archive that `torch.save` wrote, and checks the CRC-32
// of the pickle. Returns nullopt after a finding with the code `header` or
// `unreadable`.
std::optional<std::string> ReadTorchPickle(const InputFile& file,
                                           int64_t offset, int64_t bytes,
                                           Findings& findings);

// Parses `pickle`, which is the member `data.pkl` of an archive. Sets all
// members of the result except `data_offset` and `crc`, and sets `*key` to the
// name of the storage. Returns nullopt, with the message in `*why`, if the
// pickle is not a call that makes a tensor from a storage, or if the tensor
// extends beyond its storage.
std::optional<TorchTensor> ParseTorchTensor(std::string_view pickle,
                                            std::string* key, std::string* why);

// Reads the elements of the tensor in row-major order and checks the CRC-32 of
// the storage. Returns nullopt after a finding with the code `header` (the
// checksum is wrong) or `unreadable`.
std::optional<std::string> ReadTorchData(const InputFile& file,
                                         const TorchTensor& tensor,
                                         Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_TORCH_ARCHIVE_H_
