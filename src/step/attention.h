// Writes attention as a sequence of ops. The ops act either on global values,
// for which the compiler inserts collectives, or on the shards of one device,
// as a kernel does.
#ifndef SHARDC_STEP_ATTENTION_H_
#define SHARDC_STEP_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "model/step_graph.h"
#include "step/graph_writer.h"

namespace shardc::step {

enum class AttentionView : uint8_t {
  kGlobal,  // The compiler inserts collectives where ops need them.
  // A kernel on the shards of a device. The queries have the sharding
  // constraint op_q, the keys and values op_k, and the result op_out.
  kLocal,
  // A kernel as in kLocal, where keys and values are also passed from device to
  // device around a ring.
  kRing,
};
struct AttentionForm {
  AttentionView view = AttentionView::kGlobal;
  int64_t turns = 1;  // For kRing, the number of devices in the ring.
  // The number of copies of each KV head that are made before keys and values
  // are resharded; 1 if they are not copied.
  int64_t copies = 1;
  bool operator==(const AttentionForm&) const = default;
};

struct AttentionSettings {
  Scale scale = {};
  // Scores are capped to the range -cap to cap; 0 means no cap.
  double cap = 0;
  bool windowed = false;
  // True if windows are disjoint chunks; false if they slide.
  bool chunked = false;
  bool causal = true;
  // Whether ALiBi adds to each score the product of the head's slope
  // (exec/step/selection.cc) and the key's position.
  bool sloped = false;
  // Whether the slopes are multiplied by `scale`, like the scores.
  bool slopes_scaled = false;
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // The labels of the tokens of queries and of keys. kNoLabel means
  // CommonLabels::query and CommonLabels::key, the labels of the first layer
  // stack. If there is an encoder, it is the second stack and has other labels.
  LabelId query = kNoLabel, key = kNoLabel;
  // Position biases that are added to the scores, with the labels [t, s, n] in
  // any order; kNoValue if there are none.
  ValueId near = kNoValue;
  AttentionForm form = {};
  // If KV heads are copied, the label of their dimension, (k copies). It is
  // composed of k, the KV heads, and of the copies of each head. Otherwise
  // kNoLabel.
  LabelId copied_heads = kNoLabel;
};
// Appends attention to the graph and returns its output. Queries and keys may
// have several parts, such as a part with and a part without rotary embedding,
// whose products are added. A query part has the labels [b, t, n, h], and a key
// part [b, s, k, h] or [b, s, h]. Values have [b, s, k, w]. `sinks` has [n], or
// is kNoValue. Ring attention uses the labels in Graph::ring.
ValueId Attention(GraphWriter& write, const std::vector<ValueId>& queries,
                  const std::vector<ValueId>& keys, ValueId values,
                  ValueId sinks, const AttentionSettings& settings);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ATTENTION_H_
