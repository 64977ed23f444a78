#include "stored/tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "source/size.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

// Returns the element at a place of the array: its index in row-major order,
// modulo 251. Padding is 255.
char ElementAt(const Shape& shape, const Shape& at) {
  int64_t number = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (at[i] >= shape[i]) return static_cast<char>(255);
    number = number * shape[i] + at[i];
  }
  return static_cast<char>(number % 251);
}

std::string BoxBytes(const Shape& shape, const Box& box) {
  std::string out;
  Shape at = box.offset;
  for (int64_t i = 0; i < box.Elements(); ++i) {
    out += ElementAt(shape, at);
    for (size_t dim = at.size(); dim > 0; --dim) {
      if (++at[dim - 1] < box.offset[dim - 1] + box.shape[dim - 1]) break;
      at[dim - 1] = box.offset[dim - 1];
    }
  }
  return out;
}

class FakeReader : public ChunkReader {
 public:
  explicit FakeReader(const Array& array) : array_(array) {}
  std::optional<std::string> Read(size_t, int64_t chunk,
                                  Findings&) const override {
    Box box = array_.BoxOf(chunk);
    if (array_.pieces.empty()) box.shape = array_.chunk;
    ++reads_;
    return BoxBytes(array_.shape, box);
  }
  std::optional<ChunkPlace> Find(size_t, int64_t, Findings&) const override {
    return ChunkPlace{};
  }
  int64_t reads() const { return reads_; }

 private:
  Array array_;
  mutable int64_t reads_ = 0;
};

// Reads every box of the array. Returns how many chunks are read for the full
// array.
int64_t CompareAllBoxes(const Array& array) {
  const auto reader = std::make_shared<FakeReader>(array);
  const Tree tree{"t", "fake", {array}, {}, {}, reader};
  std::vector<Box> boxes = {{{}, {}}};
  for (const int64_t size : array.shape) {
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (int64_t begin = 0; begin < size; ++begin) {
        for (int64_t end = begin; end <= size; ++end) {
          Box more = box;
          more.offset.push_back(begin);
          more.shape.push_back(end - begin);
          next.push_back(std::move(more));
        }
      }
    }
    boxes = std::move(next);
  }
  Findings findings;
  for (const Box& box : boxes) {
    std::string out(AsIndex(box.Elements()), '\0');
    REQUIRE(ReadBox(tree, 0, box, out.data(), findings));
    REQUIRE(out == BoxBytes(array.shape, box));
  }
  const int64_t before = reader->reads();
  std::string out(AsIndex(FullBox(array.shape).Elements()), '\0');
  CHECK(ReadBox(tree, 0, FullBox(array.shape), out.data(), findings));
  CHECK(findings.empty());
  return reader->reads() - before;
}

Array ArrayOf(Shape shape, Shape chunk) {
  Array array;
  array.name = "w";
  array.shape = std::move(shape);
  array.chunk = std::move(chunk);
  array.dtype = Dtype::kU8;
  array.element_bytes = 1;
  return array;
}

TEST_CASE("tree: every box of a grid with padded chunks is read") {
  CHECK(CompareAllBoxes(ArrayOf({10, 7}, {4, 4})) == 6);
  CHECK(CompareAllBoxes(ArrayOf({5, 3, 4}, {2, 3, 1})) == 12);
  CHECK(CompareAllBoxes(ArrayOf({6}, {6})) == 1);
  CHECK(CompareAllBoxes(ArrayOf({3}, {100})) == 1);
}

TEST_CASE("tree: a scalar is one chunk") {
  CHECK(CompareAllBoxes(ArrayOf({}, {})) == 1);
}

TEST_CASE("tree: an array without elements has no chunks") {
  const Array array = ArrayOf({0, 4}, {1, 4});
  CHECK(array.Chunks() == 0);
  CHECK(CompareAllBoxes(array) == 0);
}

TEST_CASE("tree: every box of an array of irregular pieces is read") {
  Array array = ArrayOf({5, 4}, {});
  array.pieces = {{{0, 0}, {2, 3}}, {{0, 3}, {5, 1}}, {{2, 0}, {3, 3}}};
  CHECK(CompareAllBoxes(array) == 3);
}

TEST_CASE("tree: an array that cannot be read states why") {
  Array array = ArrayOf({2}, {2});
  array.unreadable = "`w` is compressed by `bz2`, which shardc does not read";
  const Tree tree{"t", "fake", {array}, {}, {}, nullptr};
  Findings findings;
  char out[2];
  CHECK_FALSE(ReadBox(tree, 0, FullBox(array.shape), out, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message == array.unreadable);
}

TEST_CASE("tree: a folder is a tree if it has the files of a format") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  const auto opened = [&] {
    Findings findings;
    CHECK_FALSE(OpenTree(path, findings));
    REQUIRE(findings.all().size() == 1);
    return findings.all()[0].message;
  };
  CHECK_FALSE(IsTree(path));
  CHECK(opened() == "the folder holds no checkpoint of a known format");
  CHECK_FALSE(IsTree(path + "/absent"));
  folder.Write("_METADATA", "[]");
  CHECK(IsTree(path));
  CHECK(opened() == "the file must hold a JSON object");
  // A file is no folder.
  CHECK_FALSE(IsTree(path + "/_METADATA"));
}

TEST_CASE("tree: names of saves that have not finished are known") {
  for (const std::string name :
       {"100.orbax-checkpoint-tmp", "100.orbax-checkpoint-tmp-17",
        "a.dcp-tmp-shardc", ".dcp-tmp-shardc"}) {
    CHECK(IsUnfinishedName(name));
  }
  for (const std::string name : {"", "100", "orbax-checkpoint-tmp", "tmp"}) {
    CHECK_FALSE(IsUnfinishedName(name));
  }
}

TEST_CASE("tree: keys are joined in their order") {
  const std::vector<std::string> keys = {"a", "0", "b.c"};
  CHECK(JoinKeys(keys, '/') == "a/0/b.c");
  CHECK(JoinKeys({}, '/').empty());
  CHECK(StorageName(keys) == "a.0.b.c");
}

}  // namespace
}  // namespace shardc::stored
