// Computes the times of the parts of a step that only models with experts have.
//
// A device routes Tr tokens, of which each chooses k of E experts, so that its
// experts compute r = Tr k rows if the routing is balanced. For example, Qwen3
// 235B with 4,096 tokens on two tensor-parallel H100s (k = 8, width 4,096,
// experts of width 1,536, whole-step graphs for attention and the router):
//
//   rows       16,384
//   products   2 * 16,384 * 4,096 * 3,072 FLOP at 0.87 * 0.71 of 989 TFLOP/s,
//              and half of it again for `down`: 1.03 ms
//   routing    2 (5 r d + 3 r f) bytes at 0.7 of 3.35 TB/s, the router, and 14
//              kernels: 0.47 ms
//
// An all-to-all over e devices on N hosts sends b k (N - 1) / N bytes between
// hosts if each copy of a token is sent, and b (N - 1) (1 - (1 - 1 / N)^k) if a
// token is sent once to each host, where b are the bytes of the tokens.
//
// Sources of the forms and numbers: published operator tables of DeepEP
// (deepseek-ai/DeepEP, README), published runs of Megatron-Bridge, NeMo and
// Megatron-Core's model zoo, listed in testdata/published/moe.csv.
#include "cost/experts.h"

#include <algorithm>
#include <cmath>

#include "comm/collective_def.h"
#include "source/json.h"

namespace shardc::cost {
namespace {

// The kernels of the router and of both permutations in the forward pass.
constexpr double kRoutingKernels = 14;
// The fraction of the bfloat16 peak rate that the product of the router
// reaches, and the bytes that choosing the experts reads and writes for each
// score.
constexpr double kRouterShare = 0.3, kChoiceBytes = 24;
// The elements that the activation function reads and writes for each element
// of its result.
constexpr double kActivationPasses = 3;

std::optional<int64_t> NumberOf(const JsonDocument& config,
                                std::string_view key) {
  const auto text = config.root().Find("text_config");
  const JsonValue root = text && text->IsObject() ? *text : config.root();
  const auto found = root.Find(key);
  if (!found || found->kind() != JsonKind::kInteger) return std::nullopt;
  return found->integer();
}

std::unique_ptr<const JsonDocument> ConfigOf(
    const std::optional<ModelConfig>& model) {
  if (!model || model->source == nullptr) return nullptr;
  Findings unreported;  // the configuration was read before
  return JsonDocument::Parse(model->source, unreported);
}

const ParamClass* ExpertsOf(const CostInputs& work) {
  return work.Find(Role::kDown, true);
}

}  // namespace

AxisGroup ExpertAxes(const CostInputs& work, const ParamClass& param) {
  AxisGroup out;
  const auto add = [&](const std::string& axis) {
    if (std::find(out.begin(), out.end(), axis) == out.end()) {
      out.push_back(axis);
    }
  };
  const int rank = static_cast<int>(param.type.shape->size());
  for (int d = 0; d < rank; ++d) {
    if (!param.MayCountExperts(d)) continue;
    for (const std::string& axis : DropTrivial(work.mesh, param.AxesAt(d))) {
      add(axis);
    }
  }
  if (work.expert_axes) {
    std::erase_if(out, [&](const std::string& axis) {
      return std::find(work.expert_axes->begin(), work.expert_axes->end(),
                       axis) == work.expert_axes->end();
    });
  }
  if (!param.placed_along.empty()) out.push_back(param.placed_along);
  return out;
}

int64_t NextTokenLayers(const std::vector<ParamClass>& params,
                        const std::optional<ModelConfig>& model) {
  if (!model || !model->experts) return 0;
  const bool present =
      std::any_of(params.begin(), params.end(), [](const ParamClass& param) {
        return param.name.find("eh_proj") != std::string::npos;
      });
  if (present) return 0;
  const auto config = ConfigOf(model);
  if (config == nullptr) return 0;
  return std::clamp<int64_t>(
      NumberOf(*config, "num_nextn_predict_layers").value_or(0), 0, 8);
}

ExpertLayers::ExpertLayers(const CostInputs& work, const Settings& settings,
                           const Stack& stack,
                           const std::vector<Product>& products, double layers)
    : settings_(settings),
      dispatcher_(settings.dispatcher.value_or(stack.dispatcher)),
      network_(NetworkOf(*settings.profile, work.WholeMesh())) {
  const ParamClass* const experts = ExpertsOf(work);
  if (experts == nullptr) return;
  for (const Product& one : products) {
    if (!one.expert || one.role != Role::kDown) continue;
    layers_ += one.layers;
    rows_ = one.rows;
    inner_ = one.in;
    width_ = one.out;
  }
  if (layers_ == 0) return;
  dense_layers_ = std::max(0.0, layers - layers_);
  chosen_ = Real(work.model ? work.model->experts_per_token.value_or(1) : 1);
  tokens_ = rows_ / chosen_;
  width_ = Real(work.Hidden().value_or(0));
  rows_ *= settings.capacity_factor.value_or(1);
  experts_ = Real(work.Experts());
  const AxisGroup axes = ExpertAxes(work, *experts);
  const AxisGroup split = work.TokenAxes();
  const bool sends =
      std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
        return std::find(split.begin(), split.end(), axis) != split.end();
      });
  // The rates of dispatchers were measured in switched networks.
  if (sends && !IsTorus(network_.fabric)) {
    axes_ = axes;
    place_ = PlaceOf(work.WholeMesh(), network_, DropTrivial(work.mesh, axes));
  }
  if (place_.domains > 1) {
    const auto config = ConfigOf(work.model);
    if (config != nullptr) {
      const int64_t groups = NumberOf(*config, "n_group").value_or(1);
      const int64_t chosen = NumberOf(*config, "topk_group").value_or(groups);
      if (chosen < groups) most_hosts_ = Real(chosen);
    }
  }
}

