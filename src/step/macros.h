// Writes attention, norms, softmax, gated layers, experts and the loss as
// sequences of ops.
#ifndef SHARDC_STEP_MACROS_H_
#define SHARDC_STEP_MACROS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step_graph.h"
#include "step/graph_writer.h"

namespace shardc::step {

struct NormSettings {
  double epsilon = 1e-5;
  bool plus_one = false;  // Whether the weight is 1 + the stored value.
};

// Each function returns the norm of x over the dimension `label`. x has this
// label, or the label's factors. The weight and the bias may be kNoValue.
ValueId RmsNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                const NormSettings& settings);
ValueId LayerNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                  ValueId bias, const NormSettings& settings);

ValueId Softmax(GraphWriter& write, ValueId x, LabelId label);

// Returns x times the weight, plus the bias. The labels that x and the weight
// share are summed. If they share several labels, the first one is the experts'
// label and is kept. If x has the factors of a label of the weight, the factors
// are first merged to this label. Labels of the result that have factors are
// split.
ValueId Linear(GraphWriter& write, ValueId x, ValueId weight, ValueId bias);

// A convolution along tokens. The weight's label `kernel` has the odd size
// `width`, and the tokens are padded with zeros. If a token has several
// `frames`, only the result of its first frame is kept.
struct Convolution {
  LabelId tokens = kNoLabel, frames = kNoLabel;
  LabelId kernel = kNoLabel;
  int64_t width = 1;
};
ValueId Convolved(GraphWriter& write, ValueId x, ValueId weight, ValueId bias,
                  const Convolution& settings);

// The activation of a gated layer. The layer computes fn(gate) * up, where gate
// and up are two projections.
struct Activation {
  std::string fn = "silu";
  // Used by gpt-oss: gate and up are clamped, and 1 is added to up.
  bool clamped = false;
  double limit = 7, alpha = 1.702;
};
// Activated applies the function `fn` to each element of x; `alpha` is the
// constant of a swish. Gated returns the activation of `gate` times `up`.
ValueId Activated(GraphWriter& write, ValueId x, const Activation& activation);
ValueId Gated(GraphWriter& write, ValueId gate, ValueId up,
              const Activation& activation);

struct RouterSettings {
  enum class Score : uint8_t {
    kSoftmax,
    kSigmoid,
    kSoftmaxAfterTopK,
    // The sparse mixer of Phi-MoE, without the noise that the mixer adds in
    // training.
    kSparseMixer
  };
  Score score = Score::kSoftmax;
  bool renormalise = false;
  // The order of the norm by which the weights are divided, 1 or 2; 0 if they
  // are not divided.
  int power = 0;
  double scale = 1;
  // For kSparseMixer only: the weight of a chosen expert is a softmax over the
  // experts whose logits are near its own logit. Two logits are near if they
  // differ by at most 2 * jitter times the larger of their magnitudes.
  double jitter = 0;
  // For kSparseMixer only: a label of size 1. A top-k op takes its k from the
  // size of a label, and this label is used to choose the best expert only.
  LabelId first = kNoLabel;
  // True if the weights scale the experts' inputs, not their results.
  bool before = false;
  // The labels of all groups of experts and of the groups that a token chooses
  // before it chooses experts. Both are kNoLabel if experts have no groups.
  LabelId groups = kNoLabel, chosen_groups = kNoLabel;
  // Whether the score of a group is the sum of the scores of its two best
  // experts. Otherwise it is the score of its best expert.
  bool group_by_two = true;
  // The bias [e] that is added to scores to choose experts, but not to weigh
  // them; kNoValue if there is none.
  ValueId correction = kNoValue;
};
// The result of routing. `weights` [b, t, e] has the weight of each expert for
// each token, which is 0 for an expert that is not chosen. `chosen` [b, t, e]
// is 1 for each chosen expert and 0 for all others. `before` is true if the
// weights scale the experts' inputs, and false if they scale the experts'
// results.
struct Routed {
  ValueId weights = kNoValue, chosen = kNoValue;
  bool before = false;
};
Routed Route(GraphWriter& write, ValueId logits, LabelId experts,
             const RouterSettings& settings);

// The statistics of one layer's router, from which its auxiliary losses are
// computed.
struct RouterStatistics {
  // [e]: the number of tokens that chose each expert.
  ValueId often = kNoValue;
  // [e]: the sum over tokens of each expert's probability.
  ValueId likely = kNoValue;
  // A scalar: the sum over tokens of logsumexp(logits)^2.
  ValueId spread = kNoValue;
};
RouterStatistics Statistics(GraphWriter& write, ValueId logits, ValueId chosen,
                            LabelId experts);

// The coefficients of the routers' auxiliary losses; 0 means that the step does
// not have the loss. LossesOf returns the losses, each computed over all
// layers.
struct RouterLosses {
  double balance = 0, z = 0;
};
std::vector<ValueId> LossesOf(GraphWriter& write,
                              const std::vector<RouterStatistics>& layers,
                              LabelId experts, const RouterLosses& settings);

struct ExpertWeights {
  // The weights of gate and up: [e, f, d] or [(e f), d].
  ValueId gate = kNoValue, up = kNoValue;
  // Gate and up in one weight, with the labels [e, (z f), d] in any order. The
  // label z has size 2, for gate and up. Instead of (z f), the weight may have
  // (f z), in which gate and up alternate.
  ValueId gate_up = kNoValue;
  // The bias of gate and up, [e, (z f)] or [e, (f z)].
  ValueId gate_up_bias = kNoValue;
  // The weight of the down projection: [e, d, f] or [(e f), d].
  ValueId down = kNoValue;
  ValueId down_bias = kNoValue;  // The bias of the down projection, [e, d].
};
// Writes the experts of a layer. The tokens of x [b, t, d] are copied to the
// queues of their experts, and the experts' weighted results are added for each
// token.
ValueId Experts(GraphWriter& write, ValueId x, const Routed& routed,
                LabelId experts, const ExpertWeights& weights,
                const Activation& activation);

// Returns the weighted mean over tokens of the cross-entropy plus `z_loss`
// times the squared logsumexp.
ValueId CrossEntropy(GraphWriter& write, ValueId logits, ValueId labels,
                     ValueId weights, LabelId vocabulary, double z_loss = 0);

// Writes attention as a sequence of ops. The ops act either on global values,
// for which the compiler inserts collectives, or on the shards of one device,
// as a kernel does.

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

#endif  // SHARDC_STEP_MACROS_H_
