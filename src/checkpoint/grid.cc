// Describes a tensor as a grid with few dimensions, and divides the grid into
// blocks that are copied one at a time. A dimension that no source piece and no
// output part splits is merged into the dimension before it. The last dimension
// of the grid counts bytes or, if the tensor is cast, elements. A block is a
// range of indices along one dimension. This is the outermost dimension for
// which the data of a single index do not exceed the size limit of a block.
//
//   [4, 6, 2] of BF16, no dimension split: the grid is [96] bytes
//   [4, 6, 2] of BF16, split along its second dimension: the grid is 4 rows of
//   24 bytes; blocks of at most 48 bytes are rows 0 and 1, and rows 2 and 3
#include "checkpoint/grid.h"

#include <algorithm>
#include <utility>

namespace shardc {
namespace {

// Returns whether no source piece and no output part splits the dimension
// `dim`: each of them contains all of its indices.
bool SpansDimension(const TransferTensor& tensor, size_t dim) {
  const auto spans = [&](const Box& box) {
    return box.shape[dim] == tensor.shape[dim];
  };
  return std::all_of(
             tensor.sources.begin(), tensor.sources.end(),
             [&](const SourcePiece& piece) { return spans(piece.box); }) &&
         std::all_of(tensor.parts.begin(), tensor.parts.end(), spans);
}

struct Folding {
  // Each dimension of the grid consists of merged dimensions of the tensor.
  // `first` has the first of these dimensions, and `inner` the product of the
  // sizes of the others. An unsplit [4, 6, 2] has `first` 0 and `inner` 12.
  std::vector<size_t> first;
  std::vector<int64_t> inner;
};

Folding Fold(const TransferTensor& tensor) {
  Folding fold;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (dim > 0 && SpansDimension(tensor, dim)) {
      fold.inner.back() *= tensor.shape[dim];
    } else {
      fold.first.push_back(dim);
      fold.inner.push_back(1);
    }
  }
  return fold;
}

}  // namespace

std::optional<Grid> Grid::Make(const TransferTensor& tensor, std::string* why) {
  Grid grid;
  const bool cast = tensor.from != tensor.to;
  const int64_t bits = cast ? 8 : DtypeBits(tensor.from);
  if (cast) {
    grid.unit_from_ = DtypeBits(tensor.from) / 8;
    grid.unit_to_ = DtypeBits(tensor.to) / 8;
  }
  const Folding fold = Fold(tensor);
  bool whole_bytes = true;
  // The last dimension counts bytes, so each box must start and end at a byte
  // boundary. A tensor without elements has no bytes, so its boxes are not
  // checked.
  const bool empty = FullBox(tensor.shape).Elements() == 0;
  const auto region = [&](const Box& box) {
    Region out;
    for (size_t i = 0; i < fold.first.size(); ++i) {
      const size_t dim = fold.first[i];
      int64_t begin = box.offset[dim] * fold.inner[i];
      int64_t end = (box.offset[dim] + box.shape[dim]) * fold.inner[i];
      if (i + 1 == fold.first.size()) {
        begin *= bits, end *= bits;
        whole_bytes =
            whole_bytes && (empty || (begin % 8 == 0 && end % 8 == 0));
        begin /= 8, end /= 8;
      }
      out.begin.push_back(begin);
      out.end.push_back(end);
    }
    if (fold.first.empty()) out = {{0}, {bits / 8}};  // a scalar
    return out;
  };
  const Region whole = region(FullBox(tensor.shape));
  grid.sizes_ = whole.end;
  for (const SourcePiece& piece : tensor.sources) {
    grid.sources_.push_back(region(piece.box));
  }
  for (const Box& part : tensor.parts) grid.parts_.push_back(region(part));
  if (whole_bytes) return grid;
  *why = "`" + tensor.name + "`, " + ShapeText(tensor.shape) + " of " +
         std::string(DtypeName(tensor.from)) +
         ", would start or end inside a byte";
  return std::nullopt;
}

Grid::Steps Grid::Walk(int64_t max_bytes) const {
  const int64_t most =
      std::max<int64_t>(max_bytes / std::max(unit_from_, unit_to_), 1);
  Steps walk;
  int64_t inner = 1;
  walk.dim = sizes_.size() - 1;
  // Find the outermost dimension along which a single index has at most `most`
  // units of data. Blocks are ranges of indices along this dimension.
  while (walk.dim > 0 && sizes_[walk.dim] <= most / inner) {
    inner *= std::max<int64_t>(sizes_[walk.dim], 1);
    --walk.dim;
  }
  walk.step = std::max<int64_t>(most / inner, 1);
  walk.ranges = (sizes_[walk.dim] + walk.step - 1) / walk.step;
  for (size_t i = 0; i < walk.dim; ++i) walk.prefixes *= sizes_[i];
  return walk;
}

int64_t Grid::Blocks(int64_t max_bytes) const {
  for (const int64_t size : sizes_) {
    if (size == 0) return 0;
  }
  const Steps walk = Walk(max_bytes);
  return walk.prefixes * walk.ranges;
}

Region Grid::Block(int64_t index, int64_t max_bytes) const {
  const Steps walk = Walk(max_bytes);
  Region out{std::vector<int64_t>(sizes_.size(), 0), sizes_};
  int64_t prefix = index / walk.ranges;
  out.begin[walk.dim] = index % walk.ranges * walk.step;
  out.end[walk.dim] =
      std::min(out.begin[walk.dim] + walk.step, sizes_[walk.dim]);
  for (size_t i = walk.dim; i > 0;) {
    --i;
    out.begin[i] = prefix % sizes_[i];
    out.end[i] = out.begin[i] + 1;
    prefix /= sizes_[i];
  }
  return out;
}

}  // namespace shardc
