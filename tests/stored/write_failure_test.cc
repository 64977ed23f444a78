// Checks that a write that fails or is killed leaves nothing that opens and
// replaces nothing that exists, and that damage to written files is detected.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "draws.h"
#include "stored/memory_source.h"
#include "stored/tree.h"
#include "stored/write.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

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
      {{ArrayOf({"a"}, {4}, Dtype::kF6E2M3)}, "dtype"},
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

// A source that copies the unfinished folder in the middle of the write, as a
// kill would leave it.
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
    // With such small values the file has one node of OCDBT's tree, whose
    // checksum covers every byte.
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

}  // namespace
}  // namespace shardc::stored
