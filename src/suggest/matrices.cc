// Finds the two sides of each weight matrix. A projection to heads may have
// more than two dimensions: heads and columns together are one side. A packed
// weight stores several weights in one number: its sides are those of the
// unpacked matrix. For example:
//
//   query [4096, 32, 128], width 4096      ->  [4096, 32 * 128]
//   gate_up_proj_blocks [8, 5760, 90, 16]  ->  8 experts of [5760, 90 * 16 * 2]
//   qweight [512, 4096], scales [32, 4096] ->  [512 * 8, 4096]
//
// In the second line each byte holds 2 weights, in the third each int32 holds
// 8.
//
// The orientations of all matrices ([in, out] or [out, in]) are decided
// together, by roles/orientation.h.
#include "suggest/dims.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "facts/parameters.h"
#include "model/manifest.h"
#include "model/name.h"
#include "plan/representatives.h"
#include "roles/classify.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::suggest {
namespace {

// A byte in the last dimension of a packed block holds two values.
constexpr int64_t kValuesPerByte = 2;
// The largest number of projections that one tensor stacks in a leading
// dimension: query, key and value.
constexpr int64_t kMostJoined = 3;

void SetUnsharded(InferredDims& inferred, int dim) {
  inferred.dims[AsIndex(dim)].use = DimUse::kUnsharded;
}

// Returns the matrix that a parameter with a dimension for heads represents. A
// projection has the shape [width, heads, columns] or [heads, width, columns],
// and an attention output has [heads, columns, width]. Leading dimensions may
// count joined projections. A parameter of another rank gets the role of a
// convolution.
Matrix HeadsMatrix(const Shape& shape, std::vector<int> sides,
                   InferredDims& inferred) {
  const auto size = [&](int dim) { return shape[AsIndex(dim)]; };
  while (sides.size() > 3 && size(sides.front()) <= kMostJoined) {
    SetUnsharded(inferred, sides.front());
    sides.erase(sides.begin());
  }
  Matrix out;
  if (sides.size() != 3) {
    inferred.role = Role::kConvolution;
    return out;
  }
  // A head has few columns. The width of a projection is its first dimension,
  // or its second dimension if that is the largest of the three.
  const bool output = inferred.role == Role::kOutput;
  int width = output ? sides[2] : sides[0];
  if (!output && size(sides[1]) > size(width) &&
      size(sides[1]) > size(sides[2])) {
    width = sides[1];
  }
  std::erase(sides, width);
  SetUnsharded(inferred, sides[1]);
  const int64_t inner = size(sides[0]) * size(sides[1]);
  inferred.units = {size(sides[0])};
  // The sides are [in, out]: a projection's output is its heads, and an
  // attention output's input is its heads.
  out.in_first = true;
  out.first = output ? sides[0] : width;
  out.last = output ? width : sides[0];
  out.sides = output ? Shape{inner, size(width)} : Shape{size(width), inner};
  return out;
}

Matrix MatrixOf(const ParameterGroup& group, InferredDims& inferred) {
  std::vector<int> sides;
  for (int dim = 0; dim < group.rank(); ++dim) {
    if (dim != inferred.experts) sides.push_back(dim);
  }
  const auto size = [&](int dim) { return group.shape[AsIndex(dim)]; };
  Matrix out;
  if (inferred.by_name.packed_blocks && sides.size() == 3) {
    SetUnsharded(inferred, sides[2]);
    out.first = sides[0];
    out.last = sides[1];
    out.sides = {size(sides[0]),
                 size(sides[1]) * size(sides[2]) * kValuesPerByte};
    return out;
  }
  const bool heads = IsAttention(inferred.role) && inferred.experts < 0;
  if (heads && sides.size() >= 3 && size(sides.back()) > 1) {
    return HeadsMatrix(group.shape, std::move(sides), inferred);
  }
  // A leading dimension of size 2 holds a gate and an up projection.
  if (IsMlp(inferred.role) && sides.size() == 3 && size(sides[0]) == 2) {
    SetUnsharded(inferred, sides[0]);
    sides.erase(sides.begin());
    inferred.role = Role::kUp;
  }
  while (sides.size() > 2 && size(sides.back()) == 1) sides.pop_back();
  if (sides.size() == 2) {
    out.first = sides[0];
    out.last = sides[1];
    out.sides = {size(sides[0]), size(sides[1])};
  } else if (sides.size() > 2 && inferred.role != Role::kPosition) {
    inferred.role = Role::kConvolution;
  }
  return out;
}

// Returns whether a matrix is included when the common orientation is decided.
// The matrices of a state space mixer are excluded, because their widths differ
// from the model's.
bool Votes(const Matrix& matrix, const InferredDims& inferred) {
  return matrix.valid() && inferred.role != Role::kStateSpace;
}

void Orient(const Tree& tree, const ModelConfig* model, const ModelDims& dims,
            Matrices& out) {
  std::vector<Shape> shapes(tree.groups.size());
  std::vector<ParameterRole> roles(tree.groups.size());
  std::vector<ShapedParameter> entries;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    const InferredDims& inferred = dims.groups[k];
    const Matrix& matrix = out.groups[k];
    shapes[k] = matrix.valid() ? matrix.sides : group.shape;
    // Matrices of experts get a leading dimension of 1. OrientationsOf() then
    // decides their orientation separately from that of other matrices.
    if (inferred.experts >= 0 && matrix.valid()) {
      shapes[k].insert(shapes[k].begin(), 1);
    }
    roles[k] = inferred.by_name;
    if (inferred.role == Role::kOutput ||
        inferred.siblings != Siblings::kNone) {
      roles[k].module_role = inferred.role;
    }
    if (roles[k].module_role == Role::kOther && matrix.valid() &&
        roles[k].leaf == Leaf::kOther) {
      roles[k].leaf = Leaf::kWeight;
    }
    entries.push_back(
        {.name = group.name,
         .role = &roles[k],
         .shape = &shapes[k],
         .count = group.instances(),
         .packed =
             MayPack(group) || (group.rank() > 1 && !Votes(matrix, inferred)),
         .stack = group.stack_size ? group.stack() : std::string_view()});
  }
  out.widths = Widths(entries, model == nullptr ? std::nullopt : model->hidden);
  const auto found = OrientationsOf(entries, out.widths);
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    std::optional<bool>& in_first = out.groups[k].in_first;
    // The orientation is already known from the dimension of heads.
    if (in_first) continue;
    in_first = dims.groups[k].by_name.packed_blocks ? std::optional(false)
               : found[k]                           ? found[k]
                                                    : roles[k].in_first;
  }
}

