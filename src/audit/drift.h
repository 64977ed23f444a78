// Compares the shardings of a program's arguments with the shardings of a plan.
#ifndef SHARDC_AUDIT_DRIFT_H_
#define SHARDC_AUDIT_DRIFT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "hlo/program.h"
#include "model/manifest.h"
#include "model/mesh.h"

namespace shardc::audit {

// A parameter's name, shape and spec in a plan.
struct Planned {
  std::string name;
  Shape shape;
  Spec spec;
};

// An argument whose sharding in the program differs from the plan's.
struct Drift {
  std::string argument;   // "opt_state/0/mu/layers/gate"
  std::string parameter;  // name in the plan: "layers/gate"
  Spec planned;
  std::optional<Spec> actual;  // nullopt if no spec over the mesh expresses it
  std::string sharding;        // as the program's text states it
};

struct Drifts {
  int64_t compared = 0;  // number of compared arguments
  std::vector<Drift> all;
  std::vector<std::string> skipped;  // names of the arguments not compared
  bool has_shardings = false;  // whether the text states shardings of arguments

  // Returns whether the comparison failed: an argument is sharded in another
  // way, or no argument could be compared.
  bool Fail() const { return compared == 0 || !all.empty(); }
};

// Compares each argument of the program with the parameter whose name ends the
// argument's path. If several names do, the longest one is chosen. For example,
// the optimizer state `opt_state/0/mu/layers/gate` is compared with
// `layers/gate`, and also with `params/layers/gate` if most names of the plan
// begin with `params`. `/` and `.` are equal in names. An argument is skipped
// if the text has no sharding of it, or if its global shape differs from the
// parameter's. If no spec expresses the sharding, the global shape is unknown.
// The argument is then reported if its rank is equal to the parameter's. Axes
// of size 1 are ignored. If `only` is not empty, arguments of other parameters
// are neither compared nor listed.
Drifts DriftsOf(const hlo::Program& program, const Mesh& mesh,
                std::span<const Planned> plan, std::string_view only = {});

// Returns a flaw for each input of tokens that lacks axes over which the plan
// shards the batch: the devices along such an axis get the same rows. An input
// of tokens is an integer array of rank 2 or more that is no parameter of the
// plan. It is skipped if its sharding is not known.
std::vector<Flaw> BatchFlawsOf(const hlo::Program& program, const Mesh& mesh,
                               std::span<const Planned> plan,
                               const AxisGroup& batch);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_DRIFT_H_
