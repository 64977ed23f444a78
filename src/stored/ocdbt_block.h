// The blocks of an OCDBT database: an envelope with magic, length, compression
// and checksum around a body of variable-length integers.
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

// No block may decode to more bytes; orbax writes nodes of at most 100 MB.
inline constexpr int64_t kBlockLimitBytes = int64_t{128} << 20;

// Reads a block's body from the front. After a read beyond the end or a number
// that is malformed, all further reads return zeros and Failed() is true.
class BlockCursor {
 public:
  explicit BlockCursor(std::string_view body) : body_(body) {}

  uint8_t Byte();
  // Reads an unsigned integer, low seven bits first, of at most ten bytes.
  uint64_t Varint();
  uint64_t Little(size_t bytes);
  std::string_view Bytes(uint64_t count);
  // Reads a count of records. Each record takes at least one more byte, so a
  // count above the number of bytes left is malformed.
  size_t Count();
  // Reads one integer for each record.
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

// Texts of which each shares a prefix with the one before, as paths and keys
// are stored: lengths of the shared prefixes (the first has none), lengths of
// the rests, other columns (`between`), and the rests themselves.
struct PrefixedTexts {
  std::vector<uint64_t> prefixes;
  std::vector<uint64_t> suffixes;

  static PrefixedTexts Lengths(BlockCursor& cursor, size_t count);
  // Changes `text` from text `i - 1` to text `i`. Fails above `limit_bytes`.
  void Next(BlockCursor& cursor, size_t i, size_t limit_bytes,
            std::string& text) const;
};

// A file that a block refers to.
struct DataFile {
  std::string path;  // from the folder of the database
  std::string base;  // paths inside a block that is read from it begin here
};
// Reads a block's table of files. `base` is DataFile::base of the file that the
// block is in.
std::vector<DataFile> ReadDataFiles(BlockCursor& cursor,
                                    const std::string& base);

enum class BlockKind : uint8_t { kManifest, kNode };

// Checks the envelope and returns the decoded body. `where` names the block in
// findings: file, offset.
std::optional<std::string> OpenBlock(std::string_view block, BlockKind kind,
                                     const Place& place,
                                     const std::string& where,
                                     Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_OCDBT_BLOCK_H_
