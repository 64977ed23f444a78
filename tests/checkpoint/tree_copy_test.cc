// Random trees in memory: grids with padding, pieces that form a grid and
// pieces that do not. Split must write the same bytes as slices of the tensors
// have, and decode each chunk only once, even with little memory.
#include "checkpoint/tree_copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "round_trip.h"
#include "source/process.h"
#include "source/size.h"
#include "stored/box.h"

namespace shardc {
namespace {

class MemoryReader : public stored::ChunkReader {
 public:
  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const stored::Array& stored = (*arrays)[array];
    ++(*reads)[array][AsIndex(chunk)];
    if (array == bad) {
      findings.Add(code::kSize, {}, "the chunk is damaged");
      return std::nullopt;
    }
    const Region held = StoredRegionOf(stored, chunk);
    const Region part = RegionOf(stored.BoxOf(chunk));
    // Padding is not zero, so that copied padding is detected.
    std::string out(AsIndex(held.Units() * stored.element_bytes), '\x5A');
    const Region full = RegionOf(FullBox(stored.shape));
    CopyRegion(part, full, (*tensors)[array].bytes.data(), held, out.data(),
               stored.element_bytes);
    return out;
  }
  std::optional<stored::ChunkPlace> Find(size_t, int64_t,
                                         Findings&) const override {
    return stored::ChunkPlace{};
  }

  const std::vector<stored::Array>* arrays = nullptr;
  const std::vector<RandomTensor>* tensors = nullptr;
  std::unique_ptr<std::vector<std::vector<std::atomic<int>>>> reads =
      std::make_unique<std::vector<std::vector<std::atomic<int>>>>();
  size_t bad = SIZE_MAX;
};

// Divides the full box at random places into about `count` boxes.
std::vector<Box> RandomPieces(Generator& random, const Shape& shape,
                              size_t count) {
  std::vector<Box> out = {FullBox(shape)};
  for (size_t i = 0; i < count; ++i) {
    const auto at = random.Pick(static_cast<uint32_t>(out.size()));
    const auto dim = random.Pick(static_cast<uint32_t>(shape.size()));
    Box& box = out[at];
    if (box.shape[dim] < 2) continue;
    const int64_t first =
        1 + random.Pick(static_cast<uint32_t>(box.shape[dim] - 1));
    Box rest = box;
    rest.offset[dim] += first;
    rest.shape[dim] -= first;
    box.shape[dim] = first;
    out.push_back(std::move(rest));
  }
  return out;
}

// Returns the cells of a grid with uneven edges, in random order.
std::vector<Box> GridPieces(Generator& random, const Shape& shape) {
  std::vector<Box> out = {FullBox(shape)};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] < 2 || random.Pick(2) == 0) continue;
    const int64_t edge = 1 + random.Pick(static_cast<uint32_t>(shape[dim] - 1));
    std::vector<Box> cells;
    for (Box box : out) {
      box.shape[dim] = edge;
      cells.push_back(box);
      box.offset[dim] = edge;
      box.shape[dim] = shape[dim] - edge;
      cells.push_back(box);
    }
    out = std::move(cells);
  }
  std::rotate(out.begin(),
              out.begin() + random.Pick(static_cast<uint32_t>(out.size())),
              out.end());
  return out;
}

stored::Array RandomArray(Generator& random, const RandomTensor& tensor) {
  stored::Array out;
  out.name = out.key = tensor.name;
  out.shape = tensor.shape;
  out.dtype = tensor.dtype;
  out.element_bytes = DtypeBits(tensor.dtype) / 8;
  for (const int64_t size : tensor.shape) {
    out.chunk.push_back(1 + random.Pick(static_cast<uint32_t>(size) + 2));
  }
  const bool pieces = FullBox(out.shape).Elements() > 0 && !out.shape.empty();
  switch (pieces ? random.Pick(3) : 0) {
    case 1:
      out.pieces = RandomPieces(random, out.shape, random.Pick(8));
      break;
    case 2:
      out.pieces = GridPieces(random, out.shape);
      break;
    default:
      break;
  }
  return out;
}

struct RandomTree {
  Sample sample;
  std::shared_ptr<stored::Tree> tree = std::make_shared<stored::Tree>();
  std::shared_ptr<MemoryReader> reader = std::make_shared<MemoryReader>();
  Stored stored;
};

RandomTree MakeTree(Generator& random) {
  RandomTree out;
  do {
    out.sample = random.Make();
    // Trees have no packed types.
    const auto packed = [&](const auto& name) {
      return std::any_of(out.sample.tensors.begin(), out.sample.tensors.end(),
                         [&](const RandomTensor& tensor) {
                           return tensor.name == name &&
                                  DtypeBits(tensor.dtype) % 8 != 0;
                         });
    };
    for (ReadPlan& plan : out.sample.plans) {
      std::erase_if(plan.params,
                    [&](const ReadParam& p) { return packed(p.name); });
    }
    std::erase_if(out.sample.tensors, [](const RandomTensor& tensor) {
      return DtypeBits(tensor.dtype) % 8 != 0;
    });
  } while (out.sample.tensors.empty());
  for (const RandomTensor& tensor : out.sample.tensors) {
    StoredTensor stored;
    stored.name = tensor.name;
    stored.shape = tensor.shape;
    stored.dtype = tensor.dtype;
    stored.array = out.tree->arrays.size();
    out.stored.tensors.push_back(std::move(stored));
    out.tree->arrays.push_back(RandomArray(random, tensor));
    out.reader->reads->emplace_back(AsIndex(out.tree->arrays.back().Chunks()));
  }
  out.tree->reader = out.reader;
  out.stored.tree = out.tree;
  out.stored.metadata = out.sample.metadata;
  return out;
}