// A side of a matrix whose weights are packed: each stored number holds several
// weights that follow each other along this side.
struct PackedSide {
  size_t group = 0;
  size_t side = 0;
};

// Infers how many bits each weight has in the packed tensors of a layer stack.
// In a stack, the same sizes recur: the input size of a matrix is the width, or
// the output size of another matrix. Each possible number of bits is tried. The
// best number gives the most packed sides a size that occurs in the stack:
//
//   up [16, 256], down [64, 64], both packed along the inputs in 32 bits
//     4 bits: inputs 128 and 512, but the only sizes are 256 and 64
//     8 bits: inputs 64 and 256, which both occur
class PackedBits {
 public:
  PackedBits(const Tree& tree, const Matrices& matrices,
             std::span<const PackedSide> packed)
      : tree_(tree), matrices_(matrices) {
    for (const auto& [stack, width] : matrices.widths.by_stack()) {
      sizes_[stack].insert(width);
    }
    std::map<size_t, size_t> side_of;  // keyed by group
    for (const PackedSide& one : packed) side_of[one.group] = one.side;
    for (size_t k = 0; k < tree.groups.size(); ++k) {
      const Matrix& matrix = matrices.groups[k];
      const auto at = side_of.find(k);
      if (!matrix.valid() || (at == side_of.end() && !matrix.sides_known)) {
        continue;
      }
      for (size_t side = 0; side < 2; ++side) {
        if (at != side_of.end() && at->second == side) continue;
        sizes_[tree.groups[k].stack()].insert(matrix.sides[side]);
      }
    }
    for (const PackedSide& one : packed) {
      auto& votes = votes_[StackOf(one)];
      for (size_t i = 0; i < kBits.size(); ++i) {
        votes[i] += Recurs(one, kBits[i]) ? 1 : 0;
      }
    }
  }

