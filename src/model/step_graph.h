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
  kInput,   // a parameter, a moment, or data
  kEinsum,  // product of two; labels that the result lacks are summed
  kAdd,     // sum of two or more; those with fewer labels are broadcast
  kScale,   // the operand times `scale`
  kFn,      // elementwise `fn` of one operand, or of two broadcast as in kAdd
  kSum,     // sum over `label`
  kMax,     // maximum over `label`
  kBroadcast,  // the operand, repeated along `label`
  kLookup,     // (table [v, d], ids [b, t]) -> [b, t, d]: rows ids + `index` of
               // `label`
  kScatter,    // (ids [b, t], g [b, t, d]) -> [v, d]: adds g to rows of `label`
  kPick,       // (logits [b, t, v], ids [b, t]) -> [b, t]: elements of `label`
  kPlace,      // (ids [b, t], g [b, t]) -> [b, t, v]: g at elements of `label`
  kSplit,      // `label` (n h) becomes all its factors
  kMerge,      // all factors become `label` (n h)
  kPart,       // part number `index` of `label`, called `to` in the result
  kUnpart,     // the part `to`, number `index`, in `label`; zeros elsewhere
  kIndex,      // row `index` of `label`, which the result lacks
  kUnindex,    // the operand as row `index` of `label`; zeros elsewhere
  kRename,     // `label` is called `to`
  kIdentity,   // the same values, under another sharding constraint
  kRope,      // (x, positions): pairs of `label` rotated by ropes[`index`] with
              // angles times `sign`
  kMask,      // (scores, positions of queries, of keys): minus infinity for
              // keys that `fn` hides: "causal" hides later keys, "all" hides
              // none. With counts {window}, "causal" also hides keys that are
              // a window before the query, "chunked" keys of other windows.
              // If `label` names the heads, each head's slope times `scale`
              // times the key's position is added
  kRepeat,    // KV heads `label` for query heads `to`: KV head n / (|n| / |k|);
              // if `fn` is kInSlices, each device counts its own heads
  kGroupSum,  // query heads `label` summed by group to KV heads `to`
  kTopGroups,  // scores [b, t, e] -> 1 along `label` for experts of the best
               // groups, else 0; counts: {groups, chosen}; a group's score is
               // its "max" or the sum of its "top2", by `fn`
  kTopK,       // scores [b, t, e] -> 1 along `label` for the best experts, else
               // 0; counts: {chosen}
  kSlots,      // choice [b, t, e] -> 1 along `to` at the token's place in the
               // queue of an expert of `label`; tokens without place: 0
  kDropout,    // drops elements at the rate scale.constant, by the key `index`
               // and the global index of the element
  kCacheWrite,  // (cache [b, s, k, h], new [b, t, k, h], positions [b, t]): the
                // cache with the new rows
  kAdamW,  // (p, g, m, v, clip) -> the new p, m or v, by `index` 0, 1 or 2;
           // weight decay: scale.constant
  kRoll,   // each row of `label` at the next place, with `sign` -1 at the one
           // before; the last row comes first, or zeros if `fn` is kOpen
  kDistance,  // (positions of queries, of keys) -> rows of a table of position
              // biases, whose rows are `label`; counts: {the distance from
              // which on all have the last row}; `fn`: "before" for keys before
              // the query, "both" for keys on both sides
};

inline constexpr size_t kOpKinds = static_cast<size_t>(OpKind::kDistance) + 1;

inline constexpr std::string_view kInSlices = "slices";
inline constexpr std::string_view kOpen = "open";

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// A number that depends on sizes: constant times the product of (size of
// label)^power, with global sizes.
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
  // Bytes of an element at the dtypes of a real run; 0: those of activations.
  uint8_t bytes = 0;
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
  // The backward pass rematerialises the result instead of keeping it.
  bool recompute = false;
  int32_t layer = -1;  // -1: outside the repeated part
  // The forward op that this op of the backward pass rematerialises; -1: none.
  int32_t recompute_of = -1;
  int32_t micro = -1;  // the micro-batch, where there are several
};

// A parameter of the tree under its role.
struct Parameter {
  std::string role = {};  // `q`, with the layer apart
  int32_t layer = -1;
  ValueId value = kNoValue;
  // The parameter's tensors in the manifest; several if a dimension (experts,
  // layers) is stacked from them.
  std::vector<int64_t> manifest_rows = {};
  bool decays = true;   // weight decay
  bool trained = true;  // has a gradient; quantised weights have none
  // The dimension of its tensor that counts scanned layers; -1: none does.
  int stack_dim = -1;
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
  // The gradient of each parameter, after Differentiate and AppendOptimizer;
  // empty before.
  std::vector<ValueId> gradients = {};
  ValueId gradient_norm = kNoValue;  // [], before clipping
  std::vector<ValueId> updated = {};
  std::vector<Moments> moments = {};  // inputs
  std::vector<Moments> updated_moments = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
