// The inputs of `search`: the model, the devices, the rules from which the
// search starts, and what is fixed.
#ifndef SHARDC_CLI_SEARCH_INPUTS_H_
#define SHARDC_CLI_SEARCH_INPUTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cli/option.h"
#include "search/request.h"

namespace shardc::cli {

struct SearchFlags {
  CostFlags cost;
  Strings keep;
  std::string seconds, prove, output, naming = "hf", scan_axis;
  bool unmeasured = false;
};

// Returns the options of `search`, and the options of `cost` that do not
// concern serving, pipelines or hosts.
Options OptionsOfSearch(SearchFlags& flags);

struct SearchInputs {
  std::string target;
  std::string mesh_path;      // of the kept mesh; empty: it is in no mesh file
  std::string model_path;     // may be empty
  std::string manifest_path;  // empty: the parameters are built
  std::string naming;         // of parameters that are built
  bool header_only = false;   // `--header-only`
  // Whether the rules or the target declare stages, which are not searched, and
  // whether the rules do, which a written project extends.
  bool has_stages = false, has_rules_stages = false;
  bool rules_given = false;  // and not only the pack that knows the names
  std::string profile;       // the name or the file
  search::Request request;
  std::vector<std::string> assumed;  // flags with values that were not given
  int64_t prove = 1;                 // number of shardings to prove
};

// Returns null with findings if an input is invalid. The request points into
// the result.
std::unique_ptr<SearchInputs> ReadSearchInputs(const SearchFlags& flags,
                                               const Common& common,
                                               Findings& findings);

// Returns kDone if the given rules give every parameter a plan on one device,
// kFound if they do not, and kFailed if they cannot be compiled; adds the
// findings. The search could only leave such rules out.
ExitStatus PlanGivenRules(const SearchInputs& inputs, Findings& findings);

// Returns the text of a rules file that the search made; `extends` stays as it
// is.
std::string SearchedRulesYaml(const search::RulesFile& file);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_INPUTS_H_
