// Reads the settings of a description's model section. The value of a setting
// is a name from a list, a number or a condition. Each may be an expression
// over the keys of the config.json. For example:
//
//   activation: hidden_act, with "hidden_act": "silu"  ->  the function silu
//   router: {renormalise: norm_topk_prob}              ->  the value of the key
#include "step/settings.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace shardc::step {
namespace {

// The name of an activation in configurations, and the function that computes
// it.
struct ActivationName {
  std::string_view name, fn;
};
constexpr std::array<ActivationName, 11> kActivations = {{
    {"silu", "silu"},
    {"swish", "silu"},
    {"gelu", "gelu"},
    {"gelu_new", "gelu_tanh"},
    {"gelu_fast", "gelu_tanh"},
    {"gelu_tanh", "gelu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_python_tanh", "gelu_tanh"},
    {"relu", "relu"},
    {"relu2", "relu2"},
    {"quick_gelu", "swish"},
}};
constexpr double kQuickGelu = 1.702;

std::string Listed(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) {
    out += (out.empty() ? "`" : ", `") + std::string(word) + "`";
  }
  return out;
}

// Returns whether a step can compute the scaled frequencies. longrope is not
// supported: it divides the frequencies by a list with one number for each pair
// of elements of a head. A step may also run with smaller heads than the model
// has (reduced sizes), and the list would be too long for them.
// yarn and llama3 need the original context length.
bool HasScaledFrequencies(const RopeConfig& rope) {
  if (rope.scaling == "linear" || rope.scaling == "dynamic") return true;
  if (rope.original_length < 2) return false;
  return rope.scaling == "yarn" ||
         (rope.scaling == "llama3" &&
          rope.high_frequency_factor > rope.low_frequency_factor);
}

}  // namespace

std::optional<ModelSettings> SettingsReader::Read(Mode mode, AttentionView view,
                                                  CommonLabels& common,
                                                  LabelTable& labels) {
  ModelSettings out;
  out.norm.epsilon = Number("norm.epsilon").value_or(out.norm.epsilon);
  out.norm.plus_one = Holds("norm.plus_one", false);
  ReadActivation(out.activation);
  out.attention.sloped = Holds("slopes.when", false);
  out.attention.slopes_scaled = Holds("slopes.scaled", false);
  if (config_ != nullptr) {
    out.scale = config_->softmax_scale.value_or(0);
    out.attention.cap = config_->soft_cap.value_or(0);
  }
  out.causal = Holds("causal", true);
  if (!out.causal && mode == Mode::kDecode) {
    Refuse("causal",
           "a model whose queries see what is behind them does not decode");
  }
  if (description_.HasEncoder()) ReadEncoder(view, out);
  out.scale = Number("scale").value_or(out.scale);
  out.attention.cap = Number("soft_cap").value_or(out.attention.cap);
  if (const auto* top_k = description_.Setting("top_k")) {
    const auto chosen = formulas_.Integer(*top_k);
    if (!chosen) return std::nullopt;
    common.top_k = labels.New("top_k", "", *chosen);
    common.slot = labels.New("slot", "", 0);
    ReadExperts(out, common, labels);
  }
  ReadRope(out.rope);
  if (failed_) return std::nullopt;
  return out;
}

std::optional<LayerSettings> SettingsReader::ReadLayer(
    int32_t layer, const ModelSettings& model, CommonLabels& common,
    LabelTable& labels) {
  formulas_.SetLayer(layer);
  LayerSettings out;
  ReadWindow(out, common, labels);
  static constexpr std::array<std::string_view, 2> kPairs = {"halves",
                                                             "neighbours"};
  out.rotates = Holds("rope.when", true);
  out.rope = model.rope;
  if (Holds("rope.plain", false)) {
    out.rope.scaling.clear();
    out.rope.factor = 1;
    out.rope.amplitude = 0;
  }
  out.rope.base = Number("rope.base").value_or(out.rope.base);
  out.rope.rotary_fraction = Number("rope.turned").value_or(1);
  out.rope.interleaved =
      WordOf("rope.pairs", kPairs).value_or("halves") == "neighbours";
  if (failed_) return std::nullopt;
  return out;
}

std::optional<double> SettingsReader::Number(std::string_view key) {
  const DescribedText* const text = description_.Setting(key);
  return text == nullptr ? std::nullopt : formulas_.Real(*text);
}

bool SettingsReader::Holds(std::string_view key, bool otherwise) {
  const DescribedText* const text = description_.Setting(key);
  return text == nullptr ? otherwise : formulas_.Condition(*text);
}

std::optional<double> SettingsReader::Constant(const std::string& word) {
  const std::string constant = "constants." + word;
  if (description_.Setting(constant) != nullptr) return Number(constant);
  return formulas_.Key(word);
}

// Returns the name that a setting selects, such as "silu". If the setting is
// one of the choices, returns it unchanged. Otherwise evaluates the setting as
// an expression. Returns nullopt if there is no such setting, if the value is
// null, or if an error was reported.
std::optional<std::string> SettingsReader::WordOf(
    std::string_view key, std::span<const std::string_view> choices) {
  const DescribedText* const text = description_.Setting(key);
  if (text == nullptr) return std::nullopt;
  const auto is_known = [&](const std::string& word) {
    return std::find(choices.begin(), choices.end(), word) != choices.end();
  };
  const auto word = is_known(text->text) ? text->text : formulas_.Word(*text);
  if (!word || is_known(*word)) return word;
  findings_.Add(
      code::kUnknownName, text->place,
      "`" + std::string(key) + "` is `" + *word + "`, which is not known",
      "write " + Listed(choices));
  failed_ = true;
  return std::nullopt;
}

