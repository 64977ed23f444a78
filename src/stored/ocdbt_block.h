// Reads the blocks of an OCDBT database. The body of a block consists mostly of
// variable-length integers. The envelope around the body has a magic number, a
// length, a compression method and a checksum.
#ifndef SHARDC_STORED_OCDBT_BLOCK_H_
#define SHARDC_STORED_OCDBT_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"

namespace shardc::stored {

// The limit on the bytes of a decoded block. orbax writes B-tree nodes of at
// most 100 MB.
inline constexpr int64_t kBlockLimitBytes = int64_t{128} << 20;

// Reads the body of a block from start to end. After a read beyond the end, or
// of a malformed number, all further reads return zeros and Failed() returns
// true.
class BlockCursor {
 public:
  explicit BlockCursor(std::string_view body) : body_(body) {}

  uint8_t Byte();
  // Reads an unsigned integer that is stored as at most ten bytes. Each byte
  // has seven bits of the integer, the lowest bits first.
  uint64_t Varint();
  uint64_t Little(size_t bytes);
  std::string_view Bytes(uint64_t count);
  // Reads the number of records that follow. Each record takes at least one
  // byte, so a number above the number of remaining bytes is malformed.
  size_t Count();
  // Reads a column: one integer for each record.
  std::vector<uint64_t> Varints(size_t count);

  bool Failed() const { return failed_; }
  void Fail() { failed_ = true; }
  bool AtEnd() const { return at_ == body_.size(); }
  size_t at() const { return at_; }
  size_t left() const { return body_.size() - at_; }

 private:
  std::string_view body_;
  size_t at_ = 0;
  bool failed_ = false;
};

// A list of texts (paths or keys) in which each text shares a prefix with the
// text before it. The list is stored in columns: the lengths of the shared
// prefixes (except for the first text, which has none), the lengths of the
// suffixes, other columns, and the suffixes themselves.
struct PrefixedTexts {
  std::vector<uint64_t> prefixes;
  std::vector<uint64_t> suffixes;

  static PrefixedTexts Lengths(BlockCursor& cursor, size_t count);
  // Returns the bytes of all texts together if `start_bytes` bytes precede each
  // of them. Texts after one of more than `limit_bytes` bytes, which Next()
  // refuses, are not counted.
  size_t TotalBytes(size_t start_bytes, size_t limit_bytes) const;
  // Changes `text` from text number i - 1 to text number i. Calls cursor.Fail()
  // if the text is malformed or would exceed `limit_bytes` bytes.
  void Next(BlockCursor& cursor, size_t i, size_t limit_bytes,
            std::string& text) const;
};

// A data file that a block refers to.
struct DataFile {
  std::string path;  // path of the file in the checkpoint's folder
  std::string base;  // folder to which paths in this file's blocks are relative
};
// Reads the table of files at the current position of a block. `base` is the
// DataFile::base of the file that contains the block. If the table is
// malformed, cursor.Failed() becomes true and the result is empty.
std::vector<DataFile> ReadDataFiles(BlockCursor& cursor,
                                    const std::string& base);

enum class BlockKind : uint8_t { kManifest, kNode };

// Checks the envelope of a block and returns the decoded body. Returns nullopt
// after a finding. The finding is at `place`, the file. Its message contains
// `where`, a text such as " at byte 12" that states where in the file the block
// begins.
std::optional<std::string> OpenBlock(std::string_view block, BlockKind kind,
                                     const Place& place,
                                     const std::string& where,
                                     Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_OCDBT_BLOCK_H_
