// Assigns the parts of tensors to files. The coordinates of a device on the
// mesh determine which parts the device holds. There are three layouts:
//
// - One file for each device. A replicated part is stored in several files.
// - One file for each process. Each part is stored in one file only. If several
//   processes hold a part, one of them stores it: the first process for tensor
//   0, the second for tensor 1, and so on in turn.
// - One file for each shard, which is a set of devices. It stores the parts
//   that exactly these devices hold.
//
// For example, w is sharded over tp, and b is replicated:
//
//   dp=2 tp=2, 2 processes
//   device   0: w0 b   1: w1 b   2: w0 b   3: w1 b
//   process  0: w0 w1  1: b
//   shard    b (all), w0 (0, 2), w1 (1, 3)
#include "checkpoint/layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/mesh_layout.h"
#include "source/index.h"

namespace shardc {
namespace {

std::string FileName(std::string_view series, size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(series) +
         std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits +
         ".safetensors";
}

using Coordinates = std::vector<std::vector<int64_t>>;  // indexed by device

// Returns the devices that hold each part of the tensor, indexed by part.
std::vector<std::vector<int64_t>> Holders(const TensorLayout& tensor,
                                          const Coordinates& coordinates) {
  std::vector<std::vector<int64_t>> out(AsIndex(tensor.parts()));
  for (size_t device = 0; device < coordinates.size(); ++device) {
    const auto part = tensor.PartOn(coordinates[device]);
    if (part) out[AsIndex(*part)].push_back(static_cast<int64_t>(device));
  }
  return out;
}

std::vector<FileLayout> PerDevice(const std::vector<TensorLayout>& tensors,
                                  const Coordinates& coordinates) {
  std::vector<FileLayout> files;
  for (size_t device = 0; device < coordinates.size(); ++device) {
    FileLayout file{
        FileName("device-", device), {static_cast<int64_t>(device)}, {}};
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto part = tensors[t].PartOn(coordinates[device]);
      if (!part) continue;
      file.parts.push_back(
          {static_cast<uint32_t>(t), static_cast<uint32_t>(*part), {}});
    }
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<FileLayout> PerProcess(const std::vector<TensorLayout>& tensors,
                                   const Coordinates& coordinates,
                                   const Mesh& mesh) {
  // With several slices (pods), the devices of a process are not adjacent in
  // the mesh, so each device is looked up.
  std::vector<int64_t> process_of;  // indexed by device
  for (int64_t device = 0; device < mesh.devices; ++device) {
    process_of.push_back(PlaceOf(mesh, device).process);
  }
  std::vector<FileLayout> files;
  std::vector<std::set<int64_t>> readers(AsIndex(mesh.processes));
  for (size_t i = 0; i < readers.size(); ++i) {
    files.push_back({FileName("process-", i), {}, {}});
  }
  for (size_t t = 0; t < tensors.size(); ++t) {
    auto holders = Holders(tensors[t], coordinates);
    for (size_t part = 0; part < holders.size(); ++part) {
      std::set<int64_t> candidates;
      for (const int64_t device : holders[part]) {
        candidates.insert(process_of[AsIndex(device)]);
      }
      if (candidates.empty()) continue;
      const auto turn = static_cast<std::ptrdiff_t>(t % candidates.size());
      const auto owner = AsIndex(*std::next(candidates.begin(), turn));
      readers[owner].insert(holders[part].begin(), holders[part].end());
      files[owner].parts.push_back({static_cast<uint32_t>(t),
                                    static_cast<uint32_t>(part),
                                    std::move(holders[part])});
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].devices.assign(readers[i].begin(), readers[i].end());
  }
  return files;
}

std::vector<FileLayout> PerShard(const std::vector<TensorLayout>& tensors,
                                 const Coordinates& coordinates) {
  std::map<std::vector<int64_t>, std::vector<PartLayout>> sets;
  for (size_t t = 0; t < tensors.size(); ++t) {
    auto holders = Holders(tensors[t], coordinates);
    for (size_t part = 0; part < holders.size(); ++part) {
      if (holders[part].empty()) continue;
      sets[std::move(holders[part])].push_back(
          {static_cast<uint32_t>(t), static_cast<uint32_t>(part), {}});
    }
  }
  std::vector<FileLayout> files;
  for (auto& [devices, parts] : sets) {
    files.push_back(
        {FileName("shard-", files.size()), devices, std::move(parts)});
  }
  return files;
}

}  // namespace

int64_t TensorLayout::parts() const {
  return slices.back().first_part + slices.back().cut.parts();
}

std::optional<int64_t> TensorLayout::PartOn(
    const std::vector<int64_t>& coordinates) const {
  if (placement && coordinates[placement->first] != placement->second) {
    return std::nullopt;
  }
  for (const LaidSlice& slice : slices) {
    const bool holds = slice.ranks.empty() ||
                       std::find(slice.ranks.begin(), slice.ranks.end(),
                                 coordinates[stage_axis]) != slice.ranks.end();
    if (holds) return slice.first_part + slice.cut.PartOf(coordinates);
  }
  return std::nullopt;
}

std::vector<FileLayout> LayoutFiles(const std::vector<TensorLayout>& tensors,
                                    const Mesh& mesh, Per per) {
  Coordinates coordinates;
  for (int64_t device = 0; device < mesh.devices; ++device) {
    coordinates.push_back(CoordinatesOf(mesh, device));
  }
  switch (per) {
    case Per::kDevice:
      return PerDevice(tensors, coordinates);
    case Per::kProcess:
      return PerProcess(tensors, coordinates, mesh);
    case Per::kShard:
      break;
  }
  return PerShard(tensors, coordinates);
}

}  // namespace shardc
