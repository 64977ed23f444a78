// Writes an OCDBT database. Values of more than 1,024 bytes are written to the
// file immediately. Smaller values are stored in the leaves of the B-tree. The
// nodes of the B-tree follow in the same file. A leaf contains consecutive
// keys, and an inner node contains the first key of each child:
//
//   d/values   value of `w/0.0`, value of `w/0.1`, ..., leaf, leaf, root
//   manifest   root: level 1, offset and length in d/values
//
// Each text of a node is stored as the length of the prefix that it shares with
// the previous text, and the suffix after the prefix. The identifier of a
// database is computed from its root and its time is 0, so equal contents are
// written as equal bytes.
#include "stored/write_ocdbt.h"

#include <algorithm>
#include <span>
#include <utility>

#include "source/digest.h"
#include "stored/checksum.h"
#include "stored/ocdbt.h"

namespace shardc::stored {
namespace {

// Values that are written to the manifest. kNodeLimitBytes is orbax's limit on
// the bytes of a node. kVersionArityLog2 is tensorstore's default arity of the
// tree of versions. kNoRoot is the offset and the length of the root of an
// empty database.
constexpr uint64_t kNodeLimitBytes = 100'000'000;
constexpr uint64_t kVersionArityLog2 = 4;
constexpr uint64_t kNoRoot = UINT64_MAX;
constexpr std::string_view kManifestMagic = "\x0c\xdb\x3a\x2a";
constexpr std::string_view kNodeMagic = "\x0c\xdb\x20\xde";

// Returns an uncompressed block (an envelope with length and checksum) around
// the body.
std::string Block(std::string_view magic, std::string_view body) {
  constexpr size_t kAround = 4 + 8 + 2 + 4;
  std::string out(magic);
  AppendLittle(out, body.size() + kAround, 8);
  AppendVarint(out, 0);  // version
  AppendVarint(out, 0);  // compression
  out += body;
  AppendLittle(out, Crc32c(out), 4);
  return out;
}

// Appends a table of files without shared prefixes and base folders.
void AppendFiles(std::string& out, std::span<const std::string> paths) {
  AppendVarint(out, paths.size());
  for (size_t i = 1; i < paths.size(); ++i) AppendVarint(out, 0);
  for (const std::string& path : paths) AppendVarint(out, path.size());
  for (size_t i = 0; i < paths.size(); ++i) AppendVarint(out, 0);
  for (const std::string& path : paths) out += path;
}

// A list of texts in the columns in which they are stored: the lengths of the
// prefixes that are shared with the previous text, the lengths of the suffixes,
// and the suffixes.
struct Texts {
  std::string prefixes;
  std::string lengths;
  std::string rests;
  std::string_view last;
  bool any = false;

  void Add(std::string_view text) {
    const size_t shared = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), text.begin(), text.end())
            .first -
        last.begin());
    if (any) AppendVarint(prefixes, shared);
    AppendVarint(lengths, text.size() - shared);
    rests += text.substr(shared);
    last = text;
    any = true;
  }
};

}  // namespace

bool OcdbtWriter::Add(std::string key, std::string_view value,
                      Findings& findings) {
  Entry& entry = entries_.emplace_back();
  entry.key = std::move(key);
  entry.bytes = static_cast<int64_t>(value.size());
  entry.held = entry.bytes <= kHeldBytes;
  if (entry.held) {
    entry.value = value;
    return true;
  }
  entry.offset = file_.size();
  return file_.Append(value, findings);
}

void OcdbtWriter::AddPlaced(std::string key, size_t file, int64_t offset,
                            int64_t bytes) {
  Entry& entry = entries_.emplace_back();
  entry.key = std::move(key);
  entry.file = file;
  entry.offset = offset;
  entry.bytes = bytes;
}

std::string OcdbtWriter::LeafBody(size_t begin, size_t end) const {
  Texts keys;
  std::string lengths, kinds, files, offsets, held;
  for (size_t i = begin; i < end; ++i) {
    const Entry& entry = entries_[i];
    keys.Add(entry.key);
    AppendVarint(lengths, static_cast<uint64_t>(entry.bytes));
    kinds += static_cast<char>(entry.held ? 0 : 1);
    if (entry.held) {
      held += entry.value;
    } else {
      AppendVarint(files, entry.file);
      AppendVarint(offsets, static_cast<uint64_t>(entry.offset));
    }
  }
  std::string out(1, '\0');  // level 0: a leaf
  AppendFiles(out, files_);
  AppendVarint(out, end - begin);
  return out + keys.prefixes + keys.lengths + keys.rests + lengths + kinds +
         files + offsets + held;
}

