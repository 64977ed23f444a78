// Appends ops to a step's graph. Frequent kinds of op have their own functions,
// and Append() appends any other op. A function that has no parameter for the
// labels of the result derives them from the operands.
//
//   GraphWriter write(graph);
//   write.name = "norm";
//   const ValueId squares = write.Einsum(x, x, {b, t});
#ifndef SHARDC_STEP_GRAPH_WRITER_H_
#define SHARDC_STEP_GRAPH_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "model/step_graph.h"
#include "source/size.h"

namespace shardc::step {

using Labels = std::vector<LabelId>;

bool HasLabel(const Labels& labels, LabelId label);

class GraphWriter {
 public:
  explicit GraphWriter(Graph& graph);

  // The name, phase, layer and line of the ops that are appended after they are
  // set.
  std::string name = {};
  Phase phase = Phase::kForward;
  int32_t layer = -1;
  int32_t line = 0;

  Graph& graph() { return graph_; }
  const Labels& LabelsOf(ValueId value) const {
    return graph_.values[AsIndex(value)].labels;
  }
  bool Has(ValueId value, LabelId label) const;
  Op& Producer(ValueId value) {
    return graph_.ops[static_cast<size_t>(producer_[AsIndex(value)])];
  }
  int32_t ProducerOf(ValueId value) const { return producer_[AsIndex(value)]; }

  ValueId Input(Labels labels, bool integral = false);
  ValueId Einsum(ValueId a, ValueId b, Labels out);
  // Returns the elementwise product, with the labels of `a`.
  ValueId Times(ValueId a, ValueId b) { return Einsum(a, b, LabelsOf(a)); }
  ValueId Add(std::vector<ValueId> terms);
  ValueId Scaled(ValueId x, Scale scale);
  ValueId Fn(std::string_view fn, ValueId x, double constant = 0);
  ValueId Greater(ValueId a, ValueId b);
  ValueId Sum(ValueId x, LabelId label);
  ValueId Max(ValueId x, LabelId label);
  ValueId Broadcast(ValueId x, LabelId label, Labels out);
  ValueId Lookup(ValueId table, ValueId ids, int64_t offset);
  ValueId Pick(ValueId logits, ValueId ids, LabelId from);
  ValueId Split(ValueId x, LabelId label);
  ValueId Merge(ValueId x, LabelId label);
  ValueId Part(ValueId x, LabelId whole, size_t index);
  ValueId Index(ValueId x, LabelId label, int64_t row);
  ValueId Rename(ValueId x, LabelId from, LabelId to);
  // Returns x with its elements along `label` shifted by one index. [1, 2, 3]
  // becomes [0, 1, 2] if `sign` is 1, and [2, 3, 0] if `sign` is -1.
  ValueId Shifted(ValueId x, LabelId label, int8_t sign);
  ValueId Identity(ValueId x);

  // Both functions append an op and return its result, a new value with the
  // labels `labels`.
  ValueId Append(OpKind kind, std::vector<ValueId> in, OpAttributes attributes,
                 Labels labels, bool integral = false);
  ValueId Append(Op op, Labels labels, bool integral = false);
  // Sets the sharding constraint of a value, unless `constraint` is empty, and
  // returns the value. If the value already has another constraint, or is an
  // input, a copy of the value gets the constraint and is returned.
  ValueId Constrained(ValueId value, std::string_view constraint);

  static Labels Without(const Labels& labels, LabelId gone);
  static Labels Replaced(const Labels& labels, LabelId from,
                         std::span<const LabelId> to);

 private:
  Graph& graph_;
  // Indexed by ValueId: the index of the op that computes the value.
  std::vector<int32_t> producer_;
};

// Creates the dimension labels of a step: labels for the batch and the length,
// a label for each dimension of the description, and composite labels such as
// (c+r) and (n h). Each composite is created once.

class LabelTable {
 public:
  // New labels and their sizes are appended to `graph` and `sizes`.
  LabelTable(const ModelDescription& description, Graph& graph, Sizes& sizes)
      : description_(description), graph_(graph), sizes_(sizes) {}

  // Creates the labels that every model has (CommonLabels), and the labels of
  // the description's dimensions with the sizes `dims`.
  void MakeCommon(std::span<const int64_t> dims);

  // Creates a label. `size` is 0 if the size follows from other labels or from
  // the number of tokens.
  LabelId New(std::string name, std::string_view semantic, int64_t size);
  // OfParts returns the composite label of several parts, (a+b). OfFactors
  // returns the composite label of several factors, (a b). For a single label,
  // both return this label.
  LabelId OfParts(const std::vector<LabelId>& parts);
  LabelId OfFactors(const std::vector<LabelId>& factors);
  // Returns the label of a role's dimension. The dimension has factors, each of
  // which may have parts. For example, a fused weight (j n h) holds j tensors
  // of n heads, such as q, k and v. If these tensors are sharded separately,
  // the first factor with a logical axis (n) is moved to the front. Each
  // contiguous shard of (n j h) then has heads of q, k and v, while a shard of
  // (j n h) may have heads of q only.
  LabelId Of(const DescribedDim& dim);
  // Returns the index in a role's dimension of the factor that Of() moves to
  // the front; 0 if it moves none.
  size_t LeadOf(const DescribedDim& dim);

  // Returns the label of the description's dimension at this index.
  LabelId Dim(int32_t at) const { return dims_[AsIndex(at)]; }
  int64_t SizeOf(LabelId label) const { return sizes_[AsIndex(label)]; }
  DimLabel& operator[](LabelId label) { return graph_.labels[AsIndex(label)]; }

 private:
  LabelId Named(std::string_view dim) const;
  std::vector<LabelId> FactorsOf(const DescribedDim& dim);
  bool IsCount(LabelId label) const;
  LabelId Composite(const std::vector<LabelId>& of, std::string_view between,
                    std::vector<LabelId> DimLabel::*made_of);

  const ModelDescription& description_;
  Graph& graph_;
  Sizes& sizes_;
  // The label of each of the description's dimensions, in their order.
  std::vector<LabelId> dims_;
  std::map<std::string, LabelId, std::less<>> composites_;
};

// The state of the backward pass: the cotangents that have been computed so
// far, and the forward values, some of which are rematerialised.

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

#endif  // SHARDC_STEP_GRAPH_WRITER_H_
