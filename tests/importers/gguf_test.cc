// Tests one refused file for each message of the GGUF reader, made byte by
// byte, and accepted files at the limits.
#include "importers/manifest.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardc {
namespace {

constexpr uint32_t kUint8 = 0, kUint32 = 4, kBool = 7, kText = 8, kArray = 9,
                   kUint64 = 10;

template <class T>
std::string Bytes(T value) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
  }
  return out;
}

std::string Text(std::string_view text) {
  return Bytes<uint64_t>(text.size()) + std::string(text);
}

struct Tensor {
  std::string name = "a";
  std::vector<uint64_t> dims = {8};  // the innermost first
  uint32_t type = 0;
  uint64_t offset = 0;
};

struct File {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::pair<std::string, std::string>> keys;  // values with types
  std::vector<Tensor> tensors = {{}};
  size_t data = 4096;

  std::string Content() const {
    std::string out = magic + Bytes(version) + Bytes<uint64_t>(tensors.size()) +
                      Bytes<uint64_t>(keys.size());
    for (const auto& [key, value] : keys) out += Text(key) + value;
    for (const Tensor& tensor : tensors) {
      out += Text(tensor.name);
      out += Bytes(static_cast<uint32_t>(tensor.dims.size()));
      for (uint64_t size : tensor.dims) out += Bytes(size);
      out += Bytes(tensor.type) + Bytes(tensor.offset);
    }
    out.resize((out.size() + 31) / 32 * 32 + data);
    return out;
  }
};

// Returns "SHD054 message", or "read" and the number of parameters.
std::string Read(const std::string& content) {
  Findings findings;
  const auto manifest =
      ParseGguf(MakeSource("m.gguf", content), false, findings);
  if (manifest) return "read " + std::to_string(manifest->tensors.size());
  REQUIRE(findings.all().size() == 1);
  return findings.all()[0].code->Id() + " " + findings.all()[0].message;
}
std::string Read(const File& file) { return Read(file.Content()); }

File WithKey(std::string key, std::string value) {
  File out;
  out.keys = {{std::move(key), std::move(value)}};
  return out;
}
File WithTensors(std::vector<Tensor> tensors, size_t data = 4096) {
  File out;
  out.tensors = std::move(tensors);
  out.data = data;
  return out;
}

TEST_CASE("the version and the byte order are checked") {
  File file;
  for (const uint32_t version : {2u, 3u}) {
    file.version = version;
    CHECK(Read(file) == "read 1");
  }
  for (const uint32_t version : {0u, 1u, 4u}) {
    file.version = version;
    CHECK(Read(file) ==
          "SHD050 GGUF version " + std::to_string(version) + " is not known");
  }
  file.version = 3u << 24;
  CHECK(Read(file) == "SHD050 this is a big-endian GGUF file");
}

TEST_CASE("an alignment is a multiple of eight and not zero") {
  const auto aligned = [](uint32_t alignment) {
    return Read(
        WithKey("general.alignment", Bytes(kUint32) + Bytes(alignment)));
  };
  CHECK(aligned(0) == "SHD054 `general.alignment` is 0, not a multiple of 8");
  CHECK(aligned(4) == "SHD054 `general.alignment` is 4, not a multiple of 8");
  CHECK(aligned(12) == "SHD054 `general.alignment` is 12, not a multiple of 8");
  CHECK(aligned(8) == "read 1");
  CHECK(aligned(64) == "read 1");
  CHECK(
      Read(WithKey("general.alignment", Bytes(kUint64) + Bytes<uint64_t>(8))) ==
      "SHD054 `general.alignment` is of type 10 and not a 32-bit unsigned "
      "integer");
  // The data of every tensor begin at a multiple of the alignment.
  File file = WithKey("general.alignment", Bytes(kUint32) + Bytes(8u));
  file.tensors = {{"a", {2}, 0, 0}, {"b", {2}, 0, 8}};
  CHECK(Read(file) == "read 2");
  file.tensors[1].offset = 12;
  CHECK(Read(file) ==
        "SHD052 the data of `b` begins at 12, not a multiple of the alignment "
        "8");
}

TEST_CASE("data of tensors are disjoint and inside the file") {
  // The data of `a` end where those of `b` begin, or 4 bytes later.
  CHECK(Read(WithTensors({{"a", {16}, 0, 0}, {"b", {8}, 0, 64}})) == "read 2");
  CHECK(Read(WithTensors({{"a", {17}, 0, 0}, {"b", {8}, 0, 64}})) ==
        "SHD052 the data of `b` overlaps that of another tensor");
  // The order of the tensors in the file does not matter.
  CHECK(Read(WithTensors({{"b", {8}, 0, 64}, {"a", {16}, 0, 0}})) == "read 2");
  CHECK(Read(WithTensors({{"b", {8}, 0, 64}, {"a", {32}, 0, 0}})) ==
        "SHD052 the data of `b` overlaps that of another tensor");
  CHECK(Read(WithTensors({{"a", {8}, 0, 0}}, 32)) == "read 1");
  CHECK(Read(WithTensors({{"a", {8}, 0, 0}}, 31)) ==
        "SHD052 the data of `a` ends outside the file");
  CHECK(Read(WithTensors({{"a", {8}, 0, 1 << 20}})) ==
        "SHD052 the data of `a` begins at 1048576, outside the file");
  const std::string content = WithTensors({{"a", {8}, 0, 0}}, 0).Content();
  Findings findings;
  CHECK(ParseGguf(MakeSource("m.gguf", content), true, findings).has_value());
}

