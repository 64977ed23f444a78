// Fuzz targets for readers of other systems' checkpoints. Blocks of OCDBT get a
// valid envelope, because a fuzzer would not find its checksum.
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/reading.h"
#include "stored/codecs.h"
#include "stored/ocdbt_bytes.h"
#include "stored/orbax.h"
#include "stored/tree.h"
#include "stored/zarr.h"
#include "temporary_folder.h"

namespace shardc::fuzz {
namespace {

namespace test = stored::test;

void Put(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Opens a database of these two files, and reads small arrays.
void ReadDatabase(const std::string& manifest, const std::string& node) {
  static const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "d");
  Put(folder / "manifest.ocdbt", manifest);
  Put(folder / "d/n", node);
  Findings findings;
  const auto tree = stored::OpenTree(folder.path().string(), findings);
  Require(tree.has_value() != findings.HasErrors(), "a tree or an error");
  CheckFindings(findings);
  if (!tree) return;
  for (size_t i = 0; i < tree->arrays.size(); ++i) {
    const stored::Array& array = tree->arrays[i];
    const Box box = FullBox(array.shape);
    const int64_t bytes = box.Elements() * array.element_bytes;
    if (bytes > 4096 || array.Chunks() > 4096) continue;
    std::string out(static_cast<size_t>(bytes), '\0');
    Findings own;
    const bool read = stored::ReadBox(*tree, i, box, out.data(), own);
    Require(read != own.HasErrors(), "bytes or an error");
    CheckFindings(own);
  }
}

void OcdbtManifest(std::string_view bytes) {
  const std::string node =
      test::Block(test::kNodeMagic,
                  test::LeafBody({{"x/.zarray", test::Zarray("[2]", "[2]")},
                                  {"x/0", std::string(8, '\1')}}));
  ReadDatabase(test::Block(test::kManifestMagic, bytes), node);
}

// Reads the bytes as a node. The first two bytes are the level and the number
// of keys that the manifest states.
void OcdbtNode(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const auto height = static_cast<unsigned char>(bytes[0]);
  const auto keys = static_cast<unsigned char>(bytes[1]);
  const std::string node = test::Block(test::kNodeMagic, bytes.substr(2));
  ReadDatabase(
      test::Block(test::kManifestMagic,
                  test::ManifestBody({"d/n", 0, node.size()}, keys, height)),
      node);
}

void Zarr(std::string_view bytes) {
  for (const char* name : {".zarray", "zarr.json"}) {
    const SourceRef source = MakeSource(name, std::string(bytes));
    Findings findings;
    bool group = false;
    const auto array = stored::ParseZarr(source, &group, findings);
    Require((array || group) != findings.HasErrors(), "an array or an error");
    CheckFindings(findings);
    if (!array) continue;
    Require(array->chunk.size() == array->shape.size(), "a rank");
    for (const int64_t size : array->chunk) Require(size > 0, "a size");
  }
}

void Orbax(std::string_view bytes) {
  const MemoryFile file(bytes);
  const auto check = [&](const auto& read) {
    Findings findings;
    const bool good = read(file.path(), findings).has_value();
    Require(good != findings.HasErrors(), "a result or an error");
    CheckFindings(findings);
  };
  check(stored::ReadOrbaxMetadata);
  check(stored::ReadOrbaxShardings);
  check(stored::ReadOrbaxStrings);
}

// Checks that a chunk decodes to at most the bytes that its array needs.
void Blosc(std::string_view bytes) {
  std::string why;
  const auto out = stored::DecodeBlosc(bytes, 1 << 16, &why);
  Require(out.has_value() == why.empty(), "bytes or a reason");
  if (out) Require(out->size() <= 1 << 16, "a chunk within its limit");
}

}  // namespace

std::span<const NamedTarget> StoredTargets() {
  static constexpr std::array<NamedTarget, 5> kTargets = {{
      {"ocdbt_manifest", OcdbtManifest},
      {"ocdbt_node", OcdbtNode},
      {"zarr", Zarr},
      {"orbax", Orbax},
      {"blosc", Blosc},
  }};
  return kTargets;
}

}  // namespace shardc::fuzz
