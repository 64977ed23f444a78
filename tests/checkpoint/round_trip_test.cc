// Split, merge and reshard of random checkpoints over random meshes: every
// piece is what slicing the tensor element by element gives, and what is
// merged again is the first file, byte for byte.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "checkpoint/checksum.h"
#include "checkpoint/merge_plan.h"
#include "checkpoint/run.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/stored.h"
#include "model/mesh_layout.h"
#include "model/safetensors_header.h"
#include "source/file.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

// In memory where there is such a place: hundreds of syncs take long on disks.
class Folder {
 public:
  Folder() {
    const fs::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((usable ? memory : fs::temp_directory_path()) / "shardc_XXXXXX")
            .string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

std::string Get(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

struct RandomTensor {
  std::string name;
  Shape shape;
  Dtype dtype;
  std::string bytes;
};

// A checkpoint and how two plans cut it.
struct Sample {
  std::vector<RandomTensor> tensors;
  Metadata metadata;
  ReadPlan plans[2];
};

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  Mesh MakeMesh() {
    Mesh mesh;
    static const char* kNames[] = {"dp", "fsdp", "ep", "tp", "sp"};
    const uint32_t count = 1 + Pick(4);
    mesh.devices = 1;
    for (uint32_t i = 0; i < count; ++i) {
      mesh.axes.push_back({kNames[i], 1 + Pick(3)});
      mesh.devices *= mesh.axes.back().size;
    }
    for (const int64_t processes : {2, 3, 4}) {
      if (mesh.devices % processes == 0 && Pick(2) == 0) {
        mesh.processes = processes;
      }
    }
    return mesh;
  }

  // Some of the axes to some of the dimensions, in any order.
  Spec MakeSpec(const Mesh& mesh, size_t rank) {
    Spec spec(Pick(static_cast<uint32_t>(rank) + 1));
    if (spec.empty()) return spec;
    std::vector<std::string> axes;
    for (const MeshAxis& axis : mesh.axes) axes.push_back(axis.name);
    std::shuffle(axes.begin(), axes.end(), random_);
    for (const std::string& axis : axes) {
      if (Pick(3) == 0) continue;
      spec[Pick(static_cast<uint32_t>(spec.size()))].push_back(axis);
    }
    return spec;
  }

  Sample Make() {
    Sample sample;
    for (ReadPlan& plan : sample.plans) plan.mesh = MakeMesh();
    const uint32_t count = 1 + Pick(6);
    for (uint32_t i = 0; i < count; ++i) AddTensor(i, sample);
    if (Pick(2) == 0) sample.metadata = {{"format", "pt"}, {"\"k\"", "\n"}};
    return sample;
  }

 private:
  void AddTensor(uint32_t index, Sample& sample) {
    RandomTensor tensor;
    tensor.name = "layer." + std::to_string(index) + ".weight";
    tensor.dtype = AllDtypes()[Pick(static_cast<uint32_t>(AllDtypes().size()))];
    const size_t rank = Pick(5);
    Spec specs[2];
    for (int i = 0; i < 2; ++i) {
      specs[i] = MakeSpec(sample.plans[i].mesh, rank);
    }
    const bool empty = rank > 0 && Pick(8) == 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      int64_t size = 1 + Pick(4);
      for (int i = 0; i < 2; ++i) {
        if (dim < specs[i].size()) {
          size *= *sample.plans[i].mesh.Parts(specs[i][dim]);
        }
      }
      // Packed types are cut between bytes if the last dimension has room.
      if (dim + 1 == rank && DtypeBits(tensor.dtype) < 8) size *= 8;
      if (empty && dim == 0) size = 0;
      tensor.shape.push_back(size);
    }
    const int64_t bits =
        WholeBox(tensor.shape).Elements() * DtypeBits(tensor.dtype);
    if (bits % 8 != 0) return;  // a packed scalar
    for (int64_t i = 0; i < bits / 8; ++i) {
      tensor.bytes += static_cast<char>(random_());
    }
    for (int i = 0; i < 2; ++i) {
      ReadParam param;
      param.name = tensor.name;
      param.type = {tensor.shape, tensor.dtype};
      param.spec = specs[i];
      sample.plans[i].params.push_back(std::move(param));
    }
    sample.tensors.push_back(std::move(tensor));
  }

  std::mt19937 random_;
};

void WriteCheckpoint(const Sample& sample, const std::string& path) {
  std::vector<HeaderEntry> entries;
  std::string data;
  for (const RandomTensor& tensor : sample.tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape,
                       static_cast<int64_t>(tensor.bytes.size())});
    data += tensor.bytes;
  }
  std::ofstream(path, std::ios::binary)
      << SafetensorsHeaderText(entries, sample.metadata) << data;
}

