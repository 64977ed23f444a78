// Chooses specs by the facts of a traced program, without names and sizes.
#ifndef SHARDC_SUGGEST_BY_PROGRAM_H_
#define SHARDC_SUGGEST_BY_PROGRAM_H_

#include <cstdint>
#include <set>
#include <vector>

#include "model/legal_sizes.h"
#include "model/mesh.h"
#include "program/facts.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// The facts of the parameters of a group. Tensors without facts are left out.
using GroupFacts = std::vector<const program::ParamFacts*>;

// Shards each of the equal parts of dimensions that tensor parallelism alone
// shards, where `facts` state such parts for all tensors of a group.
void DivideParts(const Tree& tree, const program::Facts& facts, int64_t tp,
                 Choices& choices);

// Sets InferredDims::units of projections to the numbers of heads that the
// description of the model's family states, and of each part of fused ones. In
// a group whose layers differ, tp must divide the numbers of all layers.
void UseDescribedHeads(const Tree& tree, ModelDims& dims);

class ByProgram {
 public:
  // The arguments must outlive the object.
  ByProgram(const Tree& tree, const program::Facts& facts,
            const MeshAxes& mesh);

  // Returns the role of each group, as the program shows it. Roles serve titles
  // only: the specs follow from factors.
  ModelDims Dims() const;

  // The factors that tensor parallelism may shard, as indices into
  // Facts::factors: those with the best ratio first.
  const std::vector<uint32_t>& candidates() const { return candidates_; }
  // Adds the candidates that occur in no value together with a factor of the
  // set, one after the other.
  void Fill(std::set<uint32_t>& factors) const;
  // Returns the set with or without a candidate and those of other layers that
  // the same lines use. Factors that occur in a value together with an added
  // one are removed.
  std::set<uint32_t> With(std::set<uint32_t> factors, uint32_t other) const;
  std::set<uint32_t> Without(std::set<uint32_t> factors, uint32_t other) const;
  // Returns the first candidate of a layer that the same lines use.
  uint32_t FirstLike(uint32_t candidate) const;
  // Returns the candidates with the best ratio, of which no two occur in one
  // value.
  std::set<uint32_t> BestByRatio() const;

  // Returns whether some dimension has parts that the axis could divide.
  bool MayDivideParts() const;
  // Returns whether tp may shard the heads of attention: whether it divides
  // them, and complete heads are contiguous.
  bool MayShardHeads() const;
  // Returns a spec for each group if tensor parallelism shards these factors. A
  // dimension that holds several parts is sharded over that axis only if
  // `divides_parts` allows to divide each part. The `axes:` section is not set.
  Choices Choose(const std::set<uint32_t>& tensor, bool divides_parts) const;
  // Returns whether the mesh suits the model under the choices (MisfitOf).
  bool Suits(const Choices& choices) const;
  // Returns the specs of the choices on the mesh, one for each parameter of the
  // program, in its order.
  std::vector<Spec> SpecsOf(const Choices& choices) const;
  // Returns the parts of dimensions that the choices divide, likewise.
  std::vector<EqualParts> DividedBy(const Choices& choices) const;

 private:
  Choice ChooseFor(size_t group, const std::set<uint32_t>& tensor,
                   bool divides_parts, int64_t small) const;
  bool MayShard(uint32_t factor) const;
  // Returns whether a dimension is the stream, or all of its parts.
  bool IsStream(const program::FactorList& dim) const;
  bool IsFree(const std::set<uint32_t>& factors, uint32_t other) const;
  // Returns whether the same lines use both factors in the same way, as those
  // of two layers.
  bool HaveSameLines(uint32_t a, uint32_t b) const;

  const Tree& tree_;
  const program::Facts& facts_;
  const MeshAxes& mesh_;
  std::vector<GroupFacts> members_;
  std::vector<uint32_t> candidates_;
  // The factors that occur in a value together with each factor.
  std::vector<std::set<uint32_t>> together_;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_BY_PROGRAM_H_
