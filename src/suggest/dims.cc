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
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "roles/unknown_roles.h"
#include "source/index.h"
#include "suggest/companions.h"
#include "suggest/heads.h"
#include "suggest/matrices.h"
#include "suggest/siblings.h"
#include "suggest/stacked_dims.h"

namespace shardc::suggest {
namespace {

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

ModelDims NameRoles(const Tree& tree) {
  ModelDims out;
  out.facts.unknown_names = true;
  for (const ParameterGroup& group : tree.groups) {
    InferredDims inferred;
    inferred.by_name =
        Classify(group.name, tree.separator, Confidence::kLikely, group.rank());
    inferred.role = inferred.by_name.role;
    for (const int64_t size : group.shape)
      inferred.dims.push_back({.size = size});
    if (inferred.by_name.confidence != Confidence::kNone) {
      out.facts.unknown_names = false;
    }
    out.groups.push_back(std::move(inferred));
  }
  return out;
}

// Corrects the role of gates. A parameter named `gate` may be a router or the
// gate of an MLP. It is the gate of an MLP if it has the same shape as an up
// projection of its block. An example is `gate` [1024, 4096] next to `up`
// [1024, 4096].
void NameGates(const Tree& tree, ModelDims& dims) {
  std::set<std::pair<std::string_view, Shape>> inward;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (dims.groups[k].role == Role::kUp) {
      inward.emplace(dims.groups[k].by_name.sibling_path, tree.groups[k].shape);
    }
  }
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    if (inferred.role == Role::kRouter &&
        inward.contains(
            {inferred.by_name.sibling_path, tree.groups[k].shape})) {
      inferred.role = Role::kGate;
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
  LayerStacks stacks = StacksOf(stored, model, axis);
  const bool scanned = !stacks.stacks.empty();
  const Tree one_layer = scanned ? WithoutLayers(stored, stacks) : Tree();
  const Tree& tree = scanned ? one_layer : stored;
  ModelDims out = NameRoles(tree);
  out.facts.has_config = model != nullptr;
  NameGates(tree, out);
  NameBySiblings(tree, model, out);
  MarkExperts(tree, model, out);
  const Matrices matrices = FindMatrices(tree, model, out);
  const auto vocabularies = FindVocabularies(tree, model, out, matrices);
  const SideFinder sides(tree, out, matrices, vocabularies);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    sides.SetSides(k, out.facts.unknown_names, out.groups[k]);
  }
  LinkCompanions(tree, out);
  SetBlocks(tree, model, out);
  InferHeads(tree, model, tensor_parts, out);
  SetFacts(matrices.widths, vocabularies, out);
  RestoreLayers(stored, stacks, out);
  if (axis.none || axis.dim) {
    MarkShownLayers(stacks, StacksOf(stored, model, {}), out);
  } else {
    MarkShownLayers(stacks, stacks, out);
  }
  out.stacks = std::move(stacks);
  return out;
}

}  // namespace shardc::suggest
