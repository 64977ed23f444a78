#include "cost/fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost/models.h"
#include "cost/rates.h"
#include "parse/rules.h"
#include "step/recompute.h"
#include "verify/step/random_models.h"

namespace shardc::cost {
namespace {

TEST_CASE("every way to share devices is tried once") {
  const std::vector<std::string> axes = {"dp", "fsdp", "tp"};
  const auto meshes = MeshesOf(64, axes, 1000);
  REQUIRE(meshes);
  CHECK(meshes->size() == 28);
  std::set<std::string> seen;
  for (const Mesh& mesh : *meshes) {
    CHECK(mesh.devices == 64);
    int64_t product = 1;
    for (const MeshAxis& axis : mesh.axes) product *= axis.size;
    CHECK(product == 64);
    CHECK(seen.insert(MeshText(mesh)).second);
  }
  CHECK(MeshesOf(12, {"dp", "tp"}, 1000)->size() == 6);
  CHECK(MeshesOf(1, axes, 1000)->size() == 1);
  CHECK(MeshesOf(64, {}, 1000)->empty());
  CHECK(!MeshesOf(64, axes, 27));
}

FitMesh Candidate(bool legal, int64_t bytes, int64_t sent, double seconds) {
  FitMesh out;
  out.legal = legal;
  out.memory.capacity = 100;
  out.memory.most.by[static_cast<size_t>(Component::kParameters)] = bytes;
  out.memory.most.total = bytes;
  out.communication = sent;
  if (seconds > 0) {
    out.time.emplace();
    out.time->communication = seconds;
  }
  return out;
}

TEST_CASE("the better mesh stands first") {
  std::vector<FitMesh> meshes = {
      Candidate(false, 0, 0, 0),  Candidate(true, 120, 1, 0),
      Candidate(true, 90, 20, 0), Candidate(true, 80, 20, 0),
      Candidate(true, 99, 10, 0),
  };
  SortByCost(meshes);
  std::vector<int64_t> order;
  for (const FitMesh& one : meshes) order.push_back(*one.memory.most.total);
  CHECK(order == std::vector<int64_t>{99, 80, 90, 120, 0});
  CHECK(meshes.front().Fits());
  CHECK(*NearestToFit(meshes)->memory.most.total == 80);
  // Meshes are ranked by time before bytes.
  std::vector<FitMesh> timed = {Candidate(true, 10, 1, 2.0),
                                Candidate(true, 10, 9, 1.0)};
  SortByCost(timed);
  CHECK(timed.front().communication == 9);
  const std::vector<FitMesh> none = {Candidate(false, 0, 0, 0)};
  CHECK(NearestToFit(none) == nullptr);
}

// Returns a mesh whose memory fits, may fit, or exceeds the capacity.
FitMesh Expected(int64_t taken, int64_t most, double seconds) {
  FitMesh out = Candidate(true, taken, 1, seconds);
  out.memory.taken.emplace();
  out.memory.taken->least = out.memory.taken->expected = taken;
  out.memory.taken->most = most;
  return out;
}

TEST_CASE("a mesh of unknown time follows those whose time is known") {
  std::vector<FitMesh> meshes = {Expected(90, 200, 3), Expected(60, 60, 0),
                                 Expected(50, 50, 1), Expected(40, 40, 2),
                                 Expected(80, 200, 0)};
  SortByCost(meshes);
  std::vector<int64_t> bytes, ranks;
  for (const FitMesh& one : meshes) {
    bytes.push_back(*one.memory.most.total);
    ranks.push_back(one.rank.value_or(0));
  }
  CHECK(bytes == std::vector<int64_t>{50, 40, 60, 90, 80});
  CHECK(ranks == std::vector<int64_t>{1, 2, 0, 4, 0});
}

TEST_CASE("meshes with no time, or one that is not finite, are sorted") {
  for (const double odd : {double{INFINITY}, double{NAN}, 1e308}) {
    CAPTURE(odd);
    std::vector<FitMesh> meshes = {Expected(90, 90, odd), Expected(60, 60, odd),
                                   Expected(50, 50, 1)};
    for (FitMesh* one : {&meshes[0], &meshes[1]}) {
      one->time.emplace();
      one->time->communication = odd;
    }
    SortByCost(meshes);
    CHECK(*meshes.front().memory.most.total == 50);
    CHECK(meshes.front().rank == 1);
  }
}

TEST_CASE("a mesh of unknown memory is not the nearest to fit") {
  std::vector<FitMesh> meshes = {Candidate(true, 0, 1, 0),
                                 Candidate(true, 150, 1, 0),
                                 Candidate(true, 120, 1, 0)};
  meshes[0].memory.most.total.reset();
  CHECK(NearestToFit(meshes)->memory.most.total == 120);
  // Bytes that are not known do not come before known ones either.
  for (FitMesh& one : meshes) one.memory.capacity.reset();
  SortByCost(meshes);
  CHECK(!meshes.back().memory.most.total.has_value());
  meshes = {meshes.back()};
  CHECK(NearestToFit(meshes) == &meshes.front());
}

TEST_CASE("a mesh on which nothing is known follows meshes that fit") {
  std::vector<FitMesh> meshes = {Candidate(true, 0, 0, 0),
                                 Candidate(true, 90, 5, 2.0),
                                 Candidate(true, 150, 5, 1.0)};
  // The sum of no components is 0, as is that of their times.
  meshes[0].memory.most.by = {};
  meshes[0].time.emplace();
  CHECK(meshes[0].Seconds() == 0);
  SortByCost(meshes);
  std::vector<int64_t> order;
  for (const FitMesh& one : meshes) order.push_back(*one.memory.most.total);
  CHECK(order == std::vector<int64_t>{90, 0, 150});
  CHECK(meshes[0].rank == 1);
  CHECK_FALSE(meshes[1].rank.has_value());
  CHECK(NearestToFit(meshes)->memory.most.total == 90);
}

TEST_CASE("meshes whose times differ by less than 5 % are a tie") {
  const auto sized = [](int64_t bytes, double seconds, int axes) {
    FitMesh out = Candidate(true, bytes, 1, seconds);
    for (int i = 0; i < axes; ++i) {
      out.mesh.axes.push_back(
          {std::string(1, static_cast<char>('a' + i)), 2, AxisType::kAuto});
    }
    out.mesh.axes.push_back({"z", 1, AxisType::kAuto});
    return out;
  };
  struct Row {
    FitMesh mesh;
    int64_t rank = 0;  // 0: none
  };
  // The rows are in the expected order.
  const std::vector<Row> rows = {
      {sized(60, 1.04, 3), 1},   // less memory is first
      {sized(70, 1.03, 1), 1},   // then fewer axes in use
      {sized(70, 1.00, 2), 1},   // the fastest
      {sized(70, 1.01, 2), 1},   // then the time
      {sized(50, 1.08, 1), 5},   // ties with the next, not with the first
      {sized(90, 1.051, 1), 5},  // the fastest of the second tie
      {sized(10, 1.2, 1), 7},    //
      {sized(120, 0.1, 1), 0},   // exceeds the memory
  };
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<FitMesh> meshes;
    for (const size_t i : order) meshes.push_back(rows[i].mesh);
    SortByCost(meshes);
    for (size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(i);
      CHECK(meshes[i].memory.most.total == rows[i].mesh.memory.most.total);
      CHECK(meshes[i].Seconds() == rows[i].mesh.Seconds());
      CHECK(meshes[i].rank.value_or(0) == rows[i].rank);
    }
  }
  // Without times a mesh has no rank.
  std::vector<FitMesh> bytes = {Candidate(true, 10, 1, 0)};
  SortByCost(bytes);
  CHECK(!bytes.front().rank);
}

struct Flags {
  std::vector<std::string> texts;
  Settings settings;
};

// Returns the changes that may be made, the smallest first: what is kept for
// the backward pass, then the number of micro-batches, then both.
std::vector<Flags> Changes(const Settings& from) {
  std::vector<Flags> out;
  Settings less = from;
  std::string why;
  less.remat = step::ParseRemat("nothing_saveable", why).value();
  out.push_back({{"--remat nothing_saveable"}, less});
  for (const bool keeps : {true, false}) {
    for (int64_t parts = 2; parts <= 64; parts *= 2) {
      Flags flags{{}, keeps ? from : less};
      if (!keeps) flags.texts.push_back("--remat nothing_saveable");
      flags.texts.push_back("--microbatches " + std::to_string(parts));
      flags.settings.microbatches = parts;
      out.push_back(flags);
    }
  }
  return out;
}

TEST_CASE("a change of the settings is the smallest, on the cheapest mesh") {
  const verify::Family& family = verify::kFamilies[0];
  const verify::Model model = verify::ModelOf(family);
  Findings findings;
  auto rules = OpenRules({family.pack}, "", &model.manifest, "", findings);
  REQUIRE(rules.has_value());
  FitInputs inputs;
  inputs.rules = std::move(*rules);
  inputs.manifest = model.manifest;
  inputs.options.modes = {Mode::kTrain};
  inputs.model = model.config;
  inputs.settings.batch = inputs.settings.length = 64;
  // The software stack xla has no GPU context, which would be larger than this
  // model.
  inputs.settings.stack = FindStack("xla");
  // Four KV heads make tp 8 illegal.
  const std::vector<std::string> axes = {"fsdp", "tp"};
  const std::vector<Mesh> meshes = MeshesOf(8, axes, 100).value();
  const auto evaluated = [&](const Settings& settings) {
    FitInputs own = inputs;
    own.settings = settings;
    const auto evaluator = MeshEvaluator::Make(own, axes, findings);
    REQUIRE(evaluator != nullptr);
    std::vector<FitMesh> out;
    for (const Mesh& mesh : meshes) {
      out.push_back(evaluator->On(mesh, findings).value());
    }
    return out;
  };
  int64_t least = INT64_MAX;
  for (const FitMesh& one : evaluated(inputs.settings)) {
    if (one.legal) least = std::min(least, one.memory.taken->most);
  }
  std::set<std::vector<std::string>> found;
  for (int64_t sixteenths = 15; sixteenths > 0; --sixteenths) {
    CAPTURE(sixteenths);
    inputs.settings.memory = least * sixteenths / 16;
    const std::vector<FitMesh> none = evaluated(inputs.settings);
    std::vector<std::string> flags;
    const FitMesh* best = nullptr;
    std::vector<FitMesh> changed;
    for (const Flags& change : Changes(inputs.settings)) {
      changed = evaluated(change.settings);
      for (const FitMesh& one : changed) {
        if (!one.legal || one.memory.taken->most > inputs.settings.memory) {
          continue;
        }
        if (best == nullptr || *one.communication < *best->communication) {
          best = &one;
        }
      }
      flags = change.texts;
      if (best != nullptr) break;
    }
    const auto evaluator = MeshEvaluator::Make(inputs, axes, findings);
    REQUIRE(evaluator != nullptr);
    const auto change = ChangeThatFits(none, inputs.settings, Mode::kTrain,
                                       *evaluator, findings);
    REQUIRE(change.has_value() == (best != nullptr));
    if (best == nullptr) continue;
    CHECK(change->flags == flags);
    CHECK(MeshText(change->fit.mesh) == MeshText(best->mesh));
    CHECK(change->fit.memory.most.total == best->memory.most.total);
    found.insert(flags);
    CHECK_FALSE(ChangeThatFits(none, inputs.settings, Mode::kPrefill,
                               *evaluator, findings)
                    .has_value());
  }
  CHECK(found.size() > 3);
}

TEST_CASE("decoding has its own specs if train was not requested") {
  const verify::Family& family = verify::kFamilies[0];
  const verify::Model model = verify::ModelOf(family);
  Findings findings;
  auto rules = OpenRules({family.pack}, "", &model.manifest, "", findings);
  REQUIRE(rules.has_value());
  for (Rule& rule : rules->rules) rule.modes[Mode::kDecode] = SpecList{};
  FitInputs inputs;
  inputs.rules = std::move(*rules);
  inputs.manifest = model.manifest;
  inputs.model = model.config;
  inputs.mode = Mode::kDecode;
  inputs.settings.batch = inputs.settings.kv_length = 64;
  const std::vector<std::string> axes = {"fsdp", "tp"};
  const Mesh mesh = MeshesOf(4, axes, 100)->front();
  std::vector<std::optional<int64_t>> bytes;
  for (const auto& modes : {std::vector<Mode>{Mode::kDecode},
                            std::vector<Mode>{Mode::kTrain, Mode::kDecode}}) {
    inputs.options.modes = modes;
    const auto evaluator = MeshEvaluator::Make(inputs, axes, findings);
    REQUIRE(evaluator != nullptr);
    const FitMesh fit = evaluator->On(mesh, findings).value();
    REQUIRE(fit.legal);
    bytes.push_back(fit.memory.most.Of(Component::kParameters));
  }
  CHECK(bytes[0].has_value());
  CHECK(bytes[0] == bytes[1]);
}

}  // namespace
}  // namespace shardc::cost