// The box of a tensor by walking its elements one by one, in bits.
std::string Slice(const RandomTensor& tensor, const Box& box) {
  const int bits = DtypeBits(tensor.dtype);
  const int64_t count = box.Elements();
  std::string out(static_cast<size_t>(count * bits / 8), '\0');
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, index = 0, stride = 1;
    for (size_t dim = tensor.shape.size(); dim-- > 0;) {
      index += (box.offset[dim] + rest % box.shape[dim]) * stride;
      rest /= box.shape[dim];
      stride *= tensor.shape[dim];
    }
    for (int bit = 0; bit < bits; ++bit) {
      const auto from = static_cast<size_t>(index * bits + bit);
      const auto to = static_cast<size_t>(i * bits + bit);
      const int value = tensor.bytes[from / 8] >> (from % 8) & 1;
      out[to / 8] = static_cast<char>(out[to / 8] | value << (to % 8));
    }
  }
  return out;
}

std::string Said(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) out += finding.message + "; ";
  return out;
}

ShardsIndex ReadIndex(const std::string& directory) {
  Findings findings;
  const auto document = JsonDocument::Parse(
      ReadSource(directory + "/shards.json", findings), findings);
  REQUIRE(document != nullptr);
  auto index = ParseShardsIndex(*document, findings);
  REQUIRE(index);
  return std::move(*index);
}

// Every file and piece against the tensors themselves.
void CheckPieces(const Sample& sample, const std::string& directory) {
  const ShardsIndex index = ReadIndex(directory);
  for (const IndexedFile& file : index.files) {
    Findings findings;
    const std::string path = directory + "/" + file.name;
    const auto header = ReadSafetensorsHeader(path, false, findings);
    CAPTURE(Said(findings));
    REQUIRE(header);
    CHECK(header->metadata == sample.metadata);
    const std::string bytes = Get(path);
    CHECK(static_cast<int64_t>(bytes.size()) == file.bytes);
    REQUIRE(header->entries.size() == file.pieces.size());
    for (size_t i = 0; i < file.pieces.size(); ++i) {
      const IndexedPiece& piece = file.pieces[i];
      const SafetensorsEntry& entry = header->entries[i];
      CHECK(entry.name == piece.key);
      const std::string held =
          bytes.substr(static_cast<size_t>(header->data_offset + entry.begin),
                       static_cast<size_t>(entry.end - entry.begin));
      const RandomTensor* tensor = nullptr;
      for (const RandomTensor& candidate : sample.tensors) {
        if (candidate.name == index.params[piece.param].name) {
          tensor = &candidate;
        }
      }
      REQUIRE(tensor != nullptr);
      CHECK(held == Slice(*tensor, piece.box));
      CHECK(piece.checksum == Crc32cByTable(held));
    }
  }
}

RunReport RunShards(const Stored& stored, const ReadPlan& plan,
                    const ShardOptions& options, const RunOptions& run) {
  Findings findings;
  const auto job = PlanShards(stored, plan, options, findings);
  CAPTURE(Said(findings));
  REQUIRE(job);
  RunReport report;
  const bool good = RunTransfer(
      job->transfer,
      [&](const Checksums& sums, Sink& out) {
        WriteFinishedIndex(job->index, sums, out);
      },
      run, &report, findings);
  CAPTURE(Said(findings));
  REQUIRE(good);
  CHECK(report.indexed);
  return report;
}

