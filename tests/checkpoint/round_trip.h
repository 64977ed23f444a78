// Random checkpoints, plans that shard them, and checks of the files that
// split, merge and reshard write.
#ifndef SHARDC_TESTS_CHECKPOINT_ROUND_TRIP_H_
#define SHARDC_TESTS_CHECKPOINT_ROUND_TRIP_H_

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "checkpoint/stored.h"
#include "checkpoint/transfer.h"
#include "draws.h"

namespace shardc {

// A temporary folder, in /dev/shm if possible, because hundreds of syncs take
// long on disks.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((usable ? memory : std::filesystem::temp_directory_path()) /
         "shardc_XXXXXX")
            .string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

std::string Get(const std::string& path);

struct RandomTensor {
  std::string name;
  Shape shape;
  Dtype dtype;
  std::string bytes;
};

// A checkpoint and two plans that shard it.
struct Sample {
  std::vector<RandomTensor> tensors;
  Metadata metadata;
  ReadPlan plans[2];
};

class Generator {
 public:
  explicit Generator(const Draws& draws) : random_(draws) {}
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

  // Returns a random spec: some of the axes, in random order, each on a random
  // dimension.
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
    // Uneven shards of packed types may end inside a byte, so they are left
    // out.
    const bool uneven = DtypeBits(tensor.dtype) % 8 == 0 && Pick(3) == 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      int64_t size = 1 + Pick(4);
      for (int i = 0; i < 2; ++i) {
        if (dim < specs[i].size() && !uneven) {
          size *= *sample.plans[i].mesh.Parts(specs[i][dim]);
        }
      }
      // For packed types the last dimension has a multiple of 8 elements, so
      // that splits are between bytes.
      if (uneven) size = 1 + Pick(12);
      if (dim + 1 == rank && DtypeBits(tensor.dtype) < 8) size *= 8;
      if (empty && dim == 0) size = 0;
      tensor.shape.push_back(size);
    }
    const int64_t bits =
        FullBox(tensor.shape).Elements() * DtypeBits(tensor.dtype);
    if (bits % 8 != 0) return;  // a packed scalar
    for (int64_t i = 0; i < bits / 8; ++i) {
      tensor.bytes += static_cast<char>(random_());
    }
    for (int i = 0; i < 2; ++i) {
      ReadParam param;
      param.name = tensor.name;
      param.type = {tensor.shape, tensor.dtype};
      param.spec = specs[i];
      param.uneven = uneven;
      sample.plans[i].params.push_back(std::move(param));
    }
    sample.tensors.push_back(std::move(tensor));
  }

  Draws random_;
};

// Writes the sample as one file.
void WriteCheckpoint(const Sample& sample, const std::string& path);
// Compares every file and every piece with the tensors.
void CheckPieces(const Sample& sample, const std::string& directory);
RunReport RunShards(const Stored& stored, const ReadPlan& plan,
                    const ShardOptions& options, const RunOptions& run);
void RunMerge(const std::string& directory, const MergeOptions& options,
              const RunOptions& run);
std::string Messages(const Findings& findings);

// Splits, reshards and merges a random sample, and checks the results.
void CheckRoundTrip(const Draws& draws);

}  // namespace shardc

#endif  // SHARDC_TESTS_CHECKPOINT_ROUND_TRIP_H_
