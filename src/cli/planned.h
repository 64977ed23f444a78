// A plan that a command takes from a file or compiles from its inputs, and why
// a command refuses one.
#ifndef SHARDC_CLI_PLANNED_H_
#define SHARDC_CLI_PLANNED_H_

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/command.h"
#include "cli/inputs.h"
#include "cost/inputs.h"
#include "plan/compile.h"
#include "plan/plan_table.h"
#include "plan/read.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns whether a spec of a plan that was read from a file is illegal, as in
// plans that `plan --keep-going` writes. If so, adds an error about the first
// such spec, with the code of the lint for this problem.
bool HasIllegalSpec(const ReadPlan& plan, Findings& findings);
// Returns whether the plan divides each of several parts of a dimension in this
// mode (model/legal_sizes.h), and adds a finding (inexpressible) that names the
// first such parameter. A compiled program shards arrays in one range for each
// device, so the plan's shardings cannot be compared with the program's.
bool HasDividedParts(const ReadPlan& plan, Mode mode, Findings& findings);

// Returns errors if the mesh axes that shard the query or KV heads do not
// divide the number of these heads, as tp of size 8 does not divide 12 heads.
// Returns no errors if the policy for illegal specs drops these axes.
Findings HeadFindings(const Compiled& compiled, const cost::CostInputs& work);

// Prints the errors of HeadFindings() in all modes as notes, each once. It is
// for `verify step`: this command only leaves out such axes when it shards
// heads. `cost` and `search --all` report them as errors.
void PrintUnevenHeads(const Compiled& compiled,
                      const std::optional<ModelConfig>& model,
                      std::span<const Mode> modes, const Common& common);

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
  std::optional<ReadPlan> view;              // nullopt for a compiled plan
  std::optional<ModelConfig> model;

  const Mesh& mesh() const { return table.classes.mesh; }
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

#endif  // SHARDC_CLI_PLANNED_H_
