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

// Compiles a sharding for its mesh and proves its training step at reduced
// sizes, as `verify step` does.
SearchProof ProofOf(const search::Sharding& one, const SearchInputs& inputs);
// The same for the stages of a pipeline.
SearchProof ProofOf(const search::Pipeline& one, const SearchInputs& inputs);

// Writes the mesh, the rules unless they are the given rules, and a project
// with both; and those of a pipeline, with its stages, as another target.
// `pipeline` may be null. Returns false with findings if a file exists or
// cannot be written.
bool WriteSearched(const search::Sharding& one,
                   const search::Pipeline* pipeline, const SearchInputs& inputs,
                   const std::string& folder, const Common& common,
                   Findings& findings);

// The `cost` command that prints the winner's figures, or a pipeline's; empty
// if the rules are changed and not written. `has_pipeline`: the project that is
// written has a second target.
std::string CostCommandOf(const search::Sharding& one, bool has_pipeline,
                          const SearchInputs& inputs,
                          const std::string& folder);
std::string CostCommandOf(const search::Pipeline& one,
                          const SearchInputs& inputs,
                          const std::string& folder);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCHED_H_
