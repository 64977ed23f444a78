// The inputs of `search`: the model, the devices, the rules from which the
// search starts, and the choices that are fixed.
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
  // The mesh file, if the user fixes the mesh by a file; may be empty.
  std::string mesh_path;
  std::string model_path;     // may be empty
  std::string manifest_path;  // empty: parameters are built from the model
  std::string naming;         // naming of parameters that are built
  bool header_only = false;   // `--header-only`
  // `has_stages`: the rules or the target declare pipeline stages, which the
  // search ignores. `has_rules_stages`: the rules declare them. A project that
  // the search writes extends the rules, so it would have these stages too.
  bool has_stages = false, has_rules_stages = false;
  bool rules_given = false;  // false: the rules are the pack for the names
  std::string profile;       // the name of an accelerator, or a file
  search::Request request;
  std::vector<std::string> assumed;  // defaults used, as "--batch 64"
  int64_t prove = 1;                 // number of shardings to prove
};

// Reads the inputs. Returns null with findings if one is invalid. The member
// `request` has pointers to other members of the result.
std::unique_ptr<SearchInputs> ReadSearchInputs(const SearchFlags& flags,
                                               const Common& common,
                                               Findings& findings);

// Checks the given rules on one device. Returns kDone if they give every
// parameter a plan, kFound if they do not, and kFailed if they cannot be
// compiled; adds the findings. The search itself reports no such findings: it
// skips rules that it cannot plan.
ExitStatus PlanGivenRules(const SearchInputs& inputs, Findings& findings);

// Returns the text of a rules file that the search made. The paths under
// `extends` are written unchanged.
std::string SearchedRulesYaml(const search::RulesFile& file);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_INPUTS_H_
