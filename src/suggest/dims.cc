// Infers what each dimension of a parameter means. Most weight matrices have
// one side that is the model's width (hidden size) and one inner side, such as
// a feed-forward width, heads, or a vocabulary. Tensor parallelism shards the
// inner side, so it must be known which side that is. The length of the bias
// and the sizes of the two sides decide this. If both sides have the same size,
// their orientation ([in, out] or [out, in], see roles/orientation.h) decides:
//
//   up_proj [14336, 4096], width 4096  ->  inner is dimension 0
//   q_proj [4096, 4096], [out, in]     ->  inner is the output, dimension 0
//   o_proj [4096, 4096], [out, in]     ->  inner is the input, dimension 1
//
// InferDims() runs these passes, in this order:
// - remove the dimensions that count scanned layers
// - find roles by names, and correct those of gates and attention outputs
// - find experts, the two sides of each matrix, and vocabularies
// - decide which side of each matrix is the inner one
// - link biases and scales to their weights, and set the blocks of each scale
// - infer the number of heads
#include "suggest/dims.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "model/project.h"
#include "roles/classify.h"
#include "roles/described.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "suggest/by_program.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {
namespace {

// Finds roles by the other matrices of a module. d is the model's width, h a
// number of heads and c the columns of one head:
//
//   query [d, h, c], x [h, c, d]         ->  x is the output of attention
//   query [d, h * c], wo [h * c, d]      ->  wo is the output of attention
//   query, key, value, x [d, d]          ->  x is the output of attention
//   qkv [d, 3d], x [d, d]                ->  x is the output of attention
//   x [d, 3d], y [d, d]                  ->  x is a fused qkv, y the output
//   x, y, z [d, h, c], o [h, c, d]       ->  x, y, z are projections to heads
//
// The last four need that only one matrix of the module has the output's
// sizes: of several square matrices, nothing shows which one is the output. A
// matrix [3d, d] next to [d, 3d] shows a feed-forward block of width 3d, and a
// convolution or a decay (`A_log`) shows a mixer, whose parts are no queries,
// keys and values.

// The number of projections that one matrix or one leading dimension stacks:
// query, key and value.
constexpr int64_t kJoined = 3;
// The largest number of parts of a name between a module and the stored tensor,
// as in `attn/to_out/0/kernel`.
constexpr int kMostBelow = 3;

// Parameters of state-space mixers and of linear attention. `in_proj` is not
// one of them, because it is also a fused projection of attention.
constexpr std::array<std::string_view, 3> kMixing = {"A_log", "conv1d",
                                                     "dt_bias"};

// Returns whether one of the last two parts of the name is a word for the
// output projection of attention, such as `o_proj`.
bool IsCalledOutput(const ParameterGroup& group) {
  const auto names = [](std::string_view part) {
    return RoleOfWord(part, {.in_attention = true}, Confidence::kSure) ==
           Role::kOutput;
  };
  const size_t count = group.parts.size();
  return names(group.parts[count - 1]) ||
         (count > 1 && names(group.parts[count - 2]));
}

bool IsWeightMatrix(const ParameterGroup& group, const InferredDims& inferred) {
  return group.rank() >= 2 && !MayPack(group) && inferred.role != Role::kBias &&
         inferred.role != Role::kScale && !IsNorm(inferred.role) &&
         !IsAdapter(inferred.role) && inferred.role != Role::kPosition;
}

// The groups of one module: of the innermost subtree that holds several
// matrices.
struct Module {
  std::string path = {};
  std::vector<size_t> matrices = {};
  // Whether a part of the module shows that it is no attention.
  bool mixes = false;
};

class SiblingRoles {
 public:
  SiblingRoles(const Tree& tree, const ModelConfig* model, ModelDims& dims)
      : tree_(tree), model_(model), dims_(dims) {}

  void Run() {
    NameOutputsOfQueries();
    const std::vector<Module> modules = Modules();
    for (const Module& module : modules) {
      NameOutputOfNamed(module);
      NameByHeads(module);
      NameFused(module);
    }
    for (const Module& module : modules) FindFeedForward(module);
  }

 private:
  InferredDims& At(size_t k) { return dims_.groups[k]; }
  const Shape& ShapeOf(size_t k) const { return tree_.groups[k].shape; }
  bool IsUnknown(size_t k) const {
    return dims_.groups[k].role == Role::kOther &&
           !dims_.groups[k].by_name.expert;
  }

