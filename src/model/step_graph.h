// One step of a model as a graph of ops over named dimensions. At first, the
// graph has the forward pass. Differentiate() adds the backward pass, and
// AppendOptimizer() adds the optimizer's update. A graph has no mesh and no
// sizes, so that the same graph is used with real sizes and with reduced sizes.
#ifndef SHARDC_MODEL_STEP_GRAPH_H_
#define SHARDC_MODEL_STEP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardc::step {

// The attributes that an op of a step has in addition to its operands and its
// result, such as the label over which it sums. Kinds of ops with the same
// attributes share a type. A type that only one kind uses is named after that
// kind. OpDef (step/op_def.h) gives the type for each kind, and the comments of
// OpKind (step_graph.h) explain the fields.

using LabelId = int16_t;  // index into Graph::labels
inline constexpr LabelId kNoLabel = -1;

// A number that depends on global sizes: the constant times the product of
// (size of the label)^power, such as 1 / sqrt(head dimension).
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

struct NoAttributes {};

struct ScaleAttributes {
  Scale factor = {};
};

struct FnAttributes {
  // The name of a scalar function, such as `silu` (step/op_def.h).
  std::string fn = {};
  double constant = 0;
};

// One dimension label, whose use depends on the op. kSum and kMax remove the
// label, and kBroadcast adds it. kPick reads one element along the label, whose
// index is an operand (the id). kPlace writes one element in this way. kSplit
// divides the label into its factors, and kMerge joins them. kCacheWrite writes
// rows along the label.
struct LabelAttributes {
  LabelId label = kNoLabel;
};

// Attributes of kLookup and kScatter.
struct LookupAttributes {
  LabelId rows = kNoLabel;
  // The row of the table for an id is the id plus this offset.
  int64_t offset = 0;
};

// Attributes of kPart and kUnpart.
struct PartAttributes {
  LabelId whole = kNoLabel;  // A label that has parts, such as c+r.
  LabelId part = kNoLabel;
  int64_t number = 0;  // The index of the part among the parts of `whole`.
};

// Attributes of kIndex and kUnindex.
struct IndexAttributes {
  LabelId label = kNoLabel;
  int64_t row = 0;  // A negative row is counted from the end: -1 is the last.
};

struct RenameAttributes {
  LabelId from = kNoLabel, to = kNoLabel;
};

struct RopeAttributes {
  LabelId label = kNoLabel;
  int64_t rope = 0;  // index into Graph::ropes
  int8_t sign = 1;   // 1 rotates by the angles, -1 by the negative angles.
};

enum class MaskRule : uint8_t {
  kNone,    // Every key is visible.
  kCausal,  // Keys after the query, and keys before its window, are hidden.
  // The positions are divided into windows. A key is hidden if it is after the
  // query or in another window than the query.
  kChunked,
};

struct MaskAttributes {
  MaskRule rule = MaskRule::kCausal;
  // The label whose size is the window; kNoLabel if there is no window.
  LabelId window = kNoLabel;
  // If the mask adds ALiBi slopes, `heads` is the label of the heads, and
  // `slope_scale` is a factor of all slopes. Otherwise `heads` is kNoLabel.
  LabelId heads = kNoLabel;
  Scale slope_scale = {};
};

// Attributes of kRepeat and kGroupSum.
struct HeadGroupAttributes {
  LabelId kv_heads = kNoLabel, query_heads = kNoLabel;
  // True if each device numbers the heads of its own shard from 0, instead of
  // using the heads' numbers in the whole model.
  bool in_slices = false;
};

enum class GroupScore : uint8_t { kMax, kTop2 };

struct TopGroupsAttributes {
  LabelId experts = kNoLabel;
  // `groups` is the label whose size is the number of groups. The size of
  // `chosen` is the number of chosen groups.
  LabelId groups = kNoLabel, chosen = kNoLabel;
  // How a group is scored: by its largest score, or by the sum of its two
  // largest.
  GroupScore score = GroupScore::kMax;
};

struct TopKAttributes {
  LabelId experts = kNoLabel, chosen = kNoLabel;
};

struct SlotsAttributes {
  LabelId experts = kNoLabel, slots = kNoLabel;
};

struct DropoutAttributes {
  double rate = 0;
  // The key from which the random bits are generated, like JAX's PRNG key.
  int64_t key = 0;
};

enum class AdamWResult : uint8_t { kParameter, kFirstMoment, kSecondMoment };

struct AdamWAttributes {
  AdamWResult result = AdamWResult::kParameter;
  double decay = 0;
};

