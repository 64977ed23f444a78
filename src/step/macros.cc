// Writes parts of a model as ops, without regard to shardings. The lowering
// derives the collectives for sharded dimensions from the ops. For example, a
// norm of x [b, t, d] over a hidden dimension d that is sharded:
//
//   s = einsum(x, x -> b t)   is partial over the axes that shard d
//   r = rsqrt(s / d)          is not linear, so s is reduced before it
//   y = x * r * weight
#include "step/macros.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "source/size.h"

namespace shardc::step {
namespace {

const DimLabel& At(GraphWriter& write, LabelId label) {
  return write.graph().labels[AsIndex(label)];
}

ValueId Negative(GraphWriter& write, ValueId x) {
  return write.Scaled(x, {-1, {}});
}

// Returns x with the dimension `label`. If x has the factors of the label
// instead of the label, the factors are merged.
ValueId Unsharded(GraphWriter& write, ValueId x, LabelId label) {
  return write.Has(x, label) ? x : write.Merge(x, label);
}

ValueId SplitAll(GraphWriter& write, ValueId x) {
  const Labels labels = write.LabelsOf(x);
  for (const LabelId label : labels) {
    if (!At(write, label).factors.empty()) x = write.Split(x, label);
  }
  return x;
}

// Returns x / sqrt(mean of squares + epsilon). The mean is taken over `label`.
ValueId Normed(GraphWriter& write, ValueId x, LabelId label, double epsilon) {
  const Labels rest = GraphWriter::Without(write.LabelsOf(x), label);
  const ValueId squares = write.Einsum(x, x, rest);
  const ValueId mean = write.Scaled(squares, {1, {{label, -1.0}}});
  return write.Times(x, write.Fn("rsqrt", mean, epsilon));
}

}  // namespace

ValueId RmsNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                const NormSettings& settings) {
  const bool apart = !write.Has(x, label);
  ValueId y =
      Normed(write, Unsharded(write, x, label), label, settings.epsilon);
  if (weight != kNoValue) {
    if (settings.plus_one) weight = write.Fn("shift", weight, 1);
    y = write.Times(y, weight);
  }
  return apart ? SplitAll(write, y) : y;
}

ValueId LayerNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                  ValueId bias, const NormSettings& settings) {
  const bool apart = !write.Has(x, label);
  x = Unsharded(write, x, label);
  const ValueId mean = write.Scaled(write.Sum(x, label), {-1, {{label, -1.0}}});
  const ValueId centred = write.Add({x, mean});
  ValueId y = Normed(write, centred, label, settings.epsilon);
  if (weight != kNoValue) {
    if (settings.plus_one) weight = write.Fn("shift", weight, 1);
    y = write.Times(y, weight);
  }
  if (bias != kNoValue) y = write.Add({y, bias});
  return apart ? SplitAll(write, y) : y;
}

ValueId Softmax(GraphWriter& write, ValueId x, LabelId label) {
  const ValueId greatest = Negative(write, write.Max(x, label));
  const ValueId e = write.Fn("exp", write.Add({x, greatest}));
  return write.Times(e, write.Fn("recip", write.Sum(e, label)));
}

ValueId Linear(GraphWriter& write, ValueId x, ValueId weight, ValueId bias) {
  const Labels stored = write.LabelsOf(weight);
  Labels out;
  // Labels that x and the weight share are contracted. If x and the weight
  // share several labels, the first one is the experts' label and is kept.
  Labels common;
  for (const LabelId label : stored) {
    const auto& factors = At(write, label).factors;
    const bool merged = !factors.empty() &&
                        std::all_of(factors.begin(), factors.end(),
                                    [&](LabelId f) { return write.Has(x, f); });
    if (merged) x = write.Merge(x, label);
    if (write.Has(x, label)) common.push_back(label);
  }
  const bool stacked = common.size() > 1;
  for (const LabelId label : write.LabelsOf(x)) {
    const bool kept = stacked && label == common[0];
    if (!HasLabel(common, label) || kept) out.push_back(label);
  }
  for (const LabelId label : stored) {
    if (!HasLabel(common, label)) out.push_back(label);
  }
  ValueId y = write.Einsum(x, weight, std::move(out));
  if (bias != kNoValue) y = write.Add({y, bias});
  return SplitAll(write, y);
}

