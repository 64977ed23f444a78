// Reads the directory of a zip archive. An archive is read from its end. The
// last 22 bytes state the place of the directory, and each entry of the
// directory states the place of a member. All integers are little-endian.
//
//   members   each: local header (30 bytes, name, padding), then the bytes
//   directory each: `PK\1\2`, flags, method, CRC-32, sizes, lengths, offset
//   (archives of 4 GiB or more: a second, wider end record and its locator)
//   end       `PK\5\6`, number of entries, size and offset of the directory
//
// A local header may omit sizes and CRC, as torch does, because the directory
// contains them. Only the lengths of the name and the padding are read from
// local headers.
#include "stored/zip_directory.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "source/index.h"
#include "source/little_endian.h"

namespace shardc::stored {
namespace {

constexpr int64_t kEndBytes = 22;
constexpr int64_t kLocatorBytes = 20;
constexpr int64_t kWideEndBytes = 56;
constexpr size_t kDirectoryEntryBytes = 46;
// The limit on the bytes of the directory. An archive of one tensor has 7
// members with short names.
constexpr int64_t kMaxDirectoryBytes = 1 << 16;
constexpr uint64_t kSeeWide = 0xFFFFFFFF;

uint64_t Number(std::string_view bytes, size_t at, size_t count) {
  return LittleEndian(bytes.substr(at, count));
}

class ZipReader {
 public:
  ZipReader(const InputFile& file, int64_t offset, int64_t bytes,
            Findings& findings)
      : file_(file), offset_(offset), bytes_(bytes), findings_(findings) {}

  std::optional<std::vector<ZipMember>> Read() {
    std::string directory;
    uint64_t count = 0;
    if (!ReadEnd(&directory, &count)) return std::nullopt;
    std::vector<ZipMember> out;
    size_t at = 0;
    for (uint64_t i = 0; i < count; ++i) {
      ZipMember& member = out.emplace_back();
      if (!ReadEntry(directory, &at, member)) return std::nullopt;
    }
    return out;
  }

  std::optional<int64_t> DataOffset(const ZipMember& member) {
    std::string local;
    if (!Part(member.header_offset, kZipLocalBytes, &local))
      return std::nullopt;
    if (!local.starts_with("PK\3\4")) {
      Refuse("member " + member.name + " has no header");
      return std::nullopt;
    }
    const auto skipped =
        static_cast<int64_t>(Number(local, 26, 2) + Number(local, 28, 2));
    const int64_t begin = member.header_offset + kZipLocalBytes + skipped;
    if (begin > bytes_ || member.bytes > bytes_ - begin) {
      Refuse("member " + member.name + " ends outside the archive");
      return std::nullopt;
    }
    return offset_ + begin;
  }

 private:
  bool Refuse(const std::string& what) {
    findings_.Add(code::kHeader, {MakeSource(file_.path(), {})},
                  "the archive of " + std::to_string(bytes_) +
                      " bytes at byte " + std::to_string(offset_) + ": " + what,
                  "copy the file again or save the checkpoint again");
    return false;
  }

  bool Part(int64_t at, int64_t count, std::string* out) {
    if (at < 0 || at > bytes_ || count > bytes_ - at) {
      return Refuse("its directory points outside it");
    }
    out->resize(AsIndex(count));
    return file_.ReadAt(offset_ + at, out->data(), out->size(), findings_);
  }

  // Reads the end record. Sets `*directory` to the bytes of the directory, and
  // `*count` to the number of its entries.
  bool ReadEnd(std::string* directory, uint64_t* count) {
    std::string end;
    if (bytes_ < kEndBytes) return Refuse("it is too short for a zip archive");
    if (!Part(bytes_ - kEndBytes, kEndBytes, &end)) return false;
    if (!end.starts_with("PK\5\6")) {
      return Refuse("it does not end as a zip archive");
    }
    *count = Number(end, 10, 2);
    uint64_t size = Number(end, 12, 4);
    uint64_t begin = Number(end, 16, 4);
    if (*count == 0xFFFF || size == kSeeWide || begin == kSeeWide) {
      std::string wide;
      if (!ReadWideEnd(&wide)) return false;
      *count = Number(wide, 32, 8);
      size = Number(wide, 40, 8);
      begin = Number(wide, 48, 8);
    }
    if (size > kMaxDirectoryBytes || *count > size / kDirectoryEntryBytes ||
        begin > static_cast<uint64_t>(bytes_)) {
      return Refuse("its directory has " + std::to_string(*count) +
                    " entries in " + std::to_string(size) + " bytes");
    }
    return Part(static_cast<int64_t>(begin), static_cast<int64_t>(size),
                directory);
  }

