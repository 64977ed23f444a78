// The rules that a search tries: the user's rules or the model's pack, the
// rules that are suggested for a mesh, and changed copies of these rules.
#ifndef SHARDC_SEARCH_RULE_OPTIONS_H_
#define SHARDC_SEARCH_RULE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "search/evaluator.h"
#include "search/request.h"
#include "search/rule_changes.h"
#include "search/settings_grid.h"
#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::search {

// Where rules come from: the user (or the model's pack), or `suggest`.
enum class Base : uint8_t { kGiven, kSuggested };

struct RuleOption {
  Base base = Base::kGiven;
  RuleChanges changes;
  std::string name;  // such as "builtin:llama/hf", followed by its changes
  RulesFile file;
  std::unique_ptr<Evaluator> evaluator;
};

class RuleOptions {
 public:
  RuleOptions(const Request& request, const SettingsGrid& grid);

  // Returns the rules from which the search starts: the given rules, the
  // suggested rules, or both. The result is empty if only the given rules may
  // be used and they are invalid.
  const std::vector<Base>& bases() const { return bases_; }
  // Returns the names of the mesh axes that are tried with the given rules or
  // with the suggested rules, the outermost axis first.
  const std::vector<std::string>& axes(Base base) const;

  // Returns the index of the option (a rules file with changes) for a mesh.
  // Returns nullopt if the rules do not compile, or if a change does not apply
  // to them. For suggested rules, also returns nullopt if suggest::MisfitOf()
  // refuses the mesh, for example because its tp axis would shard no parameter.
  // Equal rules for several meshes are one option.
  std::optional<uint32_t> For(Base base, const Mesh& mesh,
                              const RuleChanges& changes);

  // Returns the rules file of an option. Several meshes may share an option,
  // but the YAML comments of suggested rules describe one mesh. The comments
  // are written for `mesh`.
  RulesFile FileFor(uint32_t index, const Mesh& mesh) const;

  const RuleOption& operator[](uint32_t index) const {
    return *options_[index];
  }
  size_t size() const { return options_.size(); }

 private:
  // A rules file without changes. `option` is its index in `options_`, and is
  // nullopt if the file does not compile.
  struct BaseFile {
    std::string name;
    RulesFile file;
    std::optional<uint32_t> option;
  };
  std::optional<uint32_t> Add(Base base, const RuleChanges& changes,
                              std::string name, RulesFile file);
  // Returns the file that is suggested for a mesh, and sets `key` to its key in
  // `files_`. Returns null if suggest::MisfitOf() refuses the mesh.
  BaseFile* SuggestedFor(const Mesh& mesh, std::string& key);
  BaseFile* SuggestFile(const Mesh& mesh, std::string& key);
  BaseFile* GivenFile(std::string& key);

  const Request& request_;
  const SettingsGrid& grid_;
  const suggest::Tree tree_;
  std::vector<Base> bases_;
  std::vector<std::string> given_axes_, usual_axes_;
  // The role and the dimensions that `suggest` inferred for each parameter
  // group, keyed by the size of tp.
  std::map<int64_t, suggest::ModelDims> dims_;
  std::map<std::string, BaseFile> files_;
  // The results of SuggestedFor(), keyed by mesh: the file and its key.
  std::map<std::string, std::pair<BaseFile*, std::string>> suggested_;
  std::map<std::pair<std::string, RuleChanges>, std::optional<uint32_t>> known_;
  std::vector<std::unique_ptr<RuleOption>> options_;
  // The graphs of the training step, keyed by base. Changes of rules do not
  // change the description of the model, so all options with one base share
  // graphs.
  std::map<Base, std::shared_ptr<cost::StepGraphs>> graphs_;
};

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_RULE_OPTIONS_H_
