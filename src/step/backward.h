// The state of the backward pass: the cotangents of values so far, and forward
// values, which may be rematerialised.
#ifndef SHARDC_STEP_BACKWARD_H_
#define SHARDC_STEP_BACKWARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/step_graph.h"
#include "source/index.h"
#include "step/graph_writer.h"

namespace shardc::step {

class Backward {
 public:
  // The graph must have forward ops only. Backward ops are appended to it.
  explicit Backward(Graph& graph);

  GraphWriter& write() { return write_; }
  const Labels& LabelsOf(ValueId value) const { return write_.LabelsOf(value); }

  // Returns whether the value depends on a parameter through ops that have
  // gradients.
  bool Needs(ValueId value) const { return needed_[AsIndex(value)]; }
  bool HasCotangent(ValueId value) const {
    return !cotangents_[AsIndex(value)].empty();
  }
  // Adds a term to the value's cotangent, unless the value needs no cotangent.
  void Give(ValueId value, ValueId cotangent);
  // Returns the sum of all terms of the value's cotangent; kNoValue if there
  // are no terms. The sum has the sharding constraint `constraint`, unless that
  // constraint applies to the forward pass only. Terms are added before they
  // are reduced, so that one collective serves all of them.
  ValueId Total(ValueId value, const std::string& constraint);

  // Returns the forward value if the forward pass keeps it, else the result of
  // ops that compute it again.
  ValueId Forward(ValueId value);

  // Appends an op of another kind with the attributes of `op`; its result has
  // the labels of `like`.
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
  std::vector<bool> needed_;           // indexed by forward value
  std::vector<Maker> made_by_;         // indexed by forward value
  std::map<ValueId, ValueId> rolled_;  // results of rolls, keyed by the operand
  std::map<ValueId, ValueId> recomputed_;  // copies, keyed by the forward value
  std::vector<std::vector<ValueId>> cotangents_;  // terms, by forward value
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_BACKWARD_H_
