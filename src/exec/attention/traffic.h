// Bytes that leave each device over an operation's program, kind by kind, by
// closed formulas: of the layouts that the inputs arrive in and those that the
// operation states for itself. The ledger, which counts what collectives move,
// takes no part.
//
// An operation's formula is told as its program runs: move what moves, gather
// or reduce what is joined, give the output.
//
//   void Bytes(Traffic& traffic) {          // of flash_attn2
//     traffic.GatherLengths();              // (n-1)(b_k + b_v), and b_q
//     traffic.MoveExtras();
//     traffic.FinishAs(traffic.query.spec);
//   }
#ifndef SHARDC_EXEC_ATTENTION_TRAFFIC_H_
#define SHARDC_EXEC_ATTENTION_TRAFFIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/ledger.h"
#include "exec/machine/mesh_sim.h"
#include "model/layout.h"

namespace shardc::exec {

// A tensor's layout, without its elements.
struct Laid {
  Shape shape;
  Spec spec;  // one entry per dimension
};

// [batch, length, heads, dim] of what arrives in a layout; packed tokens are
// one row of batch x length.
Laid InBthd(Shape shape, Spec spec, Layout layout);

class Traffic {
 public:
  // What is given must outlive this.
  Traffic(const SimMesh& mesh, const AttentionProblem& problem,
          const AttentionSpecs& specs, const OperationSettings& settings);

  const SimMesh& mesh() const { return mesh_; }
  const AttentionProblem& problem() const { return problem_; }
  const OperationSettings& settings() const { return settings_; }
  // Of an element as computed in, and of a key or value in its page.
  int64_t element_bytes() const { return element_bytes_; }
  int64_t stored_bytes() const { return stored_bytes_; }

  // Where these are by now. Dimensions of size 1 are nobody's to split.
  Laid query, key, value;
  const Laid& output() const { return output_; }

  int64_t Parts(const AxisGroup& axes) const { return mesh_.Parts(axes); }
  Shape LocalShapeOf(const Laid& laid) const;
  int64_t LocalElements(const Laid& laid) const;

  // So many bytes by every device.
  void Add(Collective kind, int64_t bytes);
  // The axes of what was added last, for those who ask where it goes.
  void Over(const AxisGroup& axes);
  void MoveTo(Laid& laid, Spec to, int64_t bytes_per_element);
  // Lengths and head dimensions of query, key and value become whole.
  void GatherLengths();
  // Key and value over the axes of the query's heads (the MHA spec).
  void KeysOnHeads();
  // Bias, masks, ids and sinks, once query and key are in place.
  void MoveExtras(bool whole_keys = false);
  void MoveSinks();
  // all_reduce over `axes` of so many float32 on each device: 2(n-1) of them
  // in a group of n; reduce_scatter, half of that; and all_gather, (n-1) of
  // them by each.
  void AllReduce(const AxisGroup& axes, int64_t elements);
  void ReduceScatter(const AxisGroup& axes, int64_t elements);
  void AllGather(const AxisGroup& axes, int64_t elements);
  // ... of the partial logits of a split head dimension, and of the largest
  // numbers of rows before them where products are quantised.
  void ReduceLogits();
  // n - 1 shifts of key, value and segment ids, by everyone.
  void PassKeysRound(int64_t n);
  // From `spec` to that which was asked for.
  void FinishAs(Spec spec);

  // ulysses: what its exchange does, for extras to follow.
  struct Exchange {
    AxisGroup lengths, axes;  // the lengths' axes, and those exchanged
    int64_t repeated = 1;     // times that a key head is sent
    // Tokens of several places lie side by side.
    bool joined = false;
  };
  Exchange exchange;

  // No formula holds for these inputs, and why: the ledger is not judged, and
  // the result says so.
  void DoesNotHold(std::string why) { unknown_ = std::move(why); }
  const std::string& unknown() const { return unknown_; }
  const SentBytes& sent() const { return sent_; }
  // The same in the program's order, with the axes that it goes over.
  struct Step {
    Collective kind = Collective::kAllGather;
    AxisGroup axes;
    std::vector<int64_t> sent;  // by device
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void MoveBroadcast(const std::optional<Buffer>& buffer, const Spec& given,
                     bool whole_keys);
  void MoveIds(const std::optional<Buffer>& buffer, const Spec& given,
               const Laid& host);

  const SimMesh& mesh_;
  const AttentionProblem& problem_;
  const AttentionSpecs& specs_;
  const OperationSettings& settings_;
  Laid output_;
  int64_t element_bytes_ = 0, stored_bytes_ = 0;
  SentBytes sent_;
  std::vector<Step> steps_;
  std::string unknown_;
};

// A kernel on local slices: lengths and head dimensions become whole, batch
// and heads stay as they are.
void LocalBytes(Traffic& traffic);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_TRAFFIC_H_
