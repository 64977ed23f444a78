// Factors of dimensions: a union-find structure whose sets are products and
// sums of smaller sets.
#ifndef SHARDC_PROGRAM_FACTORS_H_
#define SHARDC_PROGRAM_FACTORS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_FACTORS_H_
