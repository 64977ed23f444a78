#include "source/repository.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace shardc {
namespace {

TEST_CASE("paths are relative to the root, whole where they are outside") {
  const auto here = std::filesystem::current_path();
  const Repository at_here = Repository::Find(here.string());
  CHECK(at_here.PathOf("a/b.yaml") == "a/b.yaml");
  CHECK(at_here.PathOf("./a/../b.yaml") == "b.yaml");
  CHECK(at_here.PathOf((here / "x").string()) == "x");
  CHECK(at_here.PathOf("../b.yaml") == (here.parent_path() / "b.yaml"));
  const Repository above = Repository::Find(here.parent_path().string());
  CHECK(above.PathOf("b.yaml") == here.filename() / "b.yaml");
  CHECK(Repository().PathOf("./a/../b.yaml") == "./a/../b.yaml");
}

}  // namespace
}  // namespace shardc
