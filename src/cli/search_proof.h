// Proves shardings that a search found, in the same way as `verify step`.
#ifndef SHARDC_CLI_SEARCH_PROOF_H_
#define SHARDC_CLI_SEARCH_PROOF_H_

#include <functional>
#include <memory>
#include <string>

#include "cli/search_inputs.h"
#include "emit/costs/search_report.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "search/request.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Compiles rules that a search made, in the way in which `plan` will compile
// the written files. Returns null if they do not compile. `source_name` returns
// the name under which the plan lists a rules file; without it, the plan has
// the file's own name.
std::unique_ptr<const Compiled> CompileSearched(
    const Mesh& mesh, const search::RulesFile& file, const SearchInputs& inputs,
    const CompileOptions& options,
    const std::function<std::string(const std::string&)>& source_name,
    Findings& findings);

// Sets the sizes and the mode of a step. Returns false after a finding.
using SetStep =
    std::function<bool(const Compiled&, verify::StepRequest&, Findings&)>;

// Proves a step at reduced sizes: smaller sizes of the model, and a mesh of at
// most 16 devices. ZeRO is not proved; `zero` is its stage.
SearchProof ProveStep(const Mesh& mesh, const search::RulesFile& file,
                      const SearchInputs& inputs, int zero, const SetStep& set);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_PROOF_H_
