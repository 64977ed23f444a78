#include "importers/safetensors.h"

#include <doctest/doctest.h>

#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "draws.h"

namespace shardc {
namespace {

constexpr std::string_view kHeaders[] = {
    R"({})",
    R"({"__metadata__":{}})",
    R"({"a.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
    R"({"__metadata__":{"format":"pt","by":""},"b":{"dtype":"BF16",
        "shape":[2,3],"data_offsets":[8,20]},"a":{"shape":[],
        "data_offsets":[0,8],"dtype":"F64"}}   )",
    R"({"e":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]},
        "f":{"dtype":"F8_E4M3","shape":[0,9],"data_offsets":[3,3]},
        "g":{"dtype":"BOOL","shape":[1],"data_offsets":[3,4]},
        "h":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},
        "i":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})",
    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "__metadata__":{"x":"y"}})",
};

// Headers, valid or not, that the plain reader does not accept, so that the
// full reader reads them.
constexpr std::string_view kOther[] = {
    R"([])",
    R"({"a":1})",
    R"({"a":{}})",
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})",
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})",
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
    R"({"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}})",
    R"({"a":{"dtype":"float32","shape":[2],"data_offsets":[0,8]}})",
    R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})",
    R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
    R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})",
    R"({"a":{"dtype":"U8","shape":null,"data_offsets":[0,1]}})",
    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})",
    R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})",
    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
    R"({"a":{"dtype":"F64","shape":[999999999999999999,9],
        "data_offsets":[0,8]}})",
    R"({"__metadata__":{"a":1}})",
    R"({"__metadata__":{"a":"1","a":"2"}})",
    R"({"__metadata__":{},"__metadata__":{}})",
    R"({"__metadata__":{"a":"\n"}})",
    R"({"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
    R"({"é":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
    R"({} x)",
    R"({,})",
};

std::string File(std::string_view json, size_t data) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 4; ++i) {
    out[i] = static_cast<char>(json.size() >> (8 * i));
  }
  return out + std::string(json) + std::string(data, 'x');
}

bool Same(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  return a.metadata == b.metadata && a.data_offset == b.data_offset &&
         a.entries == b.entries;
}

// Checks that the result is the same with and without the plain reader, and
// that a header which the plain reader accepts has no findings. Returns whether
// it accepts the header. `data` is the number of bytes of data.
bool ReadsTheSame(std::string_view json, std::optional<int64_t> data) {
  CAPTURE(json);
  const std::string file = File(json, static_cast<size_t>(data.value_or(0)));
  const SourceRef source = MakeSource("w.safetensors", file);
  std::optional<int64_t> size;
  if (data) size = static_cast<int64_t>(file.size());
  Findings findings, whole;
  const auto full =
      ParseSafetensorsHeader(source, size, findings, /*plain=*/false);
  const auto both = ParseSafetensorsHeader(source, size, whole);
  CHECK(full.has_value() == both.has_value());
  CHECK(findings.all().size() == whole.all().size());
  if (full && both) CHECK(Same(*full, *both));
  if (!ReadPlainHeader(json, data)) return false;
  REQUIRE(full.has_value());
  CHECK(findings.all().empty());
  CHECK(both->by_name.size() == both->entries.size());
  for (size_t i = 1; i < both->by_name.size(); ++i) {
    CHECK(both->entries[both->by_name[i - 1]].name <
          both->entries[both->by_name[i]].name);
  }
  return true;
}

TEST_CASE("ordinary headers are read without a document") {
  for (const std::string_view json : kHeaders) {
    CHECK(ReadsTheSame(json, std::nullopt));
  }
  CHECK(ReadsTheSame(kHeaders[2], 8));
  CHECK(ReadsTheSame(kHeaders[3], 20));
  CHECK_FALSE(ReadsTheSame(kHeaders[3], 19));
  CHECK_FALSE(ReadsTheSame(kHeaders[3], 21));
}

TEST_CASE("other headers are left to the full reader") {
  for (const std::string_view json : kOther) {
    CAPTURE(json);
    CHECK_FALSE(ReadsTheSame(json, std::nullopt));
  }
}

constexpr std::string_view kIndices[] = {
    R"({"weight_map":{}})",
    R"({"metadata":{"total_size":16,"format":"pt"},"weight_map":{
        "b":"model-2.safetensors","a":"model-1.safetensors"}} )",
    R"({"weight_map":{"a":"m.safetensors","b":"m.safetensors"},
        "metadata":{}})",
};
constexpr std::string_view kOtherIndices[] = {
    "",
    "{}",
    R"({"metadata":{}})",
    R"({"weight_map":[]})",
    R"({"weight_map":{"a":1}})",
    R"({"weight_map":{"a":"../m.safetensors"}})",
    R"({"weight_map":{"a":"m.bin"}})",
    R"({"weight_map":{"a":""}})",
    R"({"weight_map":{"a":"m.safetensors","b":""}})",
    R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})",
    R"({"weight_map":{},"weight_map":{}})",
    R"({"weight_map":{},"other":{}})",
    R"({"weight_map":{},"metadata":{"a":1.5}})",
    R"({"weight_map":{},"metadata":{"a":1,"a":1}})",
    R"({"weight_map":{"\u0061":"m.safetensors"}})",
};

bool IndexReadsTheSame(std::string_view text) {
  CAPTURE(text);
  const auto plain = ReadPlainIndex(text, "folder/x.json");
  if (!plain) return false;
  Findings findings;
  const auto document =
      JsonDocument::Parse(MakeSource("x.json", std::string(text)), findings);
  REQUIRE(document != nullptr);
  const auto full = ParseHfIndex(*document, "folder/x.json", findings);
  REQUIRE(full.has_value());
  CHECK(findings.all().empty());
  CHECK(plain->weight_map == full->weight_map);
  CHECK(plain->directory == full->directory);
  return true;
}

TEST_CASE("ordinary indices are read without a document") {
  for (const std::string_view text : kIndices) CHECK(IndexReadsTheSame(text));
  for (const std::string_view text : kOtherIndices) {
    CAPTURE(text);
    CHECK_FALSE(IndexReadsTheSame(text));
  }
}

std::string ChangedText(std::string text, std::mt19937_64& random) {
  constexpr std::string_view kBytes = "{}[]\",:\\0128abBF-. \n\x7f\xc3";
  return Changed(std::move(text), random() % 3, kBytes, 24, random);
}

TEST_CASE("changed headers and indices are read as the full readers do") {
  std::mt19937_64 random(15);
  int headers = 0, indices = 0;
  for (int i = 0; i < 40000; ++i) {
    const std::string json = ChangedText(
        std::string(kHeaders[random() % std::size(kHeaders)]), random);
    std::optional<int64_t> data;
    if (random() % 2 == 0) data = static_cast<int64_t>(random() % 24);
    headers += ReadsTheSame(json, data) ? 1 : 0;
    indices +=
        IndexReadsTheSame(ChangedText(
            std::string(kIndices[random() % std::size(kIndices)]), random))
            ? 1
            : 0;
  }
  CHECK(headers > 5000);
  CHECK(indices > 5000);
}

}  // namespace
}  // namespace shardc
