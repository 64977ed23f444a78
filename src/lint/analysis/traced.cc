// Compares what a traced program shows with the config.json and the `model:`
// section, by the factors of its parameters. Every size is looked up among all
// sizes of the program, since a model may have several towers:
//
//   num_attention_heads 40, and `elk` is heads 32 x head_dim 128  ->  misfit
//   role q: [n h] of 16 x 256, and `elk` is heads 32 x head_dim 128
//     ->  different: neither division is finer than the other one
#include "lint/analysis/traced.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/analysis/towers.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "roles/layer_stacks.h"
#include "roles/orientation.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/roles.h"

namespace shardc {
namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::ParamFacts;

class SizeFinder {
 public:
  explicit SizeFinder(const program::TracedProgram& traced) : traced_(traced) {}

  TracedSizes Find() {
    for (const ParamFacts& param : traced_.facts.params) {
      // The factors of all dimensions, since a head may be one of its own.
      FactorList all;
      for (const FactorList& dim : param.dims) {
        all.insert(all.end(), dim.begin(), dim.end());
      }
      Add(param, all);
    }
    return std::move(out_);
  }

 private:
  // Consecutive factors of one role, such as experts 2 x experts 4 where a
  // router chooses among groups of experts.
  struct Run {
    FactorRole role = FactorRole::kUnknown;
    int64_t size = 1;
    const Factor* first = nullptr;
  };

  const Factor& At(uint32_t factor) const {
    return traced_.facts.factors[factor];
  }

  // Returns the role that all factors of a factor's parts have, or the factor's
  // own: heads for (heads 4 | heads 2).
  FactorRole RoleOf(const Factor& factor) const {
    if (factor.parts.empty()) return factor.role;
    std::optional<FactorRole> out;
    for (const FactorList& part : factor.parts) {
      for (const uint32_t one : part) {
        const FactorRole role = RoleOf(At(one));
        if (out && *out != role) return FactorRole::kUnknown;
        out = role;
      }
    }
    return out.value_or(FactorRole::kUnknown);
  }

  std::vector<Run> RunsOf(const FactorList& list) const {
    std::vector<Run> out;
    for (const uint32_t one : list) {
      const Factor& factor = At(one);
      const FactorRole role = RoleOf(factor);
      if (out.empty() || out.back().role != role) {
        out.push_back({role, 1, &factor});
      }
      out.back().size *= factor.size;
    }
    return out;
  }

  void Note(TracedSizes::Sizes& sizes, int64_t size, const ParamFacts& param,
            const Factor& factor) {
    auto [at, fresh] = sizes.try_emplace(size, ShortQuote(param.name));
    if (!fresh) return;
    const auto line = std::ranges::find_if(
        factor.evidence,
        [](const program::Evidence& one) { return one.at.known(); });
    if (line == factor.evidence.end()) return;
    at->second += " at " + traced_.program.LineText(line->at);
  }

  void Add(const ParamFacts& param, const FactorList& list) {
    using enum FactorRole;
    for (const uint32_t one : list) {
      if (RoleOf(At(one)) != kUnknown) continue;
      for (const FactorList& part : At(one).parts) Add(param, part);
    }
    const std::vector<Run> runs = RunsOf(list);
    for (size_t i = 0; i < runs.size(); ++i) {
      const Run& run = runs[i];
      if (run.role == kExperts) {
        Note(out_.experts, run.size, param, *run.first);
      } else if (run.role == kVocab) {
        Note(out_.vocabularies, run.size, param, *run.first);
      } else if (run.role == kHeads || run.role == kKvHeads) {
        const bool grouped = i + 1 < runs.size() && runs[i + 1].role == kGroup;
        const int64_t group = grouped ? runs[i + 1].size : 1;
        if (run.role == kHeads || grouped) {
          Note(out_.heads, run.size * group, param, *run.first);
        }
        if (run.role == kKvHeads) {
          Note(out_.kv_heads, run.size, param, *run.first);
        }
        const size_t next = i + (grouped ? 2 : 1);
        if (next < runs.size() && runs[next].role == kHeadDim) {
          Note(out_.head_dims, runs[next].size, param, *run.first);
        }
      }
    }
  }

