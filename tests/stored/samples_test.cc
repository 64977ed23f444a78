// Reads checkpoints that orbax and tensorstore wrote, and compares the digest
// of each array (testdata/stored/README.md).
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "source/digest.h"
#include "source/file.h"
#include "source/json.h"
#include "source/size.h"
#include "stored/tree.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

std::string Samples() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/testdata/stored";
}

std::string MessagesOf(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) out += finding.message + "\n";
  return out;
}

std::string TextAt(const JsonValue& value, std::string_view name) {
  const auto member = value.Find(name);
  return member ? std::string(member->string()) : std::string();
}

Shape ShapeAt(const JsonValue& value) {
  Shape out;
  for (const JsonValue& size : value.Find("shape")->items()) {
    out.push_back(size.integer());
  }
  return out;
}

std::optional<std::string> BytesOf(const Tree& tree, size_t array,
                                   Findings& findings) {
  const Array& stored = tree.arrays[array];
  const Box box = FullBox(stored.shape);
  std::string out(AsIndex(box.Elements() * stored.element_bytes), '\0');
  if (!ReadBox(tree, array, box, out.data(), findings)) return std::nullopt;
  return out;
}

void CompareArray(const Tree& tree, size_t array, const JsonValue& wanted) {
  const Array& stored = tree.arrays[array];
  Findings findings;
  const auto bytes = BytesOf(tree, array, findings);
  INFO(MessagesOf(findings));
  if (wanted.Find("refused")) {
    CHECK_FALSE(bytes);
    CHECK_FALSE(findings.empty());
    return;
  }
  CHECK(stored.shape == ShapeAt(wanted));
  std::string dtype = TextAt(wanted, "dtype");
  if (dtype.starts_with("torch.")) dtype.erase(0, 6);
  CHECK(stored.dtype == ParseDtype(dtype));
  REQUIRE(bytes);
  CHECK(Sha256(*bytes) == TextAt(wanted, "sha256"));
}

TEST_CASE("samples: every array is read bit for bit") {
  constexpr std::string_view kWant = ".want.json";
  int samples = 0;
  for (const auto& entry : fs::directory_iterator(Samples())) {
    const std::string path = entry.path().string();
    if (!path.ends_with(kWant)) continue;
    ++samples;
    const std::string folder = path.substr(0, path.size() - kWant.size());
    CAPTURE(folder);
    Findings findings;
    const auto tree = OpenTree(folder, findings);
    INFO(MessagesOf(findings));
    REQUIRE(tree);
    std::map<std::string, size_t> by_key;
    for (size_t i = 0; i < tree->arrays.size(); ++i) {
      CHECK(by_key.emplace(tree->arrays[i].key, i).second);
    }
    const auto document =
        JsonDocument::Parse(ReadSource(path, findings), findings);
    REQUIRE(document != nullptr);
    CHECK(document->root().size() == tree->arrays.size());
    for (const JsonMember& member : document->root().members()) {
      const std::string name(member.name());
      CAPTURE(name);
      REQUIRE(by_key.contains(name));
      CompareArray(*tree, by_key[name], member.value);
    }
  }
  CHECK(samples >= 18);
}

}  // namespace
}  // namespace shardc::stored
