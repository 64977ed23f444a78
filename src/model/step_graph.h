// One step of a model as ops over named dimensions: forward, and with it
// backward and the optimizer's update. Nothing here knows of meshes, and sizes
// stand apart, so that one graph serves real and small ones.
#ifndef SHARDC_MODEL_STEP_GRAPH_H_
#define SHARDC_MODEL_STEP_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardc::step {

using LabelId = int16_t;  // index into Graph::labels
using ValueId = int32_t;  // index into Graph::values
inline constexpr LabelId kNoLabel = -1;
inline constexpr ValueId kNoValue = -1;

// A dimension by name. The size of one with factors, (n h), is their product,
// the first one outermost; of one with a group, n = k g, n's kv heads.
struct Label {
  std::string name = {};
  std::vector<LabelId> factors = {};
  std::string semantic = {};  // HEAD, EMBED, ...; empty: none
};

// By LabelId; what a graph is run or priced with.
using Sizes = std::vector<int64_t>;

enum class OpKind : uint8_t {
  kInput,       // a parameter, a moment, or data
  kEinsum,      // two operands; labels that the result lacks are summed
  kAdd,         // two or more; those with fewer labels are broadcast
  kScale,       // times `scale`
  kFn,          // elementwise `fn` of one or more operands
  kSum,         // over `label`
  kMax,         // over `label`
  kBroadcast,   // along `label`
  kLookup,      // (table [v, d], ids [b, t]) -> [b, t, d]
  kScatter,     // (ids [b, t], g [b, t, d]) -> [v, d]
  kPick,        // (logits [b, t, v], ids [b, t]) -> [b, t]
  kPlace,       // (ids [b, t], g [b, t]) -> [b, t, v]
  kSplit,       // `label` (n h) -> n, h
  kMerge,       // n, h -> `label` (n h)
  kPart,        // [begin, begin + size) of `label`, called `to` in the result
  kUnpart,      // the same, zeros elsewhere
  kIndex,       // row `index` of `label`, which leaves
  kUnindex,     // the same, zeros elsewhere
  kRename,      // `label` is called `to`
  kRope,        // (x, positions); `sign` -1 turns back
  kMask,        // (scores, positions ...): minus infinity where no key is seen
  kRepeat,      // kv heads `label` -> heads `to`
  kGroupSum,    // heads `label` -> kv heads `to`
  kTopK,        // [b, t, e] -> 0 or 1
  kSlots,       // chosen [b, t, e] -> place in queue [b, t, e, c]
  kDropout,     // keyed by the global index
  kCacheWrite,  // (cache [b, s, k, h], new, index)
  kAdamW,       // (p, g, m, v, clip) -> p, m, v: one op a result, by `index`
  kAttention,   // one of the operations, whole
};

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// constant * product of (size of label)^power, by global sizes.
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

struct Value {
  std::vector<LabelId> labels = {};
  bool integral = false;  // ids, positions, choices: compared bitwise
  ValueId cotangent_of = kNoValue;
};

struct Op {
  OpKind kind = OpKind::kInput;
  Phase phase = Phase::kForward;
  std::vector<ValueId> in = {};
  ValueId out = kNoValue;
  std::string name = {};    // as the report tells it: `linear q`
  std::string anchor = {};  // role whose semantic axes the result lies by
  std::string fn = {};      // kFn: a row of the table of functions
  LabelId label = kNoLabel;
  LabelId to = kNoLabel;
  int64_t index = 0;
  Scale scale = {};
  int32_t layer = -1;  // -1: outside the repeated part
};

// A parameter of the tree under its role.
struct Parameter {
  std::string role = {};  // `q`, with the layer apart
  int32_t layer = -1;
  ValueId value = kNoValue;
  // Its tensors in the manifest; several where a dimension (experts, layers)
  // is stacked from them.
  std::vector<int64_t> manifest_rows = {};
  bool decays = true;  // weight decay
};

struct Graph {
  std::vector<Label> labels = {};
  std::vector<Value> values = {};
  std::vector<Op> ops = {};  // each after those whose results it takes
  std::vector<Parameter> parameters = {};
  ValueId loss = kNoValue;    // [] in training
  ValueId logits = kNoValue;  // [b, t, v]
  // Of backward and optimizer, by parameter; empty before.
  std::vector<ValueId> gradients = {};
  std::vector<ValueId> updated = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