  const program::TracedProgram& traced_;
  TracedSizes out_;
};

// Adds a misfit if the program shows other sizes of this kind only.
void CompareSizes(int64_t stated, const TracedSizes::Sizes& sizes, bool heads,
                  std::string_view what, std::vector<Misfit>& out) {
  if (sizes.empty() || sizes.contains(stated)) return;
  const auto& [size, where] = *sizes.begin();
  out.push_back({heads,
                 "the configuration gives " + std::to_string(stated) + " " +
                     std::string(what) + ", and the program shows " +
                     std::to_string(size) + " in " + where,
                 nullptr});
}

}  // namespace

std::vector<const ParamFacts*> ParamsOfPlan(const program::Facts& facts,
                                            const Plan& plan) {
  std::unordered_map<std::string_view, const ParamFacts*> by_name;
  for (const ParamFacts& param : facts.params) {
    by_name.emplace(param.name, &param);
  }
  std::vector<const ParamFacts*> out(plan.params.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = by_name.find(plan.names[i]);
    if (at == by_name.end()) continue;
    const ParamLayout& layout = plan.layouts[plan.params[i].layout];
    if (plan.types[layout.type].shape == at->second->shape) out[i] = at->second;
  }
  return out;
}

TracedSizes TracedSizesOf(const Facts& facts) {
  const program::TracedProgram* const traced = facts.inputs().traced;
  return traced == nullptr ? TracedSizes() : SizeFinder(*traced).Find();
}

void AddTracedMisfits(const Facts& facts, const TracedSizes& traced,
                      std::vector<Misfit>& out) {
  const ModelConfig& model = *facts.model();
  if (const auto heads = HeadsOf(model)) {
    CompareSizes(heads->heads, traced.heads, true, "attention heads", out);
    if (model.kv_heads) {
      CompareSizes(heads->kv_heads, traced.kv_heads, true, "KV heads", out);
    }
    // Latent attention has heads of two sizes.
    if (!model.latent_rank) {
      CompareSizes(heads->head_dim, traced.head_dims, true,
                   "elements for each attention head", out);
    }
  }
  if (model.experts) {
    CompareSizes(*model.experts, traced.experts, false, "experts", out);
  }
  // A table with more rows than the vocabulary is padded and fits.
  if (model.vocab && !traced.vocabularies.empty() &&
      traced.vocabularies.rbegin()->first < *model.vocab) {
    CompareSizes(*model.vocab, traced.vocabularies, false,
                 "rows of the vocabulary", out);
  }
}

namespace {

// The elements of a dimension after which a new block begins, or the sizes of
// equal blocks at each level.
struct Division {
  std::set<int64_t> bounds, blocks;
};

bool Nest(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  return std::ranges::includes(a, b) || std::ranges::includes(b, a);
}

Division DivisionOf(const program::Facts& facts, const FactorList& dim) {
  Division out;
  int64_t inner = 1;
  for (size_t i = dim.size(); i-- > 1;) {
    inner *= facts.factors[dim[i]].size;
    out.blocks.insert(inner);
  }
  int64_t begin = 0;
  for (const FactorList& part : facts.factors[dim[0]].parts) {
    begin += facts.SizeOf(part) * inner;
    out.bounds.insert(begin);
  }
  return out;
}

// Returns nullopt if a size is unknown.
std::optional<Division> DivisionOf(const StepFacts& step,
                                   const DescribedDim& dim) {
  const auto& names = step.description().dims;
  const auto sum = [&](const std::vector<std::string>& parts,
                       std::set<int64_t>* bounds, int64_t inner) {
    int64_t out = 0;
    for (const std::string& part : parts) {
      const auto at = std::ranges::find(
          names, part,
          [](const auto& one) -> const auto& { return one.first; });
      const int64_t size =
          at == names.end() ? 0
                            : step.roles().sizes[AsIndex(at - names.begin())];
      if (size <= 0) return int64_t{0};
      out += size;
      if (bounds != nullptr) bounds->insert(out * inner);
    }
    return out;
  };
  Division out;
  int64_t inner = 1;
  for (size_t i = dim.factors.size(); i-- > 0;) {
    const bool leads = i == 0 && dim.factors[i].size() > 1;
    const int64_t size =
        sum(dim.factors[i], leads ? &out.bounds : nullptr, inner);
    if (size == 0) return std::nullopt;
    inner *= size;
    if (i > 0) out.blocks.insert(inner);
  }
  return out;
}

}  // namespace

