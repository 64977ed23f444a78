// Computes the time and the memory of shardings that use one rules file, with
// the cost model of src/cost.
#ifndef SHARDC_SEARCH_EVALUATOR_H_
#define SHARDC_SEARCH_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cost/expected.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/program.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "plan/representatives.h"
#include "search/request.h"

namespace shardc::search {

// All combinations of a ZeRO stage, a rematerialisation policy and a number of
// micro-batches. A combination is called a setting, and is identified by its
// index.
class SettingsGrid {
 public:
  explicit SettingsGrid(const Request& request);

  size_t At(size_t zero, size_t remat, size_t micro) const {
    return (zero * remats_.size() + remat) * micros_.size() + micro;
  }
  // Returns the index of a setting's ZeRO stage in zeros().
  size_t ZeroOf(size_t index) const {
    return index / (remats_.size() * micros_.size());
  }
  // Returns the index of a setting's rematerialisation policy in remats().
  size_t RematOf(size_t index) const {
    return index / micros_.size() % remats_.size();
  }
  // Returns the index of a setting's number of micro-batches in micros().
  size_t MicroOf(size_t index) const { return index % micros_.size(); }
  const cost::Settings& operator[](size_t index) const { return all_[index]; }
  size_t size() const { return all_.size(); }

  // Returns the reference stage of a ZeRO stage; both are indices into zeros().
  // A setting sends at least as many bytes of activations and parameters as the
  // same setting with the reference stage. For stages up to 2 the reference is
  // the lowest stage. The programs of these stages gather parameters along the
  // same axes, and the higher stages also gather the updated parameters. Stage
  // 3 gathers parameters along other axes, which may be faster, so stage 3 is
  // its own reference.
  size_t ReferenceOf(size_t zero) const { return zeros_[zero] < 3 ? 0 : zero; }

  // Return the ZeRO stages, the rematerialisation policies, and the numbers of
  // micro-batches in ascending order. A policy need not keep everything that
  // the next policy keeps, but it keeps everything that the one after the next
  // keeps.
  const std::vector<int>& zeros() const { return zeros_; }
  const std::vector<step::Remat>& remats() const { return remats_; }
  const std::vector<int64_t>& micros() const { return micros_; }

 private:
  std::vector<int> zeros_;
  std::vector<step::Remat> remats_;
  std::vector<int64_t> micros_;
  std::vector<cost::Settings> all_;
};

// The plan that was compiled for one mesh, with the inputs of the cost model.
struct Prepared {
  std::unique_ptr<const Compiled> compiled;
  cost::CostInputs work;
  // Communication that is computed by formulas. The key has everything that
  // changes it: the ZeRO stage, whether the policy recomputes attention's
  // output projection in the backward pass, and the number of micro-batches.
  std::map<std::tuple<int, bool, int64_t>, cost::Communication> formulas = {};
  // The same communication without the bytes that the attention operation
  // sends. The key is that of `formulas`.
  std::map<std::tuple<int, bool, int64_t>, cost::Communication> staged = {};
};

// The bytes of device memory that a step is expected to need, and whether they
// fit.
struct Room {
  int64_t bytes = 0;
  cost::Fit fit = cost::Fit::kFits;
};

// Evaluates meshes and settings with one rules file. Work that does not depend
// on the mesh is done once. Several threads may use one evaluator at the same
// time if each thread passes a different number as `worker`.
class Evaluator {
 public:
  // Returns null if the rules do not compile, or if some parameter matches no
  // rule. `request` and `grid` must outlive the evaluator. Evaluators of rules
  // with the same model description may share `graphs`.
  static std::unique_ptr<Evaluator> Make(
      RuleSet rules, const std::vector<std::string>& axes,
      const Request& request, const SettingsGrid& grid,
      std::shared_ptr<cost::StepGraphs> graphs);

