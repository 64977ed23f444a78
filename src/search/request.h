// Directory: search. Finds the fastest sharding of a model on a number of
// devices: its mesh, its rules, its rematerialisation policy, the number of
// micro-batches and the ZeRO stage. The files of src/cost compute all numbers,
// so the command `cost` prints the same numbers for the result.
// Its files include headers of these directories: source, model, roles,
// schedule, facts, plan, cost, suggest.
//
// This header declares the input of a search: the model, the devices, and the
// choices that the user has fixed.
#ifndef SHARDC_SEARCH_REQUEST_H_
#define SHARDC_SEARCH_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/settings.h"
#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "suggest/choose.h"

namespace shardc::search {

// A rules file: the names of the files and packs that it extends, and its own
// rules and axis rules.
struct RulesFile {
  std::vector<std::string> extends;  // names of files and packs
  Imported own;
};

// The progress of a search, which is printed as a line on a terminal.
struct Progress {
  // The number of shardings that were evaluated or skipped, and the number of
  // all shardings.
  int64_t done = 0, all = 0;
  // The fastest time so far; 0 if no sharding fits yet.
  double best_seconds = 0;
};

struct Request {
  Manifest manifest;
  std::optional<ModelConfig> model;
  CompileOptions options;  // options for every plan; the only mode is train
  int64_t devices = 1;
  // The settings must have a profile, a batch and a length. `remat`,
  // `microbatches` and `zero` are searched unless the user has fixed them with
  // a flag. If they are searched, the values here are those that the command
  // `search --all` would use.
  cost::Settings settings;
  bool remat_fixed = false, microbatches_fixed = false, zero_fixed = false;

  // The rules from which the search starts: the rules that the user gives, or
  // else the pack whose rules match the parameter names. If empty, only
  // suggested rules are searched.
  std::vector<std::string> rules;
  bool keep_rules = false;   // if true, `rules` are used unchanged
  std::optional<Mesh> mesh;  // if set, the only mesh that is searched
  Device device;             // the device of every mesh
  suggest::Preferences preferences;
  // Files that describe the model. Suggested rules extend these files.
  std::vector<std::string> description;

  // Whether a choice that no measured run supports may win.
  bool unmeasured = false;
  int threads = 1;
  // The seconds after which the search stops evaluating meshes, the runner-up
  // and alternatives; nullopt if it never stops early. Found::unfinished lists
  // the parts that are incomplete.
  std::optional<double> seconds;

  // Reads a rules file in the same way as the commands do. Returns nullopt if
  // the file is invalid.
  std::function<std::optional<RuleSet>(const RulesFile&)> read;
  // Called after each block of candidates; may be empty.
  std::function<void(const Progress&)> progress;
};

class Deadline {
 public:
  // Starts the clock. If `seconds` is nullopt, the deadline never passes.
  explicit Deadline(std::optional<double> seconds)
      : start_(Clock::now()), seconds_(seconds) {}

  bool IsOver() const {
    return seconds_ &&
           std::chrono::duration<double>(Clock::now() - start_).count() >=
               *seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point start_;
  const std::optional<double> seconds_;
};

// Decides which choices of a search are supported by measured runs. A choice
// looks too fast if the cost model leaves out one of its costs, and a search
// would prefer such choices. Therefore a choice without a measured run wins
// only if the user allows that.

// The number of devices for each kind of parallelism: the product of the sizes
// of the mesh axes that the axis rules assign to this kind.
struct AxisSizes {
  int64_t data = 1, sharded = 1, experts = 1, sequence = 1, tensor = 1;
  // The number of devices among which whole experts are distributed.
  int64_t holders = 1;
};
AxisSizes SizesOf(const Mesh& mesh, const AxisRules& rules);

// Returns a text such as "no measured TPU run has a pipeline", where `what` is
// "a pipeline". For another device with a torus, such as Trainium2, the text
// states that all measured runs on a torus are of TPUs. Empty if the profile
// has no torus.
std::string NoTorusRun(const DeviceProfile& profile, std::string_view what);

// Return why no measured run resembles a mesh or settings; empty if one does.
// The settings must have a profile. `experts` is the number of experts of a
// layer, or 0.
std::string WhyUnmeasured(const AxisSizes& sizes,
                          const cost::Settings& settings, int64_t experts);
std::string WhyUnmeasuredSettings(const cost::Settings& settings);

// The errors of the expected times of published pipelines.
inline constexpr std::string_view kPipelineErrors =
    "of 104 published runs, half are within 6 % and 90 of 100 within 13 %";

// How measured runs support one choice of the search, as a text for the user.
struct Known {
  std::string choice;  // the name of the choice, for example "mesh"
  std::string text;
};
// Returns an entry for each choice of a search. If the model has experts, one
// more entry states that measured runs support no mesh for such a model, with
// or without expert parallelism.
std::vector<Known> KnownChoices(bool has_experts);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_REQUEST_H_