std::string OcdbtWriter::InnerBody(const std::vector<Node>& children,
                                   size_t begin, size_t end, int height) const {
  Texts keys;
  std::string common, files, offsets, lengths, counts, tree, values;
  for (size_t i = begin; i < end; ++i) {
    const Node& child = children[i];
    keys.Add(child.first_key);
    AppendVarint(common, 0);  // length of the prefix that the child's keys omit
    AppendVarint(files, 0);
    AppendVarint(offsets, static_cast<uint64_t>(child.offset));
    AppendVarint(lengths, static_cast<uint64_t>(child.bytes));
    AppendVarint(counts, child.keys);
    AppendVarint(tree, child.tree_bytes);
    AppendVarint(values, child.value_bytes);
  }
  std::string out(1, static_cast<char>(height));
  AppendFiles(out, {files_.data(), 1});
  AppendVarint(out, end - begin);
  return out + keys.prefixes + keys.lengths + common + keys.rests + files +
         offsets + lengths + counts + tree + values;
}

bool OcdbtWriter::WriteNode(std::string_view body, Node& node,
                            Findings& findings) {
  const std::string block = Block(kNodeMagic, body);
  node.offset = file_.size();
  node.bytes = static_cast<int64_t>(block.size());
  node.tree_bytes += block.size();
  return file_.Append(block, findings);
}

std::optional<OcdbtWriter::Node> OcdbtWriter::WriteTree(int* height,
                                                        Findings& findings) {
  std::vector<Node> level;
  for (size_t begin = 0; begin < entries_.size();) {
    Node& node = level.emplace_back();
    node.first_key = entries_[begin].key;
    size_t end = begin;
    for (size_t bytes = 0; end < entries_.size(); ++end) {
      const Entry& entry = entries_[end];
      bytes += entry.key.size() + entry.value.size() + 32;
      if (end > begin && bytes > node_bytes_) break;
      if (!entry.held) node.value_bytes += static_cast<uint64_t>(entry.bytes);
    }
    node.keys = end - begin;
    if (!WriteNode(LeafBody(begin, end), node, findings)) {
      return std::nullopt;
    }
    begin = end;
  }
  for (*height = 0; level.size() > 1;) {
    ++*height;
    std::vector<Node> above;
    for (size_t begin = 0; begin < level.size();) {
      Node& node = above.emplace_back();
      node.first_key = level[begin].first_key;
      size_t end = begin;
      for (size_t bytes = 0; end < level.size(); ++end) {
        bytes += level[end].first_key.size() + 64;
        if (end > begin + 1 && bytes > node_bytes_) break;
        node.keys += level[end].keys;
        node.tree_bytes += level[end].tree_bytes;
        node.value_bytes += level[end].value_bytes;
      }
      const auto body = InnerBody(level, begin, end, *height);
      if (!WriteNode(body, node, findings)) return std::nullopt;
      begin = end;
    }
    level = std::move(above);
  }
  return level.empty() ? Node() : std::move(level[0]);
}

bool OcdbtWriter::Finish(Findings& findings) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  int height = 0;
  const auto root = WriteTree(&height, findings);
  if (!root || !file_.Close(findings)) return false;
  const bool empty = entries_.empty();
  std::string versions;
  const std::string root_file = empty ? std::string() : files_[0];
  AppendFiles(versions, {&root_file, 1});
  AppendVarint(versions, 1);  // number of versions
  AppendVarint(versions, 1);  // generation
  versions += static_cast<char>(height);
  AppendVarint(versions, 0);  // index of the root's file
  AppendVarint(versions, empty ? kNoRoot : static_cast<uint64_t>(root->offset));
  AppendVarint(versions, empty ? kNoRoot : static_cast<uint64_t>(root->bytes));
  AppendVarint(versions, root->keys);
  AppendVarint(versions, root->tree_bytes);
  AppendVarint(versions, root->value_bytes);
  AppendLittle(versions, 0, 8);  // time
  AppendVarint(versions, 0);     // number of nodes of older versions

  std::string body = Sha256(versions).substr(0, 16);  // identifier
  AppendVarint(body, 0);  // kind 0: a single manifest
  AppendVarint(body, static_cast<uint64_t>(kHeldBytes));
  AppendVarint(body, kNodeLimitBytes);
  AppendVarint(body, kVersionArityLog2);
  AppendVarint(body, 0);  // nodes are not compressed
  auto manifest = NewFile::Create(folder_.PathOf(kOcdbtManifest), findings);
  return manifest &&
         manifest->Append(Block(kManifestMagic, body + versions), findings) &&
         manifest->Close(findings);
}

}  // namespace shardc::stored