  // Sets the role of the output of attention next to a query, or to a fused
  // projection with a dimension of heads, whose shape is the transposed one.
  void NameOutputsOfQueries() {
    // For each attention block, the shape of its output projection.
    std::unordered_map<std::string_view, Shape> outputs;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      const InferredDims& inferred = At(k);
      const std::string_view block = inferred.by_name.block_path;
      const Shape& shape = ShapeOf(k);
      if (inferred.role == Role::kQuery && shape.size() == 3) {
        outputs.try_emplace(block, Shape{shape[1], shape[2], shape[0]});
      } else if (inferred.role == Role::kQuery && shape.size() == 2) {
        outputs.try_emplace(block, Shape{shape[1], shape[0]});
      } else if (inferred.role == Role::kFusedQkv && shape.size() == 4 &&
                 shape[1] == kJoined) {
        outputs.try_emplace(block, Shape{shape[2], shape[3], shape[0]});
      }
    }
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      InferredDims& inferred = At(k);
      if (inferred.role != Role::kOther && inferred.role != Role::kDown) {
        continue;
      }
      std::string_view path = inferred.by_name.block_path;
      auto output = outputs.find(path);
      // The end of the name may be an unknown word, as in `lookback/mix/v1`.
      // The block's path is then one part too long, `lookback/mix`, and has no
      // queries. The path without this part, `lookback`, is tried.
      if (output == outputs.end() && inferred.role == Role::kOther) {
        const size_t end = path.rfind(tree_.separator);
        if (end != path.npos) output = outputs.find(path.substr(0, end));
      }
      if (output == outputs.end() || ShapeOf(k) != output->second) continue;
      if (ShapeOf(k).size() == 3 || IsCalledOutput(tree_.groups[k])) {
        inferred.role = Role::kOutput;
      }
    }
  }

  std::vector<Module> Modules() const {
    // Nearly all paths of names without numbers have one matrix.
    std::unordered_map<std::string_view, int> matrices;
    matrices.reserve(tree_.groups.size());
    const auto paths_of = [&](size_t k) {
      std::vector<std::string_view> out;
      std::string_view path = tree_.groups[k].name;
      for (int i = 0; i < kMostBelow; ++i) {
        const size_t end = path.rfind(tree_.separator);
        if (tree_.separator == 0 || end == path.npos) break;
        path = path.substr(0, end);
        out.push_back(path);
      }
      return out;
    };
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      if (!IsWeightMatrix(tree_.groups[k], dims_.groups[k])) continue;
      for (const std::string_view path : paths_of(k)) ++matrices[path];
    }
    std::vector<Module> out;
    std::unordered_map<std::string_view, size_t> modules;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      for (const std::string_view path : paths_of(k)) {
        const auto count = matrices.find(path);
        if (count == matrices.end() || count->second < 2) continue;
        const auto at = modules.try_emplace(path, out.size());
        if (at.second) out.push_back({.path = std::string(path)});
        Module& module = out[at.first->second];
        const auto& parts = tree_.groups[k].parts;
        module.mixes =
            module.mixes || dims_.groups[k].role == Role::kStateSpace ||
            std::any_of(parts.begin(), parts.end(),
                        [](auto part) { return IsAmong(part, kMixing); });
        if (IsWeightMatrix(tree_.groups[k], dims_.groups[k])) {
          module.matrices.push_back(k);
        }
        break;
      }
    }
    std::ranges::sort(out, {}, &Module::path);
    return out;
  }

  // Sets a role that sizes show, and the block to which the matrix belongs.
  void SetRole(size_t k, Role role, const std::string& block, Siblings by) {
    InferredDims& inferred = At(k);
    inferred.role = role;
    inferred.siblings = by;
    inferred.by_name.block_path = block;
  }

  // Finds the output next to named queries, keys and values: the only other
  // matrix of the module that has the transposed sizes of the queries.
  void NameOutputOfNamed(const Module& module) {
    std::optional<size_t> query, output;
    bool keys = false, values = false;
    for (const size_t k : module.matrices) {
      const Role role = At(k).role;
      if (role == Role::kOutput) return;
      if (role == Role::kQuery && ShapeOf(k).size() == 2) query = k;
      keys = keys || role == Role::kKey;
      values = values || role == Role::kValue;
    }
    if (!query || !keys || !values) return;
    const Shape wanted = {ShapeOf(*query)[1], ShapeOf(*query)[0]};
    for (const size_t k : module.matrices) {
      if (!IsUnknown(k) || ShapeOf(k) != wanted) continue;
      if (output) return;
      output = k;
    }
    if (!output) return;
    SetRole(*output, Role::kOutput, At(*query).by_name.block_path,
            Siblings::kNames);
  }

  // Finds the projections to and from heads of a module whose matrices have one
  // dimension for heads and one for the columns of a head.
  void NameByHeads(const Module& module) {
    std::optional<size_t> output;
    std::vector<size_t> inputs;
    std::string block = module.path;
    for (const size_t k : module.matrices) {
      const Shape& shape = ShapeOf(k);
      const bool known = At(k).role == Role::kOutput;
      if (shape.size() != 3 || (!IsUnknown(k) && !known)) continue;
      const Shape first = {shape[2], shape[0], shape[1]};
      const bool fits = std::any_of(
          module.matrices.begin(), module.matrices.end(), [&](size_t other) {
            return other != k && ShapeOf(other) == first &&
                   (IsUnknown(other) || At(other).role == Role::kQuery);
          });
      if (!fits) continue;
      // Two matrices of which each may be the output of the other.
      if (output) return;
      output = k;
      if (known) block = At(k).by_name.block_path;
    }
    if (!output) return;
    const Shape& out = ShapeOf(*output);
    for (const size_t k : module.matrices) {
      const Shape& shape = ShapeOf(k);
      if (shape.size() != 3 || k == *output || shape[0] != out[2] ||
          shape[2] != out[1] || shape[1] <= 0 || out[0] % shape[1] != 0) {
        continue;
      }
      if (At(k).role == Role::kQuery) block = At(k).by_name.block_path;
      if (IsUnknown(k)) inputs.push_back(k);
    }
    for (const size_t k : inputs) {
      SetRole(k, ShapeOf(k)[1] == out[0] ? Role::kQuery : Role::kKey, block,
              Siblings::kSizes);
    }
    if (IsUnknown(*output)) {
      SetRole(*output, Role::kOutput, block, Siblings::kSizes);
    }
  }

  // Returns the width if the sizes are those of a fused projection from it to
  // queries, keys and values: 3 times the width or, by the configuration, all
  // heads and KV heads.
  std::optional<int64_t> WidthOfFused(const Shape& shape) const {
    if (shape.size() != 2) return std::nullopt;
    const int64_t width = std::min(shape[0], shape[1]);
    const int64_t fused = std::max(shape[0], shape[1]);
    if (fused / kJoined == width && fused % kJoined == 0) return width;
    const auto heads = ConfiguredHeads(model_);
    const bool fits = heads && model_->hidden == width &&
                      fused == heads->Columns() + 2 * heads->KvColumns();
    return fits ? std::optional(width) : std::nullopt;
  }

  // Returns whether `shape` may be the output of the attention whose queries,
  // keys and values `fused` projects: the columns that are not those of its
  // queries are as many keys as values, and no more than those of the queries.
  static bool MayBeOutput(const Shape& fused, const Shape& shape) {
    for (const int side : {0, 1}) {
      const int64_t width = fused[AsIndex(side)];
      const int64_t inner = fused[AsIndex(1 - side)];
      if (shape[0] != width && shape[1] != width) continue;
      const int64_t queries = shape[0] == width ? shape[1] : shape[0];
      const int64_t rest = inner - queries;
      if (rest > 0 && rest % 2 == 0 && rest / 2 <= queries) return true;
    }
    return false;
  }

  // Returns whether `shape` has the sizes of the output next to a fused
  // projection that only its sizes show: from the width, or from all heads of
  // the configuration, to the width.
  bool IsOutputBySizes(const Shape& fused, const Shape& shape) const {
    const int64_t width = std::min(fused[0], fused[1]);
    const auto heads = ConfiguredHeads(model_);
    const int64_t queries =
        heads && model_->hidden == width ? heads->Columns() : width;
    return (shape[0] == width && shape[1] == queries) ||
           (shape[1] == width && shape[0] == queries);
  }

  // Marks the only other matrices of a module if they are one or two [d, f] and
  // one [f, d], and the output of attention is found elsewhere in their stack.
  void FindFeedForward(const Module& module) {
    std::vector<size_t> unknown;
    for (const size_t k : module.matrices) {
      if (IsUnknown(k)) unknown.push_back(k);
    }
    if (unknown.size() < 2 || unknown.size() > 3) return;
    const std::string_view stack = tree_.groups[unknown.front()].stack();
    bool attention = false;
    for (size_t k = 0; k < tree_.groups.size(); ++k) {
      attention = attention || (At(k).role == Role::kOutput &&
                                tree_.groups[k].stack() == stack);
    }
    const Shape& first = ShapeOf(unknown.front());
    if (!attention || first.size() != 2 || first[0] == first[1]) return;
    const Shape transposed = {first[1], first[0]};
    size_t other = 0;
    for (const size_t k : unknown) {
      if (ShapeOf(k) != first && ShapeOf(k) != transposed) return;
      if (ShapeOf(k) == transposed) ++other;
    }
    if (other == 0 || other == unknown.size()) return;
    for (const size_t k : unknown) At(k).feed_forward = true;
  }

  // Finds a fused projection to queries, keys and values and the output of
  // attention next to it. At least one of them has an unknown name.
  void NameFused(const Module& module) {
    if (module.mixes) {
      // Besides queries, keys and values, `in_proj` of a mixer has gates and
      // decays, so that its columns are not those of heads.
      for (const size_t k : module.matrices) {
        InferredDims& inferred = At(k);
        if (inferred.role == Role::kFusedQkv &&
            inferred.by_name.confidence != Confidence::kSure) {
          inferred.role = Role::kStateSpace;
        }
      }
      return;
    }
    std::vector<size_t> named, unnamed, squares, others;
    bool stacked = false;
    for (const size_t k : module.matrices) {
      const Role role = At(k).role;
      if (IsAttention(role) && role != Role::kOutput &&
          role != Role::kFusedQkv) {
        return;
      }
      if (ShapeOf(k).size() > 2) {
        stacked = true;
        continue;
      }
      if (role == Role::kFusedQkv) {
        named.push_back(k);
      } else if (IsUnknown(k) && WidthOfFused(ShapeOf(k))) {
        unnamed.push_back(k);
      } else if (IsUnknown(k) || role == Role::kOutput ||
                 (role == Role::kDown && IsCalledOutput(tree_.groups[k]))) {
        const bool square = ShapeOf(k)[0] == ShapeOf(k)[1];
        (square ? squares : others).push_back(k);
      }
    }
    if (named.size() + (named.empty() ? unnamed.size() : 0) != 1) return;
    // Without a name, the sizes of the two matrices are the only evidence.
    if (named.empty() && stacked) return;
    const size_t qkv = named.empty() ? unnamed.front() : named.front();
    const Shape& fused = ShapeOf(qkv);
    std::vector<size_t> outputs;
    for (const auto* some : {&squares, &others}) {
      for (const size_t k : *some) {
        const bool fits = named.empty() ? IsOutputBySizes(fused, ShapeOf(k))
                                        : MayBeOutput(fused, ShapeOf(k));
        if (fits) outputs.push_back(k);
      }
      if (!outputs.empty()) break;
    }
    if (outputs.size() != 1) return;
    const size_t output = outputs.front();
    const bool called = At(output).role == Role::kOutput;
    const std::string block = called          ? At(output).by_name.block_path
                              : named.empty() ? module.path
                                              : At(qkv).by_name.block_path;
    if (named.empty()) {
      SetRole(qkv, Role::kFusedQkv, block,
              called ? Siblings::kNames : Siblings::kSizes);
    }
    if (!called) {
      SetRole(output, Role::kOutput, block,
              named.empty() ? Siblings::kSizes : Siblings::kNames);
    }
  }

  const Tree& tree_;
  const ModelConfig* model_;
  ModelDims& dims_;
};

