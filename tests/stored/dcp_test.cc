// Tests checkpoints of torch.distributed.checkpoint: samples that torch wrote
// (testdata/stored), and damaged or hostile ones that are made here.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "source/size.h"
#include "stored/pickle_bytes.h"
#include "stored/tree.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string Sample(const std::string& name) {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/testdata/stored/" + name;
}

std::string MessagesOf(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += std::string(finding.code->name) + ": " + finding.message + "\n";
  }
  return out;
}

bool Contains(const std::string& text, std::string_view part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

// Opens a folder and returns the findings.
std::string Opened(const std::string& folder) {
  Findings findings;
  const auto tree = OpenTree(folder, findings);
  CHECK(tree.has_value() != findings.HasErrors());
  return MessagesOf(findings);
}

// Reads all arrays of a folder and returns the findings.
std::string ReadAll(const std::string& folder) {
  Findings findings;
  const auto tree = OpenTree(folder, findings);
  REQUIRE(tree);
  for (size_t i = 0; i < tree->arrays.size(); ++i) {
    const Array& array = tree->arrays[i];
    const Box box = FullBox(array.shape);
    std::string out(AsIndex(box.Elements() * array.element_bytes), '\0');
    ReadBox(*tree, i, box, out.data(), findings);
  }
  return MessagesOf(findings);
}

std::vector<float> Floats(const Tree& tree, const Box& box) {
  Findings findings;
  std::vector<float> out(AsIndex(box.Elements()));
  const bool read =
      ReadBox(tree, 0, box, reinterpret_cast<char*>(out.data()), findings);
  INFO(MessagesOf(findings));
  CHECK(read);
  return out;
}

// A folder with one tensor `w` [4, 3] in two files, of which the second is
// transposed.
class TwoFiles {
 public:
  explicit TwoFiles(const std::string& first_archive = FloatArchive({2, 3},
                                                                    {3, 1}, 0,
                                                                    6)) {
    const std::string second = FloatArchive({2, 3}, {1, 2}, 0, 6);
    pieces_ = {{{0, 0},
                {2, 3},
                "__0_0.distcp",
                5,
                static_cast<int64_t>(first_archive.size())},
               {{2, 0},
                {2, 3},
                "__1_0.distcp",
                0,
                static_cast<int64_t>(second.size())}};
    folder_.Write("__0_0.distcp", "other" + first_archive);
    folder_.Write("__1_0.distcp", second);
    WriteMetadata();
  }
  void WriteMetadata() {
    folder_.Write(".metadata", MetadataOf({4, 3}, pieces_));
  }
  std::vector<Piece>& pieces() { return pieces_; }
  const TemporaryFolder& folder() const { return folder_; }
  std::string path() const { return folder_.path().string(); }

 private:
  TemporaryFolder folder_;
  std::vector<Piece> pieces_;
};

TEST_CASE("dcp: a sample of four ranks lists arrays, shards and keys") {
  Findings findings;
  const auto tree = OpenTree(Sample("dcp_4ranks"), findings);
  INFO(MessagesOf(findings));
  REQUIRE(tree);
  CHECK(tree->form == "PyTorch DCP");
  CHECK(tree->arrays.size() == 8);
  bool found = false;
  for (const Array& array : tree->arrays) {
    if (array.name != "model.uneven2") continue;
    found = true;
    CHECK(array.path == std::vector<std::string>{"model", "uneven2"});
    CHECK(array.shape == Shape{5, 7});
    CHECK(array.dtype == Dtype::kBF16);
    CHECK(array.pieces.size() == 4);
    CHECK(array.BoxOf(1) == Box{{0, 4}, {3, 3}});
  }
  CHECK(found);
  CHECK(tree->leaves.size() == 3);
  CHECK(ReadAll(Sample("dcp_4ranks")).empty());
}

TEST_CASE("dcp: a sample of torch 2.6 and Python 3.11.2 is read") {
  CHECK(ReadAll(Sample("dcp_torch26")).empty());
}

TEST_CASE("dcp: shards of any strides are read in row-major order") {
  TwoFiles files;
  Findings findings;
  const auto tree = OpenTree(files.path(), findings);
  INFO(MessagesOf(findings));
  REQUIRE(tree);
  CHECK(Floats(*tree, {{0, 0}, {4, 3}}) ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 3, 5});
  CHECK(Floats(*tree, {{1, 1}, {2, 2}}) == std::vector<float>{4, 5, 2, 4});
  const auto plain = tree->reader->Find(0, 0, findings);
  const auto transposed = tree->reader->Find(0, 1, findings);
  REQUIRE((plain && transposed));
  CHECK(plain->raw);
  CHECK_FALSE(transposed->raw);
  const std::string bytes = files.folder().Read("__0_0.distcp");
  float second = 0;
  std::memcpy(&second, bytes.data() + plain->offset + 4, 4);
  CHECK(second == 1);
}