void Point(RandomTree& tree) {
  tree.reader->arrays = &tree.tree->arrays;
  tree.reader->tensors = &tree.sample.tensors;
}

TEST_CASE("trees: split of any chunks gives the tensors' slices") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Generator random{Draws(seed)};
    RandomTree tree = MakeTree(random);
    Point(tree);
    const Folder folder;
    ShardOptions split;
    split.per = static_cast<Per>(random.Pick(3));
    split.out = folder / "pieces";
    RunOptions run;
    run.threads = 1 + static_cast<int>(random.Pick(3));
    run.sync = false;
    // With little memory a tile is a single chunk.
    if (random.Pick(2) == 0) run.memory_bytes = 1;
    RunShards(tree.stored, tree.sample.plans[0], split, run);
    CheckPieces(tree.sample, split.out);
    for (const auto& array : *tree.reader->reads) {
      for (const auto& reads : array) CHECK(reads == 1);
    }
  }
}

TEST_CASE("trees: a chunk that cannot be decoded leaves nothing behind") {
  Generator random{Draws(11)};
  RandomTree tree = MakeTree(random);
  while (tree.tree->arrays.back().Chunks() == 0) tree = MakeTree(random);
  Point(tree);
  tree.reader->bad = tree.tree->arrays.size() - 1;
  const Folder folder;
  ShardOptions split;
  split.out = folder / "pieces";
  Findings findings;
  const auto job =
      PlanShards(tree.stored, tree.sample.plans[0], split, findings);
  REQUIRE(job);
  RunReport report;
  CHECK_FALSE(RunTransfer(
      job->transfer, [](const Checksums&, Sink&) {}, {}, &report, findings));
  CHECK(Messages(findings) == "the chunk is damaged; ");
  CHECK_FALSE(std::filesystem::exists(split.out));
}

// Copies the boxes of one grid from the chunks of another one, by two threads.
TEST_CASE("chunks: boxes of another grid are taken from chunks decoded once") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Generator random{Draws(seed)};
    RandomTree tree = MakeTree(random);
    Point(tree);
    const bool roomy = random.Pick(2) == 0;
    ChunkCache cache(*tree.tree, roomy ? int64_t{1} << 30 : 1);
    for (size_t i = 0; i < tree.tree->arrays.size(); ++i) {
      const RandomTensor& tensor = tree.sample.tensors[i];
      if (FullBox(tensor.shape).Elements() == 0) continue;
      stored::Array grid = tree.tree->arrays[i];
      grid.pieces.clear();
      for (int64_t& size : grid.chunk) size = 1 + random.Pick(6);
      std::string out(tensor.bytes.size(), '\0');
      const Region full = RegionOf(FullBox(tensor.shape));
      std::atomic<bool> good = true;
      ParallelFor(grid.Chunks(), 2, [&](int64_t chunk) {
        const Box box = grid.BoxOf(chunk);
        std::string part(AsIndex(box.Elements() * grid.element_bytes), '\0');
        Findings findings;
        if (!cache.Take(i, box, part.data(), findings)) good = false;
        CopyRegion(RegionOf(box), RegionOf(box), part.data(), full, out.data(),
                   grid.element_bytes);
      });
      CHECK(good);
      CHECK(out == tensor.bytes);
      if (!roomy) continue;
      for (const auto& reads : (*tree.reader->reads)[i]) CHECK(reads == 1);
    }
  }
}

TEST_CASE("tiles: every chunk is in one tile, whose region is its chunks'") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Generator random{Draws(seed)};
    const RandomTree tree = MakeTree(random);
    for (const stored::Array& array : tree.tree->arrays) {
      const Tiles tiles(array, random.Pick(1 << 8));
      std::vector<int> seen(AsIndex(array.Chunks()), 0);
      for (int64_t i = 0; i < tiles.count(); ++i) {
        const Tile tile = tiles.At(i);
        int64_t units = 0;
        for (const int64_t chunk : tile.chunks) {
          ++seen[AsIndex(chunk)];
          const Region part = RegionOf(array.BoxOf(chunk));
          CHECK(Region::Intersect(part, tile.region).Units() == part.Units());
          units += part.Units();
        }
        CHECK(units == tile.region.Units());
      }
      for (const int count : seen) CHECK(count == 1);
    }
  }
}

TEST_CASE("tiles: chunks with short rows are joined up to the memory") {
  stored::Array array;
  array.shape = {8192, 4096};
  array.chunk = {4096, 1024};
  array.element_bytes = 4;
  // A tile has 4 chunks of 16 MiB with the same rows.
  CHECK(Tiles(array, int64_t{64} << 20).count() == 2);
  CHECK(Tiles(array, int64_t{63} << 20).count() == 4);
  CHECK(Tiles(array, 0).count() == 8);
  array.chunk = {2048, 4096};  // rows that follow each other
  CHECK(Tiles(array, int64_t{64} << 20).count() == 4);
}

TEST_CASE("slabs: consecutive parts of a region, in row-major order") {
  const Region region{{1, 2, 0}, {3, 5, 4}};
  for (int64_t most = 1; most <= 30; ++most) {
    CAPTURE(most);
    int64_t at = 0;
    CHECK(ForEachSlab(region, most, [&](const Region& slab) {
      CHECK(slab.Units() <= most);
      CHECK(IsOneRun(slab, region));
      CHECK(region.OffsetOf(slab) == at);
      at += slab.Units();
      return true;
    }));
    CHECK(at == region.Units());
  }
}

}  // namespace
}  // namespace shardc
