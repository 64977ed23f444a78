// Computes time and memory of shardings under one rules file by the cost model
// (cost/).
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

#include "cost/expected_seconds.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/program.h"
#include "cost/report.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "plan/representatives.h"
#include "search/request.h"
#include "search/settings_grid.h"

namespace shardc::search {

// A target that is compiled for a mesh.
struct Prepared {
  std::unique_ptr<const Compiled> compiled;
  cost::CostInputs work;
  // Communication by formulas. The key is the ZeRO stage, whether the output of
  // attention is rematerialised (the policy matters in no other way), and the
  // number of micro-batches.
  std::map<std::tuple<int, bool, int64_t>, cost::Communication> formulas = {};
  // The same without what attention sends.
  std::map<std::tuple<int, bool, int64_t>, cost::Communication> staged = {};
};

// The bytes that a step is expected to take of a device, and whether they fit.
struct Room {
  int64_t bytes = 0;
  cost::Fit fit = cost::Fit::kFits;
};

// Evaluates meshes and settings under one rules file. Work that does not depend
// on the mesh is done once. Threads may use one evaluator at the same time if
// each passes a number of its own, `worker`.
class Evaluator {
 public:
  // Returns null if the rules do not compile or leave parameters without a
  // rule. The request and the grid outlive the evaluator.
  static std::unique_ptr<Evaluator> Make(RuleSet rules,
                                         const std::vector<std::string>& axes,
                                         const Request& request,
                                         const SettingsGrid& grid);

  // Returns nullopt if the rules do not compile for the mesh.
  std::optional<Prepared> On(const Mesh& mesh) const;
  // Why the mesh is illegal, whatever the settings are; empty if it is legal.
  std::vector<std::string> ReasonsAgainst(const Prepared& on) const;
  // Whether the micro-batches divide the rows of a device.
  bool Divides(const Prepared& on, int64_t micro) const;
  bool DividesAt(const Prepared& on, size_t setting) const {
    return Divides(on, grid_[setting].microbatches);
  }
  // Whether more than a few of a device's parameters are replicated over axes
  // that shard tokens, so that ZeRO has something to divide.
  bool HasReplicas(const Prepared& on) const;

  cost::Memory MemoryOf(const Prepared& on, size_t setting) const;
  Room RoomOf(const Prepared& on, size_t setting) const {
    return RoomOf(MemoryOf(on, setting));
  }
  static Room RoomOf(const cost::Memory& memory);
  // The expected seconds of a step. Infinite if it has none.
  double SecondsOf(Prepared& on, size_t setting, const cost::Memory& memory,
                   int worker);
  // Communication that each setting of a ZeRO stage has on this mesh: most of
  // what the setting of the reference stage that keeps most in the fewest
  // micro-batches sends for activations and parameters.
  cost::Communication LeastMovesOf(Prepared& on, size_t zero, int worker);
  // The seconds of a step with no other communication than this.
  double SecondsWith(const Prepared& on, size_t setting,
                     const cost::Memory& memory,
                     const cost::Communication& moves) const;
  // The seconds of the tasks of all micro-batches and of what follows them,
  // with the communication by formulas, as a stage of a pipeline has it, but
  // without what attention sends.
  std::optional<cost::StepSeconds> StagedSeconds(
      Prepared& on, size_t setting, const cost::Memory& memory) const;
  // The complete report, as `cost` makes it.
  cost::Report ReportOf(const Prepared& on, size_t setting, int worker);

  const AxisRules& axes() const { return representatives_.rules.axes; }
  const Compiled& all() const { return *all_; }

 private:
  Evaluator(const Request& request, const SettingsGrid& grid,
            std::unique_ptr<const Compiled> all);
  bool RatesAscend() const;
  cost::StepTraffic& TrafficOf(size_t setting, int worker);
  std::optional<cost::Communication> ProgramOf(const Prepared& on,
                                               size_t setting, int worker);
  // By the program, or by formulas if there is none.
  cost::Communication MovesOf(Prepared& on, size_t setting, int worker);

  const Request& request_;
  const SettingsGrid& grid_;
  const std::unique_ptr<const Compiled> all_;
  const Representatives representatives_;
  // The representatives; null if they cannot be compiled.
  std::unique_ptr<const Compiled> few_;
  // By worker, then by SettingsGrid::GraphOf; each is made when first needed.
  std::vector<std::vector<std::unique_ptr<cost::StepTraffic>>> traffic_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_EVALUATOR_H_
