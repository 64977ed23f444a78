// Compares the communication that `cost` reads from a step's program with what
// the executor's ledger counts when the program runs.
#include "cost/program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/step/prove.h"
#include "verify/step/random_models.h"
#include "verify/step/step_report.h"

namespace shardc::cost {
namespace {

using verify::kFamilies;
using ByWhat =
    std::map<std::pair<Collective, AxisGroup>, std::pair<int64_t, int64_t>>;

struct Lowered {
  LoweredStep step;
  Mesh mesh;
  step::Sizes sizes;  // small ones
};

// Returns nullopt if no reduced sizes keep the sharding of the real ones.
std::optional<Lowered> LoweredOn(const Mesh& mesh,
                                 const verify::StepRequest& request) {
  Findings findings;
  const auto whole = BuildStep(request, {}, findings);
  REQUIRE(whole.has_value());
  auto step =
      BuildStep(request, verify::ReducedLayers(whole->model.graph), findings);
  REQUIRE(step.has_value());
  std::string why;
  // The simulated devices of a proof have the same width for all values.
  for (step::Value& value : step->model.graph.values) value.bytes = 0;
  step->program = LowerStep(request, *step, mesh, why);
  REQUIRE_MESSAGE(step->program.has_value(), why);
  const auto sizes =
      verify::ReducedSizes(step->model.graph, step->sizes, *step->program, why);
  if (!sizes) return std::nullopt;
  return Lowered{std::move(*step), mesh, *sizes};
}

// Returns the bytes that the busiest device sent, by collective and axes.
ByWhat Counted(const Lowered& of, uint64_t seed) {
  ByWhat out;
  const verify::StepCase test{
      .graph = &of.step.model.graph,
      .program = &*of.step.program,
      .mesh = of.mesh,
      .sizes = of.sizes,
      .dtype = Dtype::kF64,
      .seed = seed,
      .watch = [&](const exec::StepRun&, const exec::Ledger& ledger) {
        for (const exec::LedgerEntry& entry : ledger.entries()) {
          auto& [count, sent] = out[{entry.kind, entry.axes}];
          ++count;
          sent += *std::max_element(entry.sent.begin(), entry.sent.end());
        }
      }};
  CHECK(verify::ProveStep(test).Holds());
  return out;
}

ByWhat BytesByAxes(const Communication& of) {
  ByWhat out;
  for (const Transfer& one : of.transfers) {
    auto& [count, sent] = out[{one.kind, one.axes}];
    count += one.count;
    sent += one.sent;
  }
  return out;
}

TEST_CASE("a program's bytes are the ledger's") {
  const int64_t cases = verify::CasesOf("SHARDC_RANDOM_COSTS", 40);
  exec::RandomSequence random{exec::Random(23)};
  std::vector<verify::Model> models;
  for (const auto& family : kFamilies) models.push_back(ModelOf(family));
  int64_t compared = 0, sends = 0, filled = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const size_t which = random.Below(std::size(kFamilies));
    const Mesh mesh = verify::RandomMesh(random);
    const auto compiled =
        verify::CompiledOn(mesh, kFamilies[which], models[which]);
    constexpr Mode kModes[] = {Mode::kTrain, Mode::kTrain, Mode::kPrefill,
                               Mode::kDecode};
    verify::StepRequest request;
    request.compiled = compiled.get();
    request.config = &models[which].config;
    request.mode =
        verify::ModeOr(kModes[random.Below(4)], *compiled, models[which]);
    request.batch = 64;
    request.length = 64;
    if (random.Chance(0.5)) request.remat = verify::RandomRemat(random);
    request.keep_gathered = random.Chance(0.3);
    const auto lowered = LoweredOn(mesh, request);
    if (!lowered) continue;
    CAPTURE(kFamilies[which].pack);
    CAPTURE(MeshText(mesh));
    CAPTURE(ModeName(request.mode));
    CAPTURE(request.remat.text);
    const Communication said =
        CommunicationOf(lowered->step.model.graph, *lowered->step.program,
                        lowered->sizes, DtypeBits(Dtype::kF64) / 8);
    const ByWhat sent = BytesByAxes(said);
    const ByWhat counted = Counted(*lowered, random.Below(1000));
    // In decoding, the simulated devices send every place of the experts'
    // queues, and the cost is that of the places that tokens fill.
    const bool queues =
        request.mode == Mode::kDecode &&
        lowered->step.model.graph.common.experts != step::kNoLabel;
    if (queues) {
      CHECK(sent.size() == counted.size());
      for (const auto& entry : counted) {
        const auto found = sent.find(entry.first);
        REQUIRE(found != sent.end());
        CHECK(found->second.first == entry.second.first);
        CHECK(found->second.second <= entry.second.second);
        filled += found->second.second < entry.second.second ? 1 : 0;
      }
    } else {
      CHECK(sent == counted);
    }
    CHECK(said.from_program);
    ++compared;
    sends += said.transfers.empty() ? 0 : 1;
  }
  MESSAGE(compared << " programs, " << sends << " of which send");
  CHECK(compared > cases * 9 / 10);
  CHECK(sends > cases / 2);
  CHECK(filled > 0);
}

// Compares the formulas with a program, for the parts of a Llama that both
// count.
TEST_CASE("parts are distinguished by what moves") {
  const verify::Model model = ModelOf(kFamilies[0]);
  Mesh mesh;
  mesh.axes = {{"dp", 2, AxisType::kAuto},
               {"fsdp", 2, AxisType::kAuto},
               {"tp", 2, AxisType::kAuto}};
  mesh.devices = 8;
  const auto compiled = verify::CompiledOn(mesh, kFamilies[0], model);
  verify::StepRequest request;
  request.compiled = compiled.get();
  request.config = &model.config;
  request.batch = 64;
  request.length = 64;
  request.element_bytes = 4;
  Findings findings;
  const auto step = BuildStep(request, {}, findings);
  REQUIRE(step.has_value());
  std::string why;
  const auto program = LowerStep(request, *step, mesh, why);
  REQUIRE(program.has_value());
  const Communication read =
      CommunicationOf(step->model.graph, *program, step->sizes, 4);
  Settings settings;
  settings.batch = 64;
  settings.length = 64;
  settings.activations = Dtype::kF32;
  const CostInputs work = MakeCostInputs(*compiled, model.config, Mode::kTrain);
  CHECK(AgainstProgram(work, settings) == "");
  const Communication formulas = CommunicationOf(work, settings);
  const auto sent = [](const Communication& of, std::string_view part,
                       bool backward, Collective kind) {
    int64_t out = 0;
    for (const Transfer& one : of.transfers) {
      const bool same =
          one.part == part && one.backward == backward && one.kind == kind;
      out += same ? one.sent : 0;
    }
    return out;
  };
  CHECK(sent(read, "parameters", false, Collective::kAllGather) ==
        sent(formulas, "parameters", false, Collective::kAllGather));
  // Both do not gather the table of a lookup a second time.
  CHECK(sent(read, "parameters", true, Collective::kAllGather) ==
        sent(formulas, "parameters", true, Collective::kAllGather));
  CHECK(sent(read, "gradients", true, Collective::kReduceScatter) ==
        sent(formulas, "gradients", true, Collective::kReduceScatter));
}

TEST_CASE("what no program contains") {
  const verify::Model model = ModelOf(kFamilies[0]);
  Mesh mesh;
  mesh.axes = {{"tp", 2, AxisType::kAuto}};
  mesh.devices = 2;
  const auto compiled = verify::CompiledOn(mesh, kFamilies[0], model);
  const CostInputs work = MakeCostInputs(*compiled, model.config, Mode::kTrain);
  Settings usual;
  usual.batch = 8;
  usual.length = 8;
  usual.activations = Dtype::kF32;
  const auto with = [&](auto change) {
    Settings settings = usual;
    change(settings);
    return AgainstProgram(work, settings);
  };
  CHECK(with([](Settings&) {}) == "");
  CHECK(with([](Settings& s) { s.batch.reset(); }) == "it needs --batch");
  CHECK(with([](Settings& s) { s.length.reset(); }) == "it needs --seq");
  CHECK(with([](Settings& s) { s.length = int64_t{1} << 40; }) ==
        "its sizes do not fit in 64 bits");
  CHECK(with([](Settings& s) { s.microbatches = 3; }) ==
        "the batch is no multiple of the number of micro-batches");
  CHECK(with([](Settings& s) { s.zero = 1; }) == "");
  CHECK(with([](Settings& s) { s.microbatches = 2; }) == "");
  CHECK(with([](Settings& s) { s.activations = Dtype::kBF16; }) == "");
  CHECK(with([](Settings& s) { s.gradients = Dtype::kBF16; }) == "");
}

}  // namespace
}  // namespace shardc::cost