TEST_CASE("dcp: a part of a larger storage is read") {
  TwoFiles files(FloatArchive({2, 3}, {4, 1}, 1, 9));
  Findings findings;
  const auto tree = OpenTree(files.path(), findings);
  REQUIRE(tree);
  CHECK(Floats(*tree, {{0, 0}, {2, 3}}) ==
        std::vector<float>{1, 2, 3, 5, 6, 7});
}

TEST_CASE("dcp: metadata of ranks that saved without collectives is merged") {
  TwoFiles files;
  fs::remove(files.folder() / ".metadata");
  const auto pieces = files.pieces();
  files.folder().Write("__0.metadata",
                       MetadataOf({4, 3}, {pieces[0], pieces[1]}));
  files.folder().Write("__1.metadata", MetadataOf({4, 3}, {pieces[1]}));
  Findings findings;
  const auto tree = OpenTree(files.path(), findings);
  INFO(MessagesOf(findings));
  REQUIRE(tree);
  CHECK(tree->notes.size() == 1);
  CHECK(tree->arrays[0].pieces.size() == 2);
  CHECK(Floats(*tree, {{1, 0}, {2, 1}}) == std::vector<float>{3, 0});
  files.folder().Write("__1.metadata", MetadataOf({5, 3}, {pieces[1]}));
  Contains(
      Opened(files.path()),
      "size: tensor `w` has shape [5, 3], and [4, 3] or another data type in "
      "the metadata of a rank before it");
  fs::remove(files.folder() / "__1.metadata");
  files.folder().Write("__0.metadata", MetadataOf({4, 3}, {pieces[0]}));
  Contains(Opened(files.path()), "the shards hold 6 of 12 elements");
}

TEST_CASE("dcp: a save that was not finished is refused") {
  TwoFiles files;
  fs::remove(files.folder() / ".metadata");
  Contains(Opened(files.path()), "missing: the folder holds data files of");
}

TEST_CASE("dcp: shards that leave a gap or overlap are refused") {
  TwoFiles files;
  files.pieces().pop_back();
  files.WriteMetadata();
  Contains(Opened(files.path()), "the shards hold 6 of 12 elements");
  // The pieces have as many elements as the tensor, but two elements are in
  // both pieces.
  TwoFiles shifted;
  shifted.pieces()[1].offset = {1, 0};
  shifted.WriteMetadata();
  Contains(Opened(shifted.path()), "two shards overlap, and as many elements");
}

TEST_CASE("dcp: missing and truncated files are refused") {
  TwoFiles files;
  const std::string bytes = files.folder().Read("__1_0.distcp");
  fs::resize_file(files.folder() / "__1_0.distcp", bytes.size() - 1);
  Contains(Opened(files.path()), "offsets: the file has");
  fs::remove(files.folder() / "__1_0.distcp");
  Contains(Opened(files.path()), "missing: ");
}

TEST_CASE("dcp: a changed byte of a shard is detected by its CRC-32") {
  TwoFiles files;
  Findings findings;
  const auto tree = OpenTree(files.path(), findings);
  const auto place = tree->reader->Find(0, 0, findings);
  REQUIRE(place);
  std::string bytes = files.folder().Read("__0_0.distcp");
  bytes[AsIndex(place->offset)] ^= 1;
  files.folder().Write("__0_0.distcp", bytes);
  Contains(ReadAll(files.path()), "do not have the CRC-32 of their archive");
}

TEST_CASE("dcp: every truncated or changed file is a tree or a finding") {
  TwoFiles files;
  const std::string good = files.folder().Read(".metadata");
  for (size_t size = 0; size < good.size(); size += 5) {
    files.folder().Write(".metadata", good.substr(0, size));
    CHECK_FALSE(Opened(files.path()).empty());
  }
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    files.folder().Write(".metadata", changed);
    Opened(files.path());
  }
  files.folder().Write(".metadata", good);
  const std::string piece = files.folder().Read("__1_0.distcp");
  for (size_t at = 0; at < piece.size(); at += 5) {
    std::string changed = piece;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    files.folder().Write("__1_0.distcp", changed);
    ReadAll(files.path());
  }
}

TEST_CASE("dcp: file names that leave the folder are refused") {
  for (const char* name : {"../x", "/etc/passwd", ".hidden", "", "a/b"}) {
    TwoFiles files;
    files.pieces()[0].file = name;
    files.WriteMetadata();
    Contains(Opened(files.path()), "path: the file name");
  }
}