ValueId Convolved(GraphWriter& write, ValueId x, ValueId weight, ValueId bias,
                  const Convolution& settings) {
  std::vector<ValueId> terms;
  const auto add = [&](ValueId shifted, int64_t row) {
    if (settings.frames != kNoLabel) {
      shifted = write.Index(write.Split(shifted, settings.tokens),
                            settings.frames, 0);
    }
    const ValueId by = write.Index(weight, settings.kernel, row);
    Labels out;
    for (const LabelId label : write.LabelsOf(shifted)) {
      if (!write.Has(by, label)) out.push_back(label);
    }
    for (const LabelId label : write.LabelsOf(by)) {
      if (!write.Has(shifted, label)) out.push_back(label);
    }
    terms.push_back(write.Einsum(shifted, by, std::move(out)));
  };
  const int64_t middle = settings.width / 2;
  add(x, middle);
  // Adds the products of shifted tokens with the rows of the kernel before and
  // after its middle row. Tokens that are shifted forward by i places are
  // multiplied by the row that is i rows before the middle row. In a kernel of
  // three rows, for example, row 0 is multiplied by the token before each
  // token.
  for (const int8_t sign : {int8_t{1}, int8_t{-1}}) {
    ValueId shifted = x;
    for (int64_t i = 1; i <= middle; ++i) {
      shifted = write.Shifted(shifted, settings.tokens, sign);
      add(shifted, middle - sign * i);
    }
  }
  const ValueId sum = write.Add(std::move(terms));
  return bias == kNoValue ? sum : write.Add({sum, bias});
}

ValueId Activated(GraphWriter& write, ValueId x, const Activation& activation) {
  const bool scaled = activation.fn == "swish";
  return write.Fn(activation.fn, x, scaled ? activation.alpha : 0);
}

ValueId Gated(GraphWriter& write, ValueId gate, ValueId up,
              const Activation& activation) {
  if (activation.clamped) {
    gate = write.Fn("at_most", gate, activation.limit);
    up = write.Fn("clamp", up, activation.limit);
    gate = write.Fn("swish", gate, activation.alpha);
    up = write.Fn("shift", up, 1);
    return write.Times(gate, up);
  }
  return write.Times(Activated(write, gate, activation), up);
}