// Sets the roles of attention projections whose names do not show them, and
// InferredDims::siblings. Only groups whose role by name is unknown are
// considered; for outputs, also those with a word for an output, such as `wo`,
// that names a down projection elsewhere. Where two readings of the sizes are
// possible, the role stays unknown. The tree must come from WithoutLayers().
void NameBySiblings(const Tree& tree, const ModelConfig* model,
                    ModelDims& dims) {
  SiblingRoles(tree, model, dims).Run();
}

// The size of a vocabulary is at least kLeastVocabulary, and at least
// kLeastRowsByWidth times the model's width.
constexpr int64_t kLeastVocabulary = 1000;
constexpr int64_t kLeastRowsByWidth = 4;
// A vocabulary is a side of at most two tensors: an embedding and an output
// head.
constexpr int64_t kMostTables = 2;
// The columns of the largest usual head. They are a multiple of those of most
// smaller ones.
constexpr int64_t kLargestHead = 256;
// A dimension of a matrix has at least this size. A smaller one counts the taps
// of a convolution.
constexpr int64_t kLeastSide = 16;

// Returns the facts about the parameters of a tree.
facts::ParameterTable FactsOf(const Tree& tree, const ModelConfig* model) {
  const Manifest& manifest = *tree.manifest;
  const DescribedRoles family(manifest.described);
  return facts::FindParameters(
      {.tensors = manifest.tensors,
       .types = manifest.types,
       .separator = tree.separator,
       .config = model,
       .family = manifest.described == nullptr ? nullptr : &family});
}

