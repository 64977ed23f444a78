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
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "cost/fit.h"
#include "facts/parameters.h"
#include "roles/classify.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "suggest/choose.h"
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
    AddOnce(axes, axis.name);
  }
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
    at->second.name = Join(request_.rules, ", ");
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

// Changes the rules of a file for a search. A change of axis rules is written
// to the section `axes:`. Another change replicates the weights of one purpose,
// such as attention, over the data axes. For this, the data axes are removed
// from the rules that win (are the first to match) only weights of this
// purpose. Such rules are changed in place, or changed copies of them are
// added. A copy is placed before the rules of the extended files, so that it
// wins. For example, the copy on the right replicates q_proj over data axes:
//
//   - match: 'self_attn\.q_proj\.weight$'     - match: 'self_attn\.q_proj...'
//     spec: [HEAD, [FSDP, SP]]           ->     spec: [HEAD, null]

namespace {

// The purposes of weights. kEnds are the embedding and the output head.
enum class Family : uint8_t { kNone, kAttention, kEnds, kOther };

Family FamilyOf(Role role) {
  if (IsAttention(role)) return Family::kAttention;
  const bool end = role == Role::kEmbedding || role == Role::kHead;
  return end ? Family::kEnds : Family::kOther;
}

// Returns the purpose of the weights that each rule wins (is the first to
// match), indexed by rule. The purpose is kNone if the rule wins no weight, and
// kOther if its weights have several purposes.
std::vector<Family> FamiliesOf(const Compiled& all) {
  std::vector<Family> out(all.rules.rules.size(), Family::kNone);
  const facts::ParameterTable& table = all.Parameters();
  for (size_t i = 0; i < all.plan.params.size(); ++i) {
    const int32_t rule = all.matches.first[i];
    const uint32_t layout = all.plan.params[i].layout;
    const auto& type = all.plan.types[all.plan.layouts[layout].type];
    if (rule < 0 || !type.shape || type.shape->size() < 2) continue;
    const Family family =
        FamilyOf(table.Of(i).RoleBy(facts::Evidence::kShapes).module_role);
    Family& known = out[AsIndex(rule)];
    known = known == Family::kNone || known == family ? family : Family::kOther;
  }
  return out;
}

bool IsDataRule(AxisRule rule) {
  return rule == AxisRule::kDataParallel ||
         rule == AxisRule::kFullyShardedDataParallel ||
         rule == AxisRule::kSequenceParallel;
}

// Returns whether a name in a spec (a logical axis or a mesh axis) is a data
// axis: an axis of data, fully sharded data or sequence parallelism.
bool NamesData(const SpecName& name, const Resolver& resolver) {
  if (!resolver.MeansMeshAxis(name)) {
    const Token* const token = FindToken(name.text);
    if (token != nullptr) return token->rule && IsDataRule(*token->rule);
    if (const auto rule = ParseAxisRule(name.text)) return IsDataRule(*rule);
  }
  const std::span<const AxisRule> rules = ParallelismRules();
  return std::any_of(rules.begin(), rules.end(), [&](AxisRule rule) {
    const AxisGroup group = resolver.axes().Value(rule).axes;
    return IsDataRule(rule) && IsAmong(name.text, group);
  });
}

// Returns the spec without its data axes. Returns nullopt if the spec has no
// data axes, or if it is not a list.
std::optional<SpecSource> WithoutData(const SpecSource& spec,
                                      const Resolver& resolver) {
  const auto* const list = std::get_if<SpecList>(&spec);
  if (list == nullptr) return std::nullopt;
  SpecList out = *list;
  bool changed = false;
  for (SpecEntry& entry : out.entries) {
    changed = std::erase_if(entry.names,
                            [&](const SpecName& name) {
                              return NamesData(name, resolver);
                            }) > 0 ||
              changed;
    entry.is_group = entry.names.size() > 1;
  }
  return changed ? std::optional<SpecSource>(std::move(out)) : std::nullopt;
}

// Returns whether copies of these rules, placed first, would win parameters
// that other rules win now.
bool WouldWinOthers(const Compiled& all, const std::vector<size_t>& copied) {
  const auto is_copied = [&](uint32_t rule) { return IsAmong(rule, copied); };
  for (size_t i = 0; i < all.matches.first.size(); ++i) {
    const int32_t first = all.matches.first[i];
    if (first < 0 || is_copied(static_cast<uint32_t>(first))) continue;
    const auto rules = all.matches.Of(i);
    if (std::any_of(rules.begin(), rules.end(), is_copied)) return true;
  }
  return false;
}

bool HoldWeights(const Compiled& all, const RuleChanges& changes, bool in_place,
                 RulesFile& file) {
  const std::vector<Family> families = FamiliesOf(all);
  std::vector<size_t> copied;
  std::vector<ImportedRule> copies;
  for (size_t i = 0; i < families.size(); ++i) {
    const bool held =
        (changes.holds_attention && families[i] == Family::kAttention) ||
        (changes.holds_ends && families[i] == Family::kEnds);
    if (!held || all.rules.rules[i].placement) continue;
    auto spec = WithoutData(all.rules.rules[i].spec, *all.resolver);
    if (!spec) continue;
    copied.push_back(i);
    if (in_place) {
      file.own.rules[i].rule.spec = std::move(*spec);
      continue;
    }
    ImportedRule copy;
    copy.rule = all.rules.rules[i];
    copy.rule.spec = std::move(*spec);
    copy.comments = {"Not sharded over data axes: no gather before use."};
    copies.push_back(std::move(copy));
  }
  if (copied.empty() || (!in_place && WouldWinOthers(all, copied))) {
    return false;
  }
  if (!copies.empty()) file.own.separator = copies.front().rule.separator;
  file.own.rules.insert(file.own.rules.begin(),
                        std::make_move_iterator(copies.begin()),
                        std::make_move_iterator(copies.end()));
  return true;
}

bool HoldsAll(const AxisGroup& all, const AxisGroup& some) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& axis) {
    return IsAmong(axis, all);
  });
}

}  // namespace

