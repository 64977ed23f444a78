// Plans as tables, from files or from what the inputs give.
#ifndef SHARDC_CLI_PLAN_TABLE_H_
#define SHARDC_CLI_PLAN_TABLE_H_

#include <memory>
#include <optional>
#include <string>

#include "cli/inputs.h"
#include "cost/work.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/view.h"

namespace shardc::cli {

std::optional<PlanTable> ReadTable(const std::string& path, Findings& findings);
// As it would be written; the mesh is the inputs' own.
std::optional<PlanTable> TableOf(const Compiled& compiled, Findings& findings);

// A plan from a file, or what inputs are compiled to, with all that is asked
// of either.
struct Planned {
  PlanTable table;
  std::unique_ptr<const Compiled> compiled;  // null of a file
  std::optional<PlanView> view;              // of a file
  std::optional<ModelConfig> model;

  const Mesh& mesh() const { return table.classes.plan.mesh; }
  cost::Work WorkIn(Mode mode) const;
};

// The inputs where `file` is empty. `found` turns true where they make no plan,
// and findings say why.
std::unique_ptr<const Planned> LoadPlanned(const InputFlags& flags,
                                           const std::string& file,
                                           const Target& target,
                                           const Common& common, bool& found,
                                           Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_TABLE_H_
