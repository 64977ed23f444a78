// What the writers store is read back bit for bit, and a write that fails
// leaves nothing that opens. tests/runtimes/restore_live_test.py restores the
// same forms by the libraries themselves.
#include "stored/write.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "draws.h"
#include "source/index.h"
#include "stored/append_integer.h"
#include "stored/checksum.h"
#include "stored/gather.h"
#include "stored/new_folder.h"
#include "stored/ocdbt.h"
#include "stored/write_ocdbt.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;
using Writer = bool (*)(std::span<const ArrayToWrite>, std::span<const Leaf>,
                        const BoxSource&, const WriteOptions&, Findings&);
constexpr Writer kWriters[] = {WriteOrbax, WriteDcp};

std::string MessagesOf(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += std::string(finding.code->name) + ": " + finding.message + "\n";
  }
  return out;
}

int64_t BytesOf(const ArrayToWrite& array) {
  return FullBox(array.shape).Elements() * StoredBytes(array.dtype);
}

// Holds the arrays in memory, and counts how often each element is read.
class MemorySource : public BoxSource {
 public:
  MemorySource(const std::vector<ArrayToWrite>& arrays, Draws& draws)
      : arrays_(arrays) {
    for (const ArrayToWrite& array : arrays) {
      std::string& bytes = bytes_.emplace_back(AsIndex(BytesOf(array)), '\0');
      // Some arrays are zeros, which compress well.
      if (draws() % 4 == 0) continue;
      for (char& byte : bytes) byte = static_cast<char>(draws() & 1);
    }
  }

  bool Read(size_t array, const Box& box, char* out,
            Findings& findings) const override {
    elements_ += box.Elements();
    largest_bytes_ =
        std::max(largest_bytes_.load(),
                 box.Elements() * StoredBytes(arrays_[array].dtype));
    if (fail_after_ >= 0 && elements_ > fail_after_) {
      findings.Add(code::kUnreadable, {}, "an injected fault");
      return false;
    }
    const Shape& shape = arrays_[array].shape;
    const Region full{Shape(shape.size(), 0), shape};
    Region part{box.offset, box.offset};
    for (size_t i = 0; i < shape.size(); ++i) part.end[i] += box.shape[i];
    CopyRegion(part, full, bytes_[array].data(), part, out,
               StoredBytes(arrays_[array].dtype));
    return true;
  }

  const std::string& bytes(size_t array) const { return bytes_[array]; }
  int64_t elements() const { return elements_; }
  int64_t largest_bytes() const { return largest_bytes_; }
  void FailAfter(int64_t elements) { fail_after_ = elements; }

 private:
  const std::vector<ArrayToWrite>& arrays_;
  std::vector<std::string> bytes_;
  int64_t fail_after_ = -1;
  mutable std::atomic<int64_t> elements_ = 0;
  mutable std::atomic<int64_t> largest_bytes_ = 0;
};

ArrayToWrite ArrayOf(std::vector<std::string> path, Shape shape,
                     Dtype dtype = Dtype::kF32, Shape chunk = {}) {
  return {std::move(path), std::move(shape), dtype, std::move(chunk), {}};
}

