#include "importers/manifest.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <cstdlib>

#include "importers/safetensors.h"
#include "importers/safetensors_set.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

void PutGzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

std::string Safetensors(const std::string& json, size_t data) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  }
  return out + json + std::string(data, '\x5A');
}

// Returns a file with one F32 tensor of [2, 3] of that name.
std::string One(const std::string& name) {
  return Safetensors("{\"" + name +
                         "\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                         "\"data_offsets\":[0,24]}}",
                     24);
}

// Returns names, shapes and types in one line, or the codes of the findings.
std::string Read(const std::string& path, ManifestOptions options = {}) {
  Findings findings;
  const auto json = [](const JsonDocument& document, Findings&) {
    ManifestBuilder builder;
    for (const JsonMember member : document.root().members()) {
      builder.Add("json:" + std::string(member.name()), {});
    }
    return std::optional<Manifest>(builder.Take());
  };
  const auto manifest = ReadManifest(path, json, options, findings);
  std::string out;
  if (!manifest) {
    for (const Finding& finding : findings.all()) {
      out += std::string(finding.code->name) + " ";
    }
    return out;
  }
  CHECK(manifest->source != nullptr);
  for (const Tensor& tensor : manifest->tensors) {
    const TensorType& type = manifest->TypeOf(tensor);
    out += tensor.name;
    if (type.shape) out += ShapeText(*type.shape);
    if (type.dtype) out += DtypeName(*type.dtype);
    out += " ";
  }
  for (const std::string& note : manifest->notes) out += "(" + note + ")";
  return out;
}

TEST_CASE("manifest: the separator of stored trees is that of their names") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  const std::string samples =
      std::string(root == nullptr ? "." : root) + "/testdata/stored/";
  const auto separator = [&](const char* name) {
    Findings findings;
    const auto manifest = ReadManifest(samples + name, nullptr, {}, findings);
    REQUIRE(manifest);
    return manifest->separator;
  };
  CHECK(separator("orbax_trainstate") == '/');
  // DCP joins nested keys by dots. Flat names do not state a separator.
  CHECK(separator("dcp_4ranks") == '.');
  CHECK(separator("dcp_hf_4ranks") == 0);
}

TEST_CASE("manifest: the kind is found by content") {
  const TemporaryFolder folder;
  folder.Write("a.safetensors", One("w"));
  folder.Write("no_suffix", One("w"));
  PutGzip(folder / "zipped", One("w"));
  folder.Write("plain", "{\"x\": 1}");
  PutGzip(folder / "plain.gz", "{\"x\": 1}");
  const std::string header = One("w").substr(0, One("w").size() - 24);
  folder.Write("h.safetensors.header", header);
  PutGzip(folder / "h.safetensors.header.gz", header);
  folder.Write("cut.safetensors", header);
  CHECK(Read(folder / "a.safetensors") == "w[2, 3]F32 ");
  CHECK(Read(folder / "no_suffix") == "w[2, 3]F32 ");
  CHECK(Read(folder / "zipped") == "w[2, 3]F32 ");
  CHECK(Read(folder / "plain") == "json:x ");
  CHECK(Read(folder / "plain.gz") == "json:x ");
  CHECK(Read(folder / "h.safetensors.header") == "w[2, 3]F32 ");
  CHECK(Read(folder / "h.safetensors.header.gz") == "w[2, 3]F32 ");
  CHECK(Read(folder / "cut.safetensors") == "offsets ");
  CHECK(Read(folder / "cut.safetensors", {.header_only = true}) ==
        "w[2, 3]F32 ");
  CHECK(Read(folder / "none") == "missing ");
}

TEST_CASE("manifest: an index with all, none and some of its files") {
  const TemporaryFolder folder;
  const std::string index =
      folder.Write("model.safetensors.index.json",
                   R"({"metadata": {"total_size": 48}, "weight_map": {)"
                   R"("b": "model-00002-of-00002.safetensors",)"
                   R"("a": "model-00001-of-00002.safetensors"}})");
  CHECK(Read(index) ==
        "b a (names only: none of the index's 2 files is present)");
  folder.Write("model-00001-of-00002.safetensors", One("a"));
  CHECK(Read(index) == "missing ");
  folder.Write("model-00002-of-00002.safetensors", One("b"));
  CHECK(Read(index) == "b[2, 3]F32 a[2, 3]F32 ");
  CHECK(Read(folder.path()) == "b[2, 3]F32 a[2, 3]F32 ");
  CHECK(Read(folder.path().string() + "/") == "b[2, 3]F32 a[2, 3]F32 ");
  folder.Write("adapter.safetensors", One("c"));  // of another series
  CHECK(Read(index) == "b[2, 3]F32 a[2, 3]F32 ");
}

