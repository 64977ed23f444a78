// States what each dimension of a stored parameter counts, and which parameters
// are split together. Both follow from the facts about the parameters.
#ifndef SHARDC_FACTS_DIMENSIONS_H_
#define SHARDC_FACTS_DIMENSIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "facts/parameters.h"
#include "model/manifest.h"

namespace shardc::facts {

// The dimensions of a matrix, and of what counts matrices.
struct MatrixDims {
  int in = -1,
      out = -1;  // what is summed over and what is computed; -1: unknown
  std::vector<int> layers, experts;
};

// Returns the dimensions of the parameters of a group, by its name and by the
// shapes of its block. `shape` is their shape.
MatrixDims MatrixDimsOf(const ParameterTable& table, uint32_t group,
                        const Shape& shape);

enum class Counts : uint8_t {
  kUnknown,
  kStream,  // the model's width
  kHeads,   // query heads times the size of a head
  kKvHeads,
  kQkvHeads,  // heads of queries, keys and values, one after the other
  kInner,     // the inner width of a feed-forward block
  kVocabulary,
  kLatent,
  kExperts,
  kLayers,
  kRank,  // of an adapter
  kPositions,
  kHeadSize
};
// Returns the word of output, such as `kv_heads`; `unknown` for kUnknown.
std::string_view CountsWord(Counts counts);

// Returns what each dimension counts.
std::vector<Counts> CountsOf(const ParameterTable& table, uint32_t group,
                             const Shape& shape);

// Returns, for each group, the group of the weight with which it is split: that
// of its module, for a bias, a scale or an adapter. A group without one, and a
// weight, is its own.
std::vector<uint32_t> SplitWith(const ParameterTable& table);

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_DIMENSIONS_H_
