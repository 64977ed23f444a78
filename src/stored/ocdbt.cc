// Looks up keys in an OCDBT store, which may consist of several databases. All
// keys are in one sorted list, so a key is found by binary search. The texts of
// all keys, and all small values, are stored in one string. If several
// processes have written a database each, their keys are sorted together. For
// example:
//
//   process 0: w/.zarray, w/0.0    process 1: w/0.1
//     ->  w/.zarray, w/0.0, w/0.1
#include "stored/ocdbt.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/codecs.h"

namespace shardc::stored {
namespace {

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

enum class BlockKind : uint8_t { kManifest, kNode };

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

// Reads the table of files at the current position of a block. `base` is the
// DataFile::base of the file that contains the block. If the table is
// malformed, cursor.Failed() becomes true and the result is empty.
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

// Checks the envelope of a block and returns the decoded body. Returns nullopt
// after a finding. The finding is at `place`, the file. Its message contains
// `where`, a text such as " at byte 12" that states where in the file the block
// begins.
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

}  // namespace

std::string_view OcdbtStore::HeldOf(const Entry& entry) const {
  return std::string_view(texts_).substr(AsIndex(entry.offset),
                                         AsIndex(entry.bytes));
}

// Sorts the entries of several databases and removes duplicates. Processes that
// hold replicas may have written the same value twice. Returns false after a
// finding if two values of a key differ. If B-tree nodes contain both values,
// their bytes are compared, otherwise only their sizes.
bool OcdbtStore::Unite(const std::string& root, Findings& findings) {
  std::stable_sort(
      entries_.begin(), entries_.end(),
      [&](const Entry& a, const Entry& b) { return KeyOf(a) < KeyOf(b); });
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry& a = entries_[i - 1];
    const Entry& b = entries_[i];
    if (KeyOf(a) != KeyOf(b)) continue;
    const bool held = a.file == kHeld && b.file == kHeld;
    if (a.bytes == b.bytes && (!held || HeldOf(a) == HeldOf(b))) continue;
    findings.Add(
        code::kDuplicateKey, {MakeSource(root, {})},
        "two processes saved different values for " + ShortQuote(KeyOf(a)),
        "save the checkpoint again");
    return false;
  }
  const auto same = [&](const Entry& a, const Entry& b) {
    return KeyOf(a) == KeyOf(b);
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same),
                 entries_.end());
  return true;
}

std::optional<Value> OcdbtStore::Find(std::string_view key, Findings&) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [&](const Entry& entry, std::string_view k) { return KeyOf(entry) < k; });
  Value out;
  if (found == entries_.end() || KeyOf(*found) != key) return out;
  out.found = true;
  out.bytes = found->bytes;
  if (found->file == kHeld) {
    out.held = HeldOf(*found);
  } else {
    out.file = files_[found->file];
    out.offset = found->offset;
  }
  return out;
}

std::optional<std::vector<std::string>> OcdbtStore::MetadataKeys(
    Findings&) const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) {
    if (IsMetadataKey(KeyOf(entry))) out.emplace_back(KeyOf(entry));
  }
  return out;
}

// Walks the B-tree of a database. The last version in the manifest refers to
// the root. All keys of a node begin with a prefix that is determined by the
// path from the root. A child's level is one below its parent's, so a node
// cannot contain itself:
//
//   root, level 1: "layer0/" -> node A, whose keys share these 7 bytes
//   node A, level 0, prefix "layer0/": ".zarray" held in the node,
//     "0.0" in d/6a69, bytes 0 to 64
//     ->  `layer0/.zarray`, `layer0/0.0`
//
// Keys must ascend over the complete walk, and the total bytes of nodes, the
// number of keys and their total bytes are limited. So neither shared nodes nor
// shared prefixes can cause work that is out of proportion to the files.