void SettingsReader::Refuse(std::string_view key, const std::string& message) {
  findings_.Add(code::kSchema, description_.Setting(key)->place, message);
  failed_ = true;
}

void SettingsReader::ReadActivation(Activation& activation) {
  std::vector<std::string_view> names = {"clamped"};
  for (const ActivationName& at : kActivations) names.push_back(at.name);
  const auto word = WordOf("activation", names);
  if (!word) return;
  activation.clamped = *word == "clamped";
  for (const ActivationName& at : kActivations) {
    if (at.name == *word) activation.fn = at.fn;
  }
  activation.limit = formulas_.Key("swiglu_limit").value_or(7);
  activation.alpha = kQuickGelu;
}

void SettingsReader::ReadExperts(ModelSettings& out, CommonLabels& common,
                                 LabelTable& labels) {
  ReadRouter(out.router, common, labels);
  if (const auto* text = description_.Setting("router.correction")) {
    out.correction = text->text;
  }
  out.router_losses = {.balance = Number("router.balance").value_or(0),
                       .z = Number("router.z_loss").value_or(0)};
  out.capacity = Number("router.capacity").value_or(0);
}

void SettingsReader::ReadRouter(RouterSettings& router,
                                const CommonLabels& common,
                                LabelTable& labels) {
  using Score = RouterSettings::Score;
  static constexpr std::array<std::string_view, 4> kScores = {
      "softmax", "sigmoid", "softmax_after_topk", "sparse_mixer"};
  static constexpr std::array<Score, 4> kValues = {
      Score::kSoftmax, Score::kSigmoid, Score::kSoftmaxAfterTopK,
      Score::kSparseMixer};
  const auto score = WordOf("router.score", kScores);
  for (size_t i = 0; score && i < kScores.size(); ++i) {
    if (kScores[i] == *score) router.score = kValues[i];
  }
  router.renormalise = Holds("router.renormalise", false);
  router.scale = Number("router.scale").value_or(1);
  router.before = Holds("router.before", false);
  const double power = Number("router.power").value_or(0);
  if (power == 0 || power == 1 || power == 2) {
    router.power = static_cast<int>(power);
  } else {
    Refuse("router.power", "weights are divided by a norm of power 1 or 2");
  }
  if (router.score == Score::kSparseMixer) {
    constexpr int64_t kChosen = 2;
    if (labels.SizeOf(common.top_k) != kChosen) {
      Refuse("top_k", "`sparse_mixer` chooses two experts");
    }
    router.jitter = Number("router.jitter").value_or(router.jitter);
    router.first = labels.New("first", "", 1);
  }
  ReadGroups(router, labels);
}

void SettingsReader::ReadGroups(RouterSettings& router, LabelTable& labels) {
  const auto groups = Number("router.groups");
  if (!groups || *groups <= 1) return;
  router.groups = labels.New("groups", "", static_cast<int64_t>(*groups));
  const auto chosen = Number("router.top_groups").value_or(*groups);
  router.chosen_groups =
      labels.New("top_groups", "", static_cast<int64_t>(chosen));
  static constexpr std::array<std::string_view, 2> kGroupScores = {"max",
                                                                   "top2"};
  router.group_by_two =
      WordOf("router.group_score", kGroupScores).value_or("top2") == "top2";
}

void SettingsReader::ReadEncoder(AttentionView view, ModelSettings& out) {
  out.encoder_length =
      static_cast<int64_t>(Number("encoder.length").value_or(0));
  if (view == AttentionView::kGlobal) return;
  findings_.Add(code::kSchema, description_.stacks[kEncoderStack].repeat.place,
                "a model with an encoder runs attention as described");
  failed_ = true;
}

void SettingsReader::ReadRope(Rope& rope) const {
  if (config_ == nullptr || !config_->rope) return;
  const RopeConfig& from = *config_->rope;
  rope.base = from.base;
  if (HasScaledFrequencies(from)) rope.scaling = from.scaling;
  rope.factor = from.factor;
  rope.original_length = from.original_length;
  rope.beta_fast = from.beta_fast;
  rope.beta_slow = from.beta_slow;
  rope.truncate = from.truncate;
  rope.low_frequency_factor = from.low_frequency_factor;
  rope.high_frequency_factor = from.high_frequency_factor;
  rope.amplitude = from.attention_factor.value_or(0);
}

void SettingsReader::ReadWindow(LayerSettings& out, CommonLabels& common,
                                LabelTable& labels) {
  const auto window = Number("window");
  out.windowed = window.has_value() && *window > 0;
  if (!out.windowed) return;
  const auto tokens = static_cast<int64_t>(*window);
  if (common.window == kNoLabel) {
    common.window = labels.New("window", "", tokens);
  }
  out.chunked = Holds("chunks", false);
  if (labels.SizeOf(common.window) != tokens) {
    Refuse("window", "the windows of layers differ in size");
  }
}

}  // namespace shardc::step