namespace {

// Returns a value that is 1 for the highest-scoring experts of a token and 0
// for all others. The size of the label `count` is the number of these
// highest-scoring experts.
ValueId Best(GraphWriter& write, ValueId choice, LabelId experts,
             LabelId count) {
  const ValueId chosen =
      write.Append(OpKind::kTopK, {choice}, TopKAttributes{experts, count},
                   write.LabelsOf(choice), true);
  write.Producer(chosen).constraint = "sel";
  return chosen;
}

// Returns the weight of the `chosen` expert, which is a softmax over the
// experts near the best one. An expert is near if its logit differs from the
// greatest logit by at most 2 * jitter times the larger magnitude of the two
// logits. Experts for which `beyond` is 1 are left out.
ValueId WeightAmongNear(GraphWriter& write, ValueId logits, ValueId greatest,
                        ValueId chosen, ValueId beyond, LabelId experts,
                        double jitter) {
  const ValueId less = Negative(write, greatest);
  const ValueId size =
      write.Greater(write.Greater(logits, Negative(write, logits)), greatest);
  const ValueId room = write.Scaled(size, {2 * jitter, {}});
  // `far` is 1 for logits that are further below the greatest than the jitter
  // allows.
  const ValueId far =
      write.Fn("step", Negative(write, write.Add({room, logits, less})));
  ValueId near = write.Fn("shift", Negative(write, far), 1);
  if (beyond != kNoValue) {
    near = write.Times(near, write.Fn("shift", Negative(write, beyond), 1));
  }
  const ValueId e =
      write.Times(write.Fn("exp", write.Add({logits, less})), near);
  const ValueId p = write.Times(e, write.Fn("recip", write.Sum(e, experts)));
  return write.Times(p, chosen);
}

// Writes Phi-MoE's sparse mixer as in evaluation, without sampling. The best
// expert's weight is a softmax over the experts whose logits are within the
// jitter of the best logit. The weight of the second best expert is computed in
// the same way without the best expert.
Routed MixSparsely(GraphWriter& write, ValueId logits, LabelId experts,
                   const RouterSettings& settings) {
  const ValueId first = Best(write, logits, experts, settings.first);
  const ValueId both = Best(write, logits, experts, write.graph().common.top_k);
  const ValueId second = write.Add({both, Negative(write, first)});
  const ValueId greatest = write.Max(logits, experts);
  const ValueId least =
      Negative(write, write.Max(Negative(write, logits), experts));
  // `rest` is equal to the logits, except that the greatest logit is replaced
  // by the least one.
  const ValueId fall = write.Add({least, Negative(write, greatest)});
  const ValueId rest = write.Add({logits, write.Times(first, fall)});
  const ValueId one = WeightAmongNear(write, logits, greatest, first, kNoValue,
                                      experts, settings.jitter);
  const ValueId two = WeightAmongNear(write, rest, write.Max(rest, experts),
                                      second, first, experts, settings.jitter);
  return {write.Add({one, two}), both};
}

// Returns the weights divided by their norm. `power` is the order of the norm,
// 1 or 2.
ValueId Renormalised(GraphWriter& write, ValueId weights, LabelId experts,
                     int power) {
  const ValueId powers = power == 2 ? write.Times(weights, weights) : weights;
  ValueId size = write.Sum(powers, experts);
  if (power == 2) size = write.Fn("sqrt", size);
  return write.Times(weights, write.Fn("recip", size));
}

// A number that is larger than the score of every expert and that float16 can
// represent.
constexpr double kBeyondScores = 1e4;

}  // namespace

Routed Route(GraphWriter& write, ValueId logits, LabelId experts,
             const RouterSettings& settings) {
  using Score = RouterSettings::Score;
  if (settings.score == Score::kSparseMixer) {
    return MixSparsely(write, logits, experts, settings);
  }
  const Labels labels = write.LabelsOf(logits);
  const LabelId top_k = write.graph().common.top_k;
  ValueId scores = logits;
  if (settings.score == Score::kSoftmax) {
    scores = Softmax(write, logits, experts);
  } else if (settings.score == Score::kSigmoid) {
    scores = write.Fn("sigmoid", logits);
  }
  ValueId choice = scores;
  if (settings.correction != kNoValue) {
    choice = write.Add({choice, settings.correction});
  }
  if (settings.groups != kNoLabel) {
    const TopGroupsAttributes best{
        experts, settings.groups, settings.chosen_groups,
        settings.group_by_two ? GroupScore::kTop2 : GroupScore::kMax};
    const ValueId kept =
        write.Append(OpKind::kTopGroups, {choice}, best, labels, true);
    choice = write.Times(choice, kept);
    // Scores of experts in groups that were not chosen are now 0. If a bias
    // (`correction`) was added to the scores, those in a chosen group may be
    // below 0. So the scores in the other groups are lowered far below 0.
    if (settings.correction != kNoValue) {
      const ValueId others = write.Fn("shift", Negative(write, kept), 1);
      choice = write.Add({choice, write.Scaled(others, {-kBeyondScores, {}})});
    }
  }
  const ValueId chosen = Best(write, choice, experts, top_k);
  ValueId weights = kNoValue;
  if (settings.score == Score::kSoftmaxAfterTopK) {
    const ValueId greatest = Negative(write, write.Max(logits, experts));
    const ValueId e =
        write.Times(write.Fn("exp", write.Add({logits, greatest})), chosen);
    weights = write.Times(e, write.Fn("recip", write.Sum(e, experts)));
  } else {
    weights = write.Times(scores, chosen);
    const int power = settings.renormalise ? 1 : settings.power;
    if (power > 0) weights = Renormalised(write, weights, experts, power);
  }
  if (settings.scale != 1)
    weights = write.Scaled(weights, {settings.scale, {}});
  return {weights, chosen, settings.before};
}