std::vector<ArrayToWrite> RandomArrays(Draws& draws) {
  constexpr Dtype kTypes[] = {
      Dtype::kBool, Dtype::kU8,  Dtype::kI8,     Dtype::kI16,
      Dtype::kU16,  Dtype::kI32, Dtype::kU32,    Dtype::kI64,
      Dtype::kU64,  Dtype::kF16, Dtype::kBF16,   Dtype::kF32,
      Dtype::kF64,  Dtype::kC64, Dtype::kF8E4M3, Dtype::kF8E5M2};
  const std::vector<std::string> kKeys = {"w",       "a.b", "a/b",      "0",
                                          "é 'q'\\", "%2f", "_METADATA"};
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 8, 17, 40};
  std::vector<ArrayToWrite> out;
  const size_t count = draws() % 8;
  for (size_t i = 0; i < count; ++i) {
    // The first key makes paths and names unique.
    std::vector<std::string> path = {std::to_string(i)};
    for (size_t depth = draws() % 3; depth > 0; --depth) {
      path.push_back(kKeys[draws() % kKeys.size()]);
    }
    ArrayToWrite array = ArrayOf(path, {}, kTypes[draws() % std::size(kTypes)]);
    const bool chunked = draws() % 2 == 0;
    for (size_t rank = draws() % 4; rank > 0; --rank) {
      array.shape.push_back(kSizes[draws() % std::size(kSizes)]);
      if (chunked) array.chunk.push_back(1 + static_cast<int64_t>(draws() % 9));
    }
    if (draws() % 3 == 0) {
      Mesh mesh;
      mesh.axes = {{"fsdp", 2}, {"tp", 4}};
      mesh.devices = 8;
      Spec spec(array.shape.size() > 1 ? 2 : 0);
      if (!spec.empty()) spec[1] = {"tp", "fsdp"};
      array.sharding = Sharding{mesh, spec};
    }
    out.push_back(std::move(array));
  }
  return out;
}

void CompareArray(const Tree& tree, const Array& read, size_t index,
                  const ArrayToWrite& wanted, const std::string& bytes,
                  bool with_sharding) {
  CHECK(read.shape == wanted.shape);
  CHECK(read.dtype == wanted.dtype);
  CHECK(read.path == wanted.path);
  std::string got(AsIndex(BytesOf(wanted)), '\0');
  Findings findings;
  const bool done =
      ReadBox(tree, index, FullBox(wanted.shape), got.data(), findings);
  INFO(MessagesOf(findings));
  CHECK(done);
  const bool equal = got == bytes;
  CHECK(equal);
  if (!with_sharding) return;
  REQUIRE(read.sharding.has_value() == wanted.sharding.has_value());
  if (!read.sharding) return;
  CHECK(read.sharding->spec == wanted.sharding->spec);
  CHECK(read.sharding->mesh.axes == wanted.sharding->mesh.axes);
}

void CompareTree(const std::string& folder,
                 const std::vector<ArrayToWrite>& arrays,
                 const MemorySource& source, bool orbax) {
  Findings findings;
  const auto tree = OpenTree(folder, findings);
  INFO(MessagesOf(findings));
  REQUIRE(tree);
  CHECK(tree->notes.empty());
  REQUIRE(tree->arrays.size() == arrays.size());
  std::map<std::vector<std::string>, size_t> by_path;
  for (size_t i = 0; i < tree->arrays.size(); ++i) {
    by_path[tree->arrays[i].path] = i;
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    CAPTURE(i);
    REQUIRE(by_path.contains(arrays[i].path));
    const size_t index = by_path[arrays[i].path];
    CompareArray(*tree, tree->arrays[index], index, arrays[i], source.bytes(i),
                 orbax);
  }
}

// The names in the folder with the bytes of each file.
std::map<std::string, std::string> FilesIn(const TemporaryFolder& folder,
                                           const std::string& name) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder / name)) {
    if (!entry.is_regular_file()) continue;
    const auto below = fs::relative(entry.path(), folder.path()).string();
    out[below.substr(name.size())] = folder.Read(below);
  }
  return out;
}

TEST_CASE("write: random trees are read back bit for bit") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Draws draws(seed);
    const auto arrays = RandomArrays(draws);
    MemorySource source(arrays, draws);
    int64_t elements = 0;
    for (const ArrayToWrite& array : arrays) {
      elements += FullBox(array.shape).Elements();
    }
    int64_t writers = 0;
    for (const Writer writer : kWriters) {
      const TemporaryFolder folder;
      WriteOptions options;
      options.folder = folder / "ckpt";
      options.memory_bytes = draws() % 2 == 0 ? 1 << 28 : 1 << 10;
      options.threads = 1 + static_cast<int>(draws() % 3);
      options.compress = draws() % 2 == 0;
      Findings findings;
      const bool written = writer(arrays, {}, source, options, findings);
      INFO(MessagesOf(findings));
      REQUIRE(written);
      CHECK(folder.Count() == 1);
      CompareTree(options.folder, arrays, source, writer == WriteOrbax);
      // Every element was read once by each writer.
      CHECK(source.elements() == ++writers * elements);
    }
  }
}

