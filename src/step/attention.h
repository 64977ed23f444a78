// Attention as a sequence of ops, either on unsharded values (the compiler
// inserts the collectives) or as a kernel that each device runs on its shards.
#ifndef SHARDC_STEP_ATTENTION_H_
#define SHARDC_STEP_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "model/step_graph.h"
#include "step/graph_writer.h"

namespace shardc::step {

enum class AttentionView : uint8_t {
  kGlobal,  // the compiler inserts collectives wherever ops need them
  // A kernel on shards. Its operands have the sharding constraints op_q and
  // op_k, and its result has op_out.
  kLocal,
  // A kernel as in kLocal, with keys and values that are passed from device to
  // device.
  kRing,
};
struct AttentionForm {
  AttentionView view = AttentionView::kGlobal;
  int64_t turns = 1;   // kRing: the number of devices in the ring
  int64_t copies = 1;  // of each KV head, made before keys are resharded
  bool operator==(const AttentionForm&) const = default;
};

struct AttentionSettings {
  Scale scale = {};
  double cap = 0;  // the scores are capped to +-cap; 0: not capped
  bool windowed = false;
  bool chunked = false;  // windows are disjoint chunks, not sliding
  bool causal = true;
  // ALiBi slopes by head (exec/step/slopes.h).
  bool sloped = false;
  bool slopes_scaled = false;  // slopes are scaled like the scores
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // The labels of the tokens of queries and keys; kNoLabel means the labels of
  // the model's own tokens.
  LabelId query = kNoLabel, key = kNoLabel;
  ValueId near = kNoValue;  // biases of the scores, [t, s, n] in any order
  AttentionForm form = {};
  // The composite label (k copies) of repeated KV heads; kNoLabel if they are
  // not repeated.
  LabelId copied_heads = kNoLabel;
};
// Appends attention to the graph and returns its output. Queries and keys may
// have several parts, whose products are added: query parts are [b, t, n, h],
// key parts [b, s, k, h] or [b, s, h]. Values are [b, s, k, w]; sinks are [n]
// or kNoValue. A ring uses the labels Graph::ring.
ValueId Attention(GraphWriter& write, const std::vector<ValueId>& queries,
                  const std::vector<ValueId>& keys, ValueId values,
                  ValueId sinks, const AttentionSettings& settings);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ATTENTION_H_
