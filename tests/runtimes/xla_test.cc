// Compares what devices compute under XLA's partitioner with what shardc's
// program computes on the simulated mesh: the loss, every gradient and its
// norm, in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/step/run.h"
#include "parse/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "runtimes/drawn.h"
#include "runtimes/records.h"
#include "source/json.h"
#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/program.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

using exec::Buffer;
using step::ValueId;

constexpr double kExact = 1e-11;

size_t At(int64_t i) { return static_cast<size_t>(i); }

std::string TextAt(const Place& place) {
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

class Step {
 public:
  Step(JsonValue record, JsonValue entry) : entry_(entry) {
    const std::string pack(Member(entry, "pack").string());
    ReadModel(record, pack);
    ReadRules(pack);
    const JsonValue tokens = Member(Member(record, "tokens"), "computed");
    std::vector<int64_t> sides = Integers(tokens);
    Build(sides[0], sides[1]);
    MakeInputs();
    Run();
  }

  void Check() {
    const JsonValue computed = Member(entry_, "computed");
    const double loss = Member(computed, "loss").real();
    CHECK(Unsharded(graph().loss).wide[0] ==
          doctest::Approx(loss).epsilon(kExact));
    const double norm = Member(computed, "norm").real();
    CHECK(Unsharded(graph().gradient_norm).wide[0] ==
          doctest::Approx(norm).epsilon(kExact));
    const JsonValue gradients = Member(computed, "gradients");
    CHECK(gradients.size() == graph().parameters.size());
    for (size_t i = 0; i < graph().parameters.size(); ++i) {
      const std::string_view name = NameOf(graph().parameters[i]);
      CAPTURE(std::string(name));
      CheckGradient(Unsharded(graph().gradients[i]), name,
                    Member(gradients, name));
    }
  }

 private:
  const step::Graph& graph() const { return model_.graph; }

  void ReadModel(JsonValue record, const std::string& pack) {
    const JsonValue config = Member(Member(record, "configs"), pack);
    const std::string file =
        folder_.Write("config.json", TextAt(config.place()));
    auto read = ReadModelConfig(file, findings_);
    REQUIRE(read.has_value());
    config_ = std::move(*read);
    std::string params;
    for (const JsonValue one :
         Member(Member(record, "parameters"), pack).items()) {
      params += (params.empty() ? "\"" : ", \"") +
                std::string(Member(one, "name").string()) +
                "\": {\"dtype\": \"F64\", \"shape\": " +
                TextAt(Member(one, "shape").place()) + "}";
    }
    auto manifest = OpenManifest(
        folder_.Write("manifest.json",
                      "{\"schema\": \"shardc.manifest/v1\", \"params\": {" +
                          params + "}}"),
        {}, findings_);
    CAPTURE(step::TextOf(findings_));
    REQUIRE(manifest.has_value());
    manifest_ = std::move(*manifest);
  }

  void ReadRules(const std::string& pack) {
    const std::string axes = TextAt(Member(entry_, "axes").place());
    const std::string own = folder_.Write(
        "rules.yaml",
        "version: 1\nseparator: \"/\"\naxes: " + axes + "\nrules: []\n" +
            (entry_.Find("by_part") ? "model: {extends: \"builtin:" + pack +
                                          "/flax\", fused: by_part}\n"
                                    : ""));
    auto rules = OpenRules({own, "builtin:" + pack + "/flax"}, "", &manifest_,
                           "", findings_);
    CAPTURE(step::TextOf(findings_));
    REQUIRE(rules.has_value());
    compiled_ = Compile(RecordedMesh(Member(entry_, "mesh")), std::move(*rules),
                        manifest_, {}, findings_);
    CAPTURE(step::TextOf(findings_));
    REQUIRE(compiled_ != nullptr);
  }

  void Build(int64_t batch, int64_t length) {
    auto built = step::BuildForward(*compiled_->rules.model, &config_,
                                    manifest_, Mode::kTrain, findings_);
    CAPTURE(step::TextOf(findings_));
    REQUIRE(built.has_value());
    model_ = std::move(*built);
    step::Differentiate(model_.graph);
    step::AppendOptimizer(model_.graph);
    sizes_ = step::RealSizes(model_, batch, length);
    step::Unsupported why;
    auto program = step::Lower(
        {.graph = &graph(),
         .mesh = compiled_->mesh,
         .sizes = sizes_,
         .element_bytes = 8,
         .policy = step::Policy::kPublished,
         .keep_gathered = true,
         .parameters =
             StepSpecs(compiled_->plan, graph(), sizes_, Mode::kTrain),
         .constraints =
             step::ShardingConstraintsOf(*compiled_->resolver, Mode::kTrain)},
        why);
    CAPTURE(why.message);
    REQUIRE(program.has_value());
    program_ = std::move(*program);
  }

  std::string_view NameOf(const step::Parameter& parameter) const {
    return manifest_.tensors[At(parameter.manifest_rows[0])].name;
  }

  template <class F>
  void Fill(ValueId value, const F& f) {
    const bool whole = graph().values[At(value)].integral;
    Buffer& to = inputs_.values[At(value)];
    to = Buffer::Zeros(step::ShapeOf(graph(), value, sizes_),
                       whole ? Dtype::kI32 : Dtype::kF64);
    for (size_t i = 0; i < At(to.Elements()); ++i) {
      if (whole) {
        to.integers[i] = static_cast<int32_t>(f(i));
      } else {
        to.wide[i] = f(i);
      }
    }
  }

  void MakeInputs() {
    inputs_ = {.sizes = sizes_, .dtype = Dtype::kF64, .values = {}};
    inputs_.values.resize(graph().values.size());
    for (const step::Parameter& parameter : graph().parameters) {
      const Drawn drawn(NameOf(parameter));
      const bool vector =
          graph().values[At(parameter.value)].labels.size() == 1;
      Fill(parameter.value, [&](size_t i) { return drawn.Weight(i, vector); });
    }
    for (const step::Moments& moments : graph().moments) {
      for (const ValueId value : {moments.first, moments.second}) {
        if (value >= 0) Fill(value, [](size_t) { return 1.0; });
      }
    }
    for (const step::Data& data : graph().data) MakeData(data);
  }

  void MakeData(const step::Data& data) {
    const auto length = At(sizes_[At(graph().common.query)]);
    const auto vocabulary = static_cast<double>(
        sizes_[At(graph().values[At(graph().logits)].labels.back())]);
    const Drawn ids("ids"), labels("labels"), weights("weights");
    Fill(data.value, [&](size_t i) {
      switch (data.kind) {
        case step::DataKind::kIds:
          return std::floor(ids.Unit(i) * vocabulary);
        case step::DataKind::kLabels:
          return std::floor(labels.Unit(i) * vocabulary);
        case step::DataKind::kWeights:
          return weights.Unit(i);
        default:
          return static_cast<double>(i % length);
      }
    });
  }

  void Run() {
    mesh_.emplace(compiled_->mesh);
    exec::Machine machine(*mesh_);
    run_ = exec::RunStep(machine, graph(), program_, inputs_,
                         exec::KeepSlots::kAll);
  }

  Buffer Unsharded(ValueId value) const {
    const int32_t slot = program_.result[At(value)];
    REQUIRE(slot >= 0);
    exec::ShardedTensor tensor{
        .shape = step::ShapeOf(graph(), value, sizes_),
        .dtype = Dtype::kF64,
        .spec = step::SpecOf(program_.axes, program_.slots[At(slot)].sharding),
        .local = run_.slots[At(slot)]};
    exec::LayoutError why;
    auto whole = exec::Gather(*mesh_, tensor, why);
    CAPTURE(why.message);
    REQUIRE(whole.has_value());
    return std::move(*whole);
  }

  // Compares the norm of the gradient and its products with random vectors.
  static void CheckGradient(const Buffer& gradient, std::string_view name,
                            JsonValue recorded) {
    std::vector<double> want;
    for (const JsonValue x : recorded.items()) want.push_back(x.real());
    REQUIRE(want.size() >= 3);
    double squares = 0;
    for (const double x : gradient.wide) squares += x * x;
    const double norm = std::sqrt(squares);
    CHECK(std::abs(norm - want[0]) <= kExact * want[0]);
    const auto count = static_cast<double>(gradient.wide.size());
    for (size_t along = 1; along < want.size(); ++along) {
      const Drawn drawn(std::string(name) + " " + std::to_string(along - 1));
      double sum = 0;
      for (size_t i = 0; i < gradient.wide.size(); ++i) {
        sum += gradient.wide[i] * (drawn.Unit(i) - 0.5);
      }
      CHECK(std::abs(sum - want[along]) <= kExact * norm * std::sqrt(count));
    }
  }

  JsonValue entry_;
  TemporaryFolder folder_;
  Findings findings_;
  ModelConfig config_;
  Manifest manifest_;
  std::unique_ptr<const Compiled> compiled_;
  step::StepModel model_;
  step::Sizes sizes_;
  step::Program program_;
  exec::StepInputs inputs_;
  std::optional<exec::SimMesh> mesh_;
  exec::StepRun run_;
};

TEST_CASE("steps compute what devices do under XLA's partitioner") {
  const auto record = LoadRecord("xla/steps");
  int cases = 0;
  for (const JsonValue entry : Member(record->root(), "cases").items()) {
    CAPTURE(std::string(Member(entry, "name").string()));
    Step(record->root(), entry).Check();
    ++cases;
  }
  CHECK(cases >= 10);
}

}  // namespace
}  // namespace shardc
