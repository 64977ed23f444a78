// Proves the sharding that a search found, and writes its files.
#ifndef SHARDC_CLI_SEARCHED_H_
#define SHARDC_CLI_SEARCHED_H_

#include <string>

#include "cli/command.h"
#include "cli/search_inputs.h"
#include "emit/costs/search_report.h"
#include "search/search.h"
#include "source/finding.h"

namespace shardc::cli {

// Compiles a sharding for its mesh and proves its training step in the same way
// as `verify step`: at reduced sizes of the model and the mesh.
SearchProof ProofOf(const search::Sharding& one, const SearchInputs& inputs);
// Proves the training step of a pipeline, divided into stages, at reduced sizes
// of the model and the mesh.
SearchProof ProofOf(const search::Pipeline& one, const SearchInputs& inputs);

// Writes a project whose target has the mesh and the rules of `one`. Rules
// files that the search did not change are named and not copied. If `one` is a
// pipeline, `pipeline` is that pipeline, and the target has stages; otherwise
// it is null. Returns false with findings if a file already exists or cannot be
// written.
bool WriteSearched(const search::Sharding& one,
                   const search::Pipeline* pipeline, const SearchInputs& inputs,
                   const std::string& folder, const Common& common,
                   Findings& findings);

// These functions return the `cost` command that prints the figures of the
// winner of the search, or of a pipeline. If the search wrote a project to
// `folder`, the command reads the project. Without a project, the command
// has the inputs as options. The command is empty if that is not possible,
// because the search changed the rules, built the parameters with a naming that
// the rules do not state, or chose a mesh that needs a mesh file.
std::string CostCommandOf(const search::Sharding& one,
                          const SearchInputs& inputs,
                          const std::string& folder);
std::string CostCommandOf(const search::Pipeline& one,
                          const SearchInputs& inputs,
                          const std::string& folder);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCHED_H_