TEST_CASE("dcp: offsets and shapes of any size are refused") {
  TwoFiles files;
  files.pieces()[0].at = INT64_MAX;
  files.WriteMetadata();
  Contains(Opened(files.path()), "is no file, offset and length");
  files.pieces()[0].at = -1;
  files.WriteMetadata();
  Contains(Opened(files.path()), "is no file, offset and length");
  files.pieces()[0].at = int64_t{1} << 60;
  files.WriteMetadata();
  Contains(Opened(files.path()), "offsets: the file has");
  const int64_t huge = int64_t{1} << 62;
  files.folder().Write(".metadata", MetadataOf({huge, 8}, files.pieces()));
  Contains(Opened(files.path()), "overflow: the size of tensor `w`");
  files.folder().Write(".metadata", MetadataOf({2, 3}, files.pieces()));
  Contains(Opened(files.path()), "ends outside the shape [2, 3]");
}

TEST_CASE("dcp: archives that differ from the metadata are refused") {
  Contains(ReadAll(TwoFiles(FloatArchive({3, 2}, {2, 1}, 0, 6)).path()),
           "size: the archive at byte 5 holds a tensor of shape [3, 2]");
  Contains(ReadAll(TwoFiles(FloatArchive({2, 3}, {3, 1}, 1, 6)).path()),
           "ends outside its storage of 6 elements");
  Contains(ReadAll(TwoFiles(FloatArchive({2, 3}, {0, 0}, 0, 1)).path()),
           "has a storage of 1 element");
  Contains(ReadAll(TwoFiles(FloatArchive({2, 3}, {INT64_MAX, 1}, 0, 6)).path()),
           "ends outside its storage of 6 elements");
  Contains(ReadAll(TwoFiles(FloatArchive({-2, 3}, {3, 1}, 0, 6)).path()),
           "its pickle is no plain tensor");
  Contains(
      ReadAll(TwoFiles("not a zip archive, but long enough").path()),
      "header: the archive of 34 bytes at byte 5: it does not end as a zip "
      "archive");
  const std::string evil =
      PickleOf(Call(Global("os", "system"), {Text("true")}));
  Contains(ReadAll(TwoFiles(ZipOf({{"archive/data.pkl", evil}})).path()),
           "refers to `os.system`");
}

TEST_CASE("dcp: a hostile `.metadata` is refused and not run") {
  TwoFiles files;
  files.folder().Write(".metadata",
                       PickleOf(Call(Global("os", "system"), {Text("true")})));
  Contains(Opened(files.path()), "header: the pickle refers to `os.system`");
  files.folder().Write(".metadata", PickleOf("]q\x01h\x01"
                                             "a"));
  Contains(Opened(files.path()), "header: the pickle is no `Metadata` of DCP");
}

TEST_CASE("dcp: a folder without a checkpoint is refused") {
  const TemporaryFolder folder;
  Contains(Opened(folder.path().string()),
           "missing: the folder holds no checkpoint of a known format");
}

TEST_CASE("dcp: names of tensors and values are there once, without a NUL") {
  TwoFiles files;
  const std::string value = Record(OfModule("BytesStorageMetadata"), Dict({}));
  const auto opened =
      [&](const std::vector<std::pair<std::string, std::string>>& listed) {
        files.folder().Write(
            ".metadata",
            PickleOf(Record(OfModule("Metadata"),
                            Dict({{Text("state_dict_metadata"), Dict(listed)},
                                  {Text("storage_data"), Dict({})}}))));
        return Opened(files.path());
      };
  Contains(opened({{Text("a"), value}, {Text("a"), value}}),
           "duplicate-key: the name `a` is listed twice");
  Contains(opened({{Text(std::string("a\0b", 3)), value}}),
           "bytes or holds a NUL");
  Contains(opened({{Text(std::string(5000, 'a')), value}}),
           "bytes or holds a NUL");
}

TEST_CASE("dcp: a tensor that an extension of torch wrote is refused") {
  TwoFiles files;
  std::string metadata = files.folder().Read(".metadata");
  // The metadata of the first piece gets an additional member.
  const std::string member = Text("length");
  const size_t at = metadata.find(member);
  REQUIRE(at != std::string::npos);
  metadata.insert(at, Text("transform_descriptors") + List({Text("zstd")}));
  files.folder().Write(".metadata", metadata);
  Contains(
      Opened(files.path()),
      "inexpressible: tensor `w` was written through the extension `zstd`, "
      "which shardc does not read");
}

TEST_CASE("dcp: a name with a control character is refused") {
  TwoFiles files;
  std::string metadata = files.folder().Read(".metadata");
  size_t renamed = 0;
  for (size_t at = 0; (at = metadata.find(Text("w"), at)) != std::string::npos;
       ++renamed) {
    metadata.replace(at, Text("w").size(), Text("\x1b"));
  }
  REQUIRE(renamed > 0);
  files.folder().Write(".metadata", metadata);
  Contains(Opened(files.path()), "name: the name `\\x1b` holds a control");
}

