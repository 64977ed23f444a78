// Finds the matrices, vectors and convolutions below each path of the names. A
// group of parameters is in the blocks of all paths around it, up to its layer:
//
//   layers.*.mlp.up.weight  ->  blocks `layers.*.mlp.up.`, `layers.*.mlp.` and
//                               `layers.*.`
//
// Two groups of a block may be in different layers, which Meet() compares by
// the numbers of their layers. A convolution has one kernel for each channel,
// so its shape has a dimension of 1 and a small one: [8192, 1, 4]. One whose
// kernel has one number is a matrix: [2048, 1024, 1].
#include "lint/analysis/blocks.h"

#include <algorithm>
#include <charconv>

#include "lint/analysis/scanned.h"
#include "roles/quantisation.h"
#include "roles/words.h"
#include "source/index.h"

namespace shardc {
namespace {

// The largest kernel of a convolution, and its fewest channels.
constexpr int64_t kLargestKernel = 8;
constexpr int64_t kFewestChannels = 16;
// Parameters with a larger dimension are omitted, so that sums of sizes fit in
// 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 40;

std::vector<int64_t> LayersOf(const Facts& facts, const ParameterGroup& group) {
  std::vector<int64_t> out;
  const size_t at = group.name.find('*');
  if (at == std::string::npos) return out;
  for (const uint32_t param : facts.Members(group)) {
    const std::string_view name = facts.plan().names[param];
    const char* const end = name.data() + name.size();
    int64_t layer = 0;
    std::from_chars(std::min(name.data() + at, end), end, layer);
    if (out.empty() || out.back() != layer) out.push_back(layer);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool IsOmitted(const Facts& facts, const ParameterGroup& group) {
  const TensorType& type = facts.TypeOf(group);
  const ParameterRole& role = group.role;
  return !type.shape || (type.dtype && MayPack(*type.dtype)) ||
         role.leaf == Leaf::kScale || role.leaf == Leaf::kZeroPoint ||
         IsAdapter(role.role) || role.role == Role::kPosition ||
         role.module_role == Role::kEmbedding ||
         role.module_role == Role::kHead;
}

}  // namespace

bool Matrix::MayBe(size_t out) const {
  return !group->role.in_first || *group->role.in_first == (out == 1);
}

Blocks::Blocks(const Facts& facts)
    : first_(facts.groups().data()), separator_(facts.separator()) {
  for (const ParameterGroup& group : facts.groups()) {
    layers_.push_back(LayersOf(facts, group));
    if (!IsOmitted(facts, group)) Add(facts, group);
  }
}

std::vector<std::string_view> Blocks::PathsOf(std::string_view name) const {
  std::vector<std::string_view> out;
  const size_t layer = name.find('*');
  const bool counted = layer != std::string_view::npos;
  for (size_t end = name.size(); end > (counted ? layer : 0); --end) {
    if (name[end - 1] == separator_) out.push_back(name.substr(0, end));
  }
  if (!counted || out.empty()) out.emplace_back();
  return out;
}

const Block& Blocks::At(std::string_view path) const {
  static const Block kNone;
  const auto at = blocks_.find(path);
  return at == blocks_.end() ? kNone : at->second;
}

const Matrix* Blocks::MatrixOf(const ParameterGroup& group) const {
  const Block& block = At(PathsOf(group.name).front());
  if (!block.IsOne()) return nullptr;
  for (const Matrix& matrix : block.matrices) {
    if (matrix.group == &group) return &matrix;
  }
  return nullptr;
}

bool Blocks::Meet(const ParameterGroup& a, const ParameterGroup& b) const {
  const auto& layers = layers_[AsIndex(&a - first_)];
  const auto& others = layers_[AsIndex(&b - first_)];
  return layers.empty() ||
         std::binary_search(others.begin(), others.end(), layers.front());
}

void Blocks::Add(const Facts& facts, const ParameterGroup& group) {
  const Shape& shape = *facts.TypeOf(group).shape;
  std::vector<int> dims = {0, 1};
  if (shape.size() != 2) dims = UnscannedDims(facts, facts.stacks(), group);
  if (shape.size() == 1) dims = {0};
  std::vector<int> wide;  // dimensions larger than 1
  for (const int dim : dims) {
    if (shape[AsIndex(dim)] > kLargestSize) return;
    if (shape[AsIndex(dim)] > 1) wide.push_back(dim);
  }
  const auto sized = [&](int dim) {
    return Sized{&group, dim, shape[AsIndex(dim)]};
  };
  Block one;
  const bool by_channel = wide.size() == 2 && dims.size() == 3;
  if (dims.size() == 1) {
    one.vectors.push_back(sized(dims[0]));
  } else if (by_channel || (wide.size() == 2 && Contains(group.name, "conv"))) {
    const bool first = shape[AsIndex(wide[0])] > shape[AsIndex(wide[1])];
    const Sized channels = sized(wide[first ? 0 : 1]);
    if (channels.size >= kFewestChannels &&
        shape[AsIndex(wide[first ? 1 : 0])] <= kLargestKernel) {
      one.convolutions.push_back(channels);
    }
  }
  // A convolution with a kernel of one number is a matrix.
  if (by_channel && one.convolutions.empty() && wide[1] - wide[0] == 1) {
    dims = wide;
  }
  if (dims.size() >= 2 && wide.size() == dims.size() &&
      one.convolutions.empty() && group.role.leaf != Leaf::kBias) {
    Matrix matrix{.group = &group};
    for (const int dim : dims) matrix.lead.push_back(shape[AsIndex(dim)]);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      matrix.dims[i] = dims[dims.size() - 2 + i];
      matrix.sizes[i] = shape[AsIndex(matrix.dims[i])];
      matrix.lead.pop_back();
    }
    one.matrices.push_back(std::move(matrix));
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const std::string_view path : PathsOf(group.name)) {
    Block& block = blocks_[std::string(path)];
    append(block.matrices, one.matrices);
    append(block.vectors, one.vectors);
    append(block.convolutions, one.convolutions);
  }
}

}  // namespace shardc