void RunMerge(const std::string& directory, const MergeOptions& options,
              const RunOptions& run) {
  Findings findings;
  const auto stored = ReadStoredPieces(directory, findings);
  CAPTURE(Said(findings));
  REQUIRE(stored);
  int64_t verified = 0;
  CHECK(VerifyStored(*stored, {0, 1, {}}, &verified, findings));
  CHECK((verified > 0 || stored->tensors.empty()));
  // Two processes share the pieces.
  int64_t first = 0, second = 0;
  CHECK(VerifyStored(*stored, {0, 2, {}}, &first, findings));
  CHECK(VerifyStored(*stored, {1, 2, {}}, &second, findings));
  CHECK(first + second == verified);
  const auto transfer = PlanMerge(*stored, options, findings);
  REQUIRE(transfer);
  RunReport report;
  REQUIRE(RunTransfer(
      *transfer,
      [&](const Checksums&, Sink& out) { WriteHfIndex(*transfer, out); }, run,
      &report, findings));
}

// Devices read exactly their boxes, whichever files these lie in.
void CheckReaders(const ReadPlan& plan, const std::string& directory) {
  const ShardsIndex index = ReadIndex(directory);
  std::map<std::pair<int64_t, std::string>, Box> read;
  for (const IndexedFile& file : index.files) {
    for (const IndexedPiece& piece : file.pieces) {
      const auto& devices =
          piece.devices.empty() ? file.devices : piece.devices;
      for (const int64_t device : devices) {
        const auto key = std::pair(device, index.params[piece.param].name);
        CHECK(read.emplace(key, piece.box).second);
      }
    }
  }
  size_t want = 0;
  for (const ReadParam& param : plan.params) {
    const auto cut = Cut::Make(param.spec, *param.type.shape, plan.mesh);
    REQUIRE(cut);
    for (int64_t device = 0; device < plan.mesh.devices; ++device) {
      const auto at = CoordinatesOf(plan.mesh, device);
      const Box box = cut->BoxOf(cut->PartOf(at));
      CHECK(read[{device, param.name}] == box);
      ++want;
    }
  }
  CHECK(read.size() == want);
}

// The device's part by the words of the format: along each dimension the
// group's coordinates are digits, the first axis the most significant.
TEST_CASE("cut: composite axes number the parts major first") {
  Mesh mesh;
  mesh.axes = {{"a", 2}, {"b", 3}, {"c", 2}};
  mesh.devices = 12;
  const auto cut = Cut::Make({{"c", "a"}, {"b"}}, {8, 9, 5}, mesh);
  REQUIRE(cut);
  for (int64_t device = 0; device < 12; ++device) {
    const int64_t a = device / 6, b = device / 2 % 3, c = device % 2;
    CHECK(CoordinatesOf(mesh, device) == std::vector<int64_t>{a, b, c});
    const Box box = cut->BoxOf(cut->PartOf({a, b, c}));
    CHECK(box == Box{{(c * 2 + a) * 2, b * 3, 0}, {2, 3, 5}});
  }
  CHECK_FALSE(Cut::Make({{"b"}}, {8}, mesh));
  CHECK_FALSE(Cut::Make({{"a"}, {"a"}}, {8, 8}, mesh));
  CHECK_FALSE(Cut::Make({{"x"}}, {8}, mesh));
  CHECK_FALSE(Cut::Make({{"a"}, {}}, {8}, mesh));
}