std::optional<RulesFile> Changed(const RulesFile& file, const Compiled& all,
                                 const RuleChanges& changes, bool in_place) {
  RulesFile out = file;
  const AxisRules& axes = all.rules.axes;
  if (changes.replicates_keys) {
    if (axes.Value(AxisRule::kKvHead).axes.empty()) return std::nullopt;
    out.own.axes.Set(AxisRule::kKvHead, {});
  }
  if (changes.repeats_keys) out.own.policy.kv_replicate = true;
  if (changes.turns_hidden) {
    const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
    if (tensor.empty()) return std::nullopt;
    const bool sharded = !axes.Value(AxisRule::kHiddenState).axes.empty();
    out.own.axes.Set(AxisRule::kHiddenState,
                     sharded ? AxisValue{} : AxisValue{false, tensor});
  }
  if (changes.batch_over_experts) {
    AxisGroup batch = axes.Value(AxisRule::kBatch).axes;
    const AxisGroup experts = axes.Value(AxisRule::kExpertParallel).axes;
    if (experts.empty() || HoldsAll(batch, experts)) return std::nullopt;
    batch.insert(batch.end(), experts.begin(), experts.end());
    out.own.axes.Set(AxisRule::kBatch, {false, std::move(batch)});
  }
  if (changes.whole_experts) {
    AxisGroup experts = axes.Value(AxisRule::kExpert).axes;
    const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
    // Rules that are written for a mesh name its axes, and not axis rules.
    if (in_place || tensor.empty() || HoldsAll(experts, tensor)) {
      return std::nullopt;
    }
    experts.insert(experts.end(), tensor.begin(), tensor.end());
    out.own.axes.Set(AxisRule::kExpert, {false, std::move(experts)});
  }
  if ((changes.holds_attention || changes.holds_ends) &&
      !HoldWeights(all, changes, in_place, out)) {
    return std::nullopt;
  }
  return out;
}

std::string ChangesText(const RuleChanges& changes, bool hidden_sharded) {
  std::string out;
  const auto add = [&](bool is, const char* text) {
    if (is) AppendItem(out, ", ", text);
  };
  add(changes.turns_hidden, hidden_sharded ? "hidden states not sharded over tp"
                                           : "hidden states sharded over tp");
  add(changes.replicates_keys, "KV heads replicated over tp");
  add(changes.repeats_keys, "one KV head on each device");
  add(changes.batch_over_experts, "batch over the experts' axis");
  add(changes.whole_experts, "experts not sharded over tp");
  add(changes.holds_attention, "attention weights not sharded over data axes");
  add(changes.holds_ends, "embedding and head not sharded over data axes");
  return out;
}

