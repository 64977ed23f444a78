// Computes the peak memory of a training step. A layer's backward pass and the
// loss do not run at the same time. The expected peak therefore includes only
// the larger of the two, and the upper estimate includes both.
//
// For example, Llama 3 8B runs on fsdp:8 with one row of 32,768 tokens per
// device, and only the inputs of layers are kept. The peak is at the loss:
//
//   parameters, gradients and states 15 GiB, kept inputs 8, gathered weights
//   1.4, and 3.5 copies of the logits of 15.7 each: in total 79.2 GiB
//
// With the reserve of the allocator, the expected memory is 81.5 GiB.
// torchtitan reports 83.9 GiB for this step.
#include "cost/peak.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace shardc::cost {
namespace {

constexpr double kEagerLoss = 4, kCompiledLoss = 1.5, kLossSpread = 0.5;
// In the lower and in the upper estimate, the bytes of a layer are multiplied
// by these factors. The lower factor is below 1, because the backward pass of a
// layer does not hold all tensors of the layer at the same time.
constexpr double kLeastLayer = 0.7, kMostLayer = 1.1;

int64_t RoundedBytes(double bytes) {
  constexpr double kMost = 9.2e18;
  return bytes < kMost ? std::llround(bytes) : INT64_MAX;
}

struct CopyRange {
  double least = 0, expected = 0, most = 0;
};

CopyRange CopiesOf(const Settings& settings, const StackMemory& stack) {
  const auto around = [](double copies) {
    return CopyRange{std::max(0.0, copies - kLossSpread), copies,
                     copies + kLossSpread};
  };
  switch (settings.loss) {
    case LossKind::kStack:
      return {stack.least_loss, stack.loss,
              std::max(stack.most_loss, stack.loss)};
    case LossKind::kEager:
      return around(kEagerLoss);
    case LossKind::kCompiled:
      return around(kCompiledLoss);
    case LossKind::kFused:
      return around(0);
  }
  return {};
}

// Returns whether the backward pass of the layer holds the gradient of this
// tensor at the same time as the tensor.
bool IsWide(const LayerTensor& tensor) {
  constexpr std::array<std::string_view, 3> kWide = {"gate_proj", "up_proj",
                                                     "product"};
  return std::find(kWide.begin(), kWide.end(), tensor.what.name) != kWide.end();
}

class Parts {
 public:
  Parts(const CostInputs& work, const Settings& settings,
        const Activations& activations, const StackMemory& stack)
      : work_(work),
        settings_(settings),
        activations_(activations),
        stack_(stack) {}

  // Returns the bytes kept from the forward pass for the backward pass. If
  // `expected` is true and nothing is recomputed, they include the bytes that
  // the training software `stack_` keeps in addition to the step's tensors.
  double Kept(bool expected) const {
    const bool all = !settings_.remat.Recomputes();
    return Real(activations_.kept) * (expected && all ? stack_.kept : 1);
  }

  // Returns the bytes of the layer whose backward pass runs: the tensors that
  // it recomputes, gradients inside the layer, and inputs gathered over the
  // axes that shard the hidden state.
  double Layer() const {
    double out = Real(activations_.working), input = 0;
    for (const LayerTensor& tensor : activations_.tensors) {
      if (tensor.encoder != activations_.encoder_works) continue;
      if (IsWide(tensor)) out += Real(tensor.bytes);
      if (tensor.what.made == step::Made::kCarried) input = Real(tensor.bytes);
    }
    const double parts = Real(work_.Parts(work_.hidden));
    return (out + 2 * input + 2 * input * (parts - 1)) * stack_.layer;
  }

  double Logits() const {
    return Real(activations_.logits.value_or(0)) * ChunkShare();
  }

  // Returns the bytes of the hidden state's gradient at the loss if the
  // vocabulary is sharded, else 0. The gradient is then partial, and is not
  // sharded over the axes of the hidden state.
  double HiddenGradient() const {
    if (!activations_.logits_sharded) return 0;
    for (const LayerTensor& tensor : activations_.tensors) {
      if (tensor.what.made != step::Made::kCarried || tensor.encoder) continue;
      return Real(tensor.bytes) * Real(work_.Parts(work_.hidden)) *
             ChunkShare();
    }
    return 0;
  }

 private:
  double ChunkShare() const {
    const auto tokens = TokensOf(work_, settings_);
    if (!tokens || !settings_.loss_chunk || tokens->All() <= 0) return 1;
    return std::min(1.0, Real(*settings_.loss_chunk) / Real(tokens->All()));
  }

  const CostInputs& work_;
  const Settings& settings_;
  const Activations& activations_;
  const StackMemory& stack_;
};

}  // namespace

double LossCopies(const Settings& settings, const StackMemory& stack) {
  return CopiesOf(settings, stack).expected;
}

Peak PeakOf(const CostInputs& work, const Settings& settings,
            const Activations& activations, const GatheredWeights& gathered,
            const StepGradients& gradients) {
  const StackMemory& stack = StackOf(work, settings).memory;
  const Parts parts(work, settings, activations, stack);
  const CopyRange copies = CopiesOf(settings, stack);
  const double layer = parts.Layer(), logits = parts.Logits();
  const double hidden = copies.expected > 0 ? parts.HiddenGradient() : 0;
  const double casts = stack.casts_all ? Real(gathered.casts) : 0;
  const double weights =
      Real(gathered.layer) +
      (stack.frees_gathered ? 0
                            : Real(std::max(gathered.layer, gathered.largest)));
  const double at_loss =
      copies.expected * logits + hidden + (stack.frees_gathered ? 0 : weights);
  const double kept = parts.Kept(true), least_kept = parts.Kept(false);
  // During the backward pass, gradients grow and kept activations are freed. So
  // the memory is largest while the pass runs its first or its last layer.
  const double first = Real(gradients.first), all = Real(gradients.all);
  const double at_first = layer + weights + first;
  const double at_last = layer + weights + all - kept;
  Peak out;
  out.moment = at_loss >= std::max(at_first, at_last) ? Moment::kLoss
                                                      : Moment::kBackward;
  const bool loss = out.moment == Moment::kLoss;
  const bool last = !loss && at_last > at_first;
  out.kept = last ? 0 : RoundedBytes(kept);
  out.least_kept = last ? 0 : RoundedBytes(least_kept);
  out.layer = RoundedBytes(layer);
  out.working = loss ? 0 : out.layer;
  out.logits = loss ? RoundedBytes(copies.expected * logits + hidden) : 0;
  out.gathered =
      RoundedBytes(casts + (loss && stack.frees_gathered ? 0 : weights));
  if (!loss) out.gradients = last ? gradients.all : gradients.first;
  const double least_loss = copies.least * logits;
  const double least_layer = kLeastLayer * layer;
  const double least =
      stack.frees_gathered
          ? std::max(least_loss, least_layer + first + weights)
          : weights + std::max(least_loss, least_layer + first);
  const double least_last = weights + least_layer + all;
  out.least = RoundedBytes(last ? std::max(least_kept + least, least_last)
                                : std::max(least, least_last - least_kept));
  out.most = RoundedBytes(casts + weights + copies.most * logits + hidden +
                          kMostLayer * layer + all + (last ? kept : 0));
  return out;
}

}  // namespace shardc::cost