RouterStatistics Statistics(GraphWriter& write, ValueId logits, ValueId chosen,
                            LabelId experts) {
  const CommonLabels common = write.graph().common;
  const auto over_tokens = [&](ValueId x) {
    return write.Sum(write.Sum(x, common.batch), common.query);
  };
  RouterStatistics out;
  out.often = over_tokens(chosen);
  const ValueId greatest = write.Max(logits, experts);
  const ValueId e =
      write.Fn("exp", write.Add({logits, Negative(write, greatest)}));
  const ValueId sum = write.Sum(e, experts);
  out.likely = over_tokens(write.Times(e, write.Fn("recip", sum)));
  const ValueId lse = write.Add({write.Fn("log", sum), greatest});
  out.spread = write.Einsum(lse, lse, {});
  return out;
}

std::vector<ValueId> LossesOf(GraphWriter& write,
                              const std::vector<RouterStatistics>& layers,
                              LabelId experts, const RouterLosses& settings) {
  const CommonLabels common = write.graph().common;
  const auto count = static_cast<double>(layers.size());
  const auto all = [&](ValueId RouterStatistics::*which) {
    std::vector<ValueId> terms;
    for (const RouterStatistics& one : layers) terms.push_back(one.*which);
    return write.Add(std::move(terms));
  };
  std::vector<ValueId> out;
  if (settings.balance != 0) {
    write.name = "balance";
    const ValueId met = write.Einsum(all(&RouterStatistics::often),
                                     all(&RouterStatistics::likely), {});
    out.push_back(write.Scaled(
        met, {settings.balance / (count * count),
              {{experts, 1.0}, {common.batch, -2.0}, {common.query, -2.0}}}));
  }
  if (settings.z != 0) {
    write.name = "router z-loss";
    out.push_back(write.Scaled(
        all(&RouterStatistics::spread),
        {settings.z / count, {{common.batch, -1.0}, {common.query, -1.0}}}));
  }
  return out;
}

namespace {

// Returns the label whose two halves are gate and up. It is the only label of
// `fused` that the down projection lacks, apart from batch and slots.
LabelId HalvesLabel(GraphWriter& write, ValueId fused, ValueId down) {
  for (const LabelId label : write.LabelsOf(fused)) {
    const bool data = write.Has(down, label) ||
                      label == write.graph().common.batch ||
                      label == write.graph().common.slot;
    if (!data) return label;
  }
  return kNoLabel;
}

// Returns the weight with a separate dimension for experts. A stored weight may
// have the rows of all experts one after the other in one dimension, (e f).
// This dimension is split into e and f.
ValueId Apart(GraphWriter& write, ValueId weight, LabelId experts) {
  const Labels labels = write.LabelsOf(weight);
  for (const LabelId label : labels) {
    if (HasLabel(At(write, label).factors, experts)) {
      return write.Split(weight, label);
    }
  }
  return weight;
}

}  // namespace

