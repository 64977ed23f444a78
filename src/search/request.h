// Room: search. The cheapest sharding of a model on a number of devices: its
// mesh, its rules, its rematerialisation policy, the number of micro-batches
// and the ZeRO stage. All numbers are computed by the room cost, so `cost`
// prints the same numbers for the result.
// Includes: source, model, roles, comm, schedule, plan, cost, suggest.
//
// This file has the input of a search: the model, the devices, and the choices
// that the user has fixed.
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

// A rules file: the files and packs that it extends, and its own rules and
// axes.
struct RulesFile {
  std::vector<std::string> extends;  // files and packs
  Imported own;
};

// The progress of a search, for a line on a terminal.
struct Progress {
  int64_t done = 0, all = 0;  // evaluated shardings, and all of them
  double best_seconds = 0;    // 0 if nothing fits yet
};

struct Request {
  Manifest manifest;
  std::optional<ModelConfig> model;
  CompileOptions options;  // of the plans; training only
  int64_t devices = 1;
  // The settings must have a profile, a batch and a length. `remat`,
  // `microbatches` and `zero` are searched unless a flag has fixed them. If
  // they are searched, their values here are the values that `fit` would use.
  cost::Settings settings;
  bool remat_fixed = false, microbatches_fixed = false, zero_fixed = false;

  // The rules to begin with: the rules that the user gives, or else the pack
  // whose rules match the names of the parameters. If empty, only suggested
  // rules are searched.
  std::vector<std::string> rules;
  bool keep_rules = false;   // search no other rules, and do not change these
  std::optional<Mesh> mesh;  // search no other mesh
  Device device;             // of every mesh
  suggest::Preferences preferences;
  // The files that suggested rules extend, because they describe the model.
  std::vector<std::string> description;

  // Whether choices that no measured run supports may win.
  bool unmeasured = false;
  int threads = 1;
  // The seconds after which nothing more is evaluated: no mesh, no runner-up
  // and no alternative. Found::unfinished lists what is incomplete.
  std::optional<double> seconds;

  // Reads a rules file as the commands read it; returns nullopt if it is
  // invalid.
  std::function<std::optional<RuleSet>(const RulesFile&)> read;
  std::function<void(const Progress&)> progress;  // may be empty
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_REQUEST_H_
