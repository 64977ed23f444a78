#include "stored/memory_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "doctest/doctest.h"
#include "source/size.h"
#include "stored/box.h"

namespace shardc::stored {

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

ArrayToWrite ArrayOf(std::vector<std::string> path, Shape shape, Dtype dtype,
                     Shape chunk) {
  return {std::move(path), std::move(shape), dtype, std::move(chunk), {}};
}

MemorySource::MemorySource(const std::vector<ArrayToWrite>& arrays,
                           Draws& draws)
    : arrays_(arrays) {
  for (const ArrayToWrite& array : arrays) {
    std::string& bytes = bytes_.emplace_back(AsIndex(BytesOf(array)), '\0');
    // Some arrays are zeros, which compress well.
    if (draws() % 4 == 0) continue;
    for (char& byte : bytes) byte = static_cast<char>(draws() & 1);
  }
}

bool MemorySource::Read(size_t array, const Box& box, char* out,
                        Findings& findings) const {
  elements_ += box.Elements();
  largest_bytes_ = std::max(largest_bytes_.load(),
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

namespace {

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

}  // namespace

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

}  // namespace shardc::stored