// Takes the layer stacks that the facts show.
LayerStacks StacksOf(const Tree& tree, const facts::ParameterTable& table) {
  LayerStacks out{.stacks = table.stacks.stacks, .dims = {}};
  for (const ParameterGroup& group : tree.groups) {
    const uint32_t of = table.group_of[tree.Members(group)[0]];
    out.dims.push_back(table.stacks.dims[of]);
  }
  return out;
}

// Takes the roles that the facts show. Where the description of the model's
// family shows the role of a matrix, its block is the layer.
ModelDims TakeRoles(const Tree& tree, const facts::ParameterTable& table) {
  ModelDims out;
  out.facts.unknown_names = true;
  for (const ParameterGroup& group : tree.groups) {
    const facts::Group& known = table.Of(tree.Members(group)[0]);
    InferredDims inferred;
    inferred.by_name = known.role();
    inferred.role = inferred.by_name.role;
    if (known.evidence == facts::Evidence::kFamily && group.rank() > 1) {
      inferred.described = true;
      const size_t layer = group.name.rfind('*');
      inferred.by_name.block_path =
          layer == group.name.npos ? "" : group.name.substr(0, layer + 1);
    }
    const bool by_block = known.evidence == facts::Evidence::kShapes &&
                          inferred.by_name.confidence == Confidence::kNone;
    if (by_block && inferred.role != Role::kOther && group.rank() > 1) {
      inferred.siblings = Siblings::kNames;
    }
    for (const int64_t size : group.shape) {
      inferred.dims.push_back({.size = size});
    }
    if (inferred.by_name.confidence != Confidence::kNone) {
      out.facts.unknown_names = false;
    }
    out.groups.push_back(std::move(inferred));
  }
  return out;
}

void ForgetRole(InferredDims& inferred) {
  inferred.role = Role::kOther;
  inferred.by_name.role = inferred.by_name.module_role = Role::kOther;
  inferred.by_name.confidence = Confidence::kNone;
}

