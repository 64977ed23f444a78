// Checks that written checkpoints are read back bit for bit.
// tests/runtimes/restore_orbax_live_test.py and restore_dcp_live_test.py
// restore the same formats with the libraries that define them.
#include "stored/write.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "draws.h"
#include "source/size.h"
#include "stored/checksum.h"
#include "stored/memory_source.h"
#include "stored/ocdbt.h"
#include "stored/write_ocdbt.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

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

// Returns the bytes of each file in the folder, by the file's path there.
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
      // Each writer reads every element exactly once.
      CHECK(source.elements() == ++writers * elements);
    }
  }
}

TEST_CASE("write: the sharding of several slices lists their devices") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"tp", 2}};
  mesh.devices = 4;
  std::vector<ArrayToWrite> arrays = {ArrayOf({"w"}, {4, 2}, Dtype::kF32)};
  for (const bool slices : {false, true}) {
    CAPTURE(slices);
    if (slices) {
      mesh.slices = 2;
      mesh.dcn = {1, 2};
    }
    arrays[0].sharding = Sharding{mesh, {{"tp"}, {}}};
    Draws draws(7);
    const MemorySource source(arrays, draws);
    const TemporaryFolder folder;
    Findings findings;
    WriteOptions options;
    options.folder = folder / "ckpt";
    REQUIRE(WriteOrbax(arrays, {}, source, options, findings));
    const std::string text = folder.Read("ckpt/_sharding");
    CHECK((text.find("device_mesh") != std::string::npos) == slices);
    constexpr std::string_view kGrid =
        R"({\"mesh\": [[{\"id\": 0}, {\"id\": 2}], )"
        R"([{\"id\": 1}, {\"id\": 3}]]})";
    CHECK((text.find(kGrid) != std::string::npos) == slices);
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
    if (writer == WriteDcp) continue;  // stores them as pickles
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

// Returns the archives of a tree's opaque leaves, by the leaves' names.
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
  // A place that exceeds the file gives a finding, and nothing is written.
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
    // DCP cannot store a root without a name.
    CHECK(WriteDcp(*arrays, {}, source, options, findings) == arrays->empty());
  }
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
