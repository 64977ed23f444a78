// Finds what each axis of the mesh is for, from a compiled target.
#ifndef SHARDC_PLAN_AXIS_FACTS_H_
#define SHARDC_PLAN_AXIS_FACTS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "facts/axes.h"
#include "plan/compile.h"
#include "program/facts.h"
#include "resolve/resolve.h"

namespace shardc {

// A traced program of the model, and what it shows about each parameter of the
// plan: null for a parameter of which it shows nothing.
struct TracedParams {
  const program::Facts* facts = nullptr;
  std::span<const program::ParamFacts* const> params = {};
};

// Returns the facts of each axis of the mesh, in its order. They follow from
// the statements of the rules, the specs that the rules write for projections
// in train, and the names of the axes.
std::vector<AxisFacts> AxisFactsOf(const Compiled& compiled,
                                   const TracedParams& traced = {});

}  // namespace shardc

#endif  // SHARDC_PLAN_AXIS_FACTS_H_
