#include "round_trip.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "model/mesh_layout.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

// By definition of the format, a device's shard number along a dimension has
// the device's coordinates on the dimension's axes as digits; the first axis is
// the most significant.
TEST_CASE("cut: composite axes number the parts major first") {
  Mesh mesh;
  mesh.axes = {{"a", 2}, {"b", 3}, {"c", 2}};
  mesh.devices = 12;
  const auto cut = Partition::Make({{"c", "a"}, {"b"}}, {8, 9, 5}, mesh);
  REQUIRE(cut);
  for (int64_t device = 0; device < 12; ++device) {
    const int64_t a = device / 6, b = device / 2 % 3, c = device % 2;
    CHECK(CoordinatesOf(mesh, device) == std::vector<int64_t>{a, b, c});
    const Box box = cut->BoxOf(cut->PartOf({a, b, c}));
    CHECK(box == Box{{(c * 2 + a) * 2, b * 3, 0}, {2, 3, 5}});
  }
  CHECK_FALSE(Partition::Make({{"b"}}, {8}, mesh));
  CHECK_FALSE(Partition::Make({{"a"}, {"a"}}, {8, 8}, mesh));
  CHECK_FALSE(Partition::Make({{"x"}}, {8}, mesh));
  CHECK_FALSE(Partition::Make({{"a"}, {}}, {8}, mesh));
}

TEST_CASE("cut: axes that do not divide a size leave the last parts shorter") {
  Mesh mesh;
  mesh.axes = {{"a", 2}, {"b", 4}};
  mesh.devices = 8;
  CHECK_FALSE(Partition::Make({{"a", "b"}}, {10, 3}, mesh));
  const auto cut = Partition::Make({{"a", "b"}}, {10, 3}, mesh, true);
  REQUIRE(cut);
  const std::vector<std::pair<int64_t, int64_t>> rows = {
      {0, 2}, {2, 2}, {4, 1}, {5, 0}, {5, 2}, {7, 2}, {9, 1}, {10, 0}};
  for (int64_t device = 0; device < 8; ++device) {
    const auto& [begin, size] = rows[static_cast<size_t>(device)];
    CHECK(cut->BoxOf(cut->PartOf({device / 4, device % 4})) ==
          Box{{begin, 0}, {size, 3}});
  }
}

TEST_CASE("checkpoints: split, reshard and merge give back the file") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    CheckRoundTrip(Draws(seed));
  }
}

TEST_CASE("checkpoints: merged into several files with an index") {
  Generator generator{Draws(77)};
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
  CAPTURE(Messages(findings));
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

TEST_CASE("checkpoints: a torn or foreign file is written again") {
  Generator generator{Draws(5)};
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
  // A file is refused that a split for more devices has left in the folder.
  std::ofstream(split.out + "/device-99999.safetensors") << "old";
  const auto job = PlanShards(*stored, sample.plans[0], split, findings);
  RunReport report;
  CHECK_FALSE(RunTransfer(
      job->transfer, [](const Checksums&, Sink&) {}, run, &report, findings));
  CHECK(findings.all().back().code->name == "write");
}

}  // namespace
}  // namespace shardc
