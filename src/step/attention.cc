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
#include "step/attention.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "source/size.h"

namespace shardc::step {
namespace {

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
