// One step of a model as ops over named dimensions: the forward pass, and after
// Differentiate and AppendOptimizer the backward pass and the optimizer's
// update. A graph knows no mesh and no sizes, so that one graph serves real
// sizes and reduced ones.
#ifndef SHARDC_MODEL_STEP_GRAPH_H_
#define SHARDC_MODEL_STEP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardc::step {

using LabelId = int16_t;  // index into Graph::labels
using ValueId = int32_t;  // index into Graph::values
inline constexpr LabelId kNoLabel = -1;
inline constexpr ValueId kNoValue = -1;

// A dimension label. The size of a label with factors, (n h), is their product,
// the first factor outermost; of a label with parts, (c+r), their sum, one part
// after the other. Numbers that are reduced together with dimensions, such as
// an attention window or the number of experts of a token, are labels that no
// value has.
struct DimLabel {
  std::string name = {};
  std::vector<LabelId> factors = {};
  std::vector<LabelId> parts = {};
  std::string semantic = {};  // the logical axis, HEAD, EMBED ...; empty: none
};

// By LabelId: the sizes with which a graph is lowered or run.
using Sizes = std::vector<int64_t>;

// What an op computes. The labels of its result are those of the value;
// `label`, `to`, `index`, `fn` and so on are attributes of Op. The records in
// step/op_def.h state which attributes an op uses and how it is sharded.
enum class OpKind : uint8_t {
  kInput,       // a parameter, a moment, or data
  kEinsum,      // two operands; labels that the result lacks are summed
  kAdd,         // two or more; those with fewer labels are broadcast
  kScale,       // times `scale`
  kFn,          // elementwise `fn`, of two operands broadcast as kAdd's
  kSum,         // over `label`
  kMax,         // over `label`
  kBroadcast,   // along `label`
  kLookup,      // (table [v, d], ids [b, t]) -> [b, t, d]; rows: `label`, by
                // ids + `index`
  kScatter,     // (ids [b, t], g [b, t, d]) -> [v, d]; rows: `label`
  kPick,        // (logits [b, t, v], ids [b, t]) -> [b, t]; from `label`
  kPlace,       // (ids [b, t], g [b, t]) -> [b, t, v]; into `label`
  kSplit,       // `label` (n h) -> all its factors
  kMerge,       // all factors -> `label` (n h)
  kPart,        // part `index` of `label`, called `to` in the result
  kUnpart,      // part `to`, number `index` -> `label`, zeros elsewhere
  kIndex,       // row `index` of `label`, which leaves
  kUnindex,     // the same, zeros elsewhere
  kRename,      // `label` is called `to`
  kIdentity,    // the same values, under another sharding constraint
  kRope,        // (x, positions) along `label` by ropes[index], times `sign`
  kMask,        // (scores, positions of queries, of keys): minus infinity where
                // `fn` hides a key: "causal", or "all" that hides none; counts:
                // {window}, beyond which a causal one does too; "chunked":
                // windows stand side by side. Where `label`
                // is given, its slope times the key's position and `scale` is
                // added for each head
  kRepeat,      // kv heads `label` -> heads `to`: kv = n / (|n| / |k|); where
                // `fn` is kInSlices each device counts those of its own slice
  kGroupSum,    // heads `label` -> kv heads `to`
  kTopGroups,   // scores [b, t, e] -> 0 or 1 along `label`; counts: {groups,
                // chosen}; a group counts by `fn`: "max", or "top2", their sum
  kTopK,        // [b, t, e] -> 0 or 1 along `label`; counts: {chosen}
  kSlots,       // chosen [b, t, e] -> place in the queue of `label`, 0 or 1
                // along `to`; who finds no place is dropped
  kDropout,     // keyed by the global index; rate: scale.constant
  kCacheWrite,  // (cache [b, s, k, h], new [b, t, k, h], positions [b, t])
  kAdamW,       // (p, g, m, v, clip) -> p, m, v: one op a result, by `index`;
                // decay: scale.constant
  kRoll,        // along `label`, a row to the next place, the last one first;
                // `sign` -1: the other way; where `fn` is kOpen zeros come in
  kDistance,    // (positions of queries, of keys) -> the row of a table, among
                // `label`, that stands for how far apart they are: near ones
                // have one each, others share; counts: {from where on all have
                // the last}; `fn`: "before" the query, or "both" ways apart
};

inline constexpr size_t kOpKinds = static_cast<size_t>(OpKind::kDistance) + 1;

inline constexpr std::string_view kInSlices = "slices";
inline constexpr std::string_view kOpen = "open";

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// constant * product of (size of label)^power, at global sizes.
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

