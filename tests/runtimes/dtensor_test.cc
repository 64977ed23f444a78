// Compares plans with the shards that PyTorch's DTensor puts on each rank, and
// checks the rule by which the order of axes in a spec becomes strided
// placements.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/transfer.h"
#include "doctest/doctest.h"
#include "model/mesh_layout.h"
#include "records.h"

namespace shardc {
namespace {

constexpr int64_t kShardings = 1000;
constexpr int64_t kPlacements = 400;

// A placement. PyTorch prints it as `R`, `S(0)` or `_S(0, 4)`.
struct Placed {
  std::optional<size_t> dim;  // nothing: replicated
  int64_t split_factor = 1;
};

Placed Read(std::string_view text) {
  if (text == "R") return {};
  const std::string inside(
      text.substr(text.find('(') + 1, text.size() - text.find('(') - 2));
  Placed placed;
  size_t read = 0;
  placed.dim = std::stoul(inside, &read);
  if (text.starts_with("_S")) {
    placed.split_factor = std::stoll(inside.substr(read + 2));
  }
  return placed;
}

std::vector<Placed> Placements(JsonValue entry) {
  std::vector<Placed> all;
  for (JsonValue text : Member(entry, "placements").items()) {
    all.push_back(Read(text.string()));
  }
  return all;
}

// Returns the part with this index of the `parts` parts into which torch.chunk
// divides a list.
std::vector<int64_t> Chunk(const std::vector<int64_t>& whole, int64_t parts,
                           int64_t index) {
  const auto size = static_cast<int64_t>(whole.size());
  const int64_t step = (size + parts - 1) / parts;
  const int64_t begin = std::min(size, index * step);
  const int64_t end = std::min(size, begin + step);
  return {whole.begin() + begin, whole.begin() + end};
}

// Applies a placement to the indices of a dimension. A strided placement first
// splits the indices into blocks, and takes a part of each.
std::vector<int64_t> Applied(const std::vector<int64_t>& whole,
                             const Placed& placed, int64_t parts,
                             int64_t index) {
  std::vector<int64_t> kept;
  for (int64_t block = 0; block < placed.split_factor; ++block) {
    const auto part =
        Chunk(Chunk(whole, placed.split_factor, block), parts, index);
    kept.insert(kept.end(), part.begin(), part.end());
  }
  return kept;
}

// Returns, for each dimension, the indices that a device holds.
std::vector<std::vector<int64_t>> Held(const Mesh& mesh, const Shape& shape,
                                       const std::vector<Placed>& placements,
                                       int64_t device) {
  std::vector<std::vector<int64_t>> held;
  for (const int64_t size : shape) {
    auto& all = held.emplace_back(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
  }
  const auto coordinates = CoordinatesOf(mesh, device);
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].dim) continue;
    auto& along = held.at(*placements[axis].dim);
    along = Applied(along, placements[axis], mesh.axes[axis].size,
                    coordinates[axis]);
  }
  return held;
}

bool IsBlock(const std::vector<std::vector<int64_t>>& held, const Box& box) {
  for (size_t dim = 0; dim < held.size(); ++dim) {
    std::vector<int64_t> block(static_cast<size_t>(box.shape[dim]));
    std::iota(block.begin(), block.end(), box.offset[dim]);
    if (held[dim] != block) return false;
  }
  return held.size() == box.shape.size();
}

TEST_CASE("every device's slice is what DTensor's placements give it") {
  const auto record = LoadRecord("dtensor/shardings");
  int64_t cases = 0, strided = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const ShardingCase asked = RecordedCase(entry);
    const auto cut = Partition::Make(asked.spec, asked.shape, asked.mesh);
    REQUIRE_MESSAGE(cut, asked.text);
    const Shape shard_shape = Integers(Member(entry, "shard_shape"));
    const auto placements = Placements(entry);
    REQUIRE(placements.size() == asked.mesh.axes.size());
    strided += std::any_of(placements.begin(), placements.end(),
                           [](const Placed& p) { return p.split_factor > 1; });
    int64_t device = 0;
    for (JsonValue offset : Member(entry, "offsets").items()) {
      const Box recorded{Integers(offset), shard_shape};
      const auto coordinates = CoordinatesOf(asked.mesh, device);
      CHECK_MESSAGE(cut->BoxOf(cut->PartOf(coordinates)) == recorded,
                    asked.text);
      CHECK_MESSAGE(
          IsBlock(Held(asked.mesh, asked.shape, placements, device), recorded),
          asked.text);
      ++device;
    }
    CHECK(device == asked.mesh.devices);
    ++cases;
  }
  CHECK(cases == kShardings);
  CHECK(strided > 100);
}

TEST_CASE("an independent reading of placements gives DTensor's data") {
  const auto record = LoadRecord("dtensor/placements");
  int64_t cases = 0, refused = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    ++cases;
    if (entry.Find("error")) {
      ++refused;
      continue;
    }
    const Mesh mesh = RecordedMesh(Member(entry, "mesh"));
    const Shape shape = Integers(Member(entry, "shape"));
    const auto placements = Placements(entry);
    int64_t device = 0;
    for (JsonValue local : Member(entry, "local").items()) {
      const auto held = Held(mesh, shape, placements, device++);
      const auto sizes = Integers(Member(local, "shape"));
      REQUIRE(sizes.size() == held.size());
      for (size_t dim = 0; dim < held.size(); ++dim) {
        CHECK(sizes[dim] == static_cast<int64_t>(held[dim].size()));
      }
      const JsonValue indices = Member(local, "indices");
      if (indices.IsNull()) continue;  // nothing is held
      size_t dim = 0;
      for (JsonValue list : indices.items()) {
        CHECK(held.at(dim++) == Integers(list));
      }
    }
    CHECK(device == mesh.devices);
  }
  CHECK(cases == kPlacements);
  CHECK(refused * 10 < cases);
}

}  // namespace
}  // namespace shardc
