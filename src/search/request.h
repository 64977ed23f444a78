// Directory: search. Finds the fastest sharding of a model on a number of
// devices: its mesh, its rules, its rematerialisation policy, the number of
// micro-batches and the ZeRO stage. The files of src/cost compute all numbers,
// so the command `cost` prints the same numbers for the result.
// Its files include headers of these directories: source, model, roles,
// schedule, plan, cost, suggest.
//
// This header declares the input of a search: the model, the devices, and the
// choices that the user has fixed.
#ifndef SHARDC_SEARCH_REQUEST_H_
#define SHARDC_SEARCH_REQUEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "model/imported.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "suggest/choice.h"

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
  // `fit` would use.
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

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_REQUEST_H_