TEST_CASE("write: the bytes do not depend on the number of threads") {
  Draws draws(5);
  const std::vector<ArrayToWrite> arrays = {
      ArrayOf({"w"}, {64, 65}, Dtype::kF32, {8, 8}),
      ArrayOf({"b"}, {1000}, Dtype::kBF16, {7})};
  const MemorySource source(arrays, draws);
  for (const Writer writer : kWriters) {
    const TemporaryFolder folder;
    Findings findings;
    WriteOptions options;
    options.folder = folder / "one";
    REQUIRE(writer(arrays, {}, source, options, findings));
    options.folder = folder / "more";
    options.threads = 3;
    REQUIRE(writer(arrays, {}, source, options, findings));
    CHECK(FilesIn(folder, "one") == FilesIn(folder, "more"));
  }
}

TEST_CASE("write: a chunk above the memory limit is divided") {
  Draws draws(6);
  const std::vector<ArrayToWrite> arrays = {ArrayOf({"w"}, {3, 50, 40}),
                                            ArrayOf({"x"}, {1, 1, 9000})};
  for (const Writer writer : kWriters) {
    const MemorySource source(arrays, draws);
    const TemporaryFolder folder;
    WriteOptions options;
    options.folder = folder / "ckpt";
    options.memory_bytes = 4096;
    Findings findings;
    REQUIRE(writer(arrays, {}, source, options, findings));
    CHECK(source.largest_bytes() <= 1024);
    CompareTree(options.folder, arrays, source, false);
  }
}

TEST_CASE("write: strings and empty nodes are kept, opaque values left out") {
  Draws draws(7);
  const std::vector<ArrayToWrite> arrays = {ArrayOf({"step"}, {})};
  const MemorySource source(arrays, draws);
  const std::vector<Leaf> leaves = {
      {"opt/name", Leaf::Kind::kString, "adam \"w\""},
      {"opt/none", Leaf::Kind::kEmpty, "None"},
      {"opt/mu", Leaf::Kind::kEmpty, "Dict"},
      {"blob", Leaf::Kind::kOpaque, "pickled value"}};
  for (const Writer writer : kWriters) {
    const TemporaryFolder folder;
    Findings findings;
    WriteOptions options;
    options.folder = folder / "ckpt";
    REQUIRE(writer(arrays, leaves, source, options, findings));
    const auto tree = OpenTree(options.folder, findings);
    INFO(MessagesOf(findings));
    REQUIRE(tree);
    REQUIRE(tree->leaves.size() == 3);
    if (writer == WriteDcp) continue;  // holds them as pickles
    for (size_t i = 0; i < 3; ++i) {
      CHECK(tree->leaves[i].name == leaves[i].name);
      CHECK(tree->leaves[i].kind == leaves[i].kind);
      CHECK(tree->leaves[i].text == leaves[i].text);
    }
  }
}

TEST_CASE("write: the keys of lists stay numbers") {
  Draws draws(13);
  std::vector<ArrayToWrite> arrays = {ArrayOf({"layers", "0", "7"}, {2}),
                                      ArrayOf({"layers", "1", "7"}, {2})};
  for (ArrayToWrite& array : arrays) array.in_sequence = {false, true, false};
  const std::vector<Leaf> leaves = {
      {"layers/2", Leaf::Kind::kEmpty, "None", {"layers", "2"}, {false, true}}};
  const MemorySource source(arrays, draws);
  for (const Writer writer : kWriters) {
    const TemporaryFolder folder;
    Findings findings;
    WriteOptions options;
    options.folder = folder / "ckpt";
    REQUIRE(writer(arrays, leaves, source, options, findings));
    const auto tree = OpenTree(options.folder, findings);
    REQUIRE(tree);
    for (const Array& array : tree->arrays) {
      CHECK(array.in_sequence == arrays[0].in_sequence);
    }
    REQUIRE(tree->leaves.size() == 1);
    CHECK(tree->leaves[0].path == leaves[0].path);
    CHECK(tree->leaves[0].in_sequence == leaves[0].in_sequence);
  }
}

