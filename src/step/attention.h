// Attention as a program of the op table: in the global view, or as an
// operation runs it on its slices.
#ifndef SHARDC_STEP_ATTENTION_H_
#define SHARDC_STEP_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "model/step_graph.h"
#include "step/graph_writer.h"

namespace shardc::step {

enum class AttentionView : uint8_t {
  kGlobal,  // the compiler's: what is missing is moved where it is missed
  kLocal,   // a kernel's: all is brought to where it runs (op_q, op_k), and
            // its result from there (op_out)
  kRing,    // the same, and keys and values pass from device to device
};
struct AttentionForm {
  AttentionView view = AttentionView::kGlobal;
  int64_t turns = 1;   // kRing: devices round which keys pass
  int64_t copies = 1;  // of each kv head, before they are brought there
};

struct AttentionSettings {
  Scale scale = {};
  double cap = 0;  // 0: none
  bool windowed = false;
  bool chunked = false;  // windows stand side by side
  bool causal = true;
  // Slopes by head, exec/step/slopes.h.
  bool sloped = false;
  bool slopes_scaled = false;  // as scores are
  ValueId query_positions = kNoValue, key_positions = kNoValue;
  // The tokens that queries and keys are of; kNoLabel: the model's own.
  LabelId query = kNoLabel, key = kNoLabel;
  ValueId near = kNoValue;  // added to scores, [t, s, n] in any order
  AttentionForm form = {};
  // Of kv heads: each of them several times over, (k copies).
  LabelId copied_heads = kNoLabel;
};
// Queries and keys in parts that are contracted one by one, [b, t, n, h] and
// [b, s, k, h] or [b, s, h]; values [b, s, k, w]; sinks [n] or absent. A ring's
// labels are the graph's.
ValueId Attention(GraphWriter& write, const std::vector<ValueId>& queries,
                  const std::vector<ValueId>& keys, ValueId values,
                  ValueId sinks, const AttentionSettings& settings);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ATTENTION_H_