  // Returns how many weights a stored number holds along a side.
  int64_t WeightsPerNumber(const PackedSide& of) const {
    const auto& votes = votes_.at(StackOf(of));
    const auto most = std::max_element(votes.begin(), votes.end());
    const int64_t usual = kBits[AsIndex(most - votes.begin())];
    if (Recurs(of, usual)) return Held(of, usual);
    // The number of bits that fits most sides does not fit this side. A stack
    // may have weights of different bit widths, so the other numbers are tried.
    for (const int64_t bits : kBits) {
      if (Recurs(of, bits)) return Held(of, bits);
    }
    return std::max<int64_t>(1, Held(of, usual));
  }

 private:
  // The bit widths that are tried, the most common first.
  static constexpr std::array<int64_t, 3> kBits = {4, 8, 2};

  std::string_view StackOf(const PackedSide& of) const {
    return tree_.groups[of.group].stack();
  }
  int64_t Held(const PackedSide& of, int64_t bits) const {
    return DtypeBits(*tree_.groups[of.group].dtype) / bits;
  }
  // Returns whether the unpacked size of the side, if each weight has `bits`
  // bits, is a size that occurs in the side's layer stack.
  bool Recurs(const PackedSide& of, int64_t bits) const {
    const auto sizes = sizes_.find(StackOf(of));
    const auto unpacked =
        CheckedMul(matrices_.groups[of.group].sides[of.side], Held(of, bits));
    return Held(of, bits) > 0 && sizes != sizes_.end() && unpacked &&
           sizes->second.contains(*unpacked);
  }

  const Tree& tree_;
  const Matrices& matrices_;
  // The sizes that occur in each layer stack, keyed by the path of the stack.
  std::map<std::string_view, std::set<int64_t>> sizes_;
  // Keyed by the path of the stack: for each number of bits in kBits, the
  // number of packed sides for which Recurs() is true.
  std::map<std::string_view, std::array<int, 3>> votes_;
};

// Returns the packed sides whose unpacked size is still unknown. The last side
// is not returned if the scales have a column for each unpacked weight: the
// number of columns is then its size, as for qweight [4096, 512] and scales
// [32, 4096].
std::vector<PackedSide> FindPacked(const Tree& tree, const ModelDims& dims,
                                   Matrices& out) {
  std::map<std::string_view, const Shape*> scales;  // keyed by module path
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterRole& role = dims.groups[k].by_name;
    if (role.leaf == Leaf::kScale && tree.groups[k].rank() == 2) {
      scales.try_emplace(role.module_path, &tree.groups[k].shape);
    }
  }
  std::vector<PackedSide> packed;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterRole& role = dims.groups[k].by_name;
    Matrix& matrix = out.groups[k];
    if (!MayPack(tree.groups[k]) || role.packed_blocks || !matrix.valid()) {
      continue;
    }
    const auto at = scales.find(role.module_path);
    matrix.sides_known = false;
    if (at == scales.end() || dims.groups[k].role == Role::kScale) continue;
    Shape& sides = matrix.sides;
    const Shape& scale = *at->second;
    if (scale[1] != sides[1] && scale[1] % sides[1] == 0) {
      sides[1] = scale[1];
      matrix.sides_known = true;
    } else if (scale[0] == sides[0]) {
      packed.push_back({k, 1});
    } else if (scale[1] == sides[1]) {
      packed.push_back({k, 0});
    }
  }
  return packed;
}