// The archives of a tree's opaque leaves by their names.
std::map<std::string, std::string> ArchivesOf(const Tree& tree) {
  std::map<std::string, std::string> out;
  for (const Leaf& leaf : tree.leaves) {
    REQUIRE(leaf.place);
    Value value;
    value.file = leaf.place->file;
    value.offset = leaf.place->offset;
    Findings findings;
    auto bytes = ReadValue(value, 0, leaf.place->bytes, findings);
    REQUIRE(bytes);
    out[leaf.name] = std::move(*bytes);
  }
  return out;
}

TEST_CASE("write: values that torch has pickled are copied as they are") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  const std::string samples =
      std::string(root == nullptr ? "." : root) + "/testdata/stored/";
  Findings findings;
  const auto tree = OpenTree(samples + "dcp_4ranks", findings);
  REQUIRE(tree);
  REQUIRE_FALSE(tree->leaves.empty());
  Draws draws(14);
  const std::vector<ArrayToWrite> none;
  const MemorySource source(none, draws);
  const TemporaryFolder folder;
  WriteOptions options;
  options.folder = folder / "ckpt";
  REQUIRE(WriteDcp(none, tree->leaves, source, options, findings));
  const auto copied = OpenTree(options.folder, findings);
  INFO(MessagesOf(findings));
  REQUIRE(copied);
  CHECK(ArchivesOf(*copied) == ArchivesOf(*tree));
  for (const Leaf& leaf : tree->leaves) {
    CHECK(IsWritten(leaf, WriteForm::kDcp));
    CHECK_FALSE(IsWritten(leaf, WriteForm::kOrbax));
  }
  // A place outside the file is a finding, and nothing is written.
  auto leaves = tree->leaves;
  leaves[0].place->bytes += int64_t{1} << 40;
  options.folder = folder / "other";
  CHECK_FALSE(WriteDcp(none, leaves, source, options, findings));
  CHECK(folder.Count() == 1);
}

TEST_CASE("write: a tree without arrays and one of a single array are read") {
  Draws draws(8);
  const std::vector<ArrayToWrite> none;
  const std::vector<ArrayToWrite> root = {ArrayOf({}, {3, 2})};
  for (const auto* arrays : {&none, &root}) {
    const MemorySource source(*arrays, draws);
    const TemporaryFolder folder;
    Findings findings;
    WriteOptions options;
    options.folder = folder / "ckpt";
    REQUIRE(WriteOrbax(*arrays, {}, source, options, findings));
    CompareTree(options.folder, *arrays, source, true);
    options.folder = folder / "dcp";
    // DCP has no name for the root.
    CHECK(WriteDcp(*arrays, {}, source, options, findings) == arrays->empty());
  }
}

