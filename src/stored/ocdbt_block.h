// Reads the blocks of an OCDBT database: an envelope with magic, length,
// compression and checksum around a body that consists mostly of
// variable-length integers.
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

// The limit on the bytes to which a block decodes. orbax writes nodes of at
// most 100 MB.
inline constexpr int64_t kBlockLimitBytes = int64_t{128} << 20;

// Reads a block's body from start to end. After a read beyond the end, or a
// malformed number, all further reads return zeros and Failed() is true.
class BlockCursor {
 public:
  explicit BlockCursor(std::string_view body) : body_(body) {}

  uint8_t Byte();
  // Reads an unsigned integer of at most ten bytes, seven bits in each, low
  // bits first.
  uint64_t Varint();
  uint64_t Little(size_t bytes);
  std::string_view Bytes(uint64_t count);
  // Reads a number of records. Each record takes at least one more byte, so a
  // number above the remaining bytes is malformed.
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

// Paths and keys are stored as texts that each share a prefix with the previous
// text. The columns are: the lengths of the shared prefixes (the first text has
// none), the lengths of the suffixes after them, other columns, and the
// suffixes themselves.
struct PrefixedTexts {
  std::vector<uint64_t> prefixes;
  std::vector<uint64_t> suffixes;

  static PrefixedTexts Lengths(BlockCursor& cursor, size_t count);
  // Changes `text` from text number i - 1 to text number i. If the text is
  // malformed or would exceed `limit_bytes`, calls cursor.Fail().
  void Next(BlockCursor& cursor, size_t i, size_t limit_bytes,
            std::string& text) const;
};

// A data file that a block refers to.
struct DataFile {
  std::string path;  // its path in the checkpoint's folder
  std::string base;  // the folder to which paths in its blocks are relative
};
// Reads a block's table of files. `base` is the DataFile::base of the file that
// holds the block. If the table is malformed, the cursor fails and the result
// is empty.
std::vector<DataFile> ReadDataFiles(BlockCursor& cursor,
                                    const std::string& base);

enum class BlockKind : uint8_t { kManifest, kNode };

// Checks the envelope of a block and returns the decoded body; nullopt after a
// finding. `place` names the file in findings, and `where`, such as " at byte
// 12", the place of the block in it.
std::optional<std::string> OpenBlock(std::string_view block, BlockKind kind,
                                     const Place& place,
                                     const std::string& where,
                                     Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_OCDBT_BLOCK_H_