TEST_CASE("the innermost dimension has full blocks") {
  constexpr uint32_t kQ40 = 2, kQ4K = 12;
  CHECK(Read(WithTensors({{"a", {32, 3}, kQ40, 0}})) == "read 1");
  CHECK(Read(WithTensors({{"a", {33}, kQ40, 0}})) ==
        "SHD053 the last dimension of `a` is 33, not a multiple of the 32 "
        "elements of a block of Q4_0");
  CHECK(Read(WithTensors({{"a", {32, 256}, kQ4K, 0}})) ==
        "SHD053 the last dimension of `a` is 32, not a multiple of the 256 "
        "elements of a block of Q4_K");
  CHECK(Read(WithTensors({{"a", {}, kQ40, 0}})) ==
        "SHD053 the last dimension of `a` is 1, not a multiple of the 32 "
        "elements of a block of Q4_0");
  CHECK(Read(WithTensors({{"a", {8}, 999, 0}})) ==
        "SHD051 the data type 999 of `a` is not known");
}

TEST_CASE("shapes are checked") {
  CHECK(Read(WithTensors({{"a", {1, 1, 1, 8}, 0, 0}})) == "read 1");
  CHECK(Read(WithTensors({{"a", {1, 1, 1, 1, 8}, 0, 0}})) ==
        "SHD005 `a` has 5 dimensions");
  CHECK(Read(WithTensors({{"a", {8, 0}, 0, 0}})) ==
        "SHD023 a dimension of `a` is 0");
  CHECK(Read(WithTensors({{"a", {uint64_t{1} << 63}, 0, 0}})) ==
        "SHD024 a dimension of `a` is 9223372036854775808");
  CHECK(Read(WithTensors({{"a", {1u << 31, 1u << 31, 8}, 0, 0}})) ==
        "SHD024 the size of `a` of shape [8, 2147483648, 2147483648] does not "
        "fit in 64 bits");
  // The innermost dimension is the first in the file and the last in the
  // manifest.
  Findings findings;
  const auto manifest = ParseGguf(
      MakeSource("m.gguf", WithTensors({{"a", {8, 2}, 0, 0}}).Content()), false,
      findings);
  REQUIRE(manifest);
  CHECK(manifest->TypeOf(manifest->tensors[0]).shape == Shape{2, 8});
}

TEST_CASE("names and keys are there once") {
  CHECK(Read(WithTensors({{"a", {8}, 0, 0}, {"a", {8}, 0, 32}})) ==
        "SHD020 the tensor `a` is described twice");
  File file;
  file.keys = {{"k", Bytes(kUint8) + "x"}, {"k", Bytes(kUint8) + "x"}};
  CHECK(Read(file) == "SHD020 the key `k` is there twice");
  CHECK(Read(WithKey("", Bytes(kUint8) + "x")) == "SHD050 a key is empty");
}

TEST_CASE("a name without a visible form is refused") {
  const auto named = [](std::string name) {
    return Read(WithTensors({{std::move(name), {8}, 0, 0}}));
  };
  CHECK(named("a~ b") == "read 1");
  CHECK(named("a\x7f") == "SHD025 the name `a\\x7f` holds a control character");
  CHECK(named("a\x1f") == "SHD025 the name `a\\x1f` holds a control character");
  CHECK(named(std::string("a\0b", 3)) == "SHD025 a tensor's name holds a NUL");
  CHECK(named("a\xff") == "SHD006 a tensor's name is not UTF-8");
}

TEST_CASE("values are skipped by their type") {
  const auto boolean = [](char value) {
    return Read(WithKey("k", Bytes(kBool) + std::string(1, value)));
  };
  CHECK(boolean(0) == "read 1");
  CHECK(boolean(1) == "read 1");
  CHECK(boolean(2) == "SHD023 a boolean is 2, neither 0 nor 1");
  CHECK(Read(WithKey("k", Bytes(13u))) ==
        "SHD050 the value type 13 is not known");
  CHECK(Read(WithKey("k", Bytes(kText) + Text("words"))) == "read 1");
  const auto array = [](uint32_t element, uint64_t count,
                        const std::string& values) {
    return Read(
        WithKey("k", Bytes(kArray) + Bytes(element) + Bytes(count) + values));
  };
  CHECK(array(kUint32, 2, Bytes(1u) + Bytes(2u)) == "read 1");
  CHECK(array(kText, 2, Text("x") + Text("y")) == "read 1");
  CHECK(array(13, 1, "") == "SHD050 the value type 13 is not known");
  CHECK(array(kUint64, 1000, "") ==
        "SHD005 an array of 1000 elements is longer than what is left "
        "of the file");
}

TEST_CASE("one file of several is refused without the others") {
  constexpr uint32_t kUint16 = 2;
  const auto count = [](uint16_t files) {
    return Read(WithKey("split.count", Bytes(kUint16) + Bytes(files)));
  };
  CHECK(count(1) == "read 1");
  CHECK(count(2).starts_with("SHD001 this is one of the 2 "));
  CHECK(Read(WithKey("split.count", Bytes(kText) + Text("2"))) ==
        "SHD023 `split.count` is not an integer from 0 to 2^31 - 1");
  CHECK(
      Read(WithKey("split.count", Bytes(kUint64) + Bytes(uint64_t{1} << 31))) ==
      "SHD023 `split.count` is not an integer from 0 to 2^31 - 1");
  CHECK(Read(WithKey("split.other", Bytes(kText) + Text("2"))) == "read 1");
}

}  // namespace
}  // namespace shardc
