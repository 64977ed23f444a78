// One step of a model as ops over named dimensions: the forward pass, and after
// Differentiate and AppendOptimizer the backward pass and the optimizer's
// update. A graph has no mesh and no sizes, so that the same graph is used with
// real sizes and with reduced sizes.
#ifndef SHARDC_MODEL_STEP_GRAPH_H_
#define SHARDC_MODEL_STEP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/step_attributes.h"

namespace shardc::step {

using ValueId = int32_t;  // index into Graph::values
inline constexpr ValueId kNoValue = -1;

// A dimension label. The size of a label with factors, (n h), is their product,
// and the first factor is the outermost. The size of a label with parts, (c+r),
// is their sum, and the parts follow each other. Some labels are not a
// dimension of any value. Their sizes are numbers that must become smaller
// together with the dimensions when sizes are reduced, such as an attention
// window or the number of experts per token.
struct DimLabel {
  std::string name = {};
  std::vector<LabelId> factors = {};
  std::vector<LabelId> parts = {};
  std::string semantic = {};  // the logical axis, HEAD, EMBED ...; empty: none
};

// The size of each label, indexed by LabelId, with which a graph is lowered to
// a program for a mesh or is run.
using Sizes = std::vector<int64_t>;

// The kinds of ops, written as (operands) -> result. The labels of a result are
// in its Value. Names in quotes are fields of the op's attributes
// (model/step_attributes.h). OpDef (step/op_def.h) states how an op is sharded.
enum class OpKind : uint8_t {
  // A value that no op computes: a parameter, a moment of the optimizer, data,
  // or a cache.
  kInput,

  // (a, b) -> the product of a and b, summed over the labels that the result
  // lacks. A matrix product [b, t, d] x [d, f] -> [b, t, f] is one.
  kEinsum,
  // (a, b, ...) -> the sum of two or more operands. An operand that lacks a
  // label of the result is broadcast along it.
  kAdd,
  // (a) -> a times `factor`.
  kScale,
  // (a) or (a, b) -> the function `fn` of each element; two operands are
  // broadcast as in kAdd.
  kFn,
  // (a) -> the sum over `label`.
  kSum,
  // (a) -> the maximum over `label`.
  kMax,
  // (a) -> a repeated along `label`, which a lacks.
  kBroadcast,

  // (table [v, d], ids [b, t]) -> [b, t, d]: the table's rows with the numbers
  // ids + `offset`. `rows` is v.
  kLookup,
  // (ids [b, t], g [b, t, d]) -> [v, d]: adds each g to the row with the number
  // of its id + `offset`. `rows` is v. The derivative of kLookup.
  kScatter,
  // (logits [b, t, v], ids [b, t]) -> [b, t]: the element of `label` v that the
  // id names.
  kPick,
  // (ids [b, t], g [b, t]) -> [b, t, v]: g at the element of `label` v that the
  // id names, zeros elsewhere. The derivative of kPick.
  kPlace,

  // (a) -> a with the factors of `label` as separate dimensions: (n h) becomes
  // n, h.
  kSplit,
  // (a) -> a with the factors of `label` as one dimension: n, h becomes (n h).
  kMerge,
  // (a) -> part number `number` of `whole`, a label with parts; the part's
  // label in the result is `part`.
  kPart,
  // (a) -> zeros along `whole`, except that its part number `number` is a. The
  // label of a is `part`. The derivative of kPart.
  kUnpart,
  // (a) -> row `row` of `label`, which the result lacks.
  kIndex,
  // (a) -> zeros along `label` except at row `row`, which is a. The derivative
  // of kIndex.
  kUnindex,
  // (a) -> a, whose label `from` is called `to` in the result.
  kRename,
  // (a) -> a. The result may have another sharding constraint than a.
  kIdentity,

  // (x, positions) -> x with pairs of elements of `label` rotated by the angles
  // of ropes[`rope`], times `sign`: -1 rotates back, in the backward pass.
  kRope,
  // (scores, positions of queries, positions of keys) -> the scores, with minus
  // infinity for keys that `rule` hides. kCausal hides keys after the query and
  // keys that are `window` or more positions before it. kChunked divides the
  // positions into windows and hides keys after the query and keys in another
  // window. With `heads`, each head's slope times `slope_scale` times the key's
  // position is added (ALiBi).
  kMask,
  // (kv) -> kv repeated from `kv_heads` to `query_heads`: query head n of N
  // gets KV head n / (N / K), where K is the number of KV heads. With
  // `in_slices`, each device numbers the heads of its shard from 0.
  kRepeat,
  // (a) -> `query_heads` summed in groups to `kv_heads`. The derivative of
  // kRepeat.
  kGroupSum,

  // (scores [b, t, e]) -> 1 for each of the `experts` that is in one of the
  // `chosen` best `groups`, else 0. `score` selects the score of a group: its
  // largest score, or the sum of its two largest scores.
  kTopGroups,
  // (scores [b, t, e]) -> 1 along `experts` for the `chosen` ones with the
  // highest scores, else 0.
  kTopK,
  // (choice [b, t, e]) -> [b, t, e, c]: for each of the `experts` that a token
  // has chosen, 1 along `slots` at the token's place in the expert's queue;
  // zeros if the queue has no place left.
  kSlots,

  // (a) -> a with elements dropped at the rate `rate`, and the others
  // multiplied by 1 / (1 - rate). The random bits depend on `key` and the
  // element's global index alone, not on the sharding.
  kDropout,
  // (cache [b, s, k, h], new [b, t, k, h], positions [b, t]) -> the cache with
  // the new rows at their positions. `label` is s.
  kCacheWrite,
  // (p, g, m, v, clip) -> the new parameter, first moment or second moment, by
  // `result`. The weight decay is `decay`.
  kAdamW,

