// Finds the matrices, vectors and convolutions of each block of a model, such
// as an MLP or a layer, whatever their names are.
#ifndef SHARDC_LINT_ANALYSIS_BLOCKS_H_
#define SHARDC_LINT_ANALYSIS_BLOCKS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// A group of matrices. `dims` and `sizes` are those of its last two dimensions
// that do not count layers. `lead` has the sizes of the others, such as the
// number of experts.
struct Matrix {
  const ParameterGroup* group = nullptr;
  std::array<int, 2> dims = {};
  std::array<int64_t, 2> sizes = {};
  Shape lead = {};

  // Returns whether the orientation of the matrix may be [out, in] (for `out`
  // 0) or [in, out] (for `out` 1).
  bool MayBe(size_t out) const;
};

// A group of vectors, or of convolutions with one kernel for each channel.
// `size` is the number of elements or of channels.
struct Sized {
  const ParameterGroup* group = nullptr;
  int dim = 0;
  int64_t size = 0;
};

// The parameters below one path of the names, such as `layers.*.mlp.`.
// Embeddings, output heads, adapters and packed numbers are omitted.
struct Block {
  std::vector<Matrix> matrices;
  std::vector<Sized> vectors, convolutions;

  // Returns whether so few parameters are below the path that they may be those
  // of one block.
  bool IsOne() const {
    return matrices.size() + vectors.size() + convolutions.size() <= 256;
  }
};

class Blocks {
 public:
  explicit Blocks(const Facts& facts);

  // Returns the paths around a parameter, innermost first: `layers.*.mlp.up.`,
  // `layers.*.mlp.` and `layers.*.` for `layers.*.mlp.up.weight`. The last path
  // is that of the layer. It is empty if the name has no number.
  std::vector<std::string_view> PathsOf(std::string_view name) const;
  // Returns the block of a path; an empty block if no parameter is below it.
  const Block& At(std::string_view path) const;
  // Returns null if the group is not a matrix of a block.
  const Matrix* MatrixOf(const ParameterGroup& group) const;
  // Returns whether the first layer of group `a` has a parameter of `b` too.
  bool Meet(const ParameterGroup& a, const ParameterGroup& b) const;

 private:
  void Add(const Facts& facts, const ParameterGroup& group);

  const ParameterGroup* first_ = nullptr;
  char separator_ = '.';
  std::map<std::string, Block, std::less<>> blocks_;
  // The numbers of the layers of each group, in ascending order.
  std::vector<std::vector<int64_t>> layers_;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_BLOCKS_H_
