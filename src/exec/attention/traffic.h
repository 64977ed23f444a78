// Computes the bytes that leave each device in an attention operation, for each
// kind of collective. They are computed by closed formulas from the layouts of
// the inputs and the layouts that the operation declares. The formulas do not
// use the ledger, which counts the bytes of the simulated collectives.
//
// An operation states its formula as a list of steps: reshard, gather or
// reduce, and finally produce the output.
#ifndef SHARDC_EXEC_ATTENTION_TRAFFIC_H_
#define SHARDC_EXEC_ATTENTION_TRAFFIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"
#include "model/axis_rules.h"

namespace shardc::exec {

// The shape and spec of a tensor, without its elements.
struct TensorSharding {
  Shape shape;
  Spec spec;  // one entry per dimension
};

// Returns the sharding in the order [batch, length, heads, dim] of a tensor in
// `layout`. Packed tokens become one batch row.
TensorSharding InBthd(Shape shape, Spec spec, Layout layout);

class Traffic {
 public:
  // The arguments must outlive this object.
  Traffic(const SimMesh& mesh, const AttentionProblem& problem,
          const AttentionSpecs& specs, const OperationSettings& settings);

  const SimMesh& mesh() const { return mesh_; }
  const AttentionProblem& problem() const { return problem_; }
  const OperationSettings& settings() const { return settings_; }
  // Return the bytes of an element in the compute dtype, and of an element of a
  // key or value as stored in a page.
  int64_t element_bytes() const { return element_bytes_; }
  int64_t stored_bytes() const { return stored_bytes_; }

  // The current shardings of the tensors. A function that adds the bytes of a
  // reshard, such as GatherLengths, also changes the sharding here. At first
  // these are the shardings of the inputs, with dimensions of size 1 unsharded.
  TensorSharding query, key, value;
  const TensorSharding& output() const { return output_; }

  int64_t Parts(const AxisGroup& axes) const { return mesh_.Parts(axes); }
  Shape LocalShapeOf(const TensorSharding& laid) const;
  int64_t LocalElements(const TensorSharding& laid) const;

  // Adds a collective in which every device sends `bytes` bytes.
  void Add(Collective kind, int64_t bytes);
  // Records the axes of the collective that Add added last. Callers use them to
  // print the bytes of each step.
  void Over(const AxisGroup& axes);
  void MoveTo(TensorSharding& laid, Spec to, int64_t bytes_per_element);
  // Adds the bytes of gathering query, key and value over their lengths and
  // over D. Batch and heads keep their axes.
  void GatherLengths();
  // Adds the bytes of resharding the heads of key and value over the axes that
  // shard the query's heads.
  void KeysOnHeads();
  // Adds the bytes of resharding bias, masks, segment ids and sinks. Query and
  // key must already have their final layouts.
  void MoveExtras(bool unsharded_keys = false);
  void MoveSinks();
  // Add a collective over `axes`, whose groups have n devices. Each device
  // holds `elements` float32 numbers. A group sends 2(n-1) * `elements` numbers
  // in all_reduce and (n-1) * `elements` in reduce_scatter. In all_gather, each
  // device sends (n-1) * `elements` numbers.
  void AllReduce(const AxisGroup& axes, int64_t elements);
  void ReduceScatter(const AxisGroup& axes, int64_t elements);
  void AllGather(const AxisGroup& axes, int64_t elements);
  // If the head dimension is sharded, adds the all_reduce of partial logits
  // and, for quantised products, of the largest number of each row.
  void ReduceLogits();
  // Adds n - 1 ring steps, in each of which every device sends its key, value
  // and segment ids.
  void PassKeysRound(int64_t n);
  // Reshards the output from `spec` to the spec that the problem requests.
  void FinishAs(Spec spec);

  // The all_to_all of ulysses, which runs over `axes`. `lengths` are the axes
  // that shard the lengths before the exchange. MoveExtras reshards the extra
  // inputs to match the lengths and heads after the exchange.
  struct Exchange {
    AxisGroup lengths, axes;
    int64_t repeated = 1;  // how often each key head is sent
    // True if a ring follows the all_to_all. The all_to_all may then change the
    // order of the tokens, so segment ids, bias and masks are gathered.
    bool joined = false;
  };
  Exchange exchange;

  const SentBytes& sent() const { return sent_; }
  // One collective of the operation's program. steps() returns all of them in
  // the order of the program.
  struct Step {
    Collective kind = Collective::kAllGather;
    AxisGroup axes;
    std::vector<int64_t> sent;  // indexed by device
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void MoveBroadcast(const std::optional<Buffer>& buffer, const Spec& given,
                     bool unsharded_keys);
  void MoveIds(const std::optional<Buffer>& buffer, const Spec& given,
               const TensorSharding& host);

  const SimMesh& mesh_;
  const AttentionProblem& problem_;
  const AttentionSpecs& specs_;
  const OperationSettings& settings_;
  TensorSharding output_;
  int64_t element_bytes_ = 0, stored_bytes_ = 0;
  SentBytes sent_;
  std::vector<Step> steps_;
};

// Adds the bytes of an operation whose kernel runs on local slices. Query, key
// and value are gathered over their lengths and over D. Batch and heads keep
// their axes.
void LocalBytes(Traffic& traffic);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_TRAFFIC_H_