struct RollAttributes {
  LabelId label = kNoLabel;
  // 1 moves each row to the next index of `label`, -1 to the previous index.
  int8_t sign = 1;
  // True if zeros fill the free end, in place of the row that is moved out.
  bool open = false;
};

struct DistanceAttributes {
  LabelId rows = kNoLabel;
  // The label whose size is a limit on distances. All keys at this distance
  // from the query or farther share one row of the table: one row for keys
  // before the query and one for keys after it.
  LabelId longest = kNoLabel;
  bool both_sides = false;  // True if keys may also follow the query.
};

using OpAttributes =
    std::variant<NoAttributes, ScaleAttributes, FnAttributes, LabelAttributes,
                 LookupAttributes, PartAttributes, IndexAttributes,
                 RenameAttributes, RopeAttributes, MaskAttributes,
                 HeadGroupAttributes, TopGroupsAttributes, TopKAttributes,
                 SlotsAttributes, DropoutAttributes, AdamWAttributes,
                 RollAttributes, DistanceAttributes>;

using ValueId = int32_t;  // index into Graph::values
inline constexpr ValueId kNoValue = -1;

// A dimension label. The size of a label with factors, (n h), is their product,
// and the first factor is the outermost. The size of a label with parts, (c+r),
// is their sum, and the parts follow each other. Some labels, such as an
// attention window or the number of experts per token, are not a dimension of
// any value. Their sizes are numbers that are reduced together with the
// dimensions when a step is run at reduced sizes.
struct DimLabel {
  std::string name = {};
  std::vector<LabelId> factors = {};
  std::vector<LabelId> parts = {};
  // The logical axis, such as HEAD; empty if the label has none.
  std::string semantic = {};
};

// The size of each label, indexed by LabelId. A graph has no sizes itself: they
// are passed when it is lowered to a program for a mesh, and when it is run.
using Sizes = std::vector<int64_t>;

// The kinds of ops. Each comment describes an op as (operands) -> result. The
// labels of a result are in its Value. Names in quotes are fields of the op's
// attributes (model/step_graph.h). OpDef (step/op_def.h) states how an op
// is sharded.
enum class OpKind : uint8_t {
  // A value that no op computes: a parameter, a moment of the optimizer, data,
  // or a cache.
  kInput,

  // (a, b) -> the product of a and b, summed over the labels that the result
  // lacks. An example is the matmul [b, t, d] x [d, f] -> [b, t, f].
  kEinsum,
  // (a, b, ...) -> the sum of two or more operands. An operand that lacks a
  // label of the result is broadcast along it.
  kAdd,
  // (a) -> a times `factor`.
  kScale,
  // (a) or (a, b) -> the function `fn` of each element. An operand that lacks a
  // label of the result is broadcast along it.
  kFn,
  // (a) -> the sum over `label`.
  kSum,
  // (a) -> the maximum over `label`.
  kMax,
  // (a) -> a repeated along `label`, which is not a label of a.
  kBroadcast,

  // (table [v, d], ids [b, t]) -> [b, t, d]: for each id, the row id + `offset`
  // of the table. `rows` is the label v.
  kLookup,
  // (ids [b, t], g [b, t, d]) -> [v, d]: adds each row of g to the row id +
  // `offset` of the result. `rows` is the label v. The derivative of kLookup.
  kScatter,
  // (logits [b, t, v], ids [b, t]) -> [b, t]: for each token, the element of
  // the logits at index id along `label`, which is v.
  kPick,
  // (ids [b, t], g [b, t]) -> [b, t, v]: for each token, g at index id along
  // `label`, which is v, and zeros elsewhere. The derivative of kPick.
  kPlace,

  // (a) -> a with the factors of `label` as separate dimensions: (n h) becomes
  // n, h.
  kSplit,
  // (a) -> a with the factors of `label` as one dimension: n, h becomes (n h).
  kMerge,
  // (a) -> part number `number` of `whole`, a label of a that has parts. In the
  // result this label is replaced by the part's label `part`.
  kPart,
  // (a) -> a value with the label `whole` in place of a's label `part`. It is
  // zero, except that part number `number` of `whole` is a. The derivative of
  // kPart.
  kUnpart,
  // (a) -> row `row` of a along `label`. The result lacks this label.
  kIndex,
  // (a) -> a value with the additional label `label`. It is zero, except that
  // its row `row` is a. The derivative of kIndex.
  kUnindex,
  // (a) -> a, whose label `from` is called `to` in the result.
  kRename,
  // (a) -> a. The result may have another sharding constraint than a.
  kIdentity,