ValueId Experts(GraphWriter& write, ValueId x, const Routed& routed,
                LabelId experts, const ExpertWeights& weights,
                const Activation& activation) {
  const CommonLabels common = write.graph().common;
  Labels queue = write.LabelsOf(routed.chosen);
  queue.push_back(common.slot);
  const ValueId slots =
      write.Append(OpKind::kSlots, {routed.chosen},
                   SlotsAttributes{experts, common.slot}, queue, true);
  const LabelId width = write.LabelsOf(x).back();
  const Labels rows = {common.batch, experts, common.slot, width};
  ValueId shares = kNoValue;
  if (routed.before) shares = write.Times(slots, routed.weights);
  ValueId sent = write.Einsum(routed.before ? shares : slots, x, rows);
  write.Producer(sent).constraint = "moe_tok";
  sent = write.Identity(sent);
  write.Producer(sent).constraint = "moe_exp";
  ValueId gate = kNoValue, up = kNoValue;
  if (weights.gate_up != kNoValue) {
    const ValueId fused =
        Linear(write, sent, weights.gate_up, weights.gate_up_bias);
    const LabelId half = HalvesLabel(write, fused, weights.down);
    gate = write.Index(fused, half, 0);
    up = write.Index(fused, half, 1);
    write.Producer(gate).constraint = "moe_mlp";
    write.Producer(up).constraint = "moe_mlp";
  } else {
    gate = Linear(write, sent, Apart(write, weights.gate, experts), kNoValue);
    write.Producer(gate).constraint = "moe_mlp";
    up = Linear(write, sent, Apart(write, weights.up, experts), kNoValue);
    write.Producer(up).constraint = "moe_mlp";
  }
  const ValueId inner = Gated(write, gate, up, activation);
  write.Producer(inner).constraint = "moe_mlp";
  ValueId made =
      Linear(write, inner, Apart(write, weights.down, experts), kNoValue);
  write.Producer(made).constraint = "moe_exp_out";
  made = write.Identity(made);
  write.Producer(made).constraint = "moe_tok_out";
  if (!routed.before) shares = write.Times(slots, routed.weights);
  const ValueId combined = routed.before ? slots : shares;
  const ValueId out = write.Einsum(combined, made, write.LabelsOf(x));
  if (weights.down_bias == kNoValue) return out;
  // The biases are added after the rows of a token, because the rows may be
  // partial up to here. `chosen` is 1, or the weight of the expert, if the
  // token has a slot in the expert's queue.
  ValueId chosen = write.Sum(slots, common.slot);
  if (!routed.before) chosen = write.Times(chosen, routed.weights);
  return write.Add(
      {out, write.Einsum(chosen, weights.down_bias, write.LabelsOf(x))});
}

ValueId CrossEntropy(GraphWriter& write, ValueId logits, ValueId labels,
                     ValueId weights, LabelId vocabulary, double z_loss) {
  const CommonLabels common = write.graph().common;
  const ValueId greatest = write.Max(logits, vocabulary);
  const ValueId e =
      write.Fn("exp", write.Add({logits, Negative(write, greatest)}));
  const ValueId lse =
      write.Add({write.Fn("log", write.Sum(e, vocabulary)), greatest});
  const ValueId picked = write.Pick(logits, labels, vocabulary);
  std::vector<ValueId> terms = {lse, Negative(write, picked)};
  if (z_loss != 0) {
    terms.push_back(write.Scaled(write.Times(lse, lse), {z_loss, {}}));
  }
  const ValueId each = write.Add(std::move(terms));
  const ValueId total = write.Einsum(each, weights, {});
  ValueId count = write.Sum(weights, common.batch);
  if (write.Has(count, common.query)) count = write.Sum(count, common.query);
  return write.Times(total, write.Fn("recip", count));
}

