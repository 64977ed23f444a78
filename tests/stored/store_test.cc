// Tests the keys of arrays' metadata in folders, and the paths that are
// refused.
#include "stored/store.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArray = R"({"node_type": "array"})";
constexpr std::string_view kGroup = R"({"node_type": "group"})";

std::vector<std::string> KeysOf(const TemporaryFolder& folder) {
  Findings findings;
  const FolderStore store(folder.path().string());
  const auto keys = store.MetadataKeys(findings);
  CHECK(findings.empty());
  REQUIRE(keys);
  return *keys;
}

TEST_CASE("store: keys are sorted as texts and not as folders") {
  TemporaryFolder folder;
  folder.Write("w/.zarray", "{}");
  folder.Write("w-1/.zarray", "{}");
  folder.Write("w/0.0", "chunk");
  // `-` sorts before `/`, and the folder `w` before the folder `w-1`.
  CHECK(KeysOf(folder) == std::vector<std::string>{"w-1/.zarray", "w/.zarray"});
}

TEST_CASE("store: groups are walked, arrays and links are not") {
  TemporaryFolder folder;
  folder.Write("zarr.json", kGroup);
  folder.Write("a/zarr.json", kArray);
  folder.Write("a/c/zarr.json", kArray);  // below an array
  folder.Write("b/zarr.json", kGroup);
  folder.Write("b/x/zarr.json", kArray);
  folder.Write("c/zarr.json", R"({"zarr_format": 3})");
  folder.Write("d/zarr.json", "no JSON");
  folder.Write("e/.zattrs", "{}");
  fs::create_directory_symlink(folder.path() / "b", folder.path() / "f");
  CHECK(KeysOf(folder) ==
        std::vector<std::string>{"a/zarr.json", "b/x/zarr.json", "c/zarr.json",
                                 "d/zarr.json"});
}

TEST_CASE("store: a folder nested 32 deep is walked, and 33 deep refused") {
  for (const int depth : {32, 33}) {
    CAPTURE(depth);
    TemporaryFolder folder;
    std::string path;
    for (int i = 0; i < depth; ++i) path += "f/";
    folder.Write(path + ".zarray", "{}");
    Findings findings;
    const FolderStore store(folder.path().string());
    const auto keys = store.MetadataKeys(findings);
    CHECK(keys.has_value() == (depth == 32));
    REQUIRE(findings.all().size() == (depth == 32 ? 0 : 1));
    if (depth == 32) continue;
    CHECK(findings.all()[0].code == &code::kLimit);
    CHECK(findings.all()[0].message ==
          "the checkpoint's folders are nested too deeply, or there are too "
          "many of them");
  }
}

TEST_CASE("store: which keys describe an array") {
  for (const std::string_view key :
       {".zarray", "zarr.json", "w/.zarray", "a/b/zarr.json"}) {
    CAPTURE(key);
    CHECK(IsMetadataKey(key));
  }
  for (const std::string_view key :
       {"", "w", "w.zarray", "w/.zarray/0", "zarr.json/", "w/.zgroup"}) {
    CAPTURE(key);
    CHECK_FALSE(IsMetadataKey(key));
  }
}

TEST_CASE("store: paths that are refused") {
  struct Row {
    std::string path;
    std::string_view fault;
  };
  const Row rows[] = {
      {"", "is empty"},
      {"/", "is absolute"},
      {"/etc/passwd", "is absolute"},
      {"..", "leads upwards"},
      {"../w", "leads upwards"},
      {"w/..", "leads upwards"},
      {"w/../v", "leads upwards"},
      {"w\n", "holds control characters"},
      {std::string("w\0v", 3), "holds control characters"},
      {"w\x1F", "holds control characters"},
      {"w\x7F", "holds control characters"},
      {"w", ""},
      {"w v", ""},
      {"w..", ""},
      {"..w/v", ""},
      {"w/.../v", ""},
      {"w\xC3\xA9", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    CHECK(PathFault(row.path) == row.fault);
    Findings findings;
    TemporaryFolder folder;
    const FolderStore store(folder.path().string());
    const auto found = store.Find(row.path, findings);
    CHECK(found.has_value() == row.fault.empty());
    if (row.fault.empty()) {
      CHECK(findings.empty());
      CHECK_FALSE(found->found);
      continue;
    }
    REQUIRE(findings.all().size() == 1);
    CHECK(findings.all()[0].code == &code::kPath);
    CHECK(findings.all()[0].message.ends_with(row.fault));
  }
}

TEST_CASE("store: a value is found and read in parts") {
  TemporaryFolder folder;
  folder.Write("w/0", "abcdef");
  Findings findings;
  const FolderStore store(folder.path().string());
  const auto value = store.Find("w/0", findings);
  REQUIRE(value);
  CHECK(value->found);
  CHECK(value->bytes == 6);
  CHECK(ReadValue(*value, 0, 6, findings) == "abcdef");
  CHECK(ReadValue(*value, 2, 3, findings) == "cde");
  CHECK(ReadValue(*value, 6, 0, findings)->empty());
  Value part = *value;
  part.offset = 1;
  CHECK(ReadValue(part, 2, 3, findings) == "def");
  CHECK(findings.empty());
  CHECK_FALSE(ReadValue(part, 3, 3, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].code == &code::kOffsets);
  CHECK(findings.all()[0].message ==
        "bytes 4 to 7 are needed, and the file ends at byte 6");
  const Value held{.found = true, .file = {}, .bytes = 4, .held = "held"};
  Findings none;
  CHECK(ReadValue(held, 1, 2, none) == "el");
  CHECK(none.empty());
}

TEST_CASE("store: a link inside the folder is read, one out of it refused") {
  TemporaryFolder folder;
  TemporaryFolder other;
  folder.Write("w/0", "in");
  other.Write("0", "out");
  fs::create_directories(folder.path() / "v");
  fs::create_symlink(folder.path() / "w/0", folder.path() / "v/0");
  fs::create_symlink(other.path() / "0", folder.path() / "v/1");
  const FolderStore store(folder.path().string());
  Findings findings;
  const auto inside = store.Find("v/0", findings);
  REQUIRE(inside);
  CHECK(inside->bytes == 2);
  CHECK(findings.empty());
  CHECK_FALSE(store.Find("v/1", findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message.find("is a link that leads out of") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardc::stored