// Returns the name up to the part that names the role, such as
// `layers.*.q_proj` for `layers.*.q_proj.base_layer.weight`; the entire name if
// no part names one.
std::string_view ModuleOfRole(const ParameterGroup& group,
                              const ParameterRole& role, char separator) {
  const std::string_view name = group.name;
  const size_t at = role.sibling_path.find('?');
  return name.substr(0, at == std::string::npos
                            ? name.size()
                            : std::min(name.find(separator, at), name.size()));
}

// A module has one weight. Of several matrices below one word for a role, only
// the largest may be that weight. The role of the others is not known, unless
// their own names show it, as those of scales and adapters do:
//
//   q_proj.qweight [512, 2048], q_proj.x [32, 2048]
//   q_proj.base_layer.weight [2048, 2048], q_proj.y.default.weight [16, 2048]
//     ->  neither x nor y is a projection to queries
void ForgetCompanions(const Tree& tree, ModelDims& dims) {
  std::unordered_map<std::string_view, size_t> largest;
  const auto own = [&](size_t k) {
    const InferredDims& inferred = dims.groups[k];
    return tree.groups[k].rank() >= 2 &&
           inferred.role == inferred.by_name.module_role &&
           (IsAttention(inferred.role) || IsMlp(inferred.role));
  };
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!own(k)) continue;
    const auto [at, fresh] = largest.try_emplace(
        ModuleOfRole(tree.groups[k], dims.groups[k].by_name, tree.separator),
        k);
    if (!fresh && tree.groups[k].elements > tree.groups[at->second].elements) {
      at->second = k;
    }
  }
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!own(k)) continue;
    const ParameterGroup& weight = tree.groups[largest.at(
        ModuleOfRole(tree.groups[k], dims.groups[k].by_name, tree.separator))];
    if (weight.name != tree.groups[k].name &&
        weight.elements > tree.groups[k].elements) {
      ForgetRole(dims.groups[k]);
    }
  }
}

// Forgets the role of down projections that only a word shows which other
// programs use differently, and whose sizes are those of no projection into the
// feed-forward width of their stack:
//
//   intermediate.dense [3072, 768], output.dense [768, 3072],
//   x.output.dense [768, 768]  ->  nothing shows what the last one does
void ForgetDownProjections(const Tree& tree, ModelDims& dims) {
  // The sides of the projections into the width of each stack, the shorter side
  // first.
  std::map<std::string_view, std::set<std::pair<int64_t, int64_t>>> inward;
  const auto sides = [&](size_t k) {
    const Shape& shape = tree.groups[k].shape;
    return std::minmax(shape[shape.size() - 2], shape.back());
  };
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const Role role = dims.groups[k].role;
    if (tree.groups[k].rank() < 2 || !IsMlp(role) || GivesWidth(role)) continue;
    const std::pair<int64_t, int64_t> both = sides(k);
    auto& of_stack = inward[tree.groups[k].stack()];
    of_stack.insert(both);
    // One half of a matrix that holds gate and up.
    for (const bool first : {true, false}) {
      const int64_t half = (first ? both.first : both.second) / 2;
      of_stack.insert(std::minmax(half, first ? both.second : both.first));
    }
  }
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    const auto at = inward.find(tree.groups[k].stack());
    if (inferred.role != Role::kDown || tree.groups[k].rank() < 2 ||
        inferred.by_name.confidence == Confidence::kSure ||
        MayPack(tree.groups[k]) || at == inward.end()) {
      continue;
    }
    if (!at->second.contains(sides(k))) ForgetRole(inferred);
  }
}

// Corrects the role of projections into the feed-forward width that hold gate
// and up: the down projection of their block reads half of what they compute.
void NameFusedGates(ModelDims& dims) {
  std::set<std::tuple<std::string_view, int64_t, int64_t>> halves;
  for (const InferredDims& down : dims.groups) {
    if (down.role != Role::kDown || !down.IsMatrix()) continue;
    halves.emplace(down.by_name.block_path, down.inner_size, down.width_size);
  }
  for (InferredDims& inferred : dims.groups) {
    if (inferred.role != Role::kUp || !inferred.IsMatrix() ||
        inferred.inner_size % 2 != 0) {
      continue;
    }
    const std::string_view block = inferred.by_name.block_path;
    const int64_t inner = inferred.inner_size, width = inferred.width_size;
    if (halves.contains({block, inner / 2, width}) &&
        !halves.contains({block, inner, width})) {
      inferred.role = Role::kFusedGateUp;
    }
  }
}

int64_t OtherSide(const Matrix& matrix, int64_t width) {
  return matrix.sides[0] == width ? matrix.sides[1] : matrix.sides[0];
}

// The sizes of all vocabularies of the model: those that the configuration or
// the name of a table shows, and one that only sizes suggest.
struct Vocabularies {
  std::set<int64_t> shown;
  std::optional<int64_t> assumed;

  bool Has(int64_t size) const {
    return shown.contains(size) || assumed == size;
  }
};

// Returns whether the group holds an optimizer's copies of parameters.
bool IsOfOptimizer(const ParameterGroup& group) {
  return std::any_of(
      group.parts.begin(), group.parts.end(), [](std::string_view part) {
        return part.starts_with("opt_state") || part.starts_with("optimizer");
      });
}