namespace {

// Writes attention as ops. Plain attention is a softmax over all keys. In ring
// attention, each device has one block of queries, and blocks of keys and
// values are passed around a ring of devices. In each turn, a device attends to
// one block of keys. The turns are combined by an online softmax: whenever the
// running maximum grows, the sums so far are rescaled.
//
// In the graph, ring attention splits the dimension of tokens into the
// dimensions (turns, rows). The axes of the ring shard `turns`, so each device
// holds one index of `turns`, which is one block. Before each turn except the
// first, keys and values are rolled by one index along `turns`, which is
// lowered to a ppermute. For example, in the second turn, with batch b and head
// size h:
//
//   keys    [b, turns, key rows, KV heads, h], rolled once
//   scores  [b, heads, turns, query rows, key rows]: index r of `turns` has the
//           queries of block r and the keys of block r - 1

// A block of keys and values, and the positions of its keys.
struct Block {
  std::vector<ValueId> keys = {};
  ValueId values = kNoValue, positions = kNoValue;
};

// The state of the online softmax after some blocks of keys.
struct Running {
  // The running maximum of the scores, and the negative of that maximum.
  ValueId greatest = kNoValue, less = kNoValue;
  ValueId sum = kNoValue, out = kNoValue;
};

class Writer {
 public:
  Writer(GraphWriter& write, const std::vector<ValueId>& queries, ValueId sinks,
         const AttentionSettings& settings)
      : write_(write),
        settings_(settings),
        ring_(write.graph().ring),
        queries_(queries),
        sinks_(sinks),
        query_positions_(settings.query_positions),
        query_(settings.query != kNoLabel ? settings.query
                                          : write.graph().common.query),
        key_(settings.key != kNoLabel ? settings.key
                                      : write.graph().common.key) {
    // The labels of the query heads are [n], or [k, g] if query heads are
    // stored as g for each of k KV heads.
    const Labels& labels = write.LabelsOf(queries[0]);
    heads_ = {labels.begin() + 2, labels.end() - 1};
  }

  ValueId Run(Block keys) {
    const AttentionView view = settings_.form.view;
    if (view == AttentionView::kGlobal) return Unsharded(keys);
    for (ValueId& query : queries_) query = Resharded(query, "op_q");
    for (ValueId& key : keys.keys) key = Resharded(Copied(key), "op_k");
    keys.values = Resharded(Copied(keys.values), "op_k");
    const ValueId out =
        view == AttentionView::kRing ? Round(std::move(keys)) : Unsharded(keys);
    write_.Producer(out).constraint = "op_out";
    return write_.Identity(out);
  }

 private:
  Graph& graph() { return write_.graph(); }

  ValueId Resharded(ValueId x, std::string_view constraint) {
    x = write_.Identity(x);
    write_.Producer(x).constraint = constraint;
    return x;
  }

  // Returns keys or values [b, s, k, h] with AttentionForm::copies copies of
  // each KV head.
  ValueId Copied(ValueId x) {
    const LabelId copied = settings_.copied_heads;
    if (copied == kNoLabel) return x;
    const std::vector<LabelId> factors =
        graph().labels[AsIndex(copied)].factors;
    if (!write_.Has(x, factors[0])) return x;
    const Labels wide =
        GraphWriter::Replaced(write_.LabelsOf(x), factors[0], factors);
    x = write_.Merge(write_.Broadcast(x, factors[1], wide), copied);
    write_.Producer(x).constraint = "op_given";
    return x;
  }

  // Splits the token dimension of x into blocks: [b, t, ..] becomes [b, turns,
  // rows, ..].
  ValueId Blocks(ValueId x, LabelId from, LabelId whole) {
    const bool integral = graph().values[AsIndex(x)].integral;
    x = write_.Rename(x, from, whole);
    graph().values[AsIndex(x)].integral = integral;
    x = write_.Split(x, whole);
    graph().values[AsIndex(x)].integral = integral;
    return x;
  }
  ValueId Rolled(ValueId x) {
    const bool integral = graph().values[AsIndex(x)].integral;
    x = write_.Append(OpKind::kRoll, {x}, RollAttributes{.label = ring_.turns},
                      write_.LabelsOf(x), integral);
    // The backward pass rematerialises keys and values, but not positions,
    // which take few bytes.
    write_.Producer(x).recompute = !integral;
    return x;
  }