TEST_CASE("manifest: a directory without an index") {
  const TemporaryFolder folder;
  CHECK(Read(folder.path()) == "missing ");
  folder.Write("2.safetensors", One("b"));
  folder.Write("1.safetensors", One("a"));
  folder.Write("notes.txt", "x");
  CHECK(Read(folder.path()) == "a[2, 3]F32 b[2, 3]F32 ");
  folder.Write("3.safetensors", One("a"));
  CHECK(Read(folder.path()) == "duplicate-key ");
}

// Returns the first message for a folder that has only files of these names.
std::string RefusedWith(const std::vector<std::string>& names) {
  const TemporaryFolder folder;
  for (size_t i = 0; i < names.size(); ++i) {
    folder.Write(names[i], One("t" + std::to_string(i)));
  }
  Findings findings;
  const auto manifest = ReadManifest(
      folder.path(),
      [](const JsonDocument&, Findings&) { return std::optional<Manifest>(); },
      {}, findings);
  CHECK(!manifest == (findings.errors() > 0));
  if (manifest) return std::to_string(manifest->tensors.size()) + " read";
  return findings.all().front().message;
}

TEST_CASE("manifest: a set without an index must have every number") {
  const std::string first = "model-00001-of-00003.safetensors";
  const std::string second = "model-00002-of-00003.safetensors";
  const std::string third = "model-00003-of-00003.safetensors";
  CHECK(RefusedWith({first, second, third}) == "3 read");
  CHECK(RefusedWith({first, second, third, "vae.safetensors"}) == "4 read");
  CHECK(RefusedWith({first, third}) ==
        "the set has 2 of 3 files: `" + second + "` is missing");
  CHECK(RefusedWith({third}) == "the set has 1 of 3 files: `" + first + "`, `" +
                                    second + "` are missing");
  CHECK(RefusedWith({first, second, third, "vae.safetensors",
                     "vae-00002-of-00002.safetensors"}) ==
        "the set has 1 of 2 files: `vae-00001-of-00002.safetensors` is "
        "missing");
  // The counts contradict each other or the numbers.
  CHECK(RefusedWith({"model-00001-of-00002.safetensors", second}) ==
        "the names of the files state different counts: "
        "`model-00001-of-00002.safetensors`, `" +
            second + "`");
  CHECK(RefusedWith({"model-00001-of-00001.safetensors",
                     "model-00002-of-00001.safetensors"}) ==
        "`model-00002-of-00001.safetensors` has a number outside its count 1");
  CHECK(RefusedWith({"model-00001-of-00000.safetensors"}) ==
        "`model-00001-of-00000.safetensors` has a number outside its count 0");
  const std::string many =
      RefusedWith({"model-00001-of-99999999999999999999.safetensors"});
  CHECK(many.starts_with("the set has 1 of "));
  CHECK(many.size() < 2000);
  // Names with numbers from 0, other numbers of digits and other separators are
  // recognised.
  CHECK(RefusedWith({"m-0-of-2.safetensors", "m-1-of-2.safetensors"}) ==
        "2 read");
  CHECK(RefusedWith({"m-00001-of-000002.safetensors",
                     "m-00002-of-000002.safetensors"}) == "2 read");
  CHECK(RefusedWith({"m_1_of_2.safetensors"}) ==
        "the set has 1 of 2 files: `m_2_of_2.safetensors` is missing");
  CHECK(RefusedWith({"m-1-of-2-bf16.safetensors"}) ==
        "the set has 1 of 2 files: `m-2-of-2-bf16.safetensors` is missing");
  CHECK(RefusedWith({"best-of-2.safetensors"}) == "1 read");
}

TEST_CASE("manifest: an unfinished run and shards are refused") {
  const std::string one = "model-00001-of-00002.safetensors";
  const std::string two = "model-00002-of-00002.safetensors";
  const std::string part = "." + two + ".part";
  const std::string journal = ".merge-00000-of-00001.journal";
  CHECK(RefusedWith({one, two, journal}).ends_with("`" + journal + "`"));
  CHECK(RefusedWith({one, part, journal})
            .ends_with("`" + journal + "`, and `" + two +
                       "` is not complete yet"));
  CHECK(RefusedWith({one, two, part}).ends_with("is not complete yet"));
  CHECK(RefusedWith({journal}).ends_with("`" + journal + "`"));
  CHECK(RefusedWith({"device-00000.safetensors"})
            .ends_with("their index `shards.json` is missing"));
  CHECK(RefusedWith({"device-00000.safetensors", "shards.json"})
            .ends_with("not full tensors"));
  CHECK(RefusedWith({"shards.json"}).ends_with("not full tensors"));
  CHECK(RefusedWith({"device-0.safetensors"}) == "1 read");
}