void ReportTracedRoles(const Facts& facts, const Code& code,
                       FindingSink& sink) {
  const program::TracedProgram* const traced = facts.inputs().traced;
  const StepFacts* const step = facts.Step();
  if (traced == nullptr || step == nullptr) return;
  std::set<const ParameterGroup*> reported;
  for (size_t row = 0; row < step->roles().tensors.size(); ++row) {
    const step::TensorRole& tensor = step->roles().tensors[row];
    if (tensor.role < 0) continue;
    const ParameterGroup& group = step->GroupOf(static_cast<int64_t>(row));
    const ParamFacts* const param =
        facts.TracedParam(facts.Members(group).front());
    if (param == nullptr || !reported.insert(&group).second) continue;
    const DescribedRole& role = step->description().roles[AsIndex(tensor.role)];
    // The first dimension of a role counts experts that have their own tensors.
    const size_t first = tensor.expert >= 0 ? 1 : 0;
    std::vector<FactorList> dims = param->dims;
    if (tensor.stack_dim >= 0) dims.erase(dims.begin() + tensor.stack_dim);
    if (dims.size() + first != role.dims.size()) continue;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) continue;
      const DescribedDim& stated = role.dims[d + first];
      const auto by_role = DivisionOf(*step, stated);
      const Division shown = DivisionOf(traced->facts, dims[d]);
      if (!by_role || (Nest(by_role->blocks, shown.blocks) &&
                       Nest(by_role->bounds, shown.bounds))) {
        continue;
      }
      sink.push_back(GroupFinding(
          facts, code, group,
          ParametersText(facts, group) + " has the role " + Quote(role.name) +
              ", whose dimension `" + step::DimText(stated) +
              "` the traced program divides as " + traced->facts.Text(dims[d]),
          "correct the sizes of the role's dimensions in the `model:` section, "
          "or the configuration"));
      break;
    }
  }
}

