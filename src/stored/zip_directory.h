// Reads the directory of a zip archive, which may be a part of a larger file.
#ifndef SHARDC_STORED_ZIP_DIRECTORY_H_
#define SHARDC_STORED_ZIP_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "source/finding.h"
#include "source/input_file.h"

namespace shardc::stored {

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

#endif  // SHARDC_STORED_ZIP_DIRECTORY_H_
