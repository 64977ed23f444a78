#include "parse/manifest.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace shardc {
namespace {

// Reads a manifest and returns it as "name shape dtype; ...|separator".
std::string Read(std::string_view text, Findings& findings) {
  const auto document = JsonDocument::Parse(
      MakeSource("manifest.json", std::string(text)), findings);
  REQUIRE(document != nullptr);
  auto manifest = ParseManifest(*document, findings);
  if (!manifest) return "none";
  SettleSeparator(*manifest, findings);
  std::string out;
  for (const Tensor& tensor : manifest->tensors) {
    const TensorType& type = manifest->TypeOf(tensor);
    out += std::string(tensor.name) + " " +
           (type.shape ? ShapeText(*type.shape) : "?") + " " +
           (type.dtype ? std::string(DtypeName(*type.dtype)) : "?") + "; ";
  }
  out += "|";
  if (manifest->separator != 0) out += manifest->separator;
  return out;
}

TEST_CASE("manifests in their forms") {
  struct Case {
    std::string_view text, tensors;
  };
  constexpr Case kCases[] = {
      {R"({"schema": "shardc.manifest/v1", "params": [
           {"name": "b/w", "shape": [4, 8], "dtype": "BF16"},
           {"name": "a/w", "shape": [], "dtype": "float32"}]})",
       "b/w [4, 8] BF16; a/w [] F32; |/"},
      {R"({"schema": "shardc.manifest/v1", "model": "m", "naming": "hf",
           "other": {"x": 1}, "params": {
           "b.w": {"shape": [4], "dtype": "F8_E4M3", "kind": "x"},
           "a.w": {"shape": null, "dtype": null}}})",
       "b.w [4] F8_E4M3; a.w ? ?; |."},
      {R"({"params": [{"name": "w", "shape": [0], "dtype": "I8"}]})",
       "w [0] I8; |"},
      // Without a schema it is a tree, whose branch may be called `params`.
      {R"({"params": {"w": {"shape": [2], "dtype": "F32"}}})",
       "params/w [2] F32; |/"},
      {R"({"a": {"b": [{"shape": [1], "dtype": "F32"}, null,
                       {"c": {"shape": [2], "dtype": null}}]}, "d": {}})",
       "a/b/0 [1] F32; a/b/2/c [2] ?; |/"},
      // Branches may be called `shape` and `dtype` too.
      {R"({"shape": {"shape": [1], "dtype": "F32"},
           "dtype": {"w": {"shape": [2], "dtype": "F32"}}})",
       "shape [1] F32; dtype/w [2] F32; |/"},
      {R"({"a.b": {"shape": [1], "dtype": "F32"}})", "a.b [1] F32; |."},
      {R"({"schema": "shardc.manifest/v1", "separator": ".", "params":
           {"a.b/c": {"shape": [1], "dtype": "F32"}}})",
       "a.b/c [1] F32; |."},
      {R"({})", "|"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    Findings findings;
    CHECK(Read(test.text, findings) == test.tensors);
    CHECK(findings.empty());
  }
}

TEST_CASE("the separator is the one that most names hold") {
  const auto settle = [](std::vector<std::string> names) -> std::string {
    Manifest manifest;
    for (std::string& name : names) manifest.tensors.push_back({name, 0});
    Findings findings;
    SettleSeparator(manifest, findings);
    if (findings.HasErrors()) return "tie";
    if (manifest.separator == 0) return "none";
    return std::string(1, manifest.separator);
  };
  CHECK(settle({"a/b", "a.b", "c/d"}) == "/");
  CHECK(settle({"a.b", "c.d", "a/b"}) == ".");
  CHECK(settle({"a", "b"}) == "none");
  CHECK(settle({}) == "none");
  CHECK(settle({"a.b", "a/b"}) == "tie");
  CHECK(settle({"a.b/c"}) == "tie");
  // The dots in these names are not separators.
  CHECK(settle({"../../x", ".hidden/x", "x/y."}) == "/");
}

TEST_CASE("types are interned and notes of the file kept") {
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource("m.json",
                 R"({"schema": "shardc.manifest/v1", "model": "m",
                     "naming": "flax", "params": {
                     "a": {"shape": [4], "dtype": "F32"},
                     "b": {"shape": [4], "dtype": "F32"},
                     "c": {"shape": [4], "dtype": "F16"}}})"),
      findings);
  const auto manifest = ParseManifest(*document, findings);
  REQUIRE(manifest);
  CHECK(manifest->types.size() == 2);
  CHECK(manifest->model == "m");
  CHECK(manifest->naming == "flax");
  CHECK(manifest->source->name() == "m.json");
}

}  // namespace
}  // namespace shardc
