// Reads a plan as a table of parameters, from a plan file or from a plan that
// was compiled from inputs.
#ifndef SHARDC_CLI_PLAN_TABLE_H_
#define SHARDC_CLI_PLAN_TABLE_H_

#include <memory>
#include <optional>
#include <string>

#include "cli/inputs.h"
#include "cost/inputs.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/view.h"

namespace shardc::cli {

// Returns the option `--allow-edited`, for commands that read a plan.
Option AllowEditedOption(bool* to);
EditedPlan EditedPlanOf(bool allow_edited);

std::optional<PlanTable> ReadTable(const std::string& path, EditedPlan edited,
                                   Findings& findings);
// Writes the compiled plan as JSON in memory, and returns the table that is
// read from this text. The table contains the text. The text lacks some
// properties of the mesh, such as the memory of a device. The table therefore
// gets the mesh of the inputs. Returns nullopt after a finding.
std::optional<PlanTable> TableOf(const Compiled& compiled, Findings& findings);

// A plan that was read from a file or compiled from inputs, in one form for
// commands that accept either.
struct Planned {
  // For a compiled plan, the table has the text of only one parameter for each
  // class of parameters that differ only in the name. Its names are views into
  // `compiled`. A comparison of plans needs the full text and calls TableOf.
  PlanTable table;
  std::unique_ptr<const Compiled> compiled;  // null for a plan from a file
  std::optional<PlanView> view;              // nullopt for a compiled plan
  std::optional<ModelConfig> model;

  const Mesh& mesh() const { return table.classes.plan.mesh; }
  cost::CostInputs WorkIn(Mode mode) const;
};

// Reads the plan in `file` or, if `file` is empty, compiles the inputs. Returns
// null after a finding. Sets `found` to true if the inputs could be read but do
// not compile to a plan.
std::unique_ptr<const Planned> LoadPlanned(const InputFlags& flags,
                                           const std::string& file,
                                           EditedPlan edited,
                                           const Target& target,
                                           const Common& common, bool& found,
                                           Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_TABLE_H_