// A rotary embedding: pairs of a head's elements are rotated by an angle that
// is proportional to the token's position.
struct Rope {
  double base = 10000;
  std::string scaling = {};  // "", "linear", "yarn", "llama3" ...
  double factor = 1;
  double original_length = 0;
  double beta_fast = 32, beta_slow = 1;                        // yarn
  bool truncate = true;                                        // yarn
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  double amplitude = 0;        // 0: the scaling's own
  double rotary_fraction = 1;  // of a head, its first so much
  bool interleaved = false;    // pairs 2i, 2i + 1, not i, i + d/2
};

struct Value {
  std::vector<LabelId> labels = {};
  bool integral = false;            // ids, positions, choices: compared bitwise
  ValueId cotangent_of = kNoValue;  // the forward value whose gradient it is
};

struct Op {
  OpKind kind = OpKind::kInput;
  Phase phase = Phase::kForward;
  std::vector<ValueId> in = {};
  ValueId out = kNoValue;
  std::string name = {};        // as reports show it: `linear q`
  std::string constraint = {};  // the role of the result's sharding constraint
  // kFn: a row of the table of functions (step/functions.h), whose constant
  // is scale.constant.
  std::string fn = {};
  LabelId label = kNoLabel;
  LabelId to = kNoLabel;
  int64_t index = 0;
  Scale scale = {};
  std::vector<LabelId> counts = {};
  int8_t sign = 1;  // kRope, kRoll
  // Backward computes the result again, rather than keep it.
  bool recompute = false;
  int32_t layer = -1;  // -1: outside the repeated part
  // The op of the forward phase that this op of the backward phase repeats; -1:
  // none.
  int32_t recompute_of = -1;
  int32_t micro = -1;  // the micro-batch, where there are several
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

enum class DataKind : uint8_t {
  kIds,             // [b, t]
  kLabels,          // [b, t], or [b] where a row has one
  kWeights,         // the same: of each label's loss
  kPositions,       // [b, t]
  kCache,           // [b, s, k, h]
  kCachePositions,  // [b, s]: 0, 1, 2 ...
  kPatches,         // [b, t, ..]: what a token is made of, where it is no word
};
struct Data {
  DataKind kind = DataKind::kIds;
  ValueId value = kNoValue;
};

// Keys or values that one layer keeps for later tokens. `before` is an input in
// decoding and absent in prefill.
struct Cache {
  int32_t layer = -1;
  ValueId before = kNoValue;
  ValueId after = kNoValue;
};

struct Moments {
  ValueId first = kNoValue, second = kNoValue;
};

struct Adam {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double decay = 0.1;
  double clip = 1;   // global norm
  int64_t step = 1;  // the number of this step, from 1
};

// Labels that every model has in addition to those of its description.
struct CommonLabels {
  LabelId batch = kNoLabel, query = kNoLabel, key = kNoLabel;
  // An encoder's tokens, where there is one.
  LabelId encoder_query = kNoLabel, encoder_key = kNoLabel;
  LabelId slot = kNoLabel;     // place of a token in an expert's queue
  LabelId top_k = kNoLabel;    // counts
  LabelId window = kNoLabel;   // of layers that have one
  LabelId experts = kNoLabel;  // that the router chooses from
};

// The labels of ring attention: `query` and `key` in blocks, one a device.
struct RingLabels {
  LabelId turns = kNoLabel;                           // blocks
  LabelId queries = kNoLabel, query_rows = kNoLabel;  // (turns query_rows)
  LabelId keys = kNoLabel, key_rows = kNoLabel;
};

struct Graph {
  std::vector<DimLabel> labels = {};
  std::vector<Value> values = {};
  std::vector<Op> ops = {};  // each after those whose results it takes
  std::vector<Parameter> parameters = {};
  std::vector<Rope> ropes = {};
  std::vector<Data> data = {};
  std::vector<Cache> caches = {};
  CommonLabels common = {};
  // Layers from this one on are the encoder's; -1: there is none.
  int32_t encoder_layer = -1;
  RingLabels ring = {};
  Adam adam = {};
  // Experts' queues have no limit, so that no token is dropped.
  bool dropless = false;
  ValueId loss = kNoValue;    // [] in training
  ValueId logits = kNoValue;  // [b, t, v]
  // By parameter, after Differentiate and AppendOptimizer; empty before.
  std::vector<ValueId> gradients = {};
  ValueId gradient_norm = kNoValue;  // [], before clipping
  std::vector<ValueId> updated = {};
  std::vector<Moments> moments = {};  // inputs
  std::vector<Moments> updated_moments = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
