#include "target/open.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "temporary_folder.h"

namespace shardc {
namespace {

// A name is a view: the manifest does not own its text.
Manifest Named(std::string_view name) {
  Manifest out;
  out.types.push_back({Shape{2}, Dtype::kF32});
  out.tensors.push_back({name, 0});
  return out;
}

TEST_CASE("a manifest is kept until its file changes") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("m.json", "{}");
  const FileStamp stamp = StampOf(path);
  CHECK(stamp.size == 2);
  ManifestCache cache;
  CHECK_FALSE(cache.Find(path, stamp));
  cache.Keep(path, stamp, Named("a"));
  const auto known = cache.Find(path, stamp);
  REQUIRE(known);
  CHECK(known->tensors[0].name == "a");
  CHECK_FALSE(cache.Find(folder / "other", stamp));
  for (const int change : {0, 1, 2, 3}) {
    CAPTURE(change);
    FileStamp other = stamp;
    if (change == 0) other.file += "x";
    if (change == 1) ++other.size;
    if (change == 2) ++other.modified_ns;
    if (change == 3) ++other.changed_ns;
    CHECK_FALSE(cache.Find(path, other));
  }
  cache.Keep(path, stamp, Named("b"));
  CHECK(cache.Find(path, stamp)->tensors[0].name == "b");
}

TEST_CASE("what is no file is not kept, and the cache is bounded") {
  const TemporaryFolder folder;
  const FileStamp none = StampOf(folder / "none");
  CHECK(none.size < 0);
  CHECK(StampOf(folder / "").size < 0);
  ManifestCache cache;
  cache.Keep("none", none, Named("a"));
  CHECK_FALSE(cache.Find("none", none));
  const FileStamp stamp = StampOf(folder.Write("m.json", "{}"));
  for (int i = 0; i < 64; ++i) {
    cache.Keep(std::to_string(i), stamp, Named("a"));
  }
  CHECK(cache.Find("0", stamp));
  cache.Keep("64", stamp, Named("a"));
  CHECK_FALSE(cache.Find("0", stamp));
  CHECK(cache.Find("64", stamp));
}

}  // namespace
}  // namespace shardc
