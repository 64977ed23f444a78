// The rules that a search tries: the user's rules or the model's pack, the
// rules that are suggested for a mesh, and changed copies of these rules.
#ifndef SHARDC_SEARCH_RULE_OPTIONS_H_
#define SHARDC_SEARCH_RULE_OPTIONS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cost/traced_program.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "search/evaluator.h"
#include "search/request.h"
#include "suggest/by_program.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::search {

// The changes of a rules file that a search tries. They change which axes shard
// KV heads, hidden states and the batch, or keep some weights unsharded over
// data axes.

struct RuleChanges {
  bool replicates_keys = false;  // whether KV heads are replicated over tp
  // Whether to reverse how hidden states are sharded over tp: unsharded ones
  // become sharded, and sharded ones unsharded.
  bool turns_hidden = false;
  bool batch_over_experts = false;  // whether the expert axis shards the batch
  // Whether tp distributes whole experts too, and does not divide an expert, as
  // Megatron does with an expert tensor parallelism of 1.
  bool whole_experts = false;
  // Whether the weights of attention, or the embedding and the output head, are
  // not sharded over data axes. Such weights are not gathered before use, but
  // need more memory.
  bool holds_attention = false, holds_ends = false;
  // Whether KV heads that are fewer than the devices are replicated, one on
  // each device (`kv_replicate`), as serving engines do.
  bool repeats_keys = false;

  auto operator<=>(const RuleChanges&) const = default;
  // Returns whether published runs have used rules with these changes.
  bool Measured() const {
    return !replicates_keys && !holds_attention && !holds_ends;
  }
};

// Returns the file with the changes, or nullopt if a change does not apply to
// the file. `all` is the result of compiling the file. If `in_place` is true,
// the rules of the file are changed, and the file must not extend other rules.
// Otherwise changed copies of rules are added to the file.
std::optional<RulesFile> Changed(const RulesFile& file, const Compiled& all,
                                 const RuleChanges& changes, bool in_place);

// Returns the changes as a text, such as "hidden states sharded over tp, KV
// heads replicated over tp"; empty if there are no changes. `hidden_sharded`
// states whether hidden states are sharded over tp before the change.
std::string ChangesText(const RuleChanges& changes, bool hidden_sharded);

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

// Chooses which factors of a traced program tensor parallelism shards, by what
// the program costs.

// Returns what the program costs under choices of specs.
using CostOfChoices =
    std::function<cost::ProgramCost(const suggest::Choices& choices)>;

struct FactorChoice {
  std::set<uint32_t> factors;  // as indices into Facts::factors
  double sent_bytes = 0;       // by a device in a step
  // The time of multiplications and traffic, in bytes that could be sent.
  double time = 0;
};

// Returns the cheapest factors: those with the least time of multiplications
// and traffic, of the sets that divide the multiplications well. The search
// begins with the factors with the best ratio, and exchanges one factor at a
// time. `divides_parts` is that of ByProgram::Choose().
FactorChoice CheapestFactors(const suggest::ByProgram& by_program,
                             bool divides_parts, const CostOfChoices& cost_of);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_RULE_OPTIONS_H_