bool ExpertLayers::IsDispatch(const Transfer& one) const {
  return one.part == "experts" && !axes_.empty() &&
         std::all_of(one.axes.begin(), one.axes.end(),
                     [&](const std::string& axis) {
                       return std::find(axes_.begin(), axes_.end(), axis) !=
                              axes_.end();
                     });
}

double ExpertLayers::OfProduct(const Product& one, const Rates& rates) const {
  const double rows = one.rows * settings_.capacity_factor.value_or(1);
  const double rate = rates.layers * inner_ / (inner_ + rates.expert_half);
  const double bytes =
      2 * (rows * one.in + rows * one.out + one.in * one.out * one.matrices);
  return rates.skew *
             std::max(2 * rows * one.in * one.out / rate,
                      bytes / rates.product_bytes) /
             rates.experts +
         rates.launch;
}

double ExpertLayers::Activation(const Rates& rates) const {
  return rates.skew * 2 * kActivationPasses * rows_ * inner_ /
         (rates.experts * rates.product_bytes);
}

double ExpertLayers::Routing(const Rates& rates) const {
  if (!Any()) return 0;
  double elements = rates.permutation_passes * rows_ * width_;
  // The operands of products in 8 bits are cast.
  if (RunsInFp8(settings_)) elements += rows_ * (width_ + inner_);
  const double seconds =
      rates.skew * 2 * elements / rates.product_bytes +
      2 * tokens_ * width_ * experts_ / (kRouterShare * rates.peak) +
      kChoiceBytes * tokens_ * experts_ / rates.product_bytes +
      kRoutingKernels * rates.launch;
  return seconds / rates.experts + Activation(rates);
}

double ExpertLayers::AllToAll(const Rates& rates) const {
  if (axes_.empty() || place_.members <= 1) return 0;
  const double devices = Real(place_.members), near = Real(place_.near),
               hosts = Real(place_.domains);
  const double link = NearRate(network_, place_);
  const double net = network_.leaving / Real(network_.inside);
  const double bytes =
      tokens_ * width_ * Real(DtypeBits(settings_.activations)) / 8;
  const double inside = bytes * (near - 1) / near / link;
  const double outside = bytes / net;
  const double copies =
      std::max(inside * chosen_ / rates.copies_near,
               outside * chosen_ * (hosts - 1) / hosts / rates.copies_far);
  double seconds = copies;
  if (dispatcher_ != Dispatcher::kAllToAll) {
    const double reached = devices * (1 - std::pow(1 - 1 / devices, chosen_));
    double sent = (hosts - 1) * (1 - std::pow(1 - 1 / hosts, chosen_));
    if (most_hosts_ > 0) {
      sent = std::min(sent, std::min(most_hosts_, hosts) * (hosts - 1) / hosts);
    }
    // Software that sends tokens once can also send copies.
    seconds = std::min(seconds, std::max(inside * reached / rates.tokens_near,
                                         outside * sent / rates.tokens_far));
  }
  return (seconds + rates.dispatch_start + 2 * rates.latency) / rates.experts;
}

double ExpertLayers::HostOfLayer(const Rates& rates) const {
  return Any() ? rates.host / rates.experts : 0;
}

double ExpertLayers::Host(const Rates& rates) const {
  return HostOfLayer(rates) * (layers_ + rates.dense_host * dense_layers_);
}

}  // namespace shardc::cost