  // (a) -> a with each row of `label` moved by one place: with `sign` 1 to the
  // next place, with -1 to the previous one. The row that is moved out enters
  // at the other end; if the roll is `open`, zeros enter there.
  kRoll,
  // (positions of queries, positions of keys) -> row numbers in a table of
  // position biases, with the rows `rows`. Keys at the distance `longest` or
  // more have the last row of their side. With `both_sides` the table has rows
  // for keys before and after the query, else only for keys before it.
  kDistance,
};

inline constexpr size_t kOpKinds = static_cast<size_t>(OpKind::kDistance) + 1;

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

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
  double amplitude = 0;        // 0: as the scaling defines it
  double rotary_fraction = 1;  // the rotated fraction of a head, at its start
  bool interleaved = false;    // pairs 2i, 2i + 1, not i, i + d/2
};

struct Value {
  std::vector<LabelId> labels = {};
  bool integral = false;            // ids, positions, choices: compared bitwise
  ValueId cotangent_of = kNoValue;  // the forward value whose gradient it is
  // The bytes of an element in a real run; 0: the bytes of the activations'
  // dtype.
  uint8_t bytes = 0;
};

struct Op {
  OpKind kind = OpKind::kInput;
  Phase phase = Phase::kForward;
  std::vector<ValueId> in = {};
  ValueId out = kNoValue;
  std::string name = {};        // as reports show it: `linear q`
  std::string constraint = {};  // the role of the result's sharding constraint
  OpAttributes attributes = {};
  // Whether the backward pass rematerialises the result instead of keeping it.
  bool recompute = false;
  int32_t layer = -1;  // -1 if the op is outside the repeated layers
  // The forward op whose result this op of the backward pass rematerialises; -1
  // if it rematerialises none.
  int32_t recompute_of = -1;
  int32_t micro = -1;  // micro-batch of the op; -1 outside micro-batches
};

// Returns the attributes of an op. They must have the type T.
template <class T>
const T& As(const Op& op) {
  return std::get<T>(op.attributes);
}
template <class T>
T& As(Op& op) {
  return std::get<T>(op.attributes);
}

// A parameter of the model, identified by its role and its layer.
struct Parameter {
  std::string role = {};  // `q`, without the layer
  int32_t layer = -1;
  ValueId value = kNoValue;
  // The parameter's tensors in the manifest; several if a dimension (experts,
  // layers) is stacked from them.
  std::vector<int64_t> manifest_rows = {};
  bool decays = true;   // weight decay
  bool trained = true;  // has a gradient; quantised weights have none
  // The dimension of its tensor that counts scanned layers; -1 if no dimension
  // does.
  int stack_dim = -1;
};

enum class DataKind : uint8_t {
  // [b, t]: the tokens' ids.
  kIds,
  // [b, t]: the ids to predict; [b] in models with one label a row.
  kLabels,
  // In the shape of kLabels: the weight of each label's loss.
  kWeights,
  // [b, t]: the tokens' positions in the sequence.
  kPositions,
  // [b, s, k, h]: keys or values of earlier tokens.
  kCache,
  // [b, s]: the positions of the cache's rows, 0, 1, 2 and so on.
  kCachePositions,
  // [b, t, ..]: the pixels or frames of a token that has no id.
  kPatches,
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
  double clip = 1;   // the largest global norm of the gradients
  int64_t step = 1;  // the number of this step, from 1
};

// Labels that every model has in addition to the labels of its description.
struct CommonLabels {
  LabelId batch = kNoLabel, query = kNoLabel, key = kNoLabel;
  // The tokens of an encoder; kNoLabel without an encoder.
  LabelId encoder_query = kNoLabel, encoder_key = kNoLabel;
  LabelId slot = kNoLabel;     // place of a token in an expert's queue
  LabelId top_k = kNoLabel;    // its size is the number of experts per token
  LabelId window = kNoLabel;   // its size is the window of local attention
  LabelId experts = kNoLabel;  // the experts of the router
};

// The labels of ring attention, which divides `query` and `key` into blocks,
// one per device. A divided label has two factors: (blocks, rows of a block).
struct RingLabels {
  LabelId turns = kNoLabel;                           // blocks
  LabelId queries = kNoLabel, query_rows = kNoLabel;  // (turns query_rows)
  LabelId keys = kNoLabel, key_rows = kNoLabel;
};

struct Graph {
  std::vector<DimLabel> labels = {};
  std::vector<Value> values = {};
  std::vector<Op> ops = {};  // each follows the ops of its operands
  std::vector<Parameter> parameters = {};
  std::vector<Rope> ropes = {};
  std::vector<Data> data = {};
  std::vector<Cache> caches = {};
  CommonLabels common = {};
  // The first layer of the encoder, which has this layer and all later ones; -1
  // without an encoder.
  int32_t encoder_layer = -1;
  RingLabels ring = {};
  Adam adam = {};
  // Whether the queues of experts have no limit, so that no token is dropped.
  bool dropless = false;
  ValueId loss = kNoValue;    // labels [], in training only
  ValueId logits = kNoValue;  // [b, t, v]
  // The gradient of each parameter, kNoValue for a parameter without one. Empty
  // before Differentiate.
  std::vector<ValueId> gradients = {};
  ValueId gradient_norm = kNoValue;  // labels [], before clipping
  std::vector<ValueId> updated = {};
  std::vector<Moments> moments = {};  // inputs of the step
  std::vector<Moments> updated_moments = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