namespace {

// Compares the sizes in the model's configuration with the shapes of
// parameters. A parameter tree may hold several towers (such as text and
// vision) with different sizes. Therefore it is enough that one parameter of a
// role has the size in the configuration. If none has it, the size is a misfit.
// For example:
//
//   32 heads of 128, every q_proj 2048 wide  ->  4096 is not 2048
//   40 heads of 128, q_proj 5120 wide        ->  fits
//
// Where the description of the model's family gives the parameters' names, it
// also gives the shape and the number of each, and these are compared too.

// Returns whether each stored element is one weight. Returns false for dtypes
// in which an element may pack several, such as two 4-bit weights.
bool IsPlain(const Facts& facts, const ParameterGroup& group) {
  const auto dtype = facts.TypeOf(group).dtype;
  return !dtype || !MayPack(*dtype);
}

// Returns the output size of a query, key or fused projection, without
// dimensions that count scanned layers; 0 if it is unknown.
int64_t HeadsWidth(const Facts& facts, const ParameterGroup& group) {
  const int side = OutDim(group.role, 2);
  if (side < 0 || !IsWeight(group) || !IsPlain(facts, group)) return 0;
  const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
  if (!dims) return 0;
  return (*facts.TypeOf(group).shape)[AsIndex((*dims)[AsIndex(side)])];
}

struct Found {
  const ParameterGroup* first = nullptr;  // the first group of this role
  // Whether some group of this role has one of the accepted output sizes.
  bool fits = false;
};
Found FindWidth(const Facts& facts, const StatedWidth& wanted) {
  Found out;
  for (const ParameterGroup& group : facts.groups()) {
    // The configuration's heads are not those of towers, nor those of mixers,
    // such as the linear attention of some layers.
    if (group.role.module_role != wanted.role ||
        facts.blocks().MixerOf(group) != nullptr ||
        facts.towers().Holds(group)) {
      continue;
    }
    const int64_t width = HeadsWidth(facts, group);
    if (width == 0) continue;
    if (out.first == nullptr) out.first = &group;
    out.fits |= IsAmong(width, wanted.widths);
  }
  return out;
}

// Returns whether some output projection has an input of this size.
bool EntersOutput(const Facts& facts, int64_t width) {
  return std::any_of(
      facts.groups().begin(), facts.groups().end(),
      [&](const ParameterGroup& group) {
        if (group.role.module_role != Role::kOutput) return false;
        const auto dims = MatrixDimsOf(facts, facts.stacks(), group);
        const int dim =
            dims ? InDim(group.role, 2) : InDim(group.role, facts.Rank(group));
        if (dim < 0) return false;
        const int stored = dims ? (*dims)[AsIndex(dim)] : dim;
        return (*facts.TypeOf(group).shape)[AsIndex(stored)] == width;
      });
}

bool HasAttention(const Facts& facts) {
  return std::any_of(facts.groups().begin(), facts.groups().end(),
                     [](const ParameterGroup& group) {
                       return group.role.attention &&
                              (group.role.module_role == Role::kQuery ||
                               group.role.module_role == Role::kFusedQkv);
                     });
}

void AddHeads(const Facts& facts, std::vector<Misfit>& out) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) {
    if (HasAttention(facts)) {
      out.push_back({true,
                     "the configuration gives no number or no size of "
                     "attention heads, and the model has attention",
                     nullptr});
    }
    return;
  }
  const bool gated = EntersOutput(facts, heads->heads * heads->head_dim);
  bool has_queries = false;
  for (const StatedWidth& wanted : StatedWidths(*heads, gated)) {
    const Found found = FindWidth(facts, wanted);
    const ParameterGroup* const group = found.first;
    has_queries |= found.fits && wanted.role == Role::kQuery;
    // If the separate query projections fit, a fused projection of another size
    // belongs to another tower of the model.
    const bool other = wanted.role == Role::kFusedQkv && has_queries;
    if (group == nullptr || found.fits || other) continue;
    out.push_back({true,
                   "the configuration gives " + wanted.text + ", which is " +
                       std::to_string(wanted.widths.front()) + ", and " +
                       ParametersText(facts, *group) + " is " +
                       std::to_string(HeadsWidth(facts, *group)) + " wide",
                   group});
    return;
  }
}

// Adds a size of the configuration that no dimension of a matrix fits, if a
// matrix satisfies `shows`.
template <typename Fits, typename Shows>
void AddAbsent(const Facts& facts, std::string_view what, int64_t stated,
               const Fits& fits, const Shows& shows, std::vector<Misfit>& out) {
  const ParameterGroup* first = nullptr;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    if (!shape || shape->size() < 2 || !IsPlain(facts, group)) continue;
    if (std::ranges::any_of(*shape, fits)) return;
    if (first == nullptr && shows(group)) first = &group;
  }
  if (first == nullptr) return;
  out.push_back({false,
                 "the configuration gives " + std::string(what) + " of " +
                     std::to_string(stated) +
                     ", which is no dimension of any matrix",
                 first});
}

void AddHidden(const Facts& facts, std::vector<Misfit>& out) {
  const auto hidden = facts.model()->hidden;
  if (!hidden) return;
  AddAbsent(
      facts, "a hidden size", *hidden,
      [&](int64_t size) { return size == *hidden; },
      [](const ParameterGroup&) { return true; }, out);
}