TEST_CASE("write: paths that have one name in a format are refused") {
  struct Case {
    std::vector<ArrayToWrite> arrays;
    std::string_view code;
  };
  const Case cases[] = {
      {{ArrayOf({"a", "b"}, {1}), ArrayOf({"a.b"}, {1})}, "duplicate-key"},
      {{ArrayOf({"a", "b"}, {1}), ArrayOf({"a/b"}, {1})}, "duplicate-key"},
      {{ArrayOf({"a"}, {1}), ArrayOf({"a"}, {1})}, "duplicate-key"},
      {{ArrayOf({"a"}, {1}), ArrayOf({"a", "b"}, {1})}, "duplicate-key"},
      {{ArrayOf({"a", "b", "c"}, {1}), ArrayOf({"a"}, {1}),
        ArrayOf({"a!"}, {1})},
       "duplicate-key"},
      {{ArrayOf({std::string(5000, 'a')}, {1})}, "name"},
      {{ArrayOf({"\xff"}, {1})}, "name"},
      {{ArrayOf({"a\n"}, {1})}, "name"},
      {{ArrayOf({"a"}, {int64_t{1} << 62, 8})}, "overflow"},
      {{ArrayOf({"a"}, {4}, Dtype::kF4)}, "dtype"},
  };
  for (const Case& one : cases) {
    for (const Writer writer : kWriters) {
      Draws draws(9);
      const std::vector<ArrayToWrite> none;
      const MemorySource source(none, draws);
      const TemporaryFolder folder;
      Findings findings;
      WriteOptions options;
      options.folder = folder / "ckpt";
      CHECK_FALSE(writer(one.arrays, {}, source, options, findings));
      INFO(MessagesOf(findings));
      REQUIRE_FALSE(findings.empty());
      CHECK(findings.all()[0].code->name == one.code);
      if (one.code == "name") CHECK(findings.all()[0].help == "rename it");
      CHECK(folder.Count() == 0);
    }
  }
}

TEST_CASE("write: a fault of the source leaves nothing") {
  const std::vector<ArrayToWrite> arrays = {
      ArrayOf({"w"}, {40, 10}, Dtype::kF32, {1, 10})};
  for (const Writer writer : kWriters) {
    for (const int64_t after : {0, 10, 200, 390}) {
      Draws draws(10);
      MemorySource source(arrays, draws);
      source.FailAfter(after);
      const TemporaryFolder folder;
      Findings findings;
      WriteOptions options;
      options.folder = folder / "ckpt";
      options.memory_bytes = 400;
      options.threads = 2;
      CHECK_FALSE(writer(arrays, {}, source, options, findings));
      CHECK(findings.errors() == 1);
      CHECK(folder.Count() == 0);
    }
  }
}

// Copies the unfinished folder in the middle of the write, as a kill would
// leave it.
class SnapshotSource : public BoxSource {
 public:
  SnapshotSource(const TemporaryFolder& folder, int64_t at)
      : folder_(folder), at_(at) {}
  bool Read(size_t, const Box& box, char* out, Findings&) const override {
    std::fill(out, out + box.Elements(), 'x');
    if (count_++ != at_) return true;
    CHECK_FALSE(fs::exists(folder_ / "ckpt"));
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      fs::copy(entry.path(), folder_ / ("killed" + name),
               fs::copy_options::recursive);
      ++copies_;
    }
    return true;
  }
  int copies() const { return copies_; }

 private:
  const TemporaryFolder& folder_;
  int64_t at_;
  mutable int64_t count_ = 0;
  mutable int copies_ = 0;
};

TEST_CASE("write: what a kill leaves does not open, and is taken over") {
  const std::vector<ArrayToWrite> arrays = {
      ArrayOf({"w"}, {10, 3000}, Dtype::kU8, {1, 3000})};
  for (const Writer writer : kWriters) {
    for (const int64_t at : {0, 5, 9}) {
      const TemporaryFolder folder;
      const SnapshotSource source(folder, at);
      Findings findings;
      WriteOptions options;
      options.folder = folder / "ckpt";
      options.memory_bytes = 6000;
      REQUIRE(writer(arrays, {}, source, options, findings));
      REQUIRE(source.copies() == 1);
      fs::remove_all(options.folder);
      std::string left;
      for (const auto& entry : fs::directory_iterator(folder.path())) {
        left = entry.path().string();
      }
      CAPTURE(left);
      Findings refused;
      CHECK_FALSE(OpenTree(left, refused));
      CHECK_FALSE(refused.empty());
      // The next run empties the folder and writes the same checkpoint.
      fs::rename(left, folder / left.substr(left.find("ckpt")));
      REQUIRE(writer(arrays, {}, source, options, findings));
      CHECK(folder.Count() == 1);
      CHECK(OpenTree(options.folder, findings));
    }
  }
}

