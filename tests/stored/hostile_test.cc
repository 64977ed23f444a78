// Tests damaged and hostile checkpoints. Each gives a finding, with bounded
// memory and time.
#include <doctest/doctest.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "source/size.h"
#include "stored/ocdbt_bytes.h"
#include "stored/tree.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

using test::Block;
using test::Fixed;
using test::InnerBody;
using test::kManifestMagic;
using test::kNodeMagic;
using test::LeafBody;
using test::ManifestBody;
using test::Reference;
using test::Varint;
using test::Zarray;

namespace fs = std::filesystem;

void Put(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Opens a folder and reads every array. Returns "3 arrays", or code and message
// of the first finding.
std::string Outcome(const std::string& folder) {
  Findings findings;
  const auto tree = OpenTree(folder, findings);
  if (tree) {
    for (size_t i = 0; i < tree->arrays.size() && findings.empty(); ++i) {
      const Array& array = tree->arrays[i];
      const Box box = FullBox(array.shape);
      // The tests have no large array that can be read.
      const int64_t bytes =
          std::min<int64_t>(box.Elements() * array.element_bytes, 1 << 20);
      std::string out(AsIndex(bytes), '\0');
      if (box.Elements() * array.element_bytes != bytes) break;
      ReadBox(*tree, i, box, out.data(), findings);
    }
  }
  if (findings.empty() && tree) {
    return std::to_string(tree->arrays.size()) + " arrays";
  }
  REQUIRE(findings.HasErrors());
  const Finding& first = findings.all()[0];
  return std::string(first.code->name) + ": " + first.message;
}

bool Mentions(const std::string& text, std::string_view part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

std::string Zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
  return out;
}

// A database with one node in `d/n`.
struct Database {
  TemporaryFolder folder;
  std::string node;
  std::string manifest;

  explicit Database(const std::string& node_body, uint64_t keys = 1,
                    uint64_t height = 0)
      : node(Block(kNodeMagic, node_body)),
        manifest(Block(kManifestMagic,
                       ManifestBody({"d/n", 0, node.size()}, keys, height))) {}
  std::string Try() {
    Put(folder / "manifest.ocdbt", manifest);
    Put(folder / "d/n", node);
    return Outcome(folder.path().string());
  }
};

std::string Floats(size_t count) { return std::string(count * 4, '\1'); }

TEST_CASE("hostile: a small database is read") {
  Database good(
      LeafBody({{"x/.zarray", Zarray("[2]", "[2]")}, {"x/0", Floats(2)}}), 2);
  CHECK(good.Try() == "1 arrays");
}

TEST_CASE("hostile: an empty database has no arrays") {
  Database empty("");
  empty.manifest =
      Block(kManifestMagic, ManifestBody({"", UINT64_MAX, UINT64_MAX}, 0));
  CHECK(empty.Try() == "0 arrays");
}

TEST_CASE("hostile: the manifest of the highest number is read") {
  Database good(
      LeafBody({{"x/.zarray", Zarray("[2]", "[2]")}, {"x/0", Floats(2)}}), 2);
  const std::string filled = good.manifest;
  const std::string empty =
      Block(kManifestMagic, ManifestBody({"", UINT64_MAX, UINT64_MAX}, 0));
  // The first manifest has no versions and states that numbered ones follow.
  good.manifest =
      Block(kManifestMagic, std::string(16, 'u') + Varint(1) + Varint(1024) +
                                Varint(100'000'000) + Fixed(4, 1) + Varint(0));
  CHECK(good.Try() == "0 arrays");
  Put(good.folder / "manifest.0000000000000009", empty);
  CHECK(good.Try() == "0 arrays");
  Put(good.folder / "manifest.000000000000000a", filled);
  CHECK(good.Try() == "1 arrays");
  // Names of another length, or with other characters, are not of manifests.
  Put(good.folder / "manifest.000000000000000g", empty);
  Put(good.folder / "manifest.00000000000000100", empty);
  Put(good.folder / "manifest.f", empty);
  Put(good.folder / "manifesta0000000000000010", empty);
  CHECK(good.Try() == "1 arrays");
  Put(good.folder / "manifest.0000000000000010", empty);
  CHECK(good.Try() == "0 arrays");
}

TEST_CASE("hostile: envelopes") {
  const std::string leaf = LeafBody({{"x/0", "v"}});
  {
    Database cut(leaf);
    cut.node.resize(cut.node.size() - 3);
    Mentions(cut.Try(), "ends after the file");
  }
  {
    Database flipped(leaf);
    flipped.node[16] = static_cast<char>(flipped.node[16] ^ 1);
    Mentions(flipped.Try(), "does not have the checksum");
  }
  {
    Database magic(leaf);
    magic.manifest[0] = 'x';
    Mentions(magic.Try(), "does not begin with the bytes of one");
  }
  {
    Database longer(leaf);
    longer.manifest += 'x';
    Mentions(longer.Try(), "states another length");
  }
  {
    Database none(leaf);
    none.manifest.clear();
    Mentions(none.Try(), "has only 0 bytes");
  }
  {
    Database other(leaf);
    other.node = Block(kNodeMagic, leaf, 7);
    Mentions(other.Try(), "compression 7");
  }
}

TEST_CASE("hostile: a node that is its own child is refused by its level") {
  const std::string body = InnerBody(1, {"d/n", 0, 0});
  // The node contains its own length, so a consistent length is searched for.
  for (uint64_t bytes = body.size(); bytes < body.size() + 64; ++bytes) {
    Database cycle(InnerBody(1, {"d/n", 0, bytes}), 1, 1);
    if (cycle.node.size() != bytes) continue;
    Mentions(cycle.Try(), "is not of level 0");
    return;
  }
  FAIL("no length fits");
}

TEST_CASE("hostile: references") {
  {
    Database beyond("");
    beyond.manifest =
        Block(kManifestMagic, ManifestBody({"d/n", 1 << 20, 50}, 1));
    Mentions(beyond.Try(), "ends after the file");
  }
  Mentions(Database(LeafBody("x/0", {"d/n", uint64_t{1} << 40, 8})).Try(),
           "the file ends at byte");
  Mentions(Database(LeafBody("x/0", {"d/n", 8, uint64_t{1} << 63})).Try(),
           "offsets: the value of `x/0`");
  Mentions(Database(LeafBody("x/0", {"../../etc/passwd", 0, 8})).Try(),
           "path: a value's file, `../../etc/passwd`, leads upwards");
  Mentions(Database(LeafBody("x/0", {"/etc/passwd", 0, 8})).Try(),
           "is absolute");
  Mentions(Database(LeafBody("x/0", {"d/gone", 0, 8})).Try(), "there is no");
  {
    Database link(LeafBody("x/0", {"d/link", 0, 8}));
    fs::create_directories(link.folder / "d");
    fs::create_symlink("/etc/passwd", link.folder / "d/link");
    Mentions(link.Try(), "leads out of");
  }
}

// The node lists itself as each of its children. Children are counted before
// they are read.
TEST_CASE("hostile: more children than a database of arrays has") {
  constexpr size_t kCount = 1'000'001;
  const auto column = [](char value) { return std::string(kCount, value); };
  std::string body = Fixed(1, 1) + test::Files({"d/n"}) + Varint(kCount);
  // For each key: how many bytes it shares with the key before it, how many
  // others it has, and how many bytes are a prefix of all keys below.
  body += std::string(kCount - 1, '\0') + column('\4') + column('\0');
  for (size_t i = 0; i < kCount; ++i) {
    for (const size_t shift : {24, 16, 8, 0}) {
      body += static_cast<char>(i >> shift & 0xFF);
    }
  }
  // For each child: its file, offset and size, and its numbers of keys and
  // bytes.
  body += column('\0') + column('\0') + column('\1');
  body += column('\1') + column('\0') + column('\0');
  Mentions(Database(body, kCount, 1).Try(),
           "keys, or more nodes or longer keys than shardc reads");
}

TEST_CASE("hostile: keys") {
  Mentions(Database(LeafBody({{"b", ""}, {"a", ""}}), 2).Try(),
           "do not ascend");
  Mentions(Database(LeafBody({{"a", ""}, {"a", ""}}), 2).Try(),
           "do not ascend");
  Mentions(Database(LeafBody({{"a", ""}}), 2).Try(), "the B-tree holds 1 keys");
  Mentions(Database(Fixed(0, 1) + Varint(0) + Varint(0)).Try(), "is malformed");
  Mentions(Database(Fixed(0, 1) + Varint(0) + Varint(uint64_t{1} << 40)).Try(),
           "is malformed");
  Mentions(Database(Fixed(0, 1) + Varint(0) + std::string(11, '\xFF')).Try(),
           "is malformed");
  Mentions(Database(LeafBody({{"a", ""}}) + "x").Try(), "is malformed");
}

TEST_CASE("hostile: a node of zeros that decodes to gigabytes") {
  Database bomb("");
  bomb.node = Block(kNodeMagic, Zstd(std::string(size_t{200} << 20, '\0')), 1);
  bomb.manifest =
      Block(kManifestMagic, ManifestBody({"d/n", 0, bomb.node.size()}, 1));
  Mentions(bomb.Try(), "decodes to more than 128 MiB");
}

// Opens a database with one array `x` and its only chunk. Keys must ascend: `.`
// is before `0`, and `z` after it.
std::string TryArray(const std::string& metadata, const std::string& chunk,
                     const std::string& name = ".zarray") {
  const std::pair<std::string, std::string> about = {"x/" + name, metadata};
  const std::pair<std::string, std::string> value = {"x/0", chunk};
  if (about.first < value.first) {
    return Database(LeafBody({about, value}), 2).Try();
  }
  return Database(LeafBody({value, about}), 2).Try();
}

TEST_CASE("hostile: chunks") {
  Mentions(TryArray(Zarray("[4]", "[4]"), Floats(3)),
           "has 12 bytes, and 16 are expected");
  const std::string zstd = R"({"id":"zstd","level":1})";
  Mentions(TryArray(Zarray("[4]", "[4]", zstd),
                    Zstd(std::string(size_t{1} << 26, '\0'))),
           "decodes to more than 16 B");
  Mentions(TryArray(Zarray("[4]", "[4]", zstd), Zstd(Floats(3))),
           "it has 12 bytes, and 16 are expected");
  Mentions(TryArray(Zarray("[4]", "[4]", zstd), Zstd(Floats(4)) + "x"),
           "follow its zstd frame");
  Mentions(TryArray(Zarray("[4]", "[4]", R"({"id":"gzip","level":1})"), "x"),
           "cannot be decoded");
  Mentions(TryArray(Zarray("[8]", "[4]"), Floats(4)),
           "the chunk `x/1` of `x` is missing");
}

TEST_CASE("hostile: zarr metadata") {
  Mentions(TryArray(Zarray("[4611686018427387904, 8]", "[1, 1]"), ""),
           "overflow: the bytes of the array's shape");
  Mentions(TryArray(Zarray("[4]", "[4611686018427387904]"), ""),
           "overflow: the bytes of the array's chunks");
  Mentions(TryArray(Zarray("[4]", "[0]"), ""), "at least 1");
  Mentions(TryArray(Zarray("[-4]", "[1]"), ""), "at least 0");
  Mentions(TryArray(Zarray("[4]", "[4, 4]"), ""), "another rank");
  Mentions(TryArray("[]", ""), "is not an object");
  Mentions(TryArray("{}", ""), "lacks `shape`");
  Mentions(TryArray("{", ""), "json-syntax");
  Mentions(TryArray(Zarray("[4]", "[4]", R"({"id":"bz2"})"), ""),
           "the codec `bz2`");
  Mentions(TryArray("{}", "", "zarr.json"), "lacks `shape`");
}

std::string Shard(const std::string& index_tail) {
  TemporaryFolder folder;
  Put(folder / "x/zarr.json",
      R"({"zarr_format":3,"node_type":"array","shape":[2],
          "data_type":"float32","chunk_grid":{"name":"regular",
          "configuration":{"chunk_shape":[2]}},"codecs":[{"name":
          "sharding_indexed","configuration":{"chunk_shape":[1],"codecs":
          [{"name":"bytes"}],"index_codecs":[{"name":"bytes"}]}}]})");
  Put(folder / "x/c/0", Floats(2) + index_tail);
  return Outcome(folder.path().string());
}