// Compares the inner width of an MLP. A gate and an up projection may be one
// matrix of twice that width, or the configuration may state the width of both.
// Models with experts need not have an MLP of the stated width.
void AddIntermediate(const Facts& facts, std::vector<Misfit>& out) {
  const ModelConfig& model = *facts.model();
  if (!model.intermediate || model.experts || model.moe_intermediate) return;
  const auto is_half = [](int64_t half, int64_t whole) {
    return whole % 2 == 0 && whole / 2 == half;
  };
  const int64_t stated = *model.intermediate;
  AddAbsent(
      facts, "an intermediate size", stated,
      [&](int64_t size) {
        return size == stated || is_half(size, stated) || is_half(stated, size);
      },
      [](const ParameterGroup& group) {
        return group.role.module_role == Role::kDown;
      },
      out);
}

void AddVocabulary(const Facts& facts, std::vector<Misfit>& out) {
  const auto vocab = facts.model()->vocab;
  const Vocabulary vocabulary = VocabularyOf(facts);
  if (!vocab || vocabulary.embedding == nullptr) return;
  const int64_t rows =
      (*facts.TypeOf(*vocabulary.embedding)
            .shape)[static_cast<size_t>(vocabulary.embedding_dim)];
  // An embedding with more rows than the vocabulary is padded and fits.
  if (rows >= *vocab) return;
  out.push_back({false,
                 "the configuration gives a vocabulary of " +
                     std::to_string(*vocab) + ", and " +
                     ParametersText(facts, *vocabulary.embedding) + " has " +
                     std::to_string(rows) + " rows",
                 vocabulary.embedding});
}

void AddExperts(const Facts& facts, std::vector<Misfit>& out) {
  const auto experts = facts.model()->experts;
  if (!experts) return;
  const ParameterGroup* first = nullptr;
  // The number of experts in `first`, which is the size of its first dimension
  // that does not count layers.
  int64_t held = 0;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    if (!group.role.expert || !shape) continue;
    const std::vector<int> dims = UnscannedDims(facts, facts.stacks(), group);
    const bool one_layer = shape->size() == 3;
    if (!one_layer && dims.size() != 3) continue;
    if (IsAmong(*experts, *shape)) {
      return;
    }
    if (first == nullptr) {
      first = &group;
      held = one_layer ? shape->front() : (*shape)[AsIndex(dims.front())];
    }
  }
  if (first == nullptr) return;
  out.push_back({false,
                 "the configuration gives " + std::to_string(*experts) +
                     " experts, and " + ParametersText(facts, *first) +
                     " holds " + std::to_string(held),
                 first});
}

// The layers that the names of a tree number, such as those of `model.layers`.
using LayersByChain = std::map<std::string_view, std::set<int64_t>>;

LayersByChain NumberedLayers(const Facts& facts) {
  LayersByChain out;
  // Layers that predict further tokens are not among those of the
  // configuration. They have this projection.
  std::set<std::pair<std::string_view, int64_t>> further;
  for (const ParameterGroup& group : facts.groups()) {
    const bool predicts = group.name.find("eh_proj") != std::string::npos;
    if (group.role.expert) continue;  // its layer has other parameters too
    for (const uint32_t member : facts.Members(group)) {
      const auto layer = LayerOf(facts.plan().names[member], facts.separator());
      if (!layer) continue;
      if (predicts) {
        further.emplace(layer->chain, layer->layer);
      } else {
        out[layer->chain].insert(layer->layer);
      }
    }
  }
  for (const auto& [chain, layer] : further) out[chain].erase(layer);
  return out;
}

void AddLayers(const Facts& facts, std::vector<Misfit>& out) {
  const auto stated = facts.model()->layers;
  if (!stated || *stated < 1) return;
  // A stack may count blocks of several layers.
  for (const LayerStack& stack : facts.stacks().stacks) {
    if (stack.layers > 0 && *stated % stack.layers == 0) return;
  }
  const LayersByChain chains = NumberedLayers(facts);
  const LayersByChain::value_type* most = nullptr;
  for (const auto& chain : chains) {
    const auto count = std::ssize(chain.second);
    if (count == *stated) return;
    if (most == nullptr || count > std::ssize(most->second)) most = &chain;
  }
  if (most == nullptr || most->second.empty()) return;
  out.push_back({false,
                 "the configuration gives " + std::to_string(*stated) +
                     " layers, and `" + std::string(most->first) + "` has " +
                     std::to_string(most->second.size()),
                 nullptr});
}

