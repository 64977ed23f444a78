// The project that `shardc search` writes: a target for each sharding that it
// found.
#ifndef SHARDC_CLI_SEARCH_PROJECT_H_
#define SHARDC_CLI_SEARCH_PROJECT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/file_set.h"
#include "cli/search_inputs.h"
#include "emit/costs/search_report.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "search/request.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// The mesh file that `search` writes does not state the memory of a device.
// Returns this memory in bytes if the project file must state it: the value of
// `--memory`, or the memory in the input mesh file if it differs from the
// profile's. Otherwise returns nullopt.
std::optional<int64_t> OwnMemory(const SearchInputs& inputs);

// Returns the text of a rules file of a search, with the policies of flags.
std::string SearchedRulesText(search::RulesFile rules,
                              const SearchInputs& inputs);

class SearchProject {
 public:
  // Keeps a reference to the inputs.
  SearchProject(const SearchInputs& inputs, std::string folder);

  // Adds a target with a mesh file, and a rules file if the search changed the
  // rules (`own`) or if a flag sets a policy. The names of both files begin
  // with `prefix`. `settings` are further lines of the target.
  void AddTarget(const std::string& name, const std::string& prefix,
                 const Mesh& mesh, search::RulesFile rules, bool own,
                 const std::string& settings);
  // Returns the name under which a plan of the target lists a rules file.
  std::string SourceName(const std::string& prefix,
                         const std::string& file) const;
  void AddFile(NewFile file) { files_.push_back(std::move(file)); }
  // Adds the model's files and the project file, whose first line has
  // `comment`, and writes all files. Returns false with findings if a file
  // already exists or cannot be written.
  bool Write(const std::string& comment, const Common& common,
             Findings& findings);

 private:
  const SearchInputs& inputs_;
  const std::string folder_;
  // The names of the manifest and of the config.json (empty if the model has
  // none), which all targets use.
  std::string manifest_, config_;
  std::vector<NewFile> files_;
  std::string targets_;
};

// Proves shardings that a search found, in the same way as `verify step`.

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

#endif  // SHARDC_CLI_SEARCH_PROJECT_H_