TEST_CASE("hostile: the index of a shard") {
  CHECK(Shard(Fixed(0, 8) + Fixed(4, 8) + Fixed(4, 8) + Fixed(4, 8)) ==
        "1 arrays");
  Mentions(Shard(Fixed(0, 8) + Fixed(4, 8) + Fixed(4, 8) + Fixed(400, 8)),
           "beyond its end");
  Mentions(
      Shard(Fixed(0, 8) + Fixed(4, 8) + Fixed(UINT64_MAX - 1, 8) + Fixed(4, 8)),
      "beyond its end");
  Mentions(Shard("short"), "too few for its index");
}

// An orbax folder with one zarr array for each name.
struct Orbax {
  TemporaryFolder folder;

  Orbax(const std::string& tree, const std::vector<std::string>& names,
        const std::string& more = "") {
    Put(folder / "_METADATA", "{\"tree_metadata\":{" + tree + "}" + more + "}");
    for (const std::string& name : names) {
      Put(folder / (name + "/.zarray"), Zarray("[1]", "[1]"));
      Put(folder / (name + "/0"), Floats(1));
    }
  }
  std::string Try() { return Outcome(folder.path().string()); }
};

std::string LeafJson(const std::vector<std::string>& path) {
  static int number = 0;
  std::string keys;
  for (const std::string& key : path) {
    keys += (keys.empty() ? "{\"key\":\"" : ",{\"key\":\"") + key + "\"}";
  }
  return "\"" + std::to_string(number++) + "\":{\"key_metadata\":[" + keys +
         "],\"value_metadata\":{\"value_type\":\"jax.Array\","
         "\"skip_deserialize\":false,\"write_shape\":[7]}}";
}