TEST_CASE("checkpoints: split, reshard and merge give back the file") {
  int merged = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Generator generator(seed);
    const Sample sample = generator.Make();
    const Folder folder;
    const std::string first = folder / "model.safetensors";
    WriteCheckpoint(sample, first);
    Findings findings;
    const auto stored = ReadStored(first, findings);
    REQUIRE(stored);
    const Per per = static_cast<Per>(generator.Pick(3));
    RunOptions run;
    run.threads = 1 + static_cast<int>(generator.Pick(3));
    run.verify = generator.Pick(2) == 0;
    run.sync = false;
    ShardOptions split;
    split.per = per;
    split.out = folder / "pieces";
    RunShards(*stored, sample.plans[0], split, run);
    CheckPieces(sample, split.out);
    CheckReaders(sample.plans[0], split.out);

    const auto pieces = ReadStoredPieces(split.out, findings);
    CAPTURE(Said(findings));
    REQUIRE(pieces);
    ShardOptions reshard;
    reshard.per = static_cast<Per>(generator.Pick(3));
    reshard.out = folder / "again";
    RunShards(*pieces, sample.plans[1], reshard, run);
    CheckPieces(sample, reshard.out);
    CheckReaders(sample.plans[1], reshard.out);

    RunMerge(reshard.out, {folder / "out/back.safetensors", {}, {}, {}}, run);
    CHECK(Get(folder / "out/back.safetensors") == Get(first));
    ++merged;
    // Nothing but what was asked for.
    CHECK(std::distance(fs::directory_iterator(folder / "out"), {}) == 1);
  }
  CHECK(merged == 150);
}

TEST_CASE("checkpoints: merged into several files with an index") {
  Generator generator(77);
  Sample sample = generator.Make();
  while (sample.tensors.size() < 4) sample = generator.Make();
  const Folder folder;
  WriteCheckpoint(sample, folder / "model.safetensors");
  Findings findings;
  const auto stored = ReadStored(folder / "model.safetensors", findings);
  REQUIRE(stored);
  ShardOptions split;
  split.out = folder / "pieces";
  RunOptions run;
  RunShards(*stored, sample.plans[0], split, run);
  RunMerge(split.out, {folder / "hf", 1, {}, {}}, run);
  const auto again = ReadStored(folder / "hf", findings);
  CAPTURE(Said(findings));
  REQUIRE(again);
  CHECK(again->files.size() > 1);
  REQUIRE(again->tensors.size() == sample.tensors.size());
  for (size_t i = 0; i < sample.tensors.size(); ++i) {
    const StoredTensor& tensor = again->tensors[i];
    CHECK(tensor.name == sample.tensors[i].name);
    const std::string bytes = Get(again->files[tensor.pieces[0].file].path);
    CHECK(bytes.substr(static_cast<size_t>(tensor.pieces[0].offset),
                       sample.tensors[i].bytes.size()) ==
          sample.tensors[i].bytes);
  }
}

TEST_CASE("checkpoints: a torn or foreign file is made anew") {
  Generator generator(5);
  const Sample sample = generator.Make();
  const Folder folder;
  WriteCheckpoint(sample, folder / "m.safetensors");
  Findings findings;
  const auto stored = ReadStored(folder / "m.safetensors", findings);
  REQUIRE(stored);
  ShardOptions split;
  split.out = folder / "pieces";
  RunOptions run;
  RunShards(*stored, sample.plans[0], split, run);
  std::map<std::string, std::string> before;
  for (const auto& entry : fs::directory_iterator(split.out)) {
    before[entry.path().filename().string()] = Get(entry.path().string());
  }
  std::ofstream(split.out + "/device-00000.safetensors") << "torn";
  for (const bool reuse : {false, true}) {
    run.reuse = reuse;
    RunShards(*stored, sample.plans[0], split, run);
    for (const auto& entry : fs::directory_iterator(split.out)) {
      const std::string name = entry.path().filename().string();
      CHECK(Get(entry.path().string()) == before[name]);
    }
  }
  // A file of another set's number is refused.
  std::ofstream(split.out + "/device-99999.safetensors") << "old";
  const auto job = PlanShards(*stored, sample.plans[0], split, findings);
  RunReport report;
  CHECK_FALSE(RunTransfer(
      job->transfer, [](const Checksums&, Sink&) {}, run, &report, findings));
  CHECK(findings.all().back().code->name == "write");
}

}  // namespace
}  // namespace shardc
