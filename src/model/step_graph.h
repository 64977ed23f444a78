// One step of a model as ops over named dimensions: forward, and with it
// backward and the optimizer's update. Nothing here knows of meshes, and sizes
// stand apart, so that one graph serves real and small ones.
#ifndef SHARDC_MODEL_STEP_GRAPH_H_
#define SHARDC_MODEL_STEP_GRAPH_H_

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

// A dimension by name. The size of one with factors, (n h), is their product,
// the first one outermost; of one with parts, (c + r), their sum, side by side.
// A number that is no dimension but scales with them (a window, how many
// experts a token goes to) is a label too, which no value has.
struct DimLabel {
  std::string name = {};
  std::vector<LabelId> factors = {};
  std::vector<LabelId> parts = {};
  std::string semantic = {};  // HEAD, EMBED, ...; empty: none
};

// By LabelId; what a graph is run or priced with.
using Sizes = std::vector<int64_t>;

// Labels of a result are those of its value; `label`, `to`, `index`, `fn` ...
// are the op's own fields.
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
  kIdentity,    // the same values, at another anchor
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

inline constexpr std::string_view kInSlices = "slices";
inline constexpr std::string_view kOpen = "open";

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// constant * product of (size of label)^power, by global sizes.
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

// A turn of heads by their positions.
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
  bool integral = false;  // ids, positions, choices: compared bitwise
  ValueId cotangent_of = kNoValue;
};

struct Op {
  OpKind kind = OpKind::kInput;
  Phase phase = Phase::kForward;
  std::vector<ValueId> in = {};
  ValueId out = kNoValue;
  std::string name = {};        // as the report tells it: `linear q`
  std::string constraint = {};  // role whose semantic axes the result lies by
  // kFn: a row of the table of functions (step/functions.h), whose constant
  // is scale.constant.
  std::string fn = {};
  LabelId label = kNoLabel;
  LabelId to = kNoLabel;
  int64_t index = 0;
  Scale scale = {};
  std::vector<LabelId> counts = {};
  int8_t sign = 1;  // kRope, kRoll
  // Backward makes the result again from what it is made of, rather than keep
  // it.
  bool recompute = false;
  int32_t layer = -1;  // -1: outside the repeated part
  // The op of the forward phase that is run anew in the backward one; -1: none.
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

// What one layer keeps for later tokens: `before` is data in decoding, absent
// in prefill.
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
  int64_t step = 1;  // the one that is taken
};

// Labels that every description has beside its own.
struct CommonLabels {
  LabelId batch = kNoLabel, query = kNoLabel, key = kNoLabel;
  // An encoder's tokens, where there is one.
  LabelId encoder_query = kNoLabel, encoder_key = kNoLabel;
  LabelId slot = kNoLabel;     // place of a token in an expert's queue
  LabelId top_k = kNoLabel;    // counts
  LabelId window = kNoLabel;   // of layers that have one
  LabelId experts = kNoLabel;  // that the router chooses from
};

// Tokens that pass round a ring: of `query` and `key`, in blocks.
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
  // Where the queues of experts have no limit, a slot for every token holds
  // them all.
  bool dropless = false;
  ValueId loss = kNoValue;    // [] in training
  ValueId logits = kNoValue;  // [b, t, v]
  // Of backward and optimizer, by parameter; empty before.
  std::vector<ValueId> gradients = {};
  ValueId gradient_norm = kNoValue;  // [], before clipping
  std::vector<ValueId> updated = {};
  std::vector<Moments> moments = {};  // inputs
  std::vector<Moments> updated_moments = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