TEST_CASE("manifest: one file of several is not read as all of them") {
  const TemporaryFolder folder;
  const std::string first =
      folder.Write("model-00001-of-00002.safetensors", One("a"));
  folder.Write("model-00002-of-00002.safetensors", One("b"));
  const std::string only =
      folder.Write("model-00001-of-00001.safetensors", One("a"));
  const std::string shard = folder.Write("device-00000.safetensors", One("a"));
  const std::string rank =
      folder.Write("shard-00001-model-00001-of-00001.safetensors", One("a"));
  CHECK(Read(rank) == "usage ");
  CHECK(Read(first) == "usage ");
  CHECK(Read(only) == "a[2, 3]F32 ");
  CHECK(Read(shard) == "a[2, 3]F32 ");
  folder.Write("shards.json", "{}");
  CHECK(Read(shard) == "usage ");
}

TEST_CASE("manifest: an index must list every number that its names state") {
  const TemporaryFolder folder;
  const std::string index = folder.Write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  CHECK(Read(index) == "a (names only: none of the index's 1 file is present)");
  folder.Write("model-00001-of-00002.safetensors", One("a"));
  CHECK(Read(index) == "missing ");
  CHECK(Read(folder.path()) == "missing ");
  // The index marks a set whose files are being replaced.
  folder.Write("model.safetensors.index.json",
               R"({"schema": "shardc.unfinished/v1"})");
  CHECK(Read(index) == "missing ");
}

TEST_CASE("safetensors: metadata, order and offsets are kept") {
  const std::string json =
      "{\"z\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[6,8]},"
      "\"__metadata__\":{\"format\":\"pt\",\"k\":\"\"},"
      "\"e\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[6,6]},"
      "\"a\":{\"dtype\":\"F4\",\"shape\":[4,3],\"data_offsets\":[0,6]}}   ";
  Findings findings;
  const std::string bytes = Safetensors(json, 8);
  const auto header = ParseSafetensorsHeader(
      MakeSource("t", bytes), static_cast<int64_t>(bytes.size()), findings);
  REQUIRE(header);
  CHECK(header->data_offset == static_cast<int64_t>(8 + json.size()));
  REQUIRE(header->entries.size() == 3);
  CHECK(header->entries[0].name == "z");
  CHECK(header->entries[0].begin == 6);
  CHECK(header->entries[1].shape == Shape{3, 0});
  CHECK(header->entries[2].dtype == Dtype::kF4);
  REQUIRE(header->metadata.size() == 2);
  CHECK(header->metadata[0].second == "pt");
}

TEST_CASE("safetensors: a finding points at the entry in the header") {
  const std::string bytes = Safetensors(
      "{\"a\":{\"dtype\":\"F32\",\n\"shape\":[-2],\"data_offsets\":[0,8]}}", 8);
  Findings findings;
  CHECK_FALSE(ParseSafetensorsHeader(
      MakeSource("t", bytes), static_cast<int64_t>(bytes.size()), findings));
  REQUIRE(findings.errors() == 1);
  CHECK(
      findings.all()[0].place.source->At(findings.all()[0].place.begin).line ==
      2);
}

TEST_CASE(
    "gguf: types may be of blocks, and the order of dimensions is reversed") {
  std::string bytes("GGUF\3\0\0\0", 8);
  const auto u32 = [&](uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
  };
  const auto u64 = [&](uint64_t value) {
    u32(static_cast<uint32_t>(value));
    u32(static_cast<uint32_t>(value >> 32));
  };
  u64(2), u64(1);
  u64(5), bytes += "vocab";  // larger than the piece first read
  u32(9), u32(0), u64(3 << 20);
  bytes += std::string(3 << 20, 'v');
  u64(1), bytes += "q";
  u32(2), u64(64), u64(3), u32(2), u64(0);
  u64(1), bytes += "f";
  u32(2), u64(4), u64(2), u32(0), u64(128);
  bytes.resize((bytes.size() + 31) / 32 * 32 + 128 + 32);
  const TemporaryFolder folder;
  folder.Write("m.gguf", bytes);
  PutGzip(folder / "m.gz", bytes);
  const std::string want = "q[3, 64]Q4_0 f[2, 4]F32 ";
  CHECK(Read(folder / "m.gguf") == want);
  CHECK(Read(folder / "m.gz") == want);
  folder.Write("cut.gguf", bytes.substr(0, bytes.size() - 1));
  CHECK(Read(folder / "cut.gguf") == "offsets ");
  CHECK(Read(folder / "cut.gguf", {.header_only = true}) == want);
}

}  // namespace
}  // namespace shardc