TEST_CASE("orbax: two paths with one name in the storage are reported") {
  CHECK(Orbax(LeafJson({"a", "b"}), {"a.b"}).Try() == "1 arrays");
  Mentions(Orbax(LeafJson({"a", "b"}) + "," + LeafJson({"a.b"}), {"a.b"}).Try(),
           "duplicate-key: the paths `a/b` and `a.b` have the same name");
  Mentions(Orbax(LeafJson({"a", "b"}) + "," + LeafJson({"a/b"}), {"a.b", "a/b"})
               .Try(),
           "duplicate-key: two paths of the checkpoint are both named `a/b`");
}

TEST_CASE("orbax: what is missing or unfinished is reported") {
  Mentions(Orbax(LeafJson({"a"}), {}).Try(),
           "`_METADATA` lists `a`, and the checkpoint holds no array `a`");
  TemporaryFolder folder;
  const std::string saving = folder / "5.orbax-checkpoint-tmp";
  Put(saving + "/_METADATA", "{}");
  Mentions(Outcome(saving), "`.orbax-checkpoint-tmp`: the save of this");
  // `_METADATA` is written last. Without it, other formats are recognised.
  for (const std::string ending :
       {".orbax-checkpoint-tmp-shardc", ".dcp-tmp-shardc"}) {
    Put(folder / ("6" + ending + "/x/.zarray"), Zarray("[2]", "[2]"));
    Put(folder / ("6" + ending + "/x/0"), Floats(2));
    Mentions(Outcome(folder / ("6" + ending)), "has not finished");
  }
  Orbax parts(LeafJson({"a"}), {"a"});
  Put(parts.folder / "ocdbt.process_0/manifest.ocdbt", "");
  Put(parts.folder / "array_metadatas/process_0", "");
  Put(parts.folder / "array_metadatas/process_1", "");
  Mentions(parts.Try(), "`ocdbt.process_1` is missing");
}