TEST_CASE("write: nothing that exists is replaced, and two runs do not mix") {
  Draws draws(11);
  const std::vector<ArrayToWrite> arrays = {ArrayOf({"w"}, {4})};
  const MemorySource source(arrays, draws);
  for (const Writer writer : kWriters) {
    const TemporaryFolder folder;
    folder.Write("full/file", "x");
    folder.Write("file", "x");
    fs::create_directories(folder / "empty");
    fs::create_directory_symlink(folder / "empty", folder / "link");
    for (const std::string name : {"full", "file", "link", "absent/ckpt"}) {
      CAPTURE(name);
      Findings findings;
      WriteOptions options;
      options.folder = folder / name;
      CHECK_FALSE(writer(arrays, {}, source, options, findings));
      CHECK(MessagesOf(findings).starts_with("write: "));
    }
    CHECK(folder.Read("full/file") == "x");
    CHECK(folder.Count() == 4);
    Findings findings;
    WriteOptions options;
    options.folder = folder / "empty/";
    CHECK(writer(arrays, {}, source, options, findings));
    CompareTree(folder / "empty", arrays, source, true);
  }
  const TemporaryFolder folder;
  Findings findings;
  const auto first = NewFolder::Create(folder / "a", ".tmp", findings);
  REQUIRE(first);
  CHECK_FALSE(NewFolder::Create(folder / "a", ".tmp", findings));
  CHECK(fs::exists(folder / "a.tmp"));
}

TEST_CASE("write: a damaged byte of a checkpoint is detected") {
  Draws draws(12);
  const std::vector<ArrayToWrite> arrays = {ArrayOf({"w"}, {40}, Dtype::kI32),
                                            ArrayOf({"v"}, {3})};
  const MemorySource source(arrays, draws);
  const TemporaryFolder folder;
  Findings findings;
  WriteOptions options;
  options.folder = folder / "ckpt";
  REQUIRE(WriteOrbax(arrays, {}, source, options, findings));
  for (const std::string name : {"ckpt/manifest.ocdbt", "ckpt/d/values"}) {
    const std::string bytes = folder.Read(name);
    // The values are small, so that the file holds one checked node.
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      folder.Write(name, damaged);
      Findings refused;
      CHECK_FALSE(OpenTree(options.folder, refused));
    }
    folder.Write(name, bytes);
  }
  CHECK(OpenTree(options.folder, findings));
}

TEST_CASE("write: a database of many small nodes is read") {
  for (const size_t count : {1, 2, 9, 400}) {
    const TemporaryFolder folder;
    Findings findings;
    auto target = NewFolder::Create(folder / "db", ".tmp", findings);
    REQUIRE(target);
    auto file = NewFile::Create(target->PathOf("values"), findings);
    REQUIRE(file);
    OcdbtWriter writer(*target, {"values"}, std::move(*file), 200);
    std::map<std::string, std::string> wanted;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = std::to_string(i * 7919 % 10007) + "/.zarray";
      wanted[key] = std::string(i % 3 == 0 ? 3000 : i % 50, 'v') + key;
      REQUIRE(writer.Add(key, wanted[key], findings));
    }
    REQUIRE(writer.Finish(findings));
    REQUIRE(target->Publish(findings));
    const auto store = OcdbtStore::Open(folder / "db", {""}, findings);
    INFO(MessagesOf(findings));
    REQUIRE(store != nullptr);
    CHECK(store->size() == wanted.size());
    for (const auto& [key, value] : wanted) {
      const auto found = store->Find(key, findings);
      REQUIRE(found);
      CHECK(ReadValue(*found, 0, found->bytes, findings) == value);
    }
  }
}

TEST_CASE("write: integers are as in the formats' descriptions") {
  std::string out;
  AppendVarint(out, 0);
  AppendVarint(out, 300);
  AppendVarint(out, UINT64_MAX);
  CHECK(out ==
        std::string("\0\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13));
  out.clear();
  AppendLittle(out, 0x0102, 4);
  CHECK(out == std::string("\x02\x01\0\0", 4));
}

}  // namespace
}  // namespace shardc::stored