  ValueId Round(Block keys) {
    const auto query = [&](ValueId x) {
      return Blocks(x, query_, ring_.queries);
    };
    const auto key = [&](ValueId x) { return Blocks(x, key_, ring_.keys); };
    for (ValueId& x : queries_) x = query(x);
    query_positions_ = query(query_positions_);
    for (ValueId& x : keys.keys) x = key(x);
    keys.values = key(keys.values);
    keys.positions = key(keys.positions);
    query_ = ring_.query_rows;
    key_ = ring_.key_rows;
    Running running;
    for (int64_t turn = 0; turn < settings_.form.turns; ++turn) {
      if (turn > 0) {
        for (ValueId& x : keys.keys) x = Rolled(x);
        keys.values = Rolled(keys.values);
        keys.positions = Rolled(keys.positions);
      }
      running = Absorb(keys, running);
    }
    const ValueId out = write_.Merge(Finish(running), ring_.queries);
    return write_.Rename(out, ring_.queries, graph().common.query);
  }

  bool InTurns() const { return query_ == ring_.query_rows; }
  // Returns the leading labels of values: the batch and, in a ring, the turns.
  Labels Leading() const {
    Labels out = {write_.graph().common.batch};
    if (InTurns()) out.push_back(ring_.turns);
    return out;
  }

  // Repeats KV heads so that x has an entry for each query head: [.., k, h]
  // becomes [.., n, h]. If query heads have the labels [k, g], all g heads of a
  // group read the entry of their KV head, and x is returned unchanged.
  ValueId Repeated(ValueId x) {
    const Labels labels = write_.LabelsOf(x);
    const bool shared =
        std::any_of(heads_.begin(), heads_.end(),
                    [&](LabelId head) { return HasLabel(labels, head); });
    // Values with heads have at least three labels besides batch and turns:
    // keys, heads and the contracted dimension. Values with fewer labels have
    // no heads to repeat.
    if (labels.size() < Leading().size() + 3 || shared) return x;
    const bool global = settings_.form.view == AttentionView::kGlobal;
    // Keys and values are gathered before they are repeated, because repeating
    // them makes them larger.
    if (global) x = Resharded(x, "kgather");
    const LabelId kv_heads = labels[labels.size() - 2];
    x = write_.Append(OpKind::kRepeat, {x},
                      HeadGroupAttributes{kv_heads, heads_[0], !global},
                      GraphWriter::Replaced(labels, kv_heads, {{heads_[0]}}));
    if (!InTurns()) {
      write_.Producer(x).constraint = global ? "krep" : "op_krep";
    }
    return x;
  }

  ValueId Masked(ValueId scores, ValueId key_positions) {
    if (!settings_.causal && !settings_.sloped) return scores;
    MaskAttributes mask;
    const bool chunked = settings_.windowed && settings_.chunked;
    mask.rule = !settings_.causal ? MaskRule::kNone
                : chunked         ? MaskRule::kChunked
                                  : MaskRule::kCausal;
    if (settings_.windowed) mask.window = graph().common.window;
    if (settings_.sloped) {
      mask.heads = heads_[0];
      if (settings_.slopes_scaled) mask.slope_scale = settings_.scale;
    }
    return write_.Append(OpKind::kMask,
                         {scores, query_positions_, key_positions},
                         std::move(mask), write_.LabelsOf(scores));
  }

  // Returns the scores [b, n, t, s] of the queries with a block of keys.
  ValueId Scores(const Block& block) {
    Labels row = {graph().common.batch};
    row.insert(row.end(), heads_.begin(), heads_.end());
    if (InTurns()) row.push_back(ring_.turns);
    row.insert(row.end(), {query_, key_});
    std::vector<ValueId> products;
    for (size_t i = 0; i < queries_.size(); ++i) {
      products.push_back(
          write_.Einsum(queries_[i], Repeated(block.keys[i]), row));
    }
    ValueId scores =
        write_.Scaled(write_.Add(std::move(products)), settings_.scale);
    if (settings_.cap > 0) scores = write_.Fn("cap", scores, settings_.cap);
    if (settings_.near != kNoValue) {
      scores = write_.Add({scores, settings_.near});
    }
    return Masked(scores, block.positions);
  }