namespace {

constexpr size_t kKeyLimitBytes = 65'535;  // the limit of tensorstore
constexpr size_t kKeysLimit = 4'000'000;
// A key shares a prefix with the key before it, so that the keys of a node of
// 50 KB can have 450 MB together. The keys of all nodes, and the bytes to which
// nodes decode, may therefore take at most 64 MiB and a multiple of the size of
// the nodes' files, and never more than 1 GiB.
constexpr size_t kDecodedLimitBytes = size_t{1} << 30;
constexpr size_t kFreeBytes = size_t{64} << 20;
constexpr size_t kKeyBytesPerByte = 64;
constexpr size_t kDecodedBytesPerByte = 128;
// The limit on the children of all inner nodes together. An inner node stays in
// memory while its subtree is walked.
constexpr size_t kChildrenLimit = 1'000'000;
constexpr size_t kInnerLimitBytes = size_t{256} << 20;
constexpr uint64_t kAbsent = UINT64_MAX;

// The place of a node, which its parent or the manifest states.
struct NodeRef {
  DataFile file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::string prefix;  // the start of all keys of the node
};

struct Child {
  std::string prefix;
  size_t file = 0;  // index into the parent's table of files
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct Root {
  NodeRef node;
  uint64_t height = 0;
  uint64_t keys = 0;
};

struct ManifestBody {
  bool numbered = false;
  std::optional<Root> root;  // nullopt: an empty database
  bool damaged = false;
};

ManifestBody ParseManifest(std::string_view body, const std::string& base) {
  ManifestBody out;
  BlockCursor cursor(body);
  cursor.Bytes(16);  // uuid
  const uint64_t kind = cursor.Varint();
  cursor.Varint();  // skipped: limit on the bytes of values in nodes
  cursor.Varint();  // skipped: limit on the bytes of a node
  cursor.Byte();    // skipped: arity of the tree of versions
  const uint64_t compression = cursor.Varint();
  if (compression == 1) cursor.Little(4);  // level
  out.damaged = cursor.Failed() || kind > 1 || compression > 1;
  out.numbered = kind == 1;
  if (out.damaged || cursor.AtEnd()) {
    out.damaged = out.damaged || !out.numbered;
    return out;
  }
  const auto files = ReadDataFiles(cursor, base);
  const size_t versions = cursor.Count();
  cursor.Varints(versions);  // generations
  const auto heights = cursor.Bytes(versions);
  const auto file_ids = cursor.Varints(versions);
  const auto offsets = cursor.Varints(versions);
  const auto lengths = cursor.Varints(versions);
  const auto keys = cursor.Varints(versions);
  cursor.Varints(versions);    // skipped: total bytes of nodes
  cursor.Varints(versions);    // skipped: total bytes of values in files
  cursor.Bytes(versions * 8);  // skipped: times of the commits
  out.damaged = cursor.Failed();
  if (out.damaged || versions == 0) return out;
  const size_t last = versions - 1;
  if (offsets[last] == kAbsent && lengths[last] == kAbsent) return out;
  if (file_ids[last] >= files.size()) {
    out.damaged = true;
    return out;
  }
  out.root = Root{{files[static_cast<size_t>(file_ids[last])], offsets[last],
                   lengths[last], ""},
                  static_cast<uint8_t>(heights[last]),
                  keys[last]};
  return out;
}

}  // namespace

// Reads one database after another into a store.
class OcdbtWalk {
 public:
  OcdbtWalk(std::string root, OcdbtStore& store, Findings& findings)
      : root_(std::move(root)), store_(store), findings_(findings) {}

  bool AddDatabase(const std::string& folder) {
    const std::string base = folder.empty() ? folder : folder + "/";
    auto manifest = ReadManifest(base, std::string(kOcdbtManifest));
    if (!manifest) return false;
    if (manifest->numbered && !manifest->root) {
      const auto name = NewestManifest(base);
      if (!name) return false;
      if (!name->empty()) manifest = ReadManifest(base, *name);
      if (!manifest) return false;
    }
    if (!manifest->root) return true;
    const Root& root = *manifest->root;
    const size_t before = store_.entries_.size();
    last_.clear();
    if (!AddNode(root.node, root.height)) return false;
    const size_t count = store_.entries_.size() - before;
    if (count == root.keys) return true;
    return Refuse(code::kHeader, base + std::string(kOcdbtManifest),
                  "the B-tree holds " + CountText(static_cast<int64_t>(count)) +
                      " keys, and the manifest states another number");
  }