  // Compiles the rules for a mesh. Returns nullopt if the compilation fails.
  std::optional<Prepared> On(const Mesh& mesh) const;
  // Returns the inputs of the cost model in another mode than train.
  cost::CostInputs WorkOf(const Prepared& on, Mode mode) const {
    return cost::MakeCostInputs(*on.compiled, request_.model, mode,
                                &representatives_);
  }
  // Returns why the mesh is illegal with every setting; empty if it is legal.
  std::vector<std::string> ReasonsAgainst(const Prepared& on) const;
  // Returns whether the number of micro-batches divides the rows of the batch
  // that one device has.
  bool Divides(const Prepared& on, int64_t micro) const;
  bool DividesAt(const Prepared& on, size_t setting) const {
    return Divides(on, grid_[setting].microbatches);
  }
  // Returns whether more than 1 % of a device's parameters are replicated over
  // axes that shard tokens, so that ZeRO can shard them.
  bool HasReplicas(const Prepared& on) const;

  cost::Memory MemoryOf(const Prepared& on, size_t setting) const;
  Room RoomOf(const Prepared& on, size_t setting) const {
    return RoomOf(MemoryOf(on, setting));
  }
  static Room RoomOf(const cost::Memory& memory);
  // Returns the expected seconds of a step, or infinity if the cost model
  // computes no time.
  double SecondsOf(Prepared& on, size_t setting, const cost::Memory& memory,
                   int worker);
  // Returns the communication of a setting. The communication is read from the
  // program of the step or, if the model has no program, computed by formulas.
  cost::Communication MovesOf(Prepared& on, size_t setting, int worker);
  // Which transfers of a reference setting are a lower bound for other
  // settings.
  enum class Shared : uint8_t {
    // All transfers: the other setting differs only in its rematerialisation
    // policy.
    kAll,
    // All transfers except gradients and the optimizer's. The other setting may
    // also have more micro-batches, or another ZeRO stage, if
    // SettingsGrid::ReferenceOf() maps this stage to the stage of the
    // reference.
    kNoGradients,
  };
  // Returns whether the rate of a transfer never falls if the message is
  // larger.
  bool RatesAscend() const;
  // Returns a lower bound of the communication of other settings: 97 % of the
  // transfers of `reference` that `shared` selects. `reference` is the
  // communication of the setting that keeps the most activations. If larger
  // messages may have a lower rate, returns an empty list of transfers.
  cost::Communication LeastMovesOf(const cost::Communication& reference,
                                   Shared shared) const;
  // Returns the seconds of a step whose only communication is `moves`.
  double SecondsWith(const Prepared& on, size_t setting,
                     const cost::Memory& memory,
                     const cost::Communication& moves) const;
  // Returns the seconds of a pipeline's step in two parts: the tasks of all
  // micro-batches, and after these tasks the reduction of gradients and the
  // update. `settings` are those of the stages (cost::StageSettings). Returns
  // nullopt if the cost model computes no time. The communication is computed
  // by formulas. For the attention operation, only the transfers in `attention`
  // are counted.
  static std::optional<cost::StepSeconds> StagedSeconds(
      Prepared& on, const cost::Settings& settings, const cost::Memory& memory,
      const std::vector<cost::Transfer>& attention);
  // Returns the report that the command `cost` prints.
  cost::Report ReportOf(const Prepared& on, size_t setting, int worker);

  const AxisRules& axes() const { return representatives_.rules.axes; }
  const Compiled& all() const { return *all_; }

 private:
  Evaluator(const Request& request, const SettingsGrid& grid,
            std::unique_ptr<const Compiled> all,
            std::shared_ptr<cost::StepGraphs> graphs);
  cost::StepTraffic& TrafficOf(size_t setting, int worker);
  std::optional<cost::Communication> ProgramOf(const Prepared& on,
                                               size_t setting, int worker);

  const Request& request_;
  const SettingsGrid& grid_;
  const std::unique_ptr<const Compiled> all_;
  const Representatives representatives_;
  // The plan of one parameter of each group (`representatives_`); null if the
  // rules do not compile.
  std::unique_ptr<const Compiled> few_;
  // Indexed by worker. Each element is created when the worker first needs it.
  std::vector<std::optional<cost::StepTraffic>> traffic_;
  const std::shared_ptr<cost::StepGraphs> graphs_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_EVALUATOR_H_
