// The state of the backward pass: the cotangents that have been computed so
// far, and the forward values, some of which are rematerialised.
#ifndef SHARDC_STEP_BACKWARD_H_
#define SHARDC_STEP_BACKWARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "source/size.h"
#include "step/graph_writer.h"

namespace shardc::step {

class Backward {
 public:
  // The graph must have forward ops only. Backward ops are appended to it.
  explicit Backward(Graph& graph);

  GraphWriter& write() { return write_; }
  const Labels& LabelsOf(ValueId value) const { return write_.LabelsOf(value); }

  // Returns whether the value needs a cotangent. It does if it depends on a
  // trained parameter through ops that have gradients.
  bool Needs(ValueId value) const { return needed_[AsIndex(value)]; }
  bool HasCotangent(ValueId value) const {
    return !cotangents_[AsIndex(value)].empty();
  }
  // Adds a term to the value's cotangent, unless the value needs no cotangent.
  void Give(ValueId value, ValueId cotangent);
  // Returns the sum of all terms of the value's cotangent, or kNoValue if there
  // are no terms. The sum gets the sharding constraint `constraint`, unless
  // that constraint applies to the forward pass only. Terms are added before
  // the sum is reduced, so that one collective reduces all of them.
  ValueId Total(ValueId value, const std::string& constraint);

  // Returns the forward value if the forward pass keeps it. Otherwise returns
  // the result of ops that compute the value again.
  ValueId Forward(ValueId value);

  // Appends an op of the kind `kind` with the attributes of `op` and the
  // operands `in`. Its result has the labels of `like`.
  ValueId Like(const Op& op, OpKind kind, std::vector<ValueId> in,
               ValueId like);

 private:
  struct Maker {
    int32_t op = -1;
    bool recompute = false;
  };

  void FindNeeded();
  void FindMakers();
  ValueId HomeOf(ValueId value) const;

  Graph& graph_;
  GraphWriter write_;
  // Indexed by forward value: whether the value needs a cotangent.
  std::vector<bool> needed_;
  // Indexed by forward value: the op that computes it.
  std::vector<Maker> made_by_;
  // The results of rolls, keyed by the operand of the roll.
  std::map<ValueId, ValueId> rolled_;
  // The rematerialised values, keyed by the forward value.
  std::map<ValueId, ValueId> recomputed_;
  // The terms of each cotangent, indexed by forward value.
  std::vector<std::vector<ValueId>> cotangents_;
};

// Appends the ops of the backward phase and sets `gradients`. Does nothing for
// a graph without a loss. A parameter has no gradient if it is not trained, or
// if the loss does not depend on it. An example is a bias that only changes the
// choice of experts.
//
// The op of a gradient has the sharding constraint `grad:ROLE`. The op of
// another cotangent has the constraint of its forward value, unless that
// constraint applies to the forward pass only (IsForwardOnly).
void Differentiate(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_BACKWARD_H_