  // Checks that each file exists and is long enough for all values in it.
  bool CheckFiles() {
    std::vector<int64_t> ends(store_.files_.size(), 0);
    for (const auto& entry : store_.entries_) {
      if (entry.file == OcdbtStore::kHeld) continue;
      ends[entry.file] = std::max(ends[entry.file], entry.offset + entry.bytes);
    }
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] == 0) continue;
      const std::string& path = store_.files_[i];
      if (!IsInside(root_, path, findings_)) return false;
      const auto file = InputFile::Open(path, findings_);
      if (!file) return false;
      if (file->size() >= ends[i]) continue;
      findings_.Add(code::kOffsets, {MakeSource(path, {})},
                    "values of the checkpoint extend to byte " +
                        CountText(ends[i]) + ", and the file ends at byte " +
                        CountText(file->size()),
                    "copy or save the checkpoint again");
      return false;
    }
    return true;
  }

 private:
  bool Refuse(const Code& code, const std::string& path,
              const std::string& message) {
    findings_.Add(code, {MakeSource(PathIn(root_, path), {})}, message,
                  "copy or save the checkpoint again");
    return false;
  }

  // Reads `bytes` bytes at `offset` of a file whose path is relative to the
  // root.
  std::optional<std::string> ReadPart(const std::string& path, uint64_t offset,
                                      uint64_t bytes) {
    const std::string full = PathIn(root_, path);
    if (!IsInside(root_, full, findings_)) return std::nullopt;
    const auto file = InputFile::Open(full, findings_);
    if (!file) return std::nullopt;
    const auto size = static_cast<uint64_t>(file->size());
    if (read_.insert(path).second) {
      read_bytes_ += std::min(AsIndex(file->size()), kDecodedLimitBytes);
    }
    if (offset > size || bytes > size - offset) {
      Refuse(code::kOffsets, path,
             "a B-tree node of " + std::to_string(bytes) + " bytes at byte " +
                 std::to_string(offset) + " ends after the file, which has " +
                 CountText(file->size()) + " bytes");
      return std::nullopt;
    }
    if (bytes > AsIndex(kBlockLimitBytes)) {
      Refuse(code::kLimit, path,
             "a B-tree node of " + BytesText(static_cast<int64_t>(bytes)) +
                 " is larger than " + BytesText(kBlockLimitBytes));
      return std::nullopt;
    }
    std::string out(static_cast<size_t>(bytes), '\0');
    if (!file->ReadAt(static_cast<int64_t>(offset), out.data(), out.size(),
                      findings_)) {
      return std::nullopt;
    }
    return out;
  }

  std::optional<ManifestBody> ReadManifest(const std::string& base,
                                           const std::string& name) {
    const std::string path = PathIn(root_, base + name);
    if (!IsInside(root_, path, findings_)) return std::nullopt;
    const auto file = InputFile::Open(path, findings_);
    if (!file) return std::nullopt;
    const auto size = static_cast<uint64_t>(file->size());
    const auto block = ReadPart(base + name, 0, size);
    if (!block) return std::nullopt;
    const Place place{MakeSource(path, {})};
    const auto body =
        OpenBlock(*block, BlockKind::kManifest, place, "", findings_);
    if (!body) return std::nullopt;
    auto out = ParseManifest(*body, base);
    if (!out.damaged) return out;
    Refuse(code::kHeader, base + name, "the manifest's body is malformed");
    return std::nullopt;
  }

  // Returns the name of the newest manifest: `manifest.` and the highest
  // number, in 16 hexadecimal digits. Returns an empty text if there is none,
  // and nullopt after a finding.
  std::optional<std::string> NewestManifest(const std::string& base) {
    constexpr std::string_view kStart = "manifest.";
    std::error_code error;
    const auto names = NamesIn(PathIn(root_, base), error);
    if (!names) {
      Refuse(code::kUnreadable, base, "cannot list it: " + error.message());
      return std::nullopt;
    }
    std::string newest;
    for (const std::string& name : *names) {
      const bool numbered =
          name.size() == kStart.size() + 16 && name.starts_with(kStart) &&
          name.find_first_not_of("0123456789abcdef", kStart.size()) ==
              std::string::npos;
      // Names are sorted, so the last one is the newest.
      if (numbered) newest = name;
    }
    return newest;
  }

  bool AddNode(const NodeRef& ref, uint64_t height) {
    const std::string where = " at byte " + std::to_string(ref.offset);
    const std::string_view fault = PathFault(ref.file.path);
    if (!fault.empty()) {
      return Refuse(code::kPath, "",
                    "a B-tree node's file, " + ShortQuote(ref.file.path) +
                        ", " + std::string(fault));
    }
    auto block = ReadPart(ref.file.path, ref.offset, ref.bytes);
    if (!block) return false;
    const std::string path = PathIn(root_, ref.file.path);
    auto body = OpenBlock(*block, BlockKind::kNode, {MakeSource(path, {})},
                          where, findings_);
    block.reset();  // free the memory, because AddChildren recurses
    if (!body) return false;
    decoded_ += body->size();
    if (const size_t limit = LimitOf(kDecodedBytesPerByte); decoded_ > limit) {
      return Refuse(code::kLimit, ref.file.path,
                    "the B-tree's nodes decode to more than " +
                        BytesText(static_cast<int64_t>(limit)));
    }
    BlockCursor cursor(*body);
    if (cursor.Byte() != height) {
      return Refuse(code::kHeader, ref.file.path,
                    "the B-tree node" + where + " is not of level " +
                        std::to_string(height) + ", which its parent states");
    }
    const auto files = ReadDataFiles(cursor, ref.file.base);
    const size_t count = cursor.Count();
    if (count == 0) cursor.Fail();
    if (count > (height == 0 ? kKeysLimit - keys_ : kChildrenLimit)) {
      return RefuseKeys(ref);
    }
    if (height == 0) {
      if (!AddLeaf(cursor, ref, files, count)) return false;
    } else {
      const auto children = ReadChildren(cursor, ref, files, count);
      if (!children) return false;
      if (!cursor.Failed()) {
        body.reset();
        return AddChildren(*children, ref, files, height);
      }
    }
    if (!cursor.Failed()) return true;
    return Refuse(code::kHeader, ref.file.path,
                  "the B-tree node" + where + " is malformed at byte " +
                      CountText(static_cast<int64_t>(cursor.at())) +
                      " of its decoded body");
  }

  bool AddChildren(const std::vector<Child>& children, const NodeRef& parent,
                   const std::vector<DataFile>& files, uint64_t height) {
    children_ += children.size();
    for (const DataFile& file : files) {
      inner_bytes_ += sizeof(DataFile) + file.path.size() + file.base.size();
    }
    if (children_ > kChildrenLimit || inner_bytes_ > kInnerLimitBytes) {
      return RefuseKeys(parent);
    }
    for (const Child& child : children) {
      const NodeRef ref{files[child.file], child.offset, child.bytes,
                        child.prefix};
      if (!AddNode(ref, height - 1)) return false;
    }
    return true;
  }

  bool RefuseKeys(const NodeRef& node) {
    return Refuse(code::kLimit, node.file.path,
                  "the B-tree holds more than " +
                      CountText(static_cast<int64_t>(kKeysLimit)) +
                      " keys, or more nodes or longer keys than shardc reads");
  }

  // Returns the bytes that the keys, or the decoded bytes, may take if `factor`
  // of them are allowed for each byte of the files of nodes.
  size_t LimitOf(size_t factor) const {
    return std::min(kDecodedLimitBytes, kFreeBytes + factor * read_bytes_);
  }

  // Adds the bytes of a node's keys, which `texts` states, to those of all
  // nodes before the keys are made. Returns false after a finding if they
  // exceed the limit.
  bool AddKeyBytes(const PrefixedTexts& texts, const NodeRef& node) {
    key_bytes_ += texts.TotalBytes(node.prefix.size(), kKeyLimitBytes);
    return key_bytes_ <= LimitOf(kKeyBytesPerByte) || RefuseKeys(node);
  }

  // Returns nullopt after a finding. If the node is malformed, cursor.Failed()
  // becomes true.
  std::optional<std::vector<Child>> ReadChildren(
      BlockCursor& cursor, const NodeRef& parent,
      const std::vector<DataFile>& files, size_t count) {
    const auto texts = PrefixedTexts::Lengths(cursor, count);
    const auto common = cursor.Varints(count);
    std::vector<Child> out;
    if (!AddKeyBytes(texts, parent)) return std::nullopt;
    std::string key;
    for (size_t i = 0; i < count && !cursor.Failed(); ++i) {
      texts.Next(cursor, i, kKeyLimitBytes, key);
      if (cursor.Failed() || common[i] > key.size() ||
          parent.prefix.size() + common[i] > kKeyLimitBytes) {
        cursor.Fail();
        break;
      }
      out.push_back(
          {parent.prefix + key.substr(0, static_cast<size_t>(common[i]))});
    }
    const auto file_ids = cursor.Varints(count);
    const auto offsets = cursor.Varints(count);
    const auto lengths = cursor.Varints(count);
    // Skip three columns with statistics of the subtrees.
    for (int i = 0; i < 3; ++i) cursor.Varints(count);
    for (size_t i = 0; i < count && !cursor.Failed(); ++i) {
      if (file_ids[i] >= files.size()) {
        cursor.Fail();
        break;
      }
      out[i].file = static_cast<size_t>(file_ids[i]);
      out[i].offset = offsets[i];
      out[i].bytes = lengths[i];
    }
    if (!cursor.AtEnd()) cursor.Fail();
    return out;
  }

  bool AddLeaf(BlockCursor& cursor, const NodeRef& node,
               const std::vector<DataFile>& files, size_t count) {
    const auto texts = PrefixedTexts::Lengths(cursor, count);
    if (!AddKeyBytes(texts, node)) return false;
    std::vector<OcdbtStore::Entry> entries;
    std::string key;
    for (size_t i = 0; i < count && !cursor.Failed(); ++i) {
      texts.Next(cursor, i, kKeyLimitBytes - node.prefix.size(), key);
      if (cursor.Failed()) break;
      if (!AddKey(node, key)) return false;
      entries.push_back({store_.texts_.size() - last_.size(),
                         static_cast<uint32_t>(last_.size())});
    }
    const auto lengths = cursor.Varints(count);
    const auto kinds = cursor.Bytes(count);
    size_t outside = 0;
    for (const char kind : kinds) {
      if (kind != 0 && kind != 1) cursor.Fail();
      outside += kind == 1 ? 1 : 0;
    }
    const auto file_ids = cursor.Varints(outside);
    const auto offsets = cursor.Varints(outside);
    if (cursor.Failed()) return true;
    const auto ids = FilesOf(node, files, file_ids);
    if (!ids) return false;
    size_t next = 0;
    for (size_t i = 0; i < count; ++i) {
      auto& entry = entries[i];
      if (kinds[i] == 0) {
        const auto held = cursor.Bytes(lengths[i]);
        if (cursor.Failed()) return true;
        entry.offset = static_cast<int64_t>(store_.texts_.size());
        entry.bytes = static_cast<int64_t>(held.size());
        store_.texts_.append(held);
        continue;
      }
      constexpr uint64_t kMost = INT64_MAX;
      if (offsets[next] > kMost || lengths[i] > kMost - offsets[next]) {
        return Refuse(code::kOffsets, node.file.path,
                      "the value of " + ShortQuote(store_.KeyOf(entry)) +
                          " has " + std::to_string(lengths[i]) +
                          " bytes at byte " + std::to_string(offsets[next]));
      }
      entry.file = (*ids)[next];
      entry.offset = static_cast<int64_t>(offsets[next]);
      entry.bytes = static_cast<int64_t>(lengths[i]);
      ++next;
    }
    if (!cursor.AtEnd()) {
      cursor.Fail();
      return true;
    }
    store_.entries_.insert(store_.entries_.end(), entries.begin(),
                           entries.end());
    return true;
  }

  // Appends the complete key to the store's texts, and sets `last_` to it.
  // Returns false after a finding if the key does not follow the last key in
  // ascending order.
  bool AddKey(const NodeRef& node, const std::string& key) {
    std::string full = node.prefix + key;
    if (!last_.empty() && full <= last_) {
      return Refuse(code::kHeader, node.file.path,
                    "the keys of the B-tree node at byte " +
                        std::to_string(node.offset) + " do not ascend at " +
                        ShortQuote(full));
    }
    ++keys_;
    store_.texts_.append(full);
    last_ = std::move(full);
    return true;
  }

  // Returns the index in OcdbtStore::files_ for each of the `file_ids` of a
  // node. Returns nullopt after a finding.
  std::optional<std::vector<uint32_t>> FilesOf(
      const NodeRef& node, const std::vector<DataFile>& files,
      const std::vector<uint64_t>& file_ids) {
    constexpr uint32_t kUnknown = UINT32_MAX;
    std::vector<uint32_t> known(files.size(), kUnknown);
    std::vector<uint32_t> out;
    for (const uint64_t id : file_ids) {
      if (id >= files.size()) {
        Refuse(code::kHeader, node.file.path,
               "a value's file number is not in the table of the B-tree node "
               "at byte " +
                   std::to_string(node.offset));
        return std::nullopt;
      }
      uint32_t& number = known[static_cast<size_t>(id)];
      const std::string& path = files[static_cast<size_t>(id)].path;
      const std::string_view fault = PathFault(path);
      if (!fault.empty()) {
        Refuse(
            code::kPath, node.file.path,
            "a value's file, " + ShortQuote(path) + ", " + std::string(fault));
        return std::nullopt;
      }
      if (number == kUnknown) {
        const auto [found, added] = numbers_.try_emplace(
            path, static_cast<uint32_t>(store_.files_.size()));
        if (added) store_.files_.push_back(PathIn(root_, path));
        number = found->second;
      }
      out.push_back(number);
    }
    return out;
  }

  std::string root_;
  OcdbtStore& store_;
  Findings& findings_;
  // The index of each file in OcdbtStore::files_, by path.
  std::unordered_map<std::string, uint32_t> numbers_;
  std::string last_;  // the key that was added last
  size_t keys_ = 0;
  size_t children_ = 0;
  size_t inner_bytes_ = 0;
  std::unordered_set<std::string> read_;  // the files of nodes and manifests
  size_t read_bytes_ = 0;                 // the sizes of these files together
  size_t key_bytes_ = 0;
  size_t decoded_ = 0;
};

std::shared_ptr<const OcdbtStore> OcdbtStore::Open(
    const std::string& root, const std::vector<std::string>& folders,
    Findings& findings) {
  auto store = std::make_shared<OcdbtStore>();
  OcdbtWalk walk(root, *store, findings);
  for (const std::string& folder : folders) {
    if (!walk.AddDatabase(folder)) return nullptr;
  }
  if (folders.size() > 1 && !store->Unite(root, findings)) return nullptr;
  if (!walk.CheckFiles()) return nullptr;
  return store;
}

}  // namespace shardc::stored