// Returns whether a shape is that of a description, or has more rows of the
// vocabulary. Such a table is padded and fits. Stacked experts also fit if the
// files store them transposed, as those of Qwen3-VL do: [experts, in, out].
bool FitsDescribed(const Facts& facts, const Shape& shape,
                   const Shape& described) {
  const auto vocab = facts.model()->vocab;
  if (shape.size() == 3 && described.size() == 3) {
    const Shape transposed = {described[0], described[2], described[1]};
    if (shape == transposed) return true;
  }
  return std::ranges::equal(
      shape, described, [&](int64_t held, int64_t stated) {
        return held == stated || (stated == vocab && held > stated);
      });
}

// Compares the shapes and the numbers of parameters with those that the
// description of the model's family has, if the tree has its names.
void AddDescribed(const Facts& facts, std::vector<Misfit>& out) {
  const program::Facts* const described = facts.described();
  if (described == nullptr || facts.inputs().traced != nullptr) return;
  std::map<std::string_view, const program::ParamFacts*> by_name;
  // How often each name is described, with `*` in place of numbers, and how
  // often the tree has it.
  std::map<std::string, int64_t> counts, held;
  for (const program::ParamFacts& param : described->params) {
    by_name.emplace(param.name, &param);
    ++counts[NameTemplate(param.name, facts.separator())];
  }
  for (const ParameterGroup& group : facts.groups()) {
    held[group.name] += group.count();
  }
  const auto shared = std::ranges::count_if(
      counts, [&](const auto& one) { return held.contains(one.first); });
  if (2 * shared < std::ssize(counts)) return;
  std::optional<Misfit> shapes;
  int64_t differ = 0;
  for (const ParameterGroup& group : facts.groups()) {
    const auto& shape = facts.TypeOf(group).shape;
    if (!shape || !IsPlain(facts, group)) continue;
    for (const uint32_t member : facts.Members(group)) {
      const auto at = by_name.find(facts.plan().names[member]);
      if (at == by_name.end() ||
          FitsDescribed(facts, *shape, at->second->shape)) {
        continue;
      }
      ++differ;
      if (shapes) continue;
      shapes = Misfit{false,
                      "the configuration describes `" + std::string(at->first) +
                          "` as " + ShapeText(at->second->shape) +
                          ", and it is " + ShapeText(*shape),
                      &group};
    }
  }
  if (shapes && differ > 1) {
    shapes->observation += "; " + Counted(differ - 1, "other shape differs",
                                          "other shapes differ");
  }
  if (shapes) out.push_back(*std::move(shapes));
  // A parameter that the tree lacks may be there under another name, as in
  // published files or in a quantised tree.
  const bool renamed = shared < std::ssize(held);
  for (const auto& [name, count] : counts) {
    const auto at = held.find(name);
    const int64_t found = at == held.end() ? 0 : at->second;
    if (found == count || (found == 0 && renamed)) continue;
    out.push_back({false,
                   "the configuration describes " +
                       Counted(count, "parameter", "parameters") + " `" + name +
                       "`, and the manifest has " +
                       (found == 0 ? "none" : std::to_string(found)),
                   nullptr});
    break;
  }
}

}  // namespace

std::vector<Misfit> MisfitsOf(const Facts& facts) {
  std::vector<Misfit> out;
  if (facts.model() == nullptr) return out;
  const TracedSizes traced = TracedSizesOf(facts);
  AddTracedMisfits(facts, traced, out);
  if (traced.heads.empty()) AddHeads(facts, out);
  AddHidden(facts, out);
  AddIntermediate(facts, out);
  if (traced.vocabularies.empty()) AddVocabulary(facts, out);
  if (traced.experts.empty()) AddExperts(facts, out);
  if (out.empty()) AddDescribed(facts, out);
  if (out.empty()) AddLayers(facts, out);
  return out;
}

}  // namespace shardc
