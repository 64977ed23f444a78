// Collects the rules that a search tries. Suggested rules name logical axes and
// not mesh axes, so many meshes have the same suggested file. Such a file is
// written, read and matched only once. The key of a file consists of the
// choices that `suggest` made. For example, it makes the same choices for the
// first two of these meshes, and other choices for the third:
//
//   fsdp=64, and dp=2 fsdp=32  ->  one file
//   tp=16 with 8 KV heads      ->  another, with `kv_head: null`
#include "search/rule_options.h"

#include <algorithm>
#include <utility>

#include "cost/fit.h"
#include "suggest/choose.h"
#include "suggest/mesh_axes.h"
#include "suggest/suggest.h"

namespace shardc::search {
namespace {

std::string KeyOf(const suggest::Choices& choices) {
  std::string out;
  for (const suggest::Choice& choice : choices.groups) {
    for (const auto& dim : choice.spec) {
      for (const suggest::AxisAssignment& one : dim) out += one.axis + " ";
      out += ",";
    }
    out += choice.place_axis + ";" + (choice.ignore_reshard ? "!" : "");
  }
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto& value = choices.axes.Given(static_cast<AxisRule>(i));
    if (!value) continue;
    out += "\n" + std::to_string(i);
    for (const std::string& axis : value->axes) out += " " + axis;
  }
  return out;
}

// Adds the axes of a mesh that the user gave, because rules may name them.
void AddAxesOf(const std::optional<Mesh>& mesh,
               std::vector<std::string>& axes) {
  if (!mesh) return;
  for (const MeshAxis& axis : mesh->axes) {
    if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) {
      axes.push_back(axis.name);
    }
  }
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    out += (out.empty() ? "" : ", ") + text;
  }
  return out;
}

}  // namespace

RuleOptions::RuleOptions(const Request& request, const SettingsGrid& grid)
    : request_(request),
      grid_(grid),
      tree_(suggest::ParameterGroupsOf(request.manifest)) {
  const bool experts = request.model && request.model->experts;
  usual_axes_ = cost::UsualAxes(RuleSet{}, experts, true);
  AddAxesOf(request.mesh, usual_axes_);
  std::string key;
  BaseFile* const given = request.rules.empty() ? nullptr : GivenFile(key);
  if (given != nullptr) {
    if (const auto rules = request.read(given->file)) {
      given_axes_ = cost::UsualAxes(*rules, experts, true);
      AddAxesOf(request.mesh, given_axes_);
      bases_.push_back(Base::kGiven);
    }
  }
  if (!request.keep_rules) bases_.push_back(Base::kSuggested);
}

const std::vector<std::string>& RuleOptions::axes(Base base) const {
  return base == Base::kGiven ? given_axes_ : usual_axes_;
}

RuleOptions::BaseFile* RuleOptions::GivenFile(std::string& key) {
  key = "given";
  const auto [at, fresh] = files_.try_emplace(key);
  if (fresh) {
    at->second.name = Joined(request_.rules);
    at->second.file.extends = request_.rules;
  }
  return &at->second;
}

RuleOptions::BaseFile* RuleOptions::SuggestedFor(const Mesh& mesh,
                                                 std::string& key) {
  const auto [at, fresh] = suggested_.try_emplace(MeshText(mesh));
  auto& [file, own_key] = at->second;
  if (fresh) file = SuggestFile(mesh, own_key);
  key = own_key;
  return file;
}

RuleOptions::BaseFile* RuleOptions::SuggestFile(const Mesh& mesh,
                                                std::string& key) {
  const suggest::MeshAxes axes = suggest::AxesOf(mesh);
  const ModelConfig* const model = request_.model ? &*request_.model : nullptr;
  auto dims = dims_.find(axes.tp);
  if (dims == dims_.end()) {
    dims = dims_
               .emplace(axes.tp,
                        suggest::InferDims(tree_, model, axes.tp,
                                           request_.preferences.scan_axis))
               .first;
  }
  const suggest::Choices choices =
      suggest::Choose(tree_, dims->second, axes, request_.preferences);
  if (!suggest::MisfitOf(tree_, axes, choices).empty()) return nullptr;
  key = KeyOf(choices);
  const auto [at, fresh] = files_.try_emplace(key);
  if (fresh) {
    suggest::Suggestion made =
        suggest::Suggest({.manifest = &request_.manifest,
                          .mesh = &mesh,
                          .model = model,
                          .preferences = request_.preferences});
    at->second.name = "suggested";
    at->second.file = {request_.description, std::move(made.file)};
  }
  return &at->second;
}

std::optional<uint32_t> RuleOptions::Add(Base base, const RuleChanges& changes,
                                         std::string name, RulesFile file) {
  auto rules = request_.read(file);
  if (!rules) return std::nullopt;
  auto option = std::make_unique<RuleOption>();
  auto& graphs = graphs_[base];
  if (graphs == nullptr) graphs = std::make_shared<cost::StepGraphs>();
  option->evaluator =
      Evaluator::Make(std::move(*rules), axes(base), request_, grid_, graphs);
  if (option->evaluator == nullptr) return std::nullopt;
  option->base = base;
  option->changes = changes;
  option->name = std::move(name);
  option->file = std::move(file);
  options_.push_back(std::move(option));
  return static_cast<uint32_t>(options_.size() - 1);
}

RulesFile RuleOptions::FileFor(uint32_t index, const Mesh& mesh) const {
  const RuleOption& option = *options_[index];
  if (option.base == Base::kGiven) return option.file;
  const suggest::Suggestion made =
      suggest::Suggest({.manifest = &request_.manifest,
                        .mesh = &mesh,
                        .model = request_.model ? &*request_.model : nullptr,
                        .preferences = request_.preferences});
  RulesFile out = option.file;
  out.own.comments = made.file.comments;
  const bool same = made.file.rules.size() == out.own.rules.size();
  for (size_t i = 0; same && i < out.own.rules.size(); ++i) {
    out.own.rules[i].comments = made.file.rules[i].comments;
  }
  return out;
}

std::optional<uint32_t> RuleOptions::For(Base base, const Mesh& mesh,
                                         const RuleChanges& changes) {
  std::string key;
  BaseFile* const file =
      base == Base::kGiven ? GivenFile(key) : SuggestedFor(mesh, key);
  if (file == nullptr) return std::nullopt;
  const auto plain = known_.find({key, RuleChanges{}});
  if (plain == known_.end()) {
    file->option = Add(base, {}, file->name, file->file);
    known_[{key, RuleChanges{}}] = file->option;
  }
  if (!file->option || changes == RuleChanges{}) return file->option;
  const auto [at, fresh] = known_.try_emplace({key, changes});
  if (!fresh) return at->second;
  const Compiled& all = options_[*file->option]->evaluator->all();
  auto changed = Changed(file->file, all, changes, base == Base::kSuggested);
  if (!changed) return std::nullopt;
  const bool hidden =
      !all.rules.axes.Value(AxisRule::kHiddenState).axes.empty();
  at->second =
      Add(base, changes, file->name + ", " + ChangesText(changes, hidden),
          std::move(*changed));
  return at->second;
}

}  // namespace shardc::search
