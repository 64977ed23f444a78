// Reads the blocks of OCDBT. A block consists of
//
//   magic, 4 bytes, big-endian | length of the block, 8 bytes | version 0 |
//   compression: 0 none, 1 zstd | body | CRC-32C of all bytes before it
//
// A body may state a number of records or bytes. This number is compared with
// the number of remaining bytes before memory is allocated for it. For example,
// a body may contain a table of files:
//
//   01 22 00 64 2f ...   1 file, whose path has 34 bytes (0x22) and whose base
//                        folder has 0; the path begins with "d/" (64 2f)
#include "stored/ocdbt_block.h"

#include <algorithm>
#include <utility>

#include "source/little_endian.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/codecs.h"

namespace shardc::stored {
namespace {

constexpr size_t kHeadBytes = 12;
constexpr size_t kPathLimitBytes = 4096;
// The limit on the bytes of a decoded table of files, including the files'
// paths.
constexpr size_t kTableLimitBytes = size_t{64} << 20;

uint32_t MagicOf(BlockKind kind) {
  return kind == BlockKind::kManifest ? 0x0cdb3a2a : 0x0cdb20de;
}

std::string_view NameOf(BlockKind kind) {
  return kind == BlockKind::kManifest ? "manifest" : "B-tree node";
}

uint32_t BigEndian(std::string_view bytes) {
  uint32_t out = 0;
  for (const char c : bytes) out = out << 8 | static_cast<unsigned char>(c);
  return out;
}

}  // namespace

uint8_t BlockCursor::Byte() {
  if (failed_ || AtEnd()) {
    failed_ = true;
    return 0;
  }
  return static_cast<uint8_t>(body_[at_++]);
}

uint64_t BlockCursor::Varint() {
  uint64_t out = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = Byte();
    const auto part = uint64_t{byte} & 0x7F;
    if (shift == 63 && part > 1) break;
    out |= part << shift;
    if (failed_) return 0;
    if (byte < 0x80) return out;
  }
  failed_ = true;
  return 0;
}

uint64_t BlockCursor::Little(size_t bytes) {
  return LittleEndian(Bytes(bytes));
}

std::string_view BlockCursor::Bytes(uint64_t count) {
  if (failed_ || count > left()) {
    failed_ = true;
    return {};
  }
  const auto out = body_.substr(at_, static_cast<size_t>(count));
  at_ += out.size();
  return out;
}

size_t BlockCursor::Count() {
  const uint64_t count = Varint();
  if (count > left()) failed_ = true;
  return failed_ ? 0 : static_cast<size_t>(count);
}

std::vector<uint64_t> BlockCursor::Varints(size_t count) {
  std::vector<uint64_t> out;
  if (failed_ || count > left()) {
    failed_ = true;
    return out;
  }
  out.reserve(count);
  for (size_t i = 0; i < count && !failed_; ++i) out.push_back(Varint());
  if (failed_) out.clear();
  return out;
}

PrefixedTexts PrefixedTexts::Lengths(BlockCursor& cursor, size_t count) {
  PrefixedTexts out;
  if (count == 0) return out;
  out.prefixes = cursor.Varints(count - 1);
  out.prefixes.insert(out.prefixes.begin(), 0);
  out.suffixes = cursor.Varints(count);
  return out;
}

size_t PrefixedTexts::TotalBytes(size_t start_bytes, size_t limit_bytes) const {
  size_t total = 0;
  for (size_t i = 0; i < std::min(prefixes.size(), suffixes.size()); ++i) {
    if (prefixes[i] > limit_bytes || suffixes[i] > limit_bytes) break;
    total += start_bytes + static_cast<size_t>(prefixes[i] + suffixes[i]);
  }
  return total;
}

void PrefixedTexts::Next(BlockCursor& cursor, size_t i, size_t limit_bytes,
                         std::string& text) const {
  const auto suffix = cursor.Bytes(suffixes[i]);
  if (cursor.Failed() || prefixes[i] > text.size() ||
      prefixes[i] + suffix.size() > limit_bytes) {
    cursor.Fail();
    return;
  }
  text.resize(static_cast<size_t>(prefixes[i]));
  text.append(suffix);
}

std::vector<DataFile> ReadDataFiles(BlockCursor& cursor,
                                    const std::string& base) {
  std::vector<DataFile> out;
  const size_t count = cursor.Count();
  if (count > kTableLimitBytes / sizeof(DataFile)) cursor.Fail();
  const auto texts = PrefixedTexts::Lengths(cursor, count);
  const auto bases = cursor.Varints(count);
  std::string path;
  size_t total = 0;
  for (size_t i = 0; i < count && !cursor.Failed(); ++i) {
    texts.Next(cursor, i, kPathLimitBytes, path);
    total += sizeof(DataFile) + 2 * (base.size() + path.size());
    if (cursor.Failed() || bases[i] > path.size() ||
        base.size() > kPathLimitBytes || total > kTableLimitBytes) {
      cursor.Fail();
      break;
    }
    out.push_back(
        {base + path, base + path.substr(0, static_cast<size_t>(bases[i]))});
  }
  if (cursor.Failed()) out.clear();
  return out;
}

std::optional<std::string> OpenBlock(std::string_view block, BlockKind kind,
                                     const Place& place,
                                     const std::string& where,
                                     Findings& findings) {
  const std::string what = std::string(NameOf(kind)) + where;
  const auto refuse =
      [&](const std::string& why) -> std::optional<std::string> {
    findings.Add(code::kHeader, place, "the " + what + " " + why,
                 "copy or save the checkpoint again");
    return std::nullopt;
  };
  if (block.size() < kHeadBytes + 2 + kCrc32cBytes) {
    return refuse("has only " +
                  Counted(static_cast<int64_t>(block.size()), "byte"));
  }
  if (BigEndian(block.substr(0, 4)) != MagicOf(kind)) {
    return refuse("does not begin with the bytes of one");
  }
  BlockCursor head(block.substr(4));
  if (head.Little(8) != block.size()) {
    return refuse("states another length than its " +
                  Counted(static_cast<int64_t>(block.size()), "byte"));
  }
  const auto checked = block.substr(0, block.size() - kCrc32cBytes);
  BlockCursor tail(block.substr(checked.size()));
  if (tail.Little(kCrc32cBytes) != Crc32c(checked)) {
    return refuse("does not have the checksum that is stored with it");
  }
  BlockCursor cursor(checked.substr(kHeadBytes));
  const uint64_t version = cursor.Varint();
  const uint64_t compression = cursor.Varint();
  if (cursor.Failed() || version != 0 || compression > 1) {
    return refuse("is of version " + std::to_string(version) +
                  " with compression " + std::to_string(compression) +
                  "; shardc reads version 0, uncompressed or by zstd");
  }
  const auto body = cursor.Bytes(cursor.left());
  if (compression == 0) {
    return std::string(body);
  }
  std::string why;
  auto decoded = DecodeZstd(body, kBlockLimitBytes, &why);
  if (!decoded) return refuse("cannot be decoded: " + why);
  return decoded;
}

}  // namespace shardc::stored