// Returns the number of tensors with a side of each size. Tensors with the same
// side as a weight, such as its scales, its adapters and its moments, are not
// counted.
std::map<int64_t, int64_t> TensorsBySide(const Tree& tree,
                                         const ModelDims& dims,
                                         const Matrices& matrices) {
  std::map<int64_t, int64_t> out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const Role role = dims.groups[k].role;
    if (!matrices.groups[k].valid() || role == Role::kBias ||
        role == Role::kScale || IsAdapter(role) ||
        IsOfOptimizer(tree.groups[k])) {
      continue;
    }
    const Shape& sides = matrices.groups[k].sides;
    for (const int64_t side : std::set<int64_t>(sides.begin(), sides.end())) {
      out[side] += tree.groups[k].instances();
    }
  }
  return out;
}

// Finds the vocabularies of matrices that occur in one or two tensors and have
// the model's width as one side. The other side may be a vocabulary if it
// reaches kLeastVocabulary and kLeastRowsByWidth times the width. Without a
// name, it must be the largest such size, and no other tensors may have it: a
// feed-forward width of 4 times the model's is not a vocabulary.
Vocabularies FindVocabularies(const Tree& tree, const ModelConfig* model,
                              const ModelDims& dims, const Matrices& matrices) {
  Vocabularies out;
  const auto tensors = TensorsBySide(tree, dims, matrices);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const Matrix& matrix = matrices.groups[k];
    const Role role = dims.groups[k].role;
    if (!matrix.valid() || tree.groups[k].instances() > kMostTables ||
        dims.groups[k].experts >= 0 || IsAttention(role) || IsMlp(role) ||
        role == Role::kPosition) {
      continue;
    }
    const int64_t width = matrices.WidthOf(tree, k);
    const int64_t other = OtherSide(matrix, width);
    if (width == 0 || other < kLeastVocabulary ||
        other < kLeastRowsByWidth * width) {
      continue;
    }
    if (role == Role::kEmbedding || role == Role::kHead ||
        dims.groups[k].by_name.leaf == Leaf::kEmbeddingTable) {
      out.shown.insert(other);
    } else if (const auto all = tensors.find(other);
               all != tensors.end() && all->second <= kMostTables) {
      out.assumed = std::max(out.assumed.value_or(0), other);
    }
  }
  if (model != nullptr && model->vocab) out.shown.insert(*model->vocab);
  if (!out.shown.empty()) out.assumed.reset();
  return out;
}

// Decides which side of a matrix is the inner one (heads, a feed-forward width
// or a vocabulary). The other side is the model's width.
class SideFinder {
 public:
  SideFinder(const Tree& tree, const ModelDims& dims, const Matrices& matrices,
             const Vocabularies& vocabularies)
      : tree_(tree), matrices_(matrices), vocabularies_(vocabularies) {
    for (size_t k = 0; k < tree.groups.size(); ++k) {
      const Shape& shape = tree.groups[k].shape;
      if (dims.groups[k].role != Role::kBias || shape.empty()) continue;
      biases_.try_emplace(
          {dims.groups[k].by_name.module_path, tree.groups[k].count()},
          shape.back());
    }
  }

  // Refines the role of a matrix by its sizes. Sets `inner` and `width` to the
  // indices of the inner dimension and of the width. If the inner dimension
  // remains unknown, the role of an attention or feed-forward matrix becomes
  // kOther.
  void SetSides(size_t k, bool unknown_names, InferredDims& inferred) const {
    const Matrix& matrix = matrices_.groups[k];
    if (!matrix.valid()) {
      for (Dim& dim : inferred.dims) {
        if (dim.size == 1) dim.use = DimUse::kUnsharded;
      }
      SetWidthOfHeads(k, inferred);
      return;
    }
    const int64_t width = matrices_.WidthOf(tree_, k);
    const ParameterGroup& group = tree_.groups[k];
    const bool vocabulary = vocabularies_.Has(OtherSide(matrix, width)) &&
                            group.instances() <= kMostTables;
    // A matrix named `output` inside a layer is a down projection. Outside of
    // layers it is the output head, as in Meta's Llama checkpoints and
    // torchtitan.
    if (inferred.role == Role::kDown && vocabulary && !InLayers(group) &&
        inferred.by_name.confidence == Confidence::kLikely) {
      inferred.role = Role::kHead;
    }
    if (inferred.role != Role::kBias && inferred.role != Role::kScale) {
      inferred.role = RefineBySizes(
          inferred.role, {.first = matrix.sides[0],
                          .last = matrix.sides[1],
                          .width = width,
                          .vocabulary = vocabulary,
                          .in_layers = InLayers(group) || unknown_names});
      inferred.table_by_sizes = inferred.role == Role::kEmbedding &&
                                inferred.by_name.role != Role::kEmbedding &&
                                inferred.by_name.leaf != Leaf::kEmbeddingTable;
    }
    auto first = InnerIsFirst(k, width, inferred);
    const bool by_width = inferred.role == Role::kProjection ||
                          inferred.role == Role::kStateSpace;
    if (!first && by_width && width != 0) first = matrix.sides[0] != width;
    if (!first) {
      if (IsAttention(inferred.role) || IsMlp(inferred.role)) {
        inferred.role = Role::kOther;
      }
      return;
    }
    inferred.inner = *first ? matrix.first : matrix.last;
    inferred.width = *first ? matrix.last : matrix.first;
    inferred.inner_size = matrix.sides[*first ? 0 : 1];
    inferred.width_size = matrix.sides[*first ? 1 : 0];
    inferred.dims[AsIndex(inferred.inner)].use = DimUse::kInner;
    inferred.dims[AsIndex(inferred.width)].use = DimUse::kWidth;
    inferred.column = (IsAttention(inferred.role) || IsMlp(inferred.role)) &&
                      !GivesWidth(inferred.role);
    if (inferred.role == Role::kProjection && !inferred.feed_forward &&
        inferred.by_name.confidence == Confidence::kNone &&
        !IsOutOfMixer(group.name, tree_.separator)) {
      SetUnitsBySizes(inferred);
    }
  }

