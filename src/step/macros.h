// Writes norms, softmax, gated layers, experts and the loss as sequences of
// ops. Attention is in attention.h.
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
  bool plus_one = false;  // the weight is 1 + the stored value
};

// Return the norm of x over the dimension `label`. x has this label, or its
// factors. The weight and the bias may be kNoValue.
ValueId RmsNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                const NormSettings& settings);
ValueId LayerNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                  ValueId bias, const NormSettings& settings);

ValueId Softmax(GraphWriter& write, ValueId x, LabelId label);

// Returns x times the weight plus the bias, contracted over the labels that x
// and the weight share. If they share several, the first one is the experts'
// label and is kept. If x has the factors of a label of the weight, the factors
// are merged first. Factors of the result are split.
ValueId Linear(GraphWriter& write, ValueId x, ValueId weight, ValueId bias);

// A convolution along tokens with the weight's label `kernel`, of odd size
// `width`, padded by zeros. If a token has several `frames`, only the result of
// the first frame is kept.
struct Convolution {
  LabelId tokens = kNoLabel, frames = kNoLabel;
  LabelId kernel = kNoLabel;
  int64_t width = 1;
};
ValueId Convolved(GraphWriter& write, ValueId x, ValueId weight, ValueId bias,
                  const Convolution& settings);

// The activation of a gated layer: a function of the gate, times the projection
// `up`.
struct Activation {
  std::string fn = "silu";
  bool clamped = false;  // gpt-oss: gate and up are clamped, 1 is added to up
  double limit = 7, alpha = 1.702;
};
// Returns the activation of each element of x. `alpha` is the constant of a
// swish.
ValueId Activated(GraphWriter& write, ValueId x, const Activation& activation);
ValueId Gated(GraphWriter& write, ValueId gate, ValueId up,
              const Activation& activation);

struct RouterSettings {
  enum class Score : uint8_t {
    kSoftmax,
    kSigmoid,
    kSoftmaxAfterTopK,
    kSparseMixer  // Phi-MoE's mixer, as in evaluation (no noise)
  };
  Score score = Score::kSoftmax;
  bool renormalise = false;
  int power = 0;  // 1 or 2: divide weights by this norm; 0: do not
  double scale = 1;
  double jitter = 0;         // used by kSparseMixer only
  LabelId first = kNoLabel;  // kSparseMixer: a label of size 1
  bool before = false;       // whether weights scale the experts' inputs
  // Groups of experts. Each token first chooses `chosen_groups` of the groups.
  // Both are kNoLabel if there are no groups.
  LabelId groups = kNoLabel, chosen_groups = kNoLabel;
  // Whether the score of a group is the sum of the scores of its two best
  // experts. Otherwise it is the score of its best expert.
  bool group_by_two = true;
  ValueId correction = kNoValue;  // [e], added to scores only to choose experts
};
// The result of routing. `weights` [b, t, e] has the weight of each expert for
// each token, which is 0 for an expert that is not chosen. `chosen` [b, t, e]
// is 1 for each chosen expert and 0 for all others. `before` is whether the
// weights scale the experts' inputs instead of their results.
struct Routed {
  ValueId weights = kNoValue, chosen = kNoValue;
  bool before = false;
};
Routed Route(GraphWriter& write, ValueId logits, LabelId experts,
             const RouterSettings& settings);

// The statistics of one layer's router, from which its auxiliary losses are
// computed.
struct RouterStatistics {
  ValueId often = kNoValue;   // [e], how many tokens chose each expert
  ValueId likely = kNoValue;  // [e], sum of the probabilities over tokens
  ValueId spread = kNoValue;  // [], sum over tokens of logsumexp(logits)^2
};
RouterStatistics Statistics(GraphWriter& write, ValueId logits, ValueId chosen,
                            LabelId experts);

// The coefficients of the routers' auxiliary losses; 0 means no such loss.
// LossesOf returns the losses over all layers.
struct RouterLosses {
  double balance = 0, z = 0;
};
std::vector<ValueId> LossesOf(GraphWriter& write,
                              const std::vector<RouterStatistics>& layers,
                              LabelId experts, const RouterLosses& settings);

struct ExpertWeights {
  ValueId gate = kNoValue, up = kNoValue;  // [e, f, d] or [(e f), d]
  ValueId gate_up = kNoValue;  // gate and up in one: [e, (z f), d] in any order
  ValueId gate_up_bias = kNoValue;  // [e, (z f)]
  ValueId down = kNoValue;          // [e, d, f] or [(e f), d]
  ValueId down_bias = kNoValue;     // [e, d]
};
// Sends the tokens of x [b, t, d] to the queues of their experts, and adds the
// experts' weighted results for each token.
ValueId Experts(GraphWriter& write, ValueId x, const Routed& routed,
                LabelId experts, const ExpertWeights& weights,
                const Activation& activation);

// Returns the mean over weighted tokens of the cross-entropy plus `z_loss`
// times the squared logsumexp.
ValueId CrossEntropy(GraphWriter& write, ValueId logits, ValueId labels,
                     ValueId weights, LabelId vocabulary, double z_loss = 0);

}  // namespace shardc::step

#endif  // SHARDC_STEP_MACROS_H_