// Replaces the stored sizes of packed sides by the numbers of weights along
// them, if the weight has scales from which these numbers can be inferred.
void UnpackSides(const Tree& tree, const ModelDims& dims, Matrices& out) {
  const std::vector<PackedSide> packed = FindPacked(tree, dims, out);
  const PackedBits bits(tree, out, packed);
  std::vector<int64_t> held;
  for (const PackedSide& one : packed) {
    held.push_back(bits.WeightsPerNumber(one));
  }
  for (size_t i = 0; i < packed.size(); ++i) {
    Matrix& matrix = out.groups[packed[i].group];
    int64_t& side = matrix.sides[packed[i].side];
    side = CheckedMul(side, held[i]).value_or(INT64_MAX);
    matrix.sides_known = true;
  }
}

}  // namespace

int64_t Matrices::WidthOf(const Tree& tree, size_t k) const {
  const Matrix& matrix = groups[k];
  if (!matrix.valid() || !matrix.sides_known) return 0;
  const ParameterGroup& group = tree.groups[k];
  return widths.Of(group.name, matrix.sides[0], matrix.sides[1],
                   group.stack_size ? group.stack() : std::string_view());
}

Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims) {
  Matrices out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    out.groups.push_back(MatrixOf(tree.groups[k], dims.groups[k]));
  }
  Orient(tree, model, dims, out);
  UnpackSides(tree, dims, out);
  return out;
}

bool MayPack(const ParameterGroup& group) {
  return group.dtype && shardc::MayPack(*group.dtype);
}

// Handles dimensions that count scanned layers or experts. Other functions of
// InferDims() expect tensors of one layer. So the dimensions of layers are
// removed before these functions run, and restored afterwards. For example, the
// second dimension of this tensor counts 32 layers:
//
//   decoder/layers/wi_0 [4096, 32, 14336]  ->  [4096, 14336], 32 times
//
// The first dimension of a tensor counts experts if the name contains
// `experts`. It may also count experts if two groups of one layer stack have
// three dimensions and equal first dimensions. Names and sizes that show
// another meaning, such as attention, exclude this.

namespace {

// A trailing dimension of at most this size is read as the taps of a
// convolution's kernel, and not as the side of a matrix.
constexpr int64_t kLeastStackSide = 16;

void SetExperts(InferredDims& inferred, int dim) {
  inferred.experts = dim;
  inferred.dims[AsIndex(dim)].use = DimUse::kExperts;
}

// Returns whether a weight whose name contains `experts` is one matrix in each
// of the scanned layers: [12, 1024, 2816] below a path whose other parameters
// show that it has 12 layers. No dimension is left that counts experts.
bool IsDenseLayer(const ParameterGroup& group, const InferredDims& inferred) {
  return group.stack_size && IsMlp(inferred.role) && inferred.dims.size() == 2;
}

// Returns the number of experts of a group whose experts are separate tensors:
// one more than the largest number after `experts` in their names.
int64_t CountExperts(const Tree& tree, const ParameterGroup& group) {
  const size_t at = group.name.find("experts" + std::string(1, tree.separator));
  const auto before = static_cast<size_t>(std::count(
      group.name.begin(),
      group.name.begin() + static_cast<long>(std::min(at, group.name.size())),
      '*'));
  int64_t most = -1;
  for (const uint32_t member : tree.Members(group)) {
    const auto counters = CountersOf(tree.NameOf(member), group.name);
    if (before >= counters.size() || counters[before].size() > 9) continue;
    int64_t number = 0;
    for (const char c : counters[before]) number = number * 10 + (c - '0');
    most = std::max(most, number);
  }
  return most + 1;
}

// Returns whether the leading dimension of a group may count experts, although
// its name does not contain `experts`.
bool MayLeadWithExperts(const ParameterGroup& group,
                        const InferredDims& inferred) {
  return group.rank() == 3 && inferred.experts < 0 &&
         !inferred.by_name.expert && InLayers(group) &&
         !inferred.by_name.attention && !IsAttention(inferred.role) &&
         group.shape[1] > kLeastStackSide && group.shape[2] > kLeastStackSide &&
         (group.layers == 1 ||
          group.shape[0] <= std::min(group.shape[1], group.shape[2]));
}

// Returns whether a shape is that of an attention output, [heads, columns,
// width], where heads times columns are the width: [16, 64, 1024]. Experts may
// have such a shape too, but then another group has the transposed shape: [4,
// 256, 1024] and [4, 1024, 256]. In this case, returns false.
bool HasHeads(const Tree& tree, size_t k, const std::vector<size_t>& groups) {
  const Shape& shape = tree.groups[k].shape;
  return CheckedMul(shape[0], shape[1]) == shape[2] &&
         std::none_of(groups.begin(), groups.end(), [&](size_t other) {
           const Shape& own = tree.groups[other].shape;
           return own[1] == shape[2] && own[2] == shape[1];
         });
}

// Returns whether a stack has a router with this number of outputs.
bool HasRouter(const Tree& tree, const ModelDims& dims, std::string_view stack,
               int64_t experts) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const Shape& shape = tree.groups[k].shape;
    if (dims.groups[k].role == Role::kRouter &&
        tree.groups[k].stack() == stack && IsAmong(experts, shape)) {
      return true;
    }
  }
  return false;
}