TEST_CASE("orbax: `use_ocdbt` that is not true is a note") {
  Orbax orbax(LeafJson({"a"}), {"a"}, ",\"use_ocdbt\":true");
  Findings findings;
  const auto tree = OpenTree(orbax.folder.path().string(), findings);
  REQUIRE(tree);
  REQUIRE(tree->notes.size() == 1);
  Mentions(tree->notes[0], "there is no `manifest.ocdbt`");
}

TEST_CASE("orbax: the shape is not the shard's `write_shape`") {
  Orbax orbax(LeafJson({"a"}), {"a"});
  Findings findings;
  const auto tree = OpenTree(orbax.folder.path().string(), findings);
  REQUIRE(tree);
  CHECK(tree->arrays[0].shape == Shape{1});
}

TEST_CASE("orbax: malformed shardings and metadata are refused") {
  Orbax orbax(LeafJson({"a"}), {"a"});
  const auto with = [&](const std::string& sharding) {
    Put(orbax.folder / "_sharding", "{\"YQ==\":\"" + sharding + "\"}");
    return orbax.Try();
  };
  const std::string start =
      R"({\"sharding_type\":\"NamedSharding\",\"shape\":[2],)"
      R"(\"axis_names\":[\"x\"],\"partition_spec\":)";
  CHECK(with(start + R"([\"x\"]})") == "1 arrays");
  Mentions(with(start + R"([\"y\"]})"), "the sharding of `a` is malformed");
  Mentions(with(start + R"([null, \"x\"]})"), "more entries than its shape");
  Mentions(with("{"), "json-syntax");
  Put(orbax.folder / "_sharding", R"({"!":"{}"})");
  Mentions(orbax.Try(), "named in base64");
  Put(orbax.folder / "_METADATA", R"({"tree_metadata":{"a":{}}})");
  Mentions(orbax.Try(), "lacks `key_metadata`");
}

}  // namespace
}  // namespace shardc::stored