  bool ReadWideEnd(std::string* wide) {
    std::string locator;
    const int64_t at = bytes_ - kEndBytes - kLocatorBytes;
    if (!Part(at, kLocatorBytes, &locator)) return false;
    const uint64_t begin = Number(locator, 8, 8);
    if (!locator.starts_with("PK\6\7") ||
        begin > static_cast<uint64_t>(bytes_)) {
      return Refuse("the end of its directory is not found");
    }
    if (!Part(static_cast<int64_t>(begin), kWideEndBytes, wide)) return false;
    return wide->starts_with("PK\6\6") ||
           Refuse("the end of its directory is not found");
  }

  bool ReadEntry(std::string_view directory, size_t* at, ZipMember& member) {
    const std::string_view entry = directory.substr(*at);
    if (entry.size() < kDirectoryEntryBytes || !entry.starts_with("PK\1\2")) {
      return Refuse("its directory is malformed");
    }
    const uint64_t flags = Number(entry, 8, 2);
    const uint64_t method = Number(entry, 10, 2);
    const size_t name = Number(entry, 28, 2);
    const size_t extra = Number(entry, 30, 2);
    const size_t comment = Number(entry, 32, 2);
    if (entry.size() < kDirectoryEntryBytes + name + extra + comment) {
      return Refuse("its directory is malformed");
    }
    member.name = entry.substr(kDirectoryEntryBytes, name);
    member.crc = static_cast<uint32_t>(Number(entry, 16, 4));
    uint64_t sizes[3] = {Number(entry, 24, 4), Number(entry, 20, 4),
                         Number(entry, 42, 4)};
    TakeWide(entry.substr(kDirectoryEntryBytes + name, extra), sizes);
    if ((flags & 1) != 0 || method != 0 || sizes[0] != sizes[1]) {
      return Refuse("a member is compressed or encrypted");
    }
    const auto limit = static_cast<uint64_t>(bytes_);
    if (sizes[0] > limit || sizes[2] > limit) {
      return Refuse("a member ends outside the archive");
    }
    member.bytes = static_cast<int64_t>(sizes[0]);
    member.header_offset = static_cast<int64_t>(sizes[2]);
    *at += kDirectoryEntryBytes + name + extra + comment;
    return true;
  }

  // Reads the 64-bit numbers in the extra field with id 1. They replace the
  // numbers in `sizes` that do not fit in 32 bits. The field contains only the
  // numbers that are replaced, in the order size, compressed size, offset.
  static void TakeWide(std::string_view extra, uint64_t (&sizes)[3]) {
    while (extra.size() >= 4) {
      const uint64_t id = Number(extra, 0, 2);
      const size_t length =
          std::min<size_t>(Number(extra, 2, 2), extra.size() - 4);
      std::string_view field = extra.substr(4, length);
      extra.remove_prefix(4 + length);
      if (id != 1) continue;
      for (uint64_t& size : sizes) {
        if (size != kSeeWide || field.size() < 8) continue;
        size = Number(field, 0, 8);
        field.remove_prefix(8);
      }
    }
  }

  const InputFile& file_;
  int64_t offset_;
  int64_t bytes_;
  Findings& findings_;
};

}  // namespace

std::optional<std::vector<ZipMember>> ReadZipDirectory(const InputFile& file,
                                                       int64_t offset,
                                                       int64_t bytes,
                                                       Findings& findings) {
  return ZipReader(file, offset, bytes, findings).Read();
}

std::optional<int64_t> ZipDataOffset(const InputFile& file, int64_t offset,
                                     int64_t bytes, const ZipMember& member,
                                     Findings& findings) {
  return ZipReader(file, offset, bytes, findings).DataOffset(member);
}

uint32_t ZipCrc(std::string_view bytes) {
  uLong crc = ::crc32(0, nullptr, 0);
  constexpr size_t kStep = std::numeric_limits<uInt>::max();
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kStep, bytes.size()))) {
    const auto count = static_cast<uInt>(std::min(kStep, bytes.size()));
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), count);
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace shardc::stored
