// Reads a tensor that `torch.save` wrote. The tensor is a zip archive that
// contains a pickle and the bytes of one storage.
#ifndef SHARDC_STORED_TORCH_ARCHIVE_H_
#define SHARDC_STORED_TORCH_ARCHIVE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "stored/tree.h"

namespace shardc::stored {

struct TorchDtype {
  std::string_view name;       // name in the module `torch`
  std::string_view storage;    // storage class in archives; may be empty
  int64_t bytes = 0;           // bytes of one element
  std::optional<Dtype> dtype;  // nullopt: shardc has no such type
};

std::span<const TorchDtype> TorchDtypes();
// Both functions return null if the name belongs to no type.
const TorchDtype* TorchDtypeByName(std::string_view name);
const TorchDtype* TorchDtypeByStorage(std::string_view storage);

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

// Reads the plain values of a DCP checkpoint: numbers, strings and empty
// containers. DCP stores them as pickles. Other formats store the values
// themselves, so a conversion to another format must read the pickles.

// If the leaf is a pickle that contains only a string, a number or an empty
// container, returns a leaf with this value. Returns nullopt for any other
// leaf, or if the `torch.save` archive with the pickle cannot be read.
std::optional<Leaf> PlainValueOf(const Leaf& leaf);

// The number of bytes of a local header before its name and extra fields.
inline constexpr int64_t kZipLocalBytes = 30;

struct ZipMember {
  std::string name;
  // The offset of the member's local header from the start of the archive.
  int64_t header_offset = 0;
  int64_t bytes = 0;
  uint32_t crc = 0;
};

// Reads the directory of a zip archive. The archive has `bytes` bytes at byte
// `offset` of the file. All members must be stored without compression. On
// failure, returns nullopt and adds a finding with the code header or
// unreadable.
std::optional<std::vector<ZipMember>> ReadZipDirectory(const InputFile& file,
                                                       int64_t offset,
                                                       int64_t bytes,
                                                       Findings& findings);

// Returns the offset in the file at which the bytes of a member begin. Returns
// nullopt after a finding if these bytes are not inside the archive.
std::optional<int64_t> ZipDataOffset(const InputFile& file, int64_t offset,
                                     int64_t bytes, const ZipMember& member,
                                     Findings& findings);

// Returns the CRC-32 as zip archives use it.
uint32_t ZipCrc(std::string_view bytes);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_TORCH_ARCHIVE_H_
