// Lists the matmuls of a plan, with their sizes on a device. Each
// weight has one matmul. An output head that shares the embedding table has a
// matmul too. The matmuls inside attention have no weight, and are not in the
// list: AttentionFlops computes their floating-point operations.
//
// For example, the weight `up` [4096, 14336] is in 32 layers, and its dimension
// 14336 is sharded over tp=8. With 16,384 tokens on a device, its entry is:
//
//   rows 16,384, in 4,096, out 1,792, layers 32
#include "cost/matmuls.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "cost/activations.h"
#include "cost/memory.h"
#include "cost/unknown_roles.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// Returns the quotient of a size and of the largest shard's size, or `parts` if
// the size is 0. It is `parts` if they divide the size, and less for uneven
// shards: 18 experts over 32 devices are one expert on each of 18 devices.
double PartsOnFullest(int64_t size, int64_t parts) {
  return size == 0 ? Real(parts) : Real(size) / Real(ShareOf(size, parts));
}

// Sets the rows and the matrices of an expert's matmul. Devices along an axis
// that shards the experts hold different experts. Each therefore computes only
// a part of the rows, unless the axis also shards the tokens: then its devices
// have different rows already, and the rows are not divided again.
void UseExperts(const CostInputs& work, const ParamClass& param,
                Matmul& matmul) {
  matmul.rows *=
      Real(work.model ? work.model->experts_per_token.value_or(1) : 1);
  // The parts into which experts are divided, and those over which their tokens
  // are sent.
  double owners = 1, receivers = 1;
  const AxisGroup split = work.TokenAxes();
  const auto divide = [&](const AxisGroup& axes, int64_t size) {
    owners *= PartsOnFullest(size, work.Parts(axes));
    AxisGroup sent = axes;
    std::erase_if(sent, [&](const std::string& axis) {
      return std::find(split.begin(), split.end(), axis) != split.end();
    });
    receivers *= PartsOnFullest(size, work.Parts(sent));
  };
  for (int d = 0; d + 2 < param.Rank(); ++d) {
    divide(work.KeptAt(param, d), param.SizeAt(d));
  }
  if (!param.placed_along.empty()) divide({param.placed_along}, 0);
  matmul.matrices = std::max(
      1.0, Real(param.Matrices()) / std::max(matmul.layers, 1.0) / owners);
  matmul.rows /= receivers;
}

double ShareAt(const CostInputs& work, const ParamClass& param, int dim) {
  return Real(
      ShareOf(param.SizeAt(dim), work.Parts(work.Kept(param.AxesAt(dim)))));
}

// Returns the number of parts into which the sharding of the hidden state
// divides a matmul. Over an axis that shards the hidden state but not the
// weight, a device multiplies only its own part of the hidden state, and the
// results are summed. The number is the product of the sizes of these axes. It
// is 1 for matmuls of experts and for matmuls that do not read the hidden
// state.
double HiddenParts(const CostInputs& work, const ParamClass& param) {
  const Role role = param.role.module_role;
  const bool reads = TakesWidth(role) || role == Role::kEmbedding ||
                     role == Role::kLatentDown || role == Role::kFusedKeyValue;
  if (param.role.expert || !reads) return 1;
  AxisGroup axes = work.hidden;
  for (const AxisGroup& own : param.spec) {
    std::erase_if(axes, [&](const std::string& axis) {
      return std::find(own.begin(), own.end(), axis) != own.end();
    });
  }
  return Real(work.Parts(axes));
}

// Returns the product of a convolution before the layers of an audio encoder,
// such as Whisper's. The convolution's weight is [out, in, window]. Returns
// nullopt for other parameters. Two frames of audio become one token. The first
// convolution has a result for each frame. The last one, whose input has the
// hidden size, has a result for each token.
std::optional<Matmul> ConvolutionOf(const CostInputs& work,
                                    const ParamClass& param,
                                    const Tokens& tokens) {
  if (!IsEncoderConvolution(param)) return std::nullopt;
  const auto hidden = work.Hidden();
  if (!hidden || param.SizeAt(0) != *hidden) return std::nullopt;
  const double frames = param.SizeAt(1) == *hidden ? 1 : 2;
  return Matmul{.role = Role::kConvolution,
                .rows = frames * Real(tokens.Of(param.stream)),
                .in = ShareAt(work, param, 1) * Real(param.SizeAt(2)),
                .out = ShareAt(work, param, 0),
                .layers = Real(param.count)};
}

}  // namespace

