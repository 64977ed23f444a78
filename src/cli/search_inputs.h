// Reads the inputs of `search`: the model, the devices, the rules from which
// the search starts, and the choices that the user fixes, such as the mesh with
// `--keep mesh`.
#ifndef SHARDC_CLI_SEARCH_INPUTS_H_
#define SHARDC_CLI_SEARCH_INPUTS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cli/serving_flags.h"
#include "search/request.h"

namespace shardc::cli {

// The headings of the options of `--serve` and of `--all`.
inline constexpr char kServeGroup[] = "Serving (--serve)";
inline constexpr char kEveryGroup[] = "Every mesh (--all)";
// The name of the text of a rules file that the search made.
inline constexpr std::string_view kSearchedRules = "rules.yaml";

struct ServeFlags {
  ServingFlags engine;
  std::string first, token, arriving;
  bool serve = false, aggregated = false;
};

// The options of the table of every mesh.
struct EveryFlags {
  bool all = false;
  Strings axes;
  std::string limit;
  StageFlags stages;
};

struct SearchFlags {
  CostFlags cost;
  ServeFlags serve;
  EveryFlags every;
  Strings keep;
  std::string seconds, prove, output, naming = "hf", scan_axis;
  // A traced program whose mesh is searched in place of a model's sharding.
  std::string program;
  bool donate = false;
  bool unmeasured = false, details = false;
};

// Returns the options of `search`. They include the options of `cost`, except
// those about hosts.
Options OptionsOfSearch(SearchFlags& flags);

// Returns false after a finding if an option is given that has no effect on
// what is searched: shardings of a training step, every mesh (`--all`), or
// layouts of a server (`--serve`).
bool CheckSearchOptions(const SearchFlags& flags, const Common& common,
                        Findings& findings);

struct SearchInputs {
  std::string target;
  // The mesh file by which the user fixes the mesh. Empty if there is none.
  std::string mesh_path;
  std::string model_path;     // may be empty
  std::string manifest_path;  // empty if parameters are built from the model
  std::string naming;         // naming of built parameters: "hf" or "flax"
  bool header_only = false;   // value of `--header-only`
  // `has_stages` is true if the rules or the target declare pipeline stages.
  // The search ignores these stages. `has_rules_stages` is true if the rules
  // declare them. `-o` is then an error: the written rules would extend the
  // given rules, and so would declare the stages too.
  bool has_stages = false, has_rules_stages = false;
  // Whether the user gave rules. Otherwise the search starts from the built-in
  // rules that match the names of the parameters.
  bool rules_given = false;
  std::string profile;  // name of an accelerator, or path of a file
  search::Request request;
  std::vector<std::string> assumed;  // defaults that are used, as "--batch 64"
  int64_t prove = 1;                 // number of shardings to prove
};

// Reads the inputs. Returns null with findings if an input is invalid. The
// member `request` has pointers to other members of the result.
std::unique_ptr<SearchInputs> ReadSearchInputs(const SearchFlags& flags,
                                               const Common& common,
                                               Findings& findings);

// Returns the number of `--devices`; nullopt after a finding.
std::optional<int64_t> DeviceCount(const std::string& text, Findings& findings);

// What `search` does in place of a search of shardings. Each function prints
// its result and returns the exit status.

// `--all`: evaluates every mesh.
int RunSearchAll(const SearchFlags& flags, const Common& common,
                 Findings& findings);
// `--program`: searches the mesh of a traced program.
int SearchProgram(const SearchFlags& flags, const Common& common,
                  Findings& findings);
// `--serve`: searches layouts of a server, proves and writes the best.
int RunServe(const SearchFlags& flags, SearchInputs& inputs,
             const Common& common, Findings& findings);

// Compiles the given rules for one device. Returns kDone if they compile to a
// plan, kFound if the plan has unmatched or illegal parameters, and kFailed if
// they do not compile. Adds the findings. The search itself reports no such
// findings, because it skips rules that it cannot plan.
ExitStatus PlanGivenRules(const SearchInputs& inputs, Findings& findings);

// Returns the text of a rules file that the search made. The paths under
// `extends` are written unchanged.
std::string SearchedRulesYaml(const search::RulesFile& file);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_INPUTS_H_