 private:
  // Returns true if the sides are [in, out], and false if they are [out, in].
  // The bias decides, because its length is the output size of its weight.
  // Returns nullopt if there is no bias, or if both sides or neither have its
  // length.
  std::optional<bool> InFirstByBias(size_t k,
                                    const InferredDims& inferred) const {
    const Shape& sides = matrices_.groups[k].sides;
    const auto at = biases_.find(
        std::pair(inferred.by_name.module_path, tree_.groups[k].count()));
    if (at == biases_.end() || sides[0] == sides[1]) return std::nullopt;
    if (at->second == sides[1]) return true;
    if (at->second == sides[0]) return false;
    return std::nullopt;
  }

  // Two dimensions of a parameter with three may count heads and their columns,
  // unless the last one counts taps of a convolution. If neither its name nor a
  // sibling shows its role, only the model's width is sharded.
  void SetWidthOfHeads(size_t k, InferredDims& inferred) const {
    const bool unknown = inferred.role == Role::kConvolution &&
                         inferred.by_name.confidence == Confidence::kNone;
    if (!unknown || inferred.dims.size() != 3 ||
        inferred.dims.back().size < kLeastSide) {
      return;
    }
    // Flax stores the taps of a convolution first: [3, 1280, 1280].
    const int64_t first = inferred.dims[0].size;
    if (first < kLeastSide &&
        inferred.dims[2].size / first != inferred.dims[1].size) {
      return;
    }
    const auto& widths = matrices_.widths.by_stack();
    const auto width = widths.find(tree_.groups[k].stack());
    if (width == widths.end()) return;
    for (const int dim : {0, 2}) {
      if (inferred.dims[AsIndex(dim)].size != width->second) continue;
      for (Dim& one : inferred.dims) one.use = DimUse::kUnsharded;
      inferred.dims[AsIndex(dim)].use = DimUse::kWidth;
      inferred.width = dim;
      return;
    }
  }

  // Sets the units of a projection whose name shows nothing. Its inner side may
  // count the columns of heads, unless it is a much longer one. Shards of a
  // multiple of kLargestHead columns then split no head. Three times the width
  // is the size of a query, key and value in one matrix, and is not split.
  static void SetUnitsBySizes(InferredDims& inferred) {
    const int64_t inner = inferred.inner_size;
    const int64_t width = inferred.width_size;
    const bool parts = inner / 3 == width && inner % 3 == 0;
    if (!parts && inner / 5 >= (width + 1) / 2) return;
    const bool heads = !parts && inner % kLargestHead == 0;
    inferred.units = {heads ? inner / kLargestHead : 1};
  }

  std::optional<bool> VocabularyIsFirst(size_t k, int64_t width,
                                        Role role) const {
    const Matrix& matrix = matrices_.groups[k];
    const int64_t first = matrix.sides[0];
    const int64_t last = matrix.sides[1];
    if (first != last && vocabularies_.Has(first)) return true;
    if (first != last && vocabularies_.Has(last)) return false;
    if (width != 0 && first != last) return first != width;
    if (role == Role::kHead)
      return matrix.in_first ? std::optional(!*matrix.in_first) : std::nullopt;
    return matrix.in_first.value_or(true);
  }

  // Returns whether the first side of the matrix is the inner side; nullopt if
  // it is unknown which side is.
  std::optional<bool> InnerIsFirst(size_t k, int64_t width,
                                   const InferredDims& inferred) const {
    const Matrix& matrix = matrices_.groups[k];
    const Role role = inferred.role;
    const int64_t first = matrix.sides[0];
    const int64_t last = matrix.sides[1];
    const bool rectangle = width != 0 && first != last;
    if (role == Role::kEmbedding || role == Role::kHead) {
      return VocabularyIsFirst(k, width, role);
    }
    // In latent attention, the compressed representation (the latent) is
    // shorter than the width, so the latent is the shorter side.
    if (role == Role::kLatentDown)
      return rectangle ? first != width : first < last;
    if (role == Role::kRouter) return first < last;
    if (!IsAttention(role) && !IsMlp(role)) return std::nullopt;
    const bool inner_enters = GivesWidth(role);
    if (const auto by_bias = InFirstByBias(k, inferred)) {
      return *by_bias == inner_enters;
    }
    if (rectangle) return first != width;
    if (matrix.in_first) return *matrix.in_first == inner_enters;
    if (role == Role::kLatentUp && first != last) return first > last;
    return std::nullopt;
  }

