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
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/traced.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
#include "roles/orientation.h"
#include "roles/stated_heads.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

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
Found Look(const Facts& facts, const StatedWidth& wanted) {
  Found out;
  for (const ParameterGroup& group : facts.groups()) {
    // The configuration's heads are not those of mixers, such as the linear
    // attention of some layers.
    if (group.role.module_role != wanted.role ||
        facts.blocks().MixerOf(group) != nullptr) {
      continue;
    }
    const int64_t width = HeadsWidth(facts, group);
    if (width == 0) continue;
    if (out.first == nullptr) out.first = &group;
    out.fits |= std::find(wanted.widths.begin(), wanted.widths.end(), width) !=
                wanted.widths.end();
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
    const Found found = Look(facts, wanted);
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
    if (std::find(shape->begin(), shape->end(), *experts) != shape->end()) {
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
// vocabulary. Such a table is padded and fits.
bool FitsDescribed(const Facts& facts, const Shape& shape,
                   const Shape& described) {
  const auto vocab = facts.model()->vocab;
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