std::vector<Matmul> MatmulsOf(const CostInputs& work, const Tokens& tokens) {
  LayerCounts layers(work);
  std::vector<Matmul> out;
  const double all = Real(tokens.All());
  // Serving computes the logits of a sequence's last token only.
  const double ends = work.mode == Mode::kTrain ? all : Real(tokens.rows);
  for (const ParamClass& param : work.params) {
    if (const auto convolution = ConvolutionOf(work, param, tokens)) {
      out.push_back(*convolution);
    }
    if (!param.IsWeight()) continue;
    Matmul one;
    one.role = param.role.module_role;
    one.expert = param.role.expert;
    one.frozen = param.frozen;
    one.shared_expert = param.role.shared_expert;
    one.rows = !one.expert && one.role == Role::kHead
                   ? ends
                   : Real(tokens.Of(param.stream));
    if (one.rows == 0) continue;
    const int64_t parts = work.Parts(work.Kept(param.AxesAt(param.in_dim)));
    one.in = Real(param.Inputs()) /
             PartsOnFullest(param.SizeAt(param.in_dim), parts) /
             HiddenParts(work, param);
    one.out = ShareAt(work, param, param.out_dim);
    one.layers = Real(layers.Of(param));
    // A layer that predicts a further token has experts and a head.
    if (!one.OfDenseMlp()) one.layers += Real(work.next_token_layers);
    if (one.expert) UseExperts(work, param, one);
    out.push_back(one);
  }
  const ParamClass* table = work.Find(Role::kEmbedding);
  if (work.Find(Role::kHead) == nullptr && table != nullptr &&
      table->type.shape->size() == 2 && !IsEncoderAlone(work)) {
    out.push_back({.role = Role::kHead,
                   .frozen = table->frozen,
                   .rows = ends,
                   .in = ShareAt(work, *table, 1) / HiddenParts(work, *table),
                   .out = ShareAt(work, *table, 0),
                   .layers = 1 + Real(work.next_token_layers)});
  }
  return out;
}

namespace {

// Returns the number of layers whose attention computes its keys from the
// tokens of `stream`, for example from those of the encoder. These are the
// layers with a projection of keys that is applied to these tokens.
double AttentionLayers(const CostInputs& work, Stream stream) {
  LayerCounts layers(work);
  double out = 0;
  for (const ParamClass& param : work.params) {
    const Role role = param.role.module_role;
    const bool keys = role == Role::kKey || role == Role::kFusedKeyValue ||
                      role == Role::kFusedQkv;
    if (param.IsWeight() && param.stream == stream && keys) {
      out += Real(layers.Of(param));
    }
  }
  return out;
}

}  // namespace

int64_t HeadParts(const CostInputs& work) {
  if (!work.model || !work.model->heads) return work.Parts(work.query[2]);
  int64_t parts = 1;
  for (const std::string& axis : work.query[2]) {
    const int64_t all = Times(parts, work.mesh.SizeOf(axis));
    if (*work.model->heads % all != 0) break;
    parts = all;
  }
  return parts;
}

double AttentionFlops(const CostInputs& work, const Tokens& tokens) {
  const auto& model = work.model;
  if (!model || !model->heads || !model->head_dim || !model->layers) return 0;
  const double layers =
      work.LayersWithAttention().value_or(Real(*model->layers)) +
      Real(work.next_token_layers);
  const auto limit =
      model->sliding_window ? model->sliding_window : model->attention_chunk;
  const double windowed = limit ? work.LayersWithWindow() : 0;
  const double heads = Real(*model->heads) / Real(HeadParts(work));
  // With causal attention, a query attends to half of the keys on average, or
  // to half of its chunk. With a sliding window, the first queries attend to
  // fewer keys than the window: with 64 tokens and a window of 16, a query
  // attends to 14 keys on average.
  const bool sees_all =
      IsGeneration(work.mode) || !model->causal || !work.causal;
  const double seen = sees_all ? 1 : 0.5;
  const double keys = Real(tokens.keys);
  double window = std::min(keys, Real(limit.value_or(tokens.keys)));
  if (!sees_all) {
    window *=
        model->sliding_window ? 1 - window / (2 * std::max(keys, 1.0)) : 0.5;
  }
  // With latent attention, and in MiMo-V2, a head's values are narrower than
  // its keys.
  const int64_t key = *model->head_dim;
  const auto narrow =
      model->latent_value_dim ? model->latent_value_dim : model->value_dim;
  const double width = Real(key) + Real(narrow.value_or(key));
  const int64_t windowed_key = model->windowed_head_dim.value_or(key);
  const int64_t windowed_value =
      model->windowed_value_dim.value_or(narrow.value_or(windowed_key));
  // `width` is the size of a head's key plus that of its value. Some layers
  // with full attention, or with a window, have heads of another size, and
  // layers with a window may also have another number of heads. Their
  // operations are multiplied by `full_width` or `windowed_width`.
  const double full_width =
      Real(model->full_head_dim.value_or(key)) / Real(key);
  const double windowed_width =
      (Real(windowed_key) + Real(windowed_value)) / width *
      Real(model->windowed_heads.value_or(*model->heads)) / Real(*model->heads);
  const double all = IsEncoderAlone(work)
                         ? 0
                         : (layers - windowed) * keys * seen * full_width +
                               windowed * window * windowed_width;
  // The tokens of an encoder, and cross-attention, attend to all keys of the
  // encoder.
  const double encoder_keys = Real(tokens.encoder_keys);
  const double crossed = AttentionLayers(work, Stream::kCrossed) * encoder_keys;
  const double encoder = AttentionLayers(work, Stream::kEncoder) * encoder_keys;
  double parts = 1;
  if (IsGeneration(work.mode)) parts = Real(work.Parts(work.key[1]));
  const double pairs = Real(tokens.All()) * (all + crossed) / parts +
                       Real(tokens.Of(Stream::kEncoder)) * encoder;
  return 2 * heads * width * pairs;
}