void RestoreDim(int at, int64_t size, InferredDims& inferred) {
  inferred.dims.insert(inferred.dims.begin() + at,
                       {.use = DimUse::kLayers, .size = size});
  for (int* const dim : {&inferred.inner, &inferred.width, &inferred.experts}) {
    if (*dim >= at) ++*dim;
  }
}

}  // namespace

bool InLayers(const ParameterGroup& group) {
  return !group.stack().empty() || group.stack_size;
}

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis) {
  std::vector<facts::NamedGroup> groups;
  for (const ParameterGroup& group : tree.groups) {
    groups.push_back({.name = group.name, .shape = &group.shape});
  }
  return facts::FindStacks(groups, tree.separator,
                           model == nullptr ? std::nullopt : model->layers,
                           axis);
}

Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks) {
  Tree out;
  out.manifest = tree.manifest;
  out.separator = tree.separator;
  out.groups = tree.groups;
  out.members = tree.members;
  out.bytes = tree.bytes;
  out.shapeless = tree.shapeless;
  for (size_t k = 0; k < out.groups.size(); ++k) {
    ParameterGroup& group = out.groups[k];
    group.parts = SplitName(group.name, tree.separator);
    const auto& scanned = stacks.dims[k];
    for (auto one = scanned.rbegin(); one != scanned.rend(); ++one) {
      group.layers *= group.shape[AsIndex(one->dim)];
      group.shape.erase(group.shape.begin() + one->dim);
      const size_t path = stacks.stacks[one->stack].path.size();
      group.stack_size = std::max(path, group.stack_size.value_or(0));
    }
    if (group.layers > 1) {
      group.elements /= group.layers;
      group.bytes /= group.layers;
    }
  }
  return out;
}

void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    for (const ScannedDim& one : stacks.dims[k]) {
      RestoreDim(one.dim, tree.groups[k].shape[AsIndex(one.dim)],
                 dims.groups[k]);
    }
  }
}

void MarkExperts(const Tree& tree, const ModelConfig* model, ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    if (inferred.by_name.counted_expert) {
      inferred.expert_count = CountExperts(tree, tree.groups[k]);
    } else if (inferred.by_name.expert && inferred.dims.size() >= 2 &&
               !IsDenseLayer(tree.groups[k], inferred)) {
      SetExperts(inferred, 0);
    }
  }
  std::map<std::pair<std::string_view, int64_t>, std::vector<size_t>> shared;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    if (!MayLeadWithExperts(group, dims.groups[k])) continue;
    shared[{group.stack(), group.shape.front()}].push_back(k);
  }
  for (auto& [key, groups] : shared) {
    const std::vector<size_t> all = groups;
    std::erase_if(groups, [&](size_t k) { return HasHeads(tree, k, all); });
    if (groups.size() < 2) continue;
    const bool shown = (model != nullptr && model->experts == key.second) ||
                       HasRouter(tree, dims, key.first, key.second);
    for (const size_t k : groups) {
      SetExperts(dims.groups[k], 0);
      dims.groups[k].experts_by_sizes = !shown;
    }
  }
}