  // (x, positions) -> x with pairs of elements of `label` rotated by the angles
  // of Graph::ropes[`rope`], times `sign`. The backward pass rotates back with
  // -1.
  kRope,
  // (scores, positions of queries, positions of keys) -> the scores, with minus
  // infinity for keys that `rule` hides. kCausal hides keys after the query and
  // keys that are `window` or more positions before it. kChunked divides the
  // positions into windows and hides keys after the query and keys in another
  // window. With `heads`, ALiBi is added: the head's slope * `slope_scale` *
  // the key's position.
  kMask,
  // (kv) -> kv repeated from `kv_heads` to `query_heads`: query head n of N
  // gets KV head n / (N / K), where K is the number of KV heads. With
  // `in_slices`, each device numbers the heads of its shard from 0.
  kRepeat,
  // (a) -> the sums of groups of `query_heads`, one for each of `kv_heads`. The
  // derivative of kRepeat.
  kGroupSum,

  // (scores [b, t, e]) -> 1 for each of the `experts` that is in one of the
  // best groups, else 0. The size of `groups` is the number of groups, and that
  // of `chosen` the number of best groups. `score` selects the score of a
  // group: its largest score, or the sum of its two largest scores.
  kTopGroups,
  // (scores [b, t, e]) -> along `experts`, 1 for the experts with the highest
  // scores and 0 for the others. The size of `chosen` is the number of ones.
  kTopK,
  // (choice [b, t, e]) -> [b, t, e, c]: for each of the `experts` that a token
  // has chosen, 1 along `slots` at the token's place in the expert's queue. If
  // the queue has no free place, zeros along `slots`.
  kSlots,

  // (a) -> a with elements set to zero at the rate `rate`, and the other
  // elements multiplied by 1 / (1 - rate). The random bits depend only on `key`
  // and on the element's global index, so they are the same for every sharding.
  kDropout,
  // (cache [b, s, k, h], new [b, t, k, h], positions [b, t]) -> the cache with
  // the new rows at their positions. `label` is s.
  kCacheWrite,
  // (p, g, m, v, clip) -> the new parameter, first moment or second moment, as
  // `result` selects. p is the parameter, g its gradient, m and v are its
  // moments, and `clip` is a factor of the gradient. The weight decay is
  // `decay`.
  kAdamW,

  // (a) -> a with each row of `label` moved by one place: with `sign` 1 to the
  // next place, with -1 to the previous one. The row that is moved out enters
  // at the other end; if the roll is `open`, zeros enter there.
  kRoll,
  // (positions of queries, positions of keys) -> for each query and key, a row
  // number in a table of position biases whose rows have the label `rows`. Keys
  // at the distance `longest` or more share the last row for their side. With
  // `both_sides` the table has rows for keys before and after the query,
  // otherwise only for keys before it.
  kDistance,
};

inline constexpr size_t kOpKinds = static_cast<size_t>(OpKind::kDistance) + 1;

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };

// A rotary embedding: pairs of a head's elements are rotated by an angle that
// is proportional to the token's position.
struct Rope {
  double base = 10000;
  // How frequencies are scaled: "", "linear", "yarn", "llama3" and others.
  std::string scaling = {};
  double factor = 1;
  double original_length = 0;
  // Used by yarn only.
  double beta_fast = 32, beta_slow = 1;
  // Used by yarn only.
  bool truncate = true;
  // Used by llama3 only.
  double low_frequency_factor = 1, high_frequency_factor = 4;
  // The factor of the sines and cosines; 0 means the factor that `scaling`
  // defines.
  double amplitude = 0;
  // The fraction of a head's elements that is rotated, at the head's start.
  double rotary_fraction = 1;
  // True: elements 2i and 2i + 1 are a pair. False: i and i + d/2, where d is
  // the number of rotated elements.
  bool interleaved = false;
};

struct Value {
  std::vector<LabelId> labels = {};
  // True for token ids, positions, and the router's choices of experts.
  // Verification compares these values bitwise, without a tolerance.
  bool integral = false;
  // For a gradient, the forward value whose gradient it is; else kNoValue.
  ValueId cotangent_of = kNoValue;
  // The bytes of an element in a real run; 0 means the size of the activations'
  // dtype.
  uint8_t bytes = 0;
};

struct Op {
  OpKind kind = OpKind::kInput;
  Phase phase = Phase::kForward;
  std::vector<ValueId> in = {};
  ValueId out = kNoValue;
  std::string name = {};  // The name in reports, such as `linear q`.
  // The role whose sharding constraint the result has; empty if it has none.
  std::string constraint = {};
  OpAttributes attributes = {};
  // Whether the backward pass rematerialises the result instead of keeping it.
  bool recompute = false;
  // The layer of the op; -1 if it is outside the repeated layers.
  int32_t layer = -1;
  // The forward op whose result this op of the backward pass rematerialises; -1
  // if it rematerialises none.
  int32_t recompute_of = -1;
  int32_t micro = -1;  // The micro-batch of the op; -1 if it belongs to none.
  // The line of the description that the op follows from, counted from 1; 0 if
  // it follows from none. An op of the backward pass has that of its forward
  // op.
  int32_t line = 0;
};