  const Tree& tree_;
  const Matrices& matrices_;
  const Vocabularies& vocabularies_;
  // The length of each bias, keyed by its module path and its number of
  // tensors.
  std::map<std::pair<std::string, int64_t>, int64_t> biases_;
};

void SetFacts(const Widths& widths, const Vocabularies& found,
              ModelDims& dims) {
  std::set<int64_t> distinct;
  for (const auto& [stack, width] : widths.by_stack()) {
    if (width > 0 && !stack.empty()) distinct.insert(width);
  }
  std::set<int64_t> vocabularies, assumed;
  for (const InferredDims& inferred : dims.groups) {
    const bool table =
        inferred.role == Role::kEmbedding || inferred.role == Role::kHead;
    if (table && inferred.inner >= 0) {
      const bool shown =
          !inferred.table_by_sizes || found.shown.contains(inferred.inner_size);
      (shown ? vocabularies : assumed).insert(inferred.inner_size);
    }
    const int64_t experts =
        inferred.experts >= 0 ? inferred.Experts() : inferred.expert_count;
    if (experts > dims.facts.experts) {
      dims.facts.experts = experts;
      dims.facts.experts_assumed = inferred.experts_by_sizes;
    }
  }
  dims.facts.widths.assign(distinct.rbegin(), distinct.rend());
  dims.facts.vocabularies.assign(vocabularies.rbegin(), vocabularies.rend());
  dims.facts.assumed_vocabularies.assign(assumed.rbegin(), assumed.rend());
}

// Sets `layers_shown` of each group: whether the same dimensions of the group
// count layers in `used` and in `shown`. `used` are the layer stacks that
// --scan-axis may have determined, and `shown` those found without this flag.
// Stacks in `shown` whose confidence is kUndecided are ignored.
void MarkShownLayers(const LayerStacks& used, const LayerStacks& shown,
                     ModelDims& dims) {
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    std::vector<int> mine, found;
    for (const ScannedDim& one : used.dims[k]) mine.push_back(one.dim);
    for (const ScannedDim& one : shown.dims[k]) {
      if (shown.stacks[one.stack].confidence != StackConfidence::kUndecided) {
        found.push_back(one.dim);
      }
    }
    dims.groups[k].layers_shown = mine == found;
  }
}

}  // namespace

int64_t InferredDims::Experts() const {
  if (experts >= 0) return dims[AsIndex(experts)].size;
  return expert_count > 1 ? expert_count : 0;
}

std::vector<size_t> InferredDims::OfOneLayer() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].use != DimUse::kLayers) out.push_back(i);
  }
  return out;
}

bool InferredDims::IsOfUnknownRole() const {
  if (by_name.module_role == Role::kNorm || by_program) return false;
  int64_t sides = 0, taps = 0;
  for (const size_t i : OfOneLayer()) {
    if (dims[i].size > 1) ++(dims[i].size < kLeastSide ? taps : sides);
  }
  if (sides + taps < 2) return false;
  // The role of a matrix whose orientation is unknown may be known.
  if (IsAttention(by_name.role) || IsMlp(by_name.role)) return false;
  return role == Role::kOther || role == Role::kProjection || table_by_sizes ||
         (role == Role::kConvolution && (taps == 0 || width >= 0) &&
          by_name.confidence == Confidence::kNone);
}

ModelDims InferDims(const Tree& stored, const ModelConfig* model,
                    int64_t tensor_parts, const ScanAxis& axis) {
  const facts::ParameterTable table = FactsOf(stored, model);
  LayerStacks shown = StacksOf(stored, table);
  LayerStacks stacks =
      axis.none || axis.dim ? StacksOf(stored, model, axis) : shown;
  const bool scanned = !stacks.stacks.empty();
  const Tree one_layer = scanned ? WithoutLayers(stored, stacks) : Tree();
  const Tree& tree = scanned ? one_layer : stored;
  ModelDims out = TakeRoles(tree, table);
  out.facts.has_config = model != nullptr;
  ForgetCompanions(tree, out);
  ForgetDownProjections(tree, out);
  NameBySiblings(tree, model, out);
  MarkExperts(tree, model, out);
  const Matrices matrices = FindMatrices(tree, model, out);
  const auto vocabularies = FindVocabularies(tree, model, out, matrices);
  const SideFinder sides(tree, out, matrices, vocabularies);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    sides.SetSides(k, out.facts.unknown_names, out.groups[k]);
  }
  NameFusedGates(out);
  LinkCompanions(tree, out);
  SetBlocks(tree, model, out);
  InferHeads(tree, model, tensor_parts, out);
  UseDescribedHeads(tree, out);
  SetFacts(matrices.widths, vocabularies, out);
  RestoreLayers(stored, stacks, out);
  MarkShownLayers(stacks, shown, out);
  out.stacks = std::move(stacks);
  return out;
}

}  // namespace shardc::suggest