// Computes the bytes of memory that a step reads and writes. Serving reads
// weights and cache once. Training reads the parameters once. It reads the
// gradients and the optimizer's states once and writes them once.
//
// A serving step reads only the experts that its tokens choose. If each of T
// tokens chooses k of E experts, and all experts are chosen equally often, no
// token chooses an expert with the probability (1 - k/E)^T. For example, in
// DeepSeek-V3 a token chooses 8 of 256 experts:
//
//     1 token      8 experts of a layer are read
//    16 tokens    102
//   256 tokens    256

int64_t SendersTo(const CostInputs& work, const ParamClass& experts) {
  AxisGroup axes;
  const auto add = [&](const AxisGroup& owners) {
    const AxisGroup tokens = work.TokenAxes();
    for (const std::string& axis : owners) {
      const bool sends =
          std::find(tokens.begin(), tokens.end(), axis) != tokens.end();
      const bool fresh =
          std::find(axes.begin(), axes.end(), axis) == axes.end();
      if (sends && fresh) axes.push_back(axis);
    }
  };
  for (int d = 0; d < std::ssize(experts.spec); ++d) {
    if (experts.MayCountExperts(d)) add(work.KeptAt(experts, d));
  }
  if (!experts.placed_along.empty()) add({experts.placed_along});
  return work.Parts(axes);
}

namespace {

// Returns the bytes of parameters on the device that reads the most.
double ParametersRead(const CostInputs& work, const Settings& settings,
                      double chosen) {
  HeldBytes experts, others;
  for (const ParamClass& param : work.params) {
    Hold(param, StatesOf(work, param, settings).parameter,
         param.role.expert ? experts : others);
  }
  return Real(others.Fullest().value_or(0)) +
         chosen * Real(experts.Fullest().value_or(0));
}

}  // namespace

std::optional<double> ChosenExperts(const CostInputs& work,
                                    const Settings& settings) {
  const ParamClass* const experts = work.Find(Role::kDown, true);
  const auto tokens = TokensOf(work, settings);
  if (work.mode == Mode::kTrain || experts == nullptr || !tokens ||
      !work.model || !work.model->experts_per_token) {
    return std::nullopt;
  }
  const double all = Real(work.Experts());
  const double share = Real(*work.model->experts_per_token) / all;
  if (!(share < 1)) return 1;
  const double sent = Real(tokens->All()) * Real(SendersTo(work, *experts));
  // 1 - (1 - share)^sent, without a loss of digits if the share is small.
  return -std::expm1(sent * std::log1p(-share));
}

double MemoryTrafficOf(const CostInputs& work, const Settings& settings,
                       const Memory& memory) {
  const auto of = [&](Component component) {
    return Real(memory.most.Of(component).value_or(0));
  };
  double parameters = of(Component::kParameters);
  if (const auto chosen = ChosenExperts(work, settings)) {
    parameters = std::min(parameters, ParametersRead(work, settings, *chosen));
  }
  double out = parameters + of(Component::kCache);
  if (work.mode == Mode::kTrain) {
    out +=
        2 * Real(memory.gradients.value_or(0)) + 2 * of(Component::kOptimizer);
  }
  return out;
}

}  // namespace shardc::cost
