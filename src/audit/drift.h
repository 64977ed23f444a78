// Compares the shardings of a program's arguments with the shardings of a plan.
#ifndef SHARDC_AUDIT_DRIFT_H_
#define SHARDC_AUDIT_DRIFT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hlo/program.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

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
  std::optional<Spec> actual;  // nullopt: no spec over the mesh expresses it
  std::string sharding;        // the sharding as the text states it
};

struct Drifts {
  int64_t compared = 0;  // number of compared arguments
  std::vector<Drift> all;
};

// Compares each argument with a parameter of the plan: the parameter with the
// longest name in which the argument's path ends. `/` and `.` are equal in
// names. States of the optimizer are compared as well, because their paths end
// in the paths of their parameters. An argument is not compared if its global
// shape differs from the parameter's, or if the text has no sharding of it. If
// no spec expresses the sharding, only the ranks have to be equal. Axes of size
// 1 are ignored.
Drifts DriftsOf(const hlo::Program& program, const Mesh& mesh,
                std::span<const Planned> plan);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_DRIFT_H_
