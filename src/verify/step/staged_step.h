// A training step that is divided over the ranks of a pipeline: the graph of
// all micro-batches, and the task of the schedule that runs each instruction of
// the program.
#ifndef SHARDC_VERIFY_STEP_STAGED_STEP_H_
#define SHARDC_VERIFY_STEP_STAGED_STEP_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/channels.h"
#include "schedule/table.h"
#include "step/accumulate.h"
#include "step/optimizer.h"
#include "step/program.h"
#include "step/stages.h"

namespace shardc::verify {

// The schedule's table, and how a step is divided over stages and ranks. Layers
// and sums of gradients belong to stages. Each rank computes a part of the norm
// of all gradients.
struct StagedStep {
  schedule::Table table = {};
  step::StageDivision division = {};
  // The stage of each sum of gradients, keyed by the value that holds the sum.
  std::map<step::ValueId, int32_t> sums = {};
  // Indexed by rank: the parameters whose squared gradients the rank adds to
  // the norm of all gradients.
  std::vector<step::NormPart> norm = {};
  // For an injected fault: pairs of a layer and a second stage that also runs
  // the layer.
  std::vector<std::pair<int32_t, int32_t>> twice = {};
};

// Changes the graph of one micro-batch, which has a backward pass and no
// optimizer, to a complete step. The step has all micro-batches of the table,
// and the optimizer. A rank adds gradients in the order of its backward tasks.
// The sums of ranks that share a parameter are added after the tasks. The norm
// includes a shared parameter only on the first rank that has it. Returns false
// if there is only one micro-batch, or if step::Accumulate returns false.
bool WriteStagedStep(step::Graph& graph, const schedule::Table& table,
                     const step::StageDivision& division,
                     step::Reduction reduction, StagedStep& out);

// The pass of a stage to which an instruction belongs: the forward pass, or one
// of the two halves of the backward pass.
enum class TaskHalf : uint8_t {
  kForward,
  // Computes the gradients of the stage's inputs. This half also recomputes
  // rematerialised values.
  kInput,
  // Computes only gradients of parameters.
  kWeight,
};

struct InstructionPlace {
  step::StageWork work = step::StageWork::kTask;
  // The stage and the micro-batch of the task that runs the instruction; -1 if
  // no task runs it.
  int32_t stage = -1, micro = -1;
  TaskHalf half = TaskHalf::kForward;
};

// The task of each instruction of a program, and the messages between stages.
class StagedProgram {
 public:
  // All arguments must outlive this object.
  StagedProgram(const step::Graph& graph, const step::Program& program,
                const StagedStep& step);

  // Returns why the program cannot be divided into the tasks of a pipeline, or
  // an empty text if it can.
  const std::string& why_not() const { return why_not_; }
  const InstructionPlace& PlaceOf(int32_t instruction) const {
    return places_[static_cast<size_t>(instruction)];
  }
  int32_t MakerOf(int32_t slot) const {
    return maker_[static_cast<size_t>(slot)];
  }
  // A task computes a slot for one stage and one micro-batch. Returns true if
  // the slot is read after the tasks of this stage and micro-batch, as sums of
  // gradients and losses are.
  bool Lasts(int32_t slot) const { return lasts_[static_cast<size_t>(slot)]; }
  // Returns the rank that computes a slot for all ranks, or -1 if each rank
  // computes it by itself.
  int32_t RankFor(int32_t slot) const;
  // Returns the instructions of a task, in the order of the program.
  std::vector<int32_t> InstructionsOf(const schedule::Task& task) const;
  // Returns the slots whose values a message contains, in ascending order.
  const std::vector<int32_t>& SlotsOf(const schedule::Message& message) const;
  // Returns the stages whose tasks read a parameter.
  const std::vector<int32_t>& StagesOf(size_t parameter) const {
    return parameter_stages_[parameter];
  }
  // Returns true if a rank holds an input. A rank holds all data, and the
  // parameters and moments of its stages.
  bool HoldsInput(int32_t rank, step::ValueId value) const;

 private:
  using Key = std::tuple<int32_t, int32_t, int32_t>;

  void PlaceInstructions();
  void PlaceMoves();
  void FindMessages();
  void FindHalves();
  // Returns true if the instruction's op adds a gradient to the sum of
  // gradients of its rank.
  bool AddsToSum(int32_t instruction) const;
  bool FeedsInput(int32_t instruction) const;

  const step::Graph& graph_;
  const step::Program& program_;
  const StagedStep& step_;
  std::string why_not_;
  std::vector<step::OpStage> ops_;
  std::vector<InstructionPlace> places_;
  // Indexed by slot: the instruction that computes it.
  std::vector<int32_t> maker_;
  // Indexed by slot: the instructions that read it.
  std::vector<std::vector<int32_t>> readers_;
  // Indexed by slot. `lasts_`: Lasts() returns true for the slot. `goes_back_`:
  // an earlier stage reads the slot.
  std::vector<bool> lasts_, goes_back_;
  std::map<Key, std::vector<int32_t>> messages_, tasks_;
  std::vector<std::vector<int32_t>> parameter_stages_;
  // Maps the value of a parameter, or of one of its moments, to the parameter's
  // index in Graph::parameters.
  std::map<step::ValueId, size_t> parameter_of_;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGED_STEP_H_
