// Completes the settings of a cost report from the rules, and writes settings
// as flags.
//
// A rules file may give the kind of loss, as in `model: {loss: {kind: fused,
// chunk: 4096}}`. This has the same meaning as the flags `--loss` and
// `--loss-chunk`. If a flag is given, it takes precedence over the rules.
//
// Settings are written as flags if they differ from the defaults. For example:
//
//   gradients F32, the stack megatron
//     ->  "--grad-dtype F32", "--stack megatron"
#include "cost/settings.h"

#include <charconv>

#include "cost/rates.h"
#include "model/model_description.h"

namespace shardc::cost {

Settings WithLossOf(const RuleSet& rules, Settings settings) {
  if (rules.model == nullptr) return settings;
  const DescribedText* const kind = rules.model->Setting("loss.kind");
  if (kind != nullptr && settings.loss == LossKind::kStack) {
    settings.loss = LossNamed(kind->text).value_or(settings.loss);
  }
  const DescribedText* const chunk = rules.model->Setting("loss.chunk");
  if (chunk != nullptr && !settings.loss_chunk) {
    int64_t tokens = 0;
    const std::string& text = chunk->text;
    std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (tokens > 0) settings.loss_chunk = tokens;
  }
  return settings;
}

std::vector<std::string> FlagsOfChanges(const Settings& settings, bool train) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view flag, std::string_view value) {
    out.push_back(std::string(flag) + " " + std::string(value));
  };
  const Settings usual;
  const auto& first = settings.first_moment;
  const auto& second = settings.second_moment;
  if (train) {
    if (settings.reduction != usual.reduction) {
      const bool once = settings.reduction == step::Reduction::kOnce;
      add("--reduce", once ? "once" : "each");
    }
    if (settings.master_given) {
      add("--master-dtype",
          settings.master ? DtypeName(*settings.master) : "none");
    }
    if (first && second) {
      add("--moments-dtype", std::string(DtypeName(*first)) + "," +
                                 std::string(DtypeName(*second)));
    }
    if (settings.gradients) {
      add("--grad-dtype", DtypeName(*settings.gradients));
    }
    if (settings.offloads_optimizer) out.emplace_back("--offload-optimizer");
  } else if (settings.cache != usual.cache) {
    add("--kv-dtype", DtypeName(settings.cache));
  }
  if (settings.activations != usual.activations) {
    add("--dtype", DtypeName(settings.activations));
  }
  if (settings.logits != usual.logits) {
    add("--logits-dtype", DtypeName(settings.logits));
  }
  if (settings.operation != nullptr) {
    add("--operation", settings.operation->name);
  }
  if (!train) return out;
  if (settings.matmuls) {
    add("--matmul-dtype",
        settings.scaling == Scaling::kTensor
            ? DtypeName(*settings.matmuls)
            : kScalingNames[static_cast<size_t>(settings.scaling)]);
  }
  if (settings.stack != nullptr) add("--stack", settings.stack->name);
  if (settings.loss != LossKind::kStack) {
    add("--loss", kLossNames[static_cast<size_t>(settings.loss) - 1]);
  }
  if (settings.loss_chunk) {
    add("--loss-chunk", std::to_string(*settings.loss_chunk));
  }
  if (settings.overlap_tensor) out.emplace_back("--overlap-tp");
  if (settings.dispatcher) {
    add("--dispatcher",
        kDispatcherNames[static_cast<size_t>(*settings.dispatcher)]);
  }
  if (settings.graphs) {
    add("--graphs", kGraphsNames[static_cast<size_t>(*settings.graphs)]);
  }
  if (settings.overlap_experts) out.emplace_back("--ep-overlap");
  if (settings.routing != usual.routing) {
    add("--routing", kRoutingNames[static_cast<size_t>(settings.routing)]);
  }
  if (settings.capacity_factor) {
    char text[40];
    const auto end =
        std::to_chars(text, text + sizeof text, *settings.capacity_factor);
    add("--capacity-factor", std::string_view(text, end.ptr));
  }
  return out;
}

}  // namespace shardc::cost
