// A training step that is divided over the ranks of a pipeline: the graph of
// all micro-batches, and the task of the schedule that runs each instruction of
// the program.
#ifndef SHARDC_VERIFY_STEP_STAGED_STEP_H_
#define SHARDC_VERIFY_STEP_STAGED_STEP_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/machine/machine.h"
#include "exec/step/run.h"
#include "model/mesh.h"
#include "schedule/channels.h"
#include "schedule/table.h"
#include "step/accumulate.h"
#include "step/build.h"
#include "step/program.h"
#include "verify/step/prove.h"

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

// The proof of a step with a pipeline schedule. The order, the channels and the
// memory of the schedule's table are proven at its real size, and the step runs
// with a smaller table.

// The pipeline stages of a step that is verified.
struct StageSettings {
  std::string axis;
  Mesh mesh;      // the mesh of one stage, without `axis`
  Mesh all_mesh;  // the mesh of all stages, with `axis`
  schedule::Table table;
  std::vector<int64_t> layers;  // the number of layers of each stage
};

struct StageProof {
  std::string axis, schedule;
  Mesh all_mesh;  // the mesh of all stages
  int32_t ranks = 0, stages = 0, microbatches = 0;
  std::optional<int32_t> virtual_stages;  // stages of a rank; nullopt: unequal
  std::vector<int64_t> layers;            // the number of layers of each stage
  int64_t tasks = 0;
  // The number of messages that a channel must have room for, or nullopt if the
  // order is wrong or no room is large enough. Each receive comes right before
  // the task that reads its value. Activations and gradients have separate
  // channels.
  std::optional<int64_t> capacity;
  // Indexed by rank: the largest number of micro-batches whose activations the
  // rank holds at the same time. A micro-batch counts once for each of the
  // rank's stages.
  std::vector<int64_t> held;
  // The size of the table with which the step has run; 0 if no step has run.
  int32_t proved_ranks = 0, proved_stages = 0, proved_microbatches = 0;
  std::optional<int32_t> proved_virtual;
  int64_t messages = 0;
};

// Returns the number of stages of each rank. Returns nullopt if ranks have
// different numbers of stages, as in a schedule from a file. A stage that two
// ranks share counts half for each.
std::optional<int32_t> StagesOfEachRank(const schedule::Table& table);

// Proves that a table's order is correct and, if so, that none of its sends and
// receives waits for ever. Appends errors to `problems`.
StageProof ProveTable(const StageSettings& stages,
                      std::vector<std::string>& problems);

// Returns a small table of the same schedule. It has two ranks or, if that is
// impossible, four, and at least as many micro-batches as ranks. A table from a
// file is returned unchanged. Returns nullopt, and sets `why`, if the schedule
// has no small table, or if a table from a file has fewer than two ranks or
// micro-batches, or too many tasks to run.
std::optional<schedule::Table> ReducedTable(const schedule::Table& table,
                                            std::string& why);

// Divides layers of a model over the stages of a reduced table. `kinds` lists
// at least one layer of each kind, and `all` is the model's number of layers.
// If there are fewer layers than stages, more layers of the model are added,
// unless all are already used. The first or last stage has no layer if it has
// no layer at the real size.
struct ReducedDivision {
  // The indices of the model's layers that run, in ascending order.
  std::vector<int32_t> layers = {};
  step::StageDivision division = {};
};
ReducedDivision DivideLayers(const StageSettings& stages, int32_t reduced,
                             std::vector<int32_t> kinds, int32_t all);

// Runs a step on the ranks of a pipeline: each rank has its own memory and
// mesh, runs its row of the schedule's table, and sends messages to other ranks
// over channels.

// The changes that an injected fault makes to a run.
struct StagedFaults {
  // True: at the end of the step, each sum of gradients treats the terms of
  // other ranks as zero.
  bool adds_own_alone = false;
  // The number of frames whose activations a rank can hold. A frame is one
  // micro-batch of one stage. If there are more frames, the oldest frames are
  // lost.
  int64_t most_held = std::numeric_limits<int64_t>::max();
  // A function that is called after each task that adds gradients. `slots` has
  // the inputs and the sums of gradients of the rank, indexed by slot.
  std::function<void(int32_t rank, std::vector<exec::PerDevice>& slots)>
      after_weights = {};
};

struct StagedRunRequest {
  const step::Graph* graph = nullptr;
  const step::Program* program = nullptr;
  const StagedProgram* staged = nullptr;
  const schedule::Table* table = nullptr;
  // Sends and receives of the table.
  const schedule::Programs* programs = nullptr;
  schedule::ChannelScope scope = schedule::ChannelScope::kPairAndKind;
  int threads = 1;
  StagedFaults faults = {};
};

struct StagedTraffic {
  int64_t messages = 0;  // messages sent between ranks during the tasks
  // The largest number of frames (one micro-batch of one stage) whose
  // activations a rank holds at the same time.
  int64_t most_held = 0;
};

// Runs the step. Returns every slot of the program, as computed by the first
// rank that computes it. Returns nullopt after it has appended problems: for
// example, a task reads a value that its rank does not hold; a task runs twice;
// a rank waits for ever; two ranks compute different values for one slot.
std::optional<exec::StepRun> RunStaged(const StagedRunRequest& request,
                                       const exec::SimMesh& mesh,
                                       const exec::Seams& seams,
                                       const exec::StepInputs& inputs,
                                       std::vector<StepProblem>& problems,
                                       StagedTraffic* traffic = nullptr);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGED_STEP_H_
