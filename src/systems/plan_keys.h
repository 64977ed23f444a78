// Finds the keys with which a system makes the sharding of a plan, as `export`
// writes them: a plan whose layers are shards over `tp:4` becomes
// `--tensor-model-parallel-size 4`. deployment.h computes the opposite, the
// sharding that follows from keys.
#ifndef SHARDC_SYSTEMS_PLAN_KEYS_H_
#define SHARDC_SYSTEMS_PLAN_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "facts/axes.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "source/finding.h"
#include "systems/config_text.h"
#include "systems/system.h"

namespace shardc::systems {

// What a plan states, in the terms of systems.
struct PlanFacts {
  Mesh mesh;
  std::vector<AxisFacts> axes;  // what the axes of the mesh are for
  std::string stage_axis;       // empty without stages
  int64_t virtual_stages = 1;
  std::vector<int64_t> layers;  // of each stage
  bool folded = false;          // whether stages are placed as a V
  int64_t microbatches = 0;
  std::optional<ModelConfig> model;
  // The specs and the shapes of the parameters, by their names.
  struct Param {
    std::string name;
    Shape shape;
    Spec spec;
    Shape local;  // the shape of the largest shard
  };
  std::vector<Param> params;
};

// Returns the keys and values of the system for the plan. Adds findings
// (inexpressible) for what the system has no key for, and returns nullopt then.
std::optional<std::vector<std::pair<std::string, std::string>>> KeysOfPlan(
    const System& system, const PlanFacts& facts, Findings& findings);

// Returns the keys as the text of a configuration: a command, TOML or JSON.
std::string ConfigOfKeys(
    const System& system,
    const std::vector<std::pair<std::string, std::string>>& keys);

// Computes what the system makes of the keys, and compares it with the plan.
// Adds findings at `place`: what the system refuses, what it does silently, and
// (config-silent) the first parameter that it would shard in another way.
// Parameters are compared if the system's file has a row for their names.
void CompareWithPlan(
    const System& system, const PlanFacts& facts,
    const std::vector<std::pair<std::string, std::string>>& keys,
    const Manifest& manifest, const std::string& model, const Place& place,
    Findings& findings);

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_PLAN_KEYS_H_