  // In a ring, marks the ops from index `from` on to be rematerialised in the
  // backward pass. Ops that compute maxima are not marked: their results lack
  // the dimension of the keys, so keeping them takes few bytes.
  void MarkRecomputed(size_t from) {
    if (!InTurns()) return;
    for (size_t i = from; i < graph().ops.size(); ++i) {
      Op& op = graph().ops[i];
      const auto* const fn = std::get_if<FnAttributes>(&op.attributes);
      const bool maximum =
          op.kind == OpKind::kMax || (fn != nullptr && fn->fn == "max2");
      op.recompute = !maximum;
    }
  }

  // Returns exp(scores - maximum), where `less` is the negative of the maximum.
  ValueId Weights(ValueId scores, ValueId less) {
    return write_.Fn("exp", write_.Add({scores, less}));
  }
  ValueId SinkWeight(ValueId less) {
    return write_.Fn("exp", write_.Add({less, sinks_}));
  }
  ValueId Negative(ValueId x) { return write_.Scaled(x, {-1, {}}); }

  Labels OutLabels(ValueId values) const {
    Labels out = Leading();
    out.push_back(query_);
    out.insert(out.end(), heads_.begin(), heads_.end());
    out.push_back(write_.LabelsOf(values).back());
    return out;
  }

  // Returns attention that is computed over all keys at once, without a ring.
  ValueId Unsharded(const Block& keys) {
    const ValueId scores = Scores(keys);
    ValueId greatest = write_.Max(scores, key_);
    if (sinks_ != kNoValue) {
      // The maximum includes the sinks. Otherwise exp(sink - maximum) would
      // overflow if a sink is far above all scores.
      greatest = write_.Greater(greatest, sinks_);
    }
    const ValueId less = Negative(greatest);
    const ValueId e = Weights(scores, less);
    ValueId sum = write_.Sum(e, key_);
    if (sinks_ != kNoValue) sum = write_.Add({sum, SinkWeight(less)});
    const ValueId p = write_.Times(e, write_.Fn("recip", sum));
    const ValueId values = Repeated(keys.values);
    return write_.Einsum(p, values, OutLabels(values));
  }

  Running Absorb(const Block& block, const Running& before) {
    const bool first = before.greatest == kNoValue;
    const size_t from = graph().ops.size();
    Running out;
    const ValueId scores = Scores(block);
    out.greatest = write_.Max(scores, key_);
    if (!first) {
      out.greatest = write_.Greater(before.greatest, out.greatest);
    } else if (sinks_ != kNoValue) {
      out.greatest = write_.Greater(out.greatest, sinks_);
    }
    out.less = Negative(out.greatest);
    const ValueId e = Weights(scores, out.less);
    const ValueId values = Repeated(block.values);
    MarkRecomputed(from);
    out.sum = write_.Sum(e, key_);
    out.out = write_.Einsum(e, values, OutLabels(values));
    if (first) return out;
    const ValueId scale =
        write_.Fn("exp", write_.Add({before.greatest, out.less}));
    out.sum = write_.Add({write_.Times(before.sum, scale), out.sum});
    out.out = write_.Add({write_.Times(before.out, scale), out.out});
    return out;
  }

  ValueId Finish(const Running& all) {
    ValueId sum = all.sum;
    if (sinks_ != kNoValue) sum = write_.Add({sum, SinkWeight(all.less)});
    return write_.Times(all.out, write_.Fn("recip", sum));
  }

  GraphWriter& write_;
  const AttentionSettings& settings_;
  const RingLabels ring_;
  std::vector<ValueId> queries_;
  const ValueId sinks_;
  ValueId query_positions_;
  // The labels of the tokens of queries and keys, in a ring those of one block.
  LabelId query_, key_;
  Labels heads_;
};

}  // namespace

ValueId Attention(GraphWriter& write, const std::vector<ValueId>& queries,
                  const std::vector<ValueId>& keys, ValueId values,
                  ValueId sinks, const AttentionSettings& settings) {
  return Writer(write, queries, sinks, settings)
      .Run({keys, values, settings.key_positions});
}

}  // namespace shardc::step