// Links biases, scales and other vectors to the weights with the same module
// path. It also finds the blocks of quantised weights. A block is a range of
// elements along a dimension that share one quantisation scale, so a shard must
// not end inside a block. The length of a block is the power of two with which
// the weight has as many blocks as scales. The last block may be shorter. If no
// power of two fits, the length is the quotient of both sizes. For example:
//
//   down_proj.weight [576, 7168], weight_scale_inv [5, 56]  ->  blocks of 128

namespace {

bool IsWeight(const Tree& tree, const ModelDims& dims, size_t k) {
  const Role role = dims.groups[k].role;
  return role != Role::kBias && role != Role::kScale &&
         tree.groups[k].rank() >= 2;
}

void SetBlocksOfScale(const InferredDims& scale, InferredDims& weight) {
  const bool same_rank = scale.dims.size() == weight.dims.size();
  const bool of_blocks = weight.by_name.packed_blocks &&
                         scale.dims.size() + 1 == weight.dims.size();
  if (!same_rank && !of_blocks) return;
  for (size_t i = 0; i < scale.dims.size(); ++i) {
    const int64_t scales = scale.dims[i].size;
    if (scales <= 1) continue;
    Dim& dim = weight.dims[i];
    dim.block = std::max(dim.block, BlockOf(dim.size, scales));
  }
}

}  // namespace

void LinkCompanions(const Tree& tree, ModelDims& dims) {
  // Maps each module path to the index of its group of weights.
  std::unordered_map<std::string_view, size_t> weights;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (!IsWeight(tree, dims, k)) continue;
    const auto [at, fresh] =
        weights.try_emplace(dims.groups[k].by_name.module_path, k);
    if (!fresh && tree.groups[k].count() > tree.groups[at->second].count()) {
      at->second = k;
    }
  }
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    if (IsWeight(tree, dims, k)) continue;
    const auto at = weights.find(dims.groups[k].by_name.module_path);
    if (at == weights.end()) continue;
    dims.groups[k].weight = static_cast<int>(at->second);
  }
}

void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    auto& own = dims.groups[k].dims;
    const auto dtype = tree.groups[k].dtype;
    if (!own.empty() && dtype) own.back().block = BlockElements(*dtype);
  }
  bool has_scales = false;
  for (const InferredDims& scale : dims.groups) {
    if (scale.role != Role::kScale) continue;
    has_scales = true;
    if (scale.weight < 0) continue;
    SetBlocksOfScale(scale, dims.groups[AsIndex(scale.weight)]);
  }
  if (has_scales || model == nullptr) return;
  const QuantisedModules modules(*model);
  if (!modules.Any()) return;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    InferredDims& inferred = dims.groups[k];
    const bool projection = IsAttention(inferred.role) || IsMlp(inferred.role);
    if (!inferred.IsMatrix() || MayPack(tree.groups[k]) || !projection) {
      continue;
    }
    int in = inferred.width, out = inferred.inner;
    if (!inferred.column) std::swap(in, out);
    for (const uint32_t tensor : tree.Members(tree.groups[k])) {
      const QuantisedBlock* const block =
          modules.Of(tree.NameOf(tensor), tree.separator,
                     inferred.by_name.leaf != Leaf::kOther);
      if (block == nullptr) continue;
      int64_t& columns = inferred.dims[AsIndex(in)].block;
      int64_t& rows = inferred.dims[AsIndex(out)].block;
      columns = std::lcm(columns, block->columns);
      rows = std::lcm(rows, block->rows);
    }
  }
}

}  // namespace shardc::suggest