TEST_CASE("dcp: safetensors shards of four ranks are one tree") {
  Findings findings;
  const auto tree = OpenTree(Sample("dcp_hf_4ranks"), findings);
  INFO(MessagesOf(findings));
  REQUIRE(tree);
  CHECK(tree->form == "safetensors shards of PyTorch DCP");
  CHECK(tree->arrays.size() == 12);
  CHECK(ReadAll(Sample("dcp_hf_4ranks")).empty());
}

TEST_CASE("dcp: shards that hold pickled values are refused") {
  Contains(Opened(Sample("dcp_hf_with_bytes")),
           "header: the file begins with a pickled value");
}

TEST_CASE("dcp: shards of one rank alone are refused") {
  TemporaryFolder folder;
  const std::string name = "shard-00002-model-00001-of-00001.safetensors";
  fs::copy_file(Sample("dcp_hf_4ranks") + "/" + name, folder / name);
  Contains(Opened(folder.path().string()), "is not complete: the shards hold");
  Contains(Opened(folder.path().string()),
           "missing: files of rank 2 are present, and those of a rank before "
           "it are not: `shard-00001-model-*` is missing");
}

void WriteFile(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Returns a file with one tensor `z` of one element.
std::string SmallShard() {
  const std::string header =
      R"({"__metadata__":{"DCP_SHARDING_INFO":)"
      R"("{\"z\": {\"saved_offsets\": [0]}}"},)"
      R"("z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string out(8, '\0');
  out[0] = static_cast<char>(header.size());
  return out + header + std::string(4, '\0');
}

// Copies shards of the sample. `names` has pairs of a shard's number and its
// new name.
void CopyShards(const fs::path& to,
                const std::vector<std::pair<std::string, std::string>>& names) {
  for (const auto& [from, name] : names) {
    fs::copy_file(Sample("dcp_hf_4ranks") + "/shard-" + from +
                      "-model-00001-of-00001.safetensors",
                  to / name);
  }
}

TEST_CASE("dcp: a file of a rank that the names show to be missing is named") {
  TemporaryFolder folder;
  // All tensors in the present files are complete.
  CopyShards(folder.path(),
             {{"00001", "shard-00001-model-00001-of-00001.safetensors"}});
  WriteFile(folder / "shard-00004-model-00001-of-00001.safetensors",
            SmallShard());
  Contains(Opened(folder.path().string()),
           "missing: files of rank 4 are present, and those of a rank before "
           "it are not: `shard-00002-model-*`, `shard-00003-model-*` are "
           "missing");
}

TEST_CASE("dcp: a file of the model that no rank has is named") {
  TemporaryFolder folder;
  CopyShards(folder.path(),
             {{"00001", "shard-00001-model-00002-of-00003.safetensors"}});
  Contains(Opened(folder.path().string()),
           "missing: the model has 3 files, and no rank's part of 2 of them is "
           "present: `model-00001-of-00003.safetensors`, "
           "`model-00003-of-00003.safetensors` are missing");
  CopyShards(folder.path(),
             {{"00002", "shard-00002-model-00001-of-00002.safetensors"}});
  Contains(Opened(folder.path().string()),
           "missing: some files `model-*` are of 2 and others of 3");
}

TEST_CASE("dcp: names without a rank show what is missing as well") {
  TemporaryFolder folder;
  CopyShards(folder.path(), {{"00001", "model-00001-of-00002.safetensors"}});
  Contains(Opened(folder.path().string()),
           "`model-00002-of-00002.safetensors` is missing");
}

TEST_CASE("dcp: a tensor that the index lists and no file holds is named") {
  TemporaryFolder folder;
  CopyShards(folder.path(),
             {{"00001", "shard-00001-model-00001-of-00001.safetensors"}});
  WriteFile(folder / "model.safetensors.index.json",
            R"({"weight_map": {"few": "a", "rep": "model-2"}})");
  Contains(Opened(folder.path().string()),
           "missing: the index lists tensor `rep` in `model-2`, and no file of "
           "the folder holds a shard of it");
}

TEST_CASE("dcp: files of the first rank alone are read with a note") {
  TemporaryFolder folder;
  CopyShards(folder.path(),
             {{"00001", "shard-00001-model-00001-of-00001.safetensors"}});
  Findings findings;
  const auto tree = OpenTree(folder.path().string(), findings);
  REQUIRE(tree);
  REQUIRE(tree->notes.size() == 1);
  CHECK(tree->notes[0] ==
        "only files of rank 1 are present: they are complete only if one "
        "process saved the checkpoint");
}

}  // namespace
}  // namespace shardc::stored