namespace {

// Hill climbing over sets of factors. The ratio that orders the candidates
// (suggest/by_program.cc) does not depend on sizes, so it is wrong where
// activations are smaller than weights, or where a small factor excludes a
// large one:
//
//   patches [8, 16 tokens, 256]: by the ratio tp shards the 16 tokens' learned
//   positions. Then keys and values are reduced in each layer: 15.1 MiB. Heads
//   and the inner width send 4.4 MiB, and divide as many multiplications.

// The operations that a device computes in the time in which it sends a byte:
// about 400 TFLOP/s and 300 GB/s. Only the order of sets depends on it.
constexpr double kFlopsPerByte = 1333;

// A set must save these shares of what the factors with the best ratio save of
// a device's multiplications, and of its bytes of parameters. Where the sizes
// of a program are small, the least traffic would otherwise leave the axis
// unused.
constexpr double kLeastFlopsSaved = 0.875;
constexpr double kLeastBytesSaved = 0.9;

// The most sets whose cost is computed. Programs have about ten candidates.
constexpr size_t kMostSets = 100;

struct Result {
  std::set<uint32_t> factors;
  double flops = 0;
  double sent = 0;
  double parameters = 0;  // bytes of a device
  bool suits = false;     // whether the mesh suits the model then

  double time() const { return flops / kFlopsPerByte + sent; }
};

class Climber {
 public:
  Climber(const suggest::ByProgram& by_program, bool divides_parts,
          const CostOfChoices& cost_of)
      : by_program_(by_program),
        divides_parts_(divides_parts),
        cost_of_(cost_of) {}

  FactorChoice Climb() {
    none_ = ResultOf({});
    if (by_program_.candidates().empty()) {
      return {{}, none_.sent, none_.time()};
    }
    Add(by_program_.BestByRatio());
    Result best = Best();
    while (true) {
      for (const uint32_t factor : by_program_.candidates()) {
        if (by_program_.FirstLike(factor) != factor) continue;
        for (std::set<uint32_t>& set : Neighbours(best.factors, factor)) {
          Add(std::move(set));
        }
      }
      Result next = Best();
      if (next.factors == best.factors) {
        return {best.factors, best.sent, best.time()};
      }
      best = std::move(next);
    }
  }

 private:
  // The sets without a factor that they have, or with one that they lack.
  std::vector<std::set<uint32_t>> Neighbours(const std::set<uint32_t>& factors,
                                             uint32_t factor) const {
    if (!factors.contains(factor)) {
      std::set<uint32_t> full = by_program_.With(factors, factor);
      std::set<uint32_t> bare = full;
      by_program_.Fill(full);
      return {std::move(full), std::move(bare)};
    }
    return {by_program_.Without(factors, factor)};
  }

  void Add(std::set<uint32_t> factors) {
    if (results_.size() >= kMostSets || !seen_.insert(factors).second) return;
    results_.push_back(ResultOf(std::move(factors)));
  }

  Result ResultOf(std::set<uint32_t> factors) const {
    const suggest::Choices choices =
        by_program_.Choose(factors, divides_parts_);
    const cost::ProgramCost cost = cost_of_(choices);
    const int64_t parameters =
        cost.memory[static_cast<size_t>(cost::ProgramMemory::kParameters)];
    return {std::move(factors), cost.device_flops,
            static_cast<double>(cost.Sent()), static_cast<double>(parameters),
            by_program_.Suits(choices)};
  }

  bool Saves(const Result& one) const {
    const Result& first = results_.front();
    const auto saves = [&](double Result::*of, double least) {
      return none_.*of - one.*of >= least * (none_.*of - first.*of);
    };
    return one.suits && saves(&Result::flops, kLeastFlopsSaved) &&
           saves(&Result::parameters, kLeastBytesSaved);
  }

  Result Best() const {
    const Result* best = &results_.front();
    for (const Result& one : results_) {
      if (Saves(one) && one.time() < best->time()) best = &one;
    }
    return *best;
  }

  const suggest::ByProgram& by_program_;
  const bool divides_parts_;
  const CostOfChoices& cost_of_;
  std::set<std::set<uint32_t>> seen_;
  std::vector<Result> results_;
  Result none_;  // without tensor parallelism
};

}  // namespace

FactorChoice CheapestFactors(const suggest::ByProgram& by_program,
                             bool divides_parts, const CostOfChoices& cost_of) {
  return Climber(by_program, divides_parts, cost_of).Climb();
}

}  // namespace shardc::search
