#include "stored/write.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "source/sink.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

TEST_CASE("a file that lost bytes is not continued") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("data", "0123456789");
  Findings findings;
  for (const int64_t bytes : {10, 4}) {
    auto file = NewFile::Continue(path, bytes, findings);
    REQUIRE(file.has_value());
    CHECK(file->size() == bytes);
    CHECK(std::filesystem::file_size(path) == static_cast<uintmax_t>(bytes));
  }
  CHECK(findings.empty());
  CHECK_FALSE(NewFile::Continue(path, 5, findings).has_value());
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "`" + path + "` has lost bytes that were written to it");
  CHECK(std::filesystem::file_size(path) == 4);
  // A file that is not there is only created if it has no bytes.
  CHECK(NewFile::Continue(folder / "new", 0, findings).has_value());
  CHECK_FALSE(NewFile::Continue(folder / "other", 1, findings).has_value());
  CHECK(findings.errors() == 2);
}

}  // namespace
}  // namespace shardc::stored
