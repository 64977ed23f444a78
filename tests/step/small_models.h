// Small models of every family that has a description, for tests of the steps
// that are built from them.
#ifndef SHARDC_TESTS_STEP_SMALL_MODELS_H_
#define SHARDC_TESTS_STEP_SMALL_MODELS_H_

#include <string_view>
#include <vector>

#include "model/step_graph.h"
#include "step/build.h"
#include "step/described.h"

namespace shardc::step {

// A configuration with small sizes that all differ, so that a mistaken
// dimension changes a result.
struct Family {
  std::string_view pack;
  std::string_view naming;
  std::string_view config;
};

// The families, with at least one model of each pack that has a description.
extern const std::vector<Family> kFamilies;

// Returns the first family of a pack.
const Family& FirstOf(std::string_view pack);

Described ModelOf(const Family& family);

// Returns the forward pass of the model; the test fails if it has none.
StepModel Built(const Family& family, Mode mode,
                const AttentionForm& form = {});

// Checks that operands come before results, that labels are known, and that
// each value is the result of exactly one op.
void CheckForm(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_TESTS_STEP_SMALL_MODELS_H_