// Returns the attributes of an op, whose type must be T.
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
  // The name of the role, such as `q`, without the layer.
  std::string role = {};
  int32_t layer = -1;
  ValueId value = kNoValue;
  // The indices in the manifest of the tensors that form the parameter. There
  // are several if a dimension (experts, layers) is stacked from them.
  std::vector<int64_t> manifest_rows = {};
  bool decays = true;   // True if weight decay applies to the parameter.
  bool trained = true;  // False if it has no gradient, like quantised weights.
  // The dimension of the parameter's tensor that counts scanned layers; -1 if
  // the tensor has no such dimension.
  int stack_dim = -1;
  // For each dimension, the index in the tensor of the factor that is first in
  // the label: 1 if the tensor has (j n h) and the label is (n j h).
  std::vector<size_t> leads = {};
};

enum class DataKind : uint8_t {
  // [b, t]: the ids of the tokens.
  kIds,
  // [b, t]: the ids to predict. In models with one label for each sequence:
  // [b].
  kLabels,
  // The weight of each label's loss, in the shape of kLabels.
  kWeights,
  // [b, t]: the tokens' positions in the sequence.
  kPositions,
  // [b, s, k, h]: keys or values of earlier tokens.
  kCache,
  // [b, s]: the positions of the cache's rows, 0, 1, 2 and so on.
  kCachePositions,
  // [b, t, ..]: the pixels or audio frames of tokens that have no id.
  kPatches,
};
struct Data {
  DataKind kind = DataKind::kIds;
  ValueId value = kNoValue;
};

// Keys or values that one layer keeps for later tokens, before and after the
// step. `before` is an input in decoding and kNoValue in prefill.
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
  // Gradients are scaled down if their global norm is above this number.
  double clip = 1;
  int64_t step = 1;  // The number of this step, which counts from 1.
};

// Labels that every model has in addition to the labels that its `model:`
// section defines.
struct CommonLabels {
  LabelId batch = kNoLabel, query = kNoLabel, key = kNoLabel;
  // The labels of an encoder's tokens; kNoLabel if the model has no encoder.
  LabelId encoder_query = kNoLabel, encoder_key = kNoLabel;
  // The label of a token's place in an expert's queue.
  LabelId slot = kNoLabel;
  // The label whose size is the number of experts per token.
  LabelId top_k = kNoLabel;
  // The label whose size is the window of local attention.
  LabelId window = kNoLabel;
  LabelId experts = kNoLabel;  // The label of the router's experts.
};

// The labels of ring attention, which divides `query` and `key` into blocks,
// one for each device. A divided label has two factors: the blocks, and the
// rows of a block.
struct RingLabels {
  // The label whose size is the number of blocks.
  LabelId turns = kNoLabel;
  // Composite labels: `queries` is (turns query_rows), `keys` (turns key_rows).
  LabelId queries = kNoLabel, query_rows = kNoLabel;
  LabelId keys = kNoLabel, key_rows = kNoLabel;
};

struct Graph {
  std::vector<DimLabel> labels = {};
  std::vector<Value> values = {};
  // Each op follows the ops that compute its operands.
  std::vector<Op> ops = {};
  std::vector<Parameter> parameters = {};
  std::vector<Rope> ropes = {};
  std::vector<Data> data = {};
  std::vector<Cache> caches = {};
  CommonLabels common = {};
  // The number of the encoder's first layer; all later layers also belong to
  // the encoder. -1 if the model has no encoder.
  int32_t encoder_layer = -1;
  RingLabels ring = {};
  Adam adam = {};
  // Whether the queues of experts have no limit, so that no token is dropped.
  bool dropless = false;
  ValueId loss = kNoValue;    // The loss, a scalar; only in training.
  ValueId logits = kNoValue;  // The logits, [batch, tokens, vocabulary].
  // The gradient of each parameter, or kNoValue for a parameter that has none.
  // Empty until Differentiate() is called.
  std::vector<ValueId> gradients = {};
  // The gradients' global norm, a scalar, before clipping.
  ValueId gradient_norm = kNoValue;
  std::vector<ValueId> updated = {};
  // The optimizer's moments, which are inputs of the step.
  std::vector<Moments> moments = {};
  std::vector<Moments> updated_moments = {};
};

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_GRAPH_H_
