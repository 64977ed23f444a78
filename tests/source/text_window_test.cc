#include "source/plain_json.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "temporary_folder.h"

namespace shardc {
namespace {

InputFile Opened(const std::string& path) {
  Findings findings;
  auto file = InputFile::Open(path, findings);
  REQUIRE(file.has_value());
  return std::move(*file);
}

TEST_CASE("a window moves through a file and keeps what is not dropped") {
  const TemporaryFolder folder;
  const InputFile file = Opened(folder.Write("f", "abcdefghij"));
  TextWindow window(file, 8);
  CHECK(window.text() == "abcdefgh");
  CHECK_FALSE(window.AtEnd());
  CHECK_FALSE(window.Advance(0));  // the buffer is full
  CHECK(window.text() == "abcdefgh");
  CHECK(window.Advance(6));
  CHECK(window.text() == "ghij");
  CHECK(window.dropped() == 6);
  CHECK(window.AtEnd());
  CHECK_FALSE(window.Advance(2));  // the file has no more bytes
  CHECK(window.text() == "ghij");
}

TEST_CASE("a text in memory is its own window") {
  TextWindow window("abc");
  CHECK(window.text() == "abc");
  CHECK(window.AtEnd());
  CHECK_FALSE(window.Advance(1));
  CHECK(window.text() == "abc");
}

TEST_CASE("an empty file has an empty window") {
  const TemporaryFolder folder;
  const InputFile file = Opened(folder.Write("f", ""));
  const TextWindow window(file, 8);
  CHECK(window.text().empty());
  CHECK(window.AtEnd());
}

TEST_CASE("a file that shrinks while it is read has no end") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("f", "abcdefghij");
  const InputFile file = Opened(path);
  TextWindow window(file, 4);
  std::filesystem::resize_file(path, 5);
  CHECK_FALSE(window.Advance(4));
  CHECK(window.text().empty());
  CHECK_FALSE(window.AtEnd());
  CHECK_FALSE(window.Advance(0));
}

}  // namespace
}  // namespace shardc
