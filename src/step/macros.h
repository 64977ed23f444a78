// What a description's lines are made of: norms, softmax, gated layers, experts
// and the loss as programs of the op table; attention has a file of its own.
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
  bool plus_one = false;  // the weight is 1 + what is stored
};

// x [.., d] (or with d's factors apart); absent weights are left out.
ValueId RmsNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                const NormSettings& settings);
ValueId LayerNorm(GraphWriter& write, ValueId x, LabelId label, ValueId weight,
                  ValueId bias, const NormSettings& settings);

ValueId Softmax(GraphWriter& write, ValueId x, LabelId label);

// Contracts what both have, x's factors merged where the weight has them as
// one; a result's factors are split again.
ValueId Linear(GraphWriter& write, ValueId x, ValueId weight, ValueId bias);

// A convolution along tokens by a weight's `kernel`, of odd size `width`:
// around the ends there are zeros. Of `frames`, if there are some, each token
// has the first one's.
struct Convolution {
  LabelId tokens = kNoLabel, frames = kNoLabel;
  LabelId kernel = kNoLabel;
  int64_t width = 1;
};
ValueId Convolved(GraphWriter& write, ValueId x, ValueId weight, ValueId bias,
                  const Convolution& settings);

// `activation` of the gate times the other half.
struct Activation {
  std::string fn = "silu";
  bool clamped = false;  // gpt-oss's: both clamped, 1 added to the other half
  double limit = 7, alpha = 1.702;
};
ValueId Gated(GraphWriter& write, ValueId gate, ValueId up,
              const Activation& activation);

struct RouterSettings {
  enum class Score : uint8_t {
    kSoftmax,
    kSigmoid,
    kSoftmaxAfterTopK,
    kSparseMixer  // as it is evaluated, without noise
  };
  Score score = Score::kSoftmax;
  bool renormalise = false;
  int power = 0;  // weights are divided by this norm of theirs; 0: not
  double scale = 1;
  double jitter = 0;         // kSparseMixer
  LabelId first = kNoLabel;  // kSparseMixer: counts one
  bool before = false;       // weights scale what experts are given
  // Groups of experts, of which some are chosen first; kNoLabel: none.
  LabelId groups = kNoLabel, chosen_groups = kNoLabel;
  bool group_by_two = true;       // a group counts its two best, not its best
  ValueId correction = kNoValue;  // [e], added for the choice alone
};
// Weights [b, t, e] of the experts, 0 for those not chosen, and the choice.
struct Routed {
  ValueId weights = kNoValue, chosen = kNoValue;
  bool before = false;
};
Routed Route(GraphWriter& write, ValueId logits, LabelId experts,
             const RouterSettings& settings);

// What one layer's router is trained by beside the loss.
struct RouterStatistics {
  ValueId often = kNoValue;   // [e], how many tokens chose it
  ValueId likely = kNoValue;  // [e], their probabilities' sum
  ValueId spread = kNoValue;  // [], squares' sum of the logits' log-sums
};
RouterStatistics Statistics(GraphWriter& write, ValueId logits, ValueId chosen,
                            LabelId experts);

// Of all layers' routers; a coefficient of 0: none.
struct RouterLosses {
  double balance = 0, z = 0;
};
std::vector<ValueId> LossesOf(GraphWriter& write,
                              const std::vector<RouterStatistics>& layers,
                              LabelId experts, const RouterLosses& settings);

struct ExpertWeights {
  ValueId gate = kNoValue, up = kNoValue;  // [e, f, d] or [(e f), d], or
  ValueId gate_up = kNoValue;  // [e, (z f), d] in any order, f as down has it
  ValueId gate_up_bias = kNoValue;  // [e, (z f)]
  ValueId down = kNoValue;          // [e, d, f] or [(e f), d]
  ValueId down_bias = kNoValue;     // [e, d]
};
// Of x [b, t, d]: into queues and back.
ValueId Experts(GraphWriter& write, ValueId x, const Routed& routed,
                LabelId experts, const ExpertWeights& weights,
                const Activation& activation);

// The mean over weighted tokens.
ValueId CrossEntropy(GraphWriter& write, ValueId logits, ValueId labels,
                     ValueId weights, LabelId vocabulary, double z_loss = 0);

}  // namespace shardc::step

#endif  // SHARDC_STEP_MACROS_H_
