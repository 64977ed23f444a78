// Ties the dimensions of a program's values: which factors each dimension has,
// and what ops do with them.
#ifndef SHARDC_PROGRAM_TIES_H_
#define SHARDC_PROGRAM_TIES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "program/program.h"

namespace shardc::program {

using FactorId = uint32_t;
// A dimension as the product of its factors. The first one is the outermost. A
// dimension of size 1 or 0 has no factors.
using Factors = std::vector<FactorId>;

// Parts of parts are described down to this depth.
inline constexpr int kPartDepth = 8;

class FactorTable {
 public:
  // Returns the dimension of a new factor.
  Factors Fresh(int64_t size);
  // Returns a dimension that holds the parts one after the other: a factor that
  // is their sum. A new factor without parts is returned if there are too many.
  Factors SumOf(std::vector<Factors> parts);

  // Makes two dimensions of equal size the same. Both become their common
  // refinement: [6] and [2, 3] become [2, 3]. Returns false if they have none,
  // such as [2, 3] and [3, 2], and then changes nothing.
  bool Unify(const Factors& a, const Factors& b);

  // Divides the leading factor of a dimension at element numbers, so that it
  // becomes a sum. Returns false if a boundary is inside of an inner factor.
  bool DivideAt(const Factors& dim, std::span<const int64_t> bounds);
  // Returns the elements from `begin` to before `end` as a dimension, or
  // nullopt if the dimension is not divided there.
  std::optional<Factors> Range(const Factors& dim, int64_t begin, int64_t end);

  // Returns the representatives of the dimension's factors, in which products
  // are replaced by their own factors.
  Factors Resolve(const Factors& dim) const;
  int64_t SizeOf(FactorId factor) const { return nodes_[Root(factor)].size; }
  int64_t SizeOf(const Factors& dim) const;
  // Returns the parts of a factor that is a sum; empty if it is not one. A part
  // that is a sum itself is replaced by its parts.
  std::vector<Factors> PartsOf(FactorId factor) const;
  bool IsSum(FactorId factor) const {
    return !nodes_[Root(factor)].parts.empty();
  }

 private:
  struct Node {
    FactorId parent = 0;
    int64_t size = 1;
    Factors product;             // empty if the factor is no product
    std::vector<Factors> parts;  // empty if the factor is no sum
  };

  FactorId New(int64_t size);
  FactorId Root(FactorId factor) const;
  void Expand(FactorId factor, Factors& out) const;
  bool HaveRefinement(const Factors& a, const Factors& b) const;
  void Join(FactorId a, FactorId b);
  bool JoinSums(FactorId a, FactorId b);
  void SplitFactor(FactorId factor, int64_t outer);
  bool CanSplit(FactorId factor, int64_t outer) const;

  // Find() shortens paths, which changes no result.
  mutable std::vector<Node> nodes_;
  int depth_ = 0;  // of nested calls of Unify()
};

// What an op does with a dimension, in the words of Shardy where it has one.
enum class Use : uint8_t {
  kContracted,    // a dot sums over it: a reduction
  kProduced,      // a dot passes it from a weight to activations
  kBatched,       // a batch dimension of a dot
  kFree,          // a dot of two activations passes it
  kReduced,       // a reduction over it
  kDivided,       // slices separate its parts
  kJoined,        // a concatenation makes it of parts
  kScanned,       // a loop runs over it
  kLookedUp,      // rows are picked by indices
  kOrdered,       // a sort, cumulative op or argmax along it: need-replication
  kSearched,      // a top_k over it: need-replication
  kShifted,       // elements move along it: a halo, or need-replication
  kWindow,        // a window of a convolution
  kFeature,       // a feature dimension of a convolution
  kGrouped,       // groups of a ragged dot
  kOpaque,        // an op that nothing is known of reads it: need-replication
  kRepeated,      // another dimension of the same value has the factor too
  kUnreconciled,  // an op ties it to a dimension that has other factors
};

// What a value depends on, as bits.
inline constexpr uint8_t kOnParams = 1;
inline constexpr uint8_t kOnData = 2;

struct Event {
  Use use = Use::kContracted;
  // The position of the op in Ties::ops.
  uint32_t op = 0;
  Factors factors;
  // For dots what the operand with the dimension depends on, and the other one.
  // For kLookedUp the indexed value and the indices.
  uint8_t own = 0, other = 0;
  // For dots: which operand, 0 or 1, has the dimension.
  uint8_t side = 0;
};

struct Ties {
  FactorTable table;
  std::vector<std::vector<Factors>> dims;  // of each value, by dimension
  std::vector<uint8_t> depends;            // of each value
  // Of each value the only parameter that it depends on, as one more than its
  // index in Program::inputs; 0 if it depends on none, on several, or on data.
  std::vector<uint32_t> origin;
  std::vector<const Op*> ops;  // with those of bodies, in order
  std::vector<double> turns;   // how often loops run each op
  std::vector<Event> events;   // of the forward pass only
};

// The program must outlive the result.
Ties TieDimensions(const Program& program);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_TIES_H_
