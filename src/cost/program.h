// Computes the communication of a step from the step's program
// (step/program.h), in the parts that `cost` reports.
#ifndef SHARDC_COST_PROGRAM_H_
#define SHARDC_COST_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "plan/representatives.h"
#include "step/layer_fold.h"
#include "step/program.h"

namespace shardc::cost {

// Returns the reason why no program describes a step under these settings;
// empty if one does.
std::string AgainstProgram(const CostInputs& work, const Settings& settings);

// Groups the collectives by part, phase, kind and axes. The bytes are those of
// the busiest device, by the formula that tests compare with the executor's
// ledger. `times` has for each instruction the number of instructions that it
// stands for (step/layer_fold.h); empty: one each.
Communication CommunicationOf(const step::Graph& graph,
                              const step::Program& program,
                              const step::Sizes& sizes, int64_t element_bytes,
                              std::span<const int64_t> times = {});

// Computes the communication of a target's step for any number of meshes. The
// step's graph is built once for each form of attention, with few layers of
// each run of identical ones and few micro-batches, and lowered for each mesh;
// the bytes are those of all layers and micro-batches.
class StepTraffic {
 public:
  // `all` is the target compiled for any mesh. Keeps references to the
  // arguments.
  StepTraffic(const Compiled& all, const std::optional<ModelConfig>& model,
              const Settings& settings)
      : all_(all), model_(model), settings_(&settings) {}
  // The copy includes the graphs that have been built.
  StepTraffic(const StepTraffic&) = default;
  StepTraffic& operator=(const StepTraffic&) = delete;

  // The micro-batches of a step that its graph has.
  static int64_t BuiltMicrobatches(const Settings& settings);
  // Takes other settings in place of those before. They may differ in the ZeRO
  // stage, and in the number of micro-batches if BuiltMicrobatches is the same:
  // their steps have the same graph, but for its sizes. Keeps the reference.
  void Use(const Settings& settings) { settings_ = &settings; }

  // Returns the communication on a mesh. `compiled` is the target on that mesh,
  // or only its representatives, which must then be given. Returns nullopt and
  // sets the reason if no program can be built, or if none describes the step.
  std::optional<Communication> On(
      const Compiled& compiled, const CostInputs& work, std::string& why,
      const Representatives* representatives = nullptr);

  // Returns the number of ops that were lowered so far, over all meshes.
  int64_t lowered_ops() const { return lowered_ops_; }

 private:
  struct Built {
    LoweredStep step;
    step::LayerFold fold;
    std::string why_not;  // why there is no step; empty: there is one
    int64_t rows = 0;     // of a micro-batch, for which the sizes are
  };
  // Returns the form of attention on the mesh of `work`. Returns nullopt and
  // sets the reason if the operation cannot run on it.
  std::optional<step::AttentionForm> FormFor(const CostInputs& work,
                                             std::string& why) const;
  StepInputs InputsFor(const Compiled& compiled, Mode mode) const;
  Built& Folded(Mode mode);
  Built& Full(Mode mode);
  void Build(const StepInputs& inputs, Built& out) const;
  // Changes the sizes of a graph to those of other micro-batches.
  void Resize(const StepInputs& inputs, Built& out) const;
  std::optional<Communication> Lowered(Built& of, const Compiled& compiled,
                                       Mode mode,
                                       const Representatives* representatives,
                                       std::string& why);

  const Compiled& all_;
  const std::optional<ModelConfig>& model_;
  const Settings* settings_;
  step::AttentionForm form_ = {};  // of `folded_` and `full_`
  std::optional<Built> folded_, full_;
  int64_t lowered_ops_ = 0;
};

}  // namespace shardc::cost

#endif  // SHARDC_COST_PROGRAM_H_
