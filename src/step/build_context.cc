// Writes the lines of a `model:` section as ops: the settings of each line are
// read first, then its operands, then the ops that the line stands for are
// appended to the graph.
#include "step/build_context.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/list.h"
#include "source/size.h"
#include "step/op_def.h"

namespace shardc::step {

ValueId BuildContext::Value(const Line& line, size_t i) const {
  if (i >= line.arguments.size()) return kNoValue;
  return variables[AsIndex(line.arguments[i].variables[0])];
}

ValueId BuildContext::RoleValue(const Line& line, size_t i) {
  if (i >= line.arguments.size()) return kNoValue;
  return parameters->Of(line.arguments[i].role, layer);
}

ValueId BuildContext::BiasOf(const Line& line, size_t i) {
  if (i >= line.arguments.size()) return kNoValue;
  return parameters->BiasOf(line.arguments[i].role, layer);
}

std::optional<double> BuildContext::Constant(const LineArgument& by) {
  return by.word.empty() ? by.number : reader->Constant(by.word);
}

void BuildContext::Fail(const Line& line, const std::string& message) {
  findings.Add(code::kSchema, line.described->place, message);
  failed = true;
}

// Reads the settings of a description's model section. The value of a setting
// is a name from a list, a number or a condition. Each may be an expression
// over the keys of the config.json. For example:
//
//   activation: hidden_act, with "hidden_act": "silu"  ->  the function silu
//   router: {renormalise: norm_topk_prob}              ->  the value of the key

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
    return IsAmong(word, choices);
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

// Translates lines of a model's description into ops of the step's program,
// with one function for each function that a line can call. Below are those for
// rotary embeddings, attention and experts. If the dimensions of the operands
// do not match, an error at the line is reported. The second of these lines is
// an error:
//
//   q = linear(y, q)   y [b, t, d], weight [(n h), d]  ->  [b, t, n, h]
//   q = linear(y, q)   y [b, t, d], weight [v, e]      ->  no common dimension

namespace {

// Returns whether a value and a weight have a dimension in common. A dimension
// of the weight is also common if the value has all of its factors.
bool Shares(BuildContext& c, ValueId x, ValueId weight) {
  for (const LabelId label : c.write.LabelsOf(weight)) {
    if (c.write.Has(x, label)) return true;
    const auto& factors = c.labels[label].factors;
    const bool all = !factors.empty() &&
                     std::all_of(factors.begin(), factors.end(),
                                 [&](LabelId f) { return c.write.Has(x, f); });
    if (all) return true;
  }
  return false;
}

// Returns the dimension that a line names, and the exponent to which its size
// is raised: 1/2, or the exponent that the line gives.
std::pair<LabelId, double> PowerOf(BuildContext& c, const Line& line) {
  const int32_t dim = line.arguments[1].dims[0];
  const bool given = line.arguments.size() > 2;
  return {c.labels.Dim(dim), given ? line.arguments[2].number : 0.5};
}

int64_t OffsetOf(BuildContext& c, const Line& line) {
  if (line.arguments.size() < 3) return 0;
  return static_cast<int64_t>(c.Constant(line.arguments[2]).value_or(0));
}
ValueId Rows(BuildContext& c, const Line& line, ValueId table) {
  if (c.write.LabelsOf(table).size() == 2) {
    return c.write.Lookup(table, c.Value(line, 1), OffsetOf(c, line));
  }
  c.Fail(line, "`" + line.name + "` needs a table of two dimensions");
  return kNoValue;
}

// Writes a convolution whose windows do not overlap (patches), as a
// matmul. The products are summed over all dimensions of the weight except one.
ValueId Patches(BuildContext& c, const Line& line) {
  const ValueId weight = c.RoleValue(line, 0);
  const LabelId left = c.labels.Dim(line.arguments[1].dims[0]);
  const CommonLabels& common = c.graph().common;
  if (!c.write.Has(weight, left)) {
    c.Fail(line, "`" + line.name + "` leaves a dimension that is not there");
    return kNoValue;
  }
  const LabelId tokens = c.stream().query;
  Labels labels = {common.batch, tokens};
  for (const LabelId label : c.write.LabelsOf(weight)) {
    if (label != left) labels.push_back(label);
  }
  const ValueId patches = c.streams.NewData(DataKind::kPatches, "patches",
                                            std::move(labels), false, "tokens");
  const ValueId y =
      c.write.Einsum(patches, weight, {c.graph().common.batch, tokens, left});
  const ValueId bias = c.BiasOf(line, 0);
  return bias == kNoValue ? y : c.write.Add({y, bias});
}

// Writes the input of an audio model, in which each token has several frames
// and each frame is a vector.
ValueId Frames(BuildContext& c, const Line& line) {
  const auto several = static_cast<int64_t>(line.arguments[1].number);
  if (several < 1 || c.frames != kNoLabel) {
    c.Fail(line, "a model has one input of frames, of one or more a token");
    return kNoValue;
  }
  c.frames = c.labels.New("frames", "", several);
  const LabelId all = c.labels.OfFactors({c.stream().query, c.frames});
  c.labels[all].semantic = "QUERY_LENGTH";
  const LabelId numbers = c.labels.Dim(line.arguments[0].dims[0]);
  return c.streams.NewData(DataKind::kPatches, "frames",
                           {c.graph().common.batch, all, numbers}, false,
                           "tokens");
}

// Returns the label (t frames) of an audio value, whose factors are the tokens
// and the frames of a token. Returns kNoLabel if the value has no such label.
LabelId TokensOf(BuildContext& c, ValueId x) {
  for (const LabelId label : c.write.LabelsOf(x)) {
    const auto& factors = c.labels[label].factors;
    if (!factors.empty() && factors[0] == c.stream().query) return label;
  }
  return kNoLabel;
}

ValueId Convolve(BuildContext& c, const Line& line, ValueId x) {
  const ValueId weight = c.RoleValue(line, 1);
  Convolution settings;
  settings.kernel = c.labels.Dim(line.arguments[2].dims[0]);
  settings.width = c.labels.SizeOf(settings.kernel);
  settings.tokens = c.stream().query;
  if (!c.write.Has(x, c.stream().query)) settings.tokens = TokensOf(c, x);
  const bool thins = line.arguments.size() > 3 && line.arguments[3].number != 1;
  if (thins) settings.frames = c.frames;
  const bool fits =
      !thins || (c.frames != kNoLabel && settings.tokens != c.stream().query &&
                 static_cast<double>(c.labels.SizeOf(c.frames)) ==
                     line.arguments[3].number);
  if (settings.tokens == kNoLabel || !fits || settings.width % 2 == 0 ||
      !c.write.Has(weight, settings.kernel) || !Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name +
                     "` needs tokens, an odd kernel, and as many frames a token"
                     " as it passes over");
    return kNoValue;
  }
  return Convolved(c.write, x, weight, c.BiasOf(line, 1), settings);
}
ValueId Norm(BuildContext& c, const Line& line, ValueId x) {
  const ValueId weight = c.RoleValue(line, 1);
  const LabelId label = weight == kNoValue ? c.write.LabelsOf(x).back()
                                           : c.write.LabelsOf(weight).back();
  if (weight != kNoValue && !Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name + "` norms a dimension that is not there");
    return kNoValue;
  }
  if (line.op == LineOp::kRmsNorm) {
    return RmsNorm(c.write, x, label, weight, c.settings.norm);
  }
  return LayerNorm(c.write, x, label, weight, c.BiasOf(line, 1),
                   c.settings.norm);
}

ValueId GatedBy(BuildContext& c, const Line& line, ValueId x,
                const Activation& activation) {
  const ValueId gate = CheckedLinear(c, line, x, 1);
  const ValueId up = CheckedLinear(c, line, x, 2);
  if (c.failed) return kNoValue;
  return Gated(c.write, gate, up, activation);
}

ValueId GatedFused(BuildContext& c, const Line& line, ValueId x) {
  const ValueId both = CheckedLinear(c, line, x, 1);
  if (c.failed) return kNoValue;
  const LabelId half = c.labels.Dim(line.arguments[2].dims[0]);
  if (!c.write.Has(both, half) || c.labels.SizeOf(half) != 2) {
    c.Fail(line, "`" + line.name + "` has no such halves");
    return kNoValue;
  }
  const ValueId gate = c.write.Index(both, half, 0);
  return Gated(c.write, gate, c.write.Index(both, half, 1),
               c.settings.activation);
}

ValueId ApplyFunction(BuildContext& c, const Line& line, ValueId x) {
  const std::string& fn = line.arguments[1].word;
  if (FindFunction(fn) == nullptr) {
    c.Fail(line, "there is no function `" + fn + "`");
    return kNoValue;
  }
  if (line.arguments.size() < 3) return c.write.Fn(fn, x);
  const auto by = c.Constant(line.arguments[2]);
  return by ? c.write.Fn(fn, x, *by) : x;
}

// Returns the elementwise product. The operand with fewer labels becomes the
// second one, because the second operand is broadcast.
ValueId Multiply(BuildContext& c, ValueId a, ValueId b) {
  const bool swap = c.write.LabelsOf(a).size() < c.write.LabelsOf(b).size();
  return swap ? c.write.Times(b, a) : c.write.Times(a, b);
}

// Scales, divides or caps x by the line's constant. Returns x unchanged if the
// configuration lacks the constant or if the constant is 0.
ValueId Times(BuildContext& c, const Line& line, ValueId x) {
  const auto number = c.Constant(line.arguments[1]);
  if (!number || *number == 0) return x;
  if (line.op == LineOp::kCap) return c.write.Fn("cap", x, *number);
  const double factor = line.op == LineOp::kScale ? *number : 1 / *number;
  return c.write.Scaled(x, {factor, {}});
}

std::vector<ValueId> Parts(BuildContext& c, const Line& line, ValueId x) {
  std::vector<LabelId> parts;
  for (const int32_t dim : line.arguments[1].dims) {
    parts.push_back(c.labels.Dim(dim));
  }
  const LabelId whole = c.labels.OfParts(parts);
  std::vector<ValueId> out;
  if (!c.write.Has(x, whole)) {
    c.Fail(line, "`" + line.name + "` has no such parts");
    return {};
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    out.push_back(c.write.Part(x, whole, i));
  }
  return out;
}

// Returns x with a dimension renamed to another dimension of the same size.
ValueId Renamed(BuildContext& c, const Line& line, ValueId x) {
  const LabelId from = c.labels.Dim(line.arguments[1].dims[0]);
  const LabelId to = c.labels.Dim(line.arguments[2].dims[0]);
  const bool same = c.labels.SizeOf(from) == c.labels.SizeOf(to);
  if (!same || !c.write.Has(x, from) || c.write.Has(x, to)) {
    c.Fail(line, "`" + line.name + "` needs a dimension and one of its size");
    return kNoValue;
  }
  return c.write.Rename(x, from, to);
}

}  // namespace

ValueId CheckedLinear(BuildContext& c, const Line& line, ValueId x,
                      size_t role) {
  const ValueId weight = c.RoleValue(line, role);
  const ValueId bias = c.BiasOf(line, role);
  if (!Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name + "` has nothing to contract");
    return kNoValue;
  }
  return Linear(c.write, x, weight, bias);
}

std::vector<ValueId> WriteLine(BuildContext& c, const Line& line) {
  const ValueId x =
      line.arguments[0].variables.empty() ? kNoValue : c.Value(line, 0);
  switch (line.op) {
    case LineOp::kLookup:
      return {c.write.Lookup(c.RoleValue(line, 0), c.Value(line, 1),
                             OffsetOf(c, line))};
    case LineOp::kRows:
      return {Rows(c, line, x)};
    case LineOp::kPatches:
      return {Patches(c, line)};
    case LineOp::kToken:
      return {c.write.Index(x, c.stream().query,
                            static_cast<int64_t>(line.arguments[1].number))};
    case LineOp::kFrames:
      return {Frames(c, line)};
    case LineOp::kConvolve:
      return {Convolve(c, line, x)};
    case LineOp::kLinear:
      return {CheckedLinear(c, line, x, 1)};
    case LineOp::kRmsNorm:
    case LineOp::kLayerNorm:
      return {Norm(c, line, x)};
    case LineOp::kGated:
      return {GatedBy(c, line, x, c.settings.activation)};
    case LineOp::kSwiglu:
      return {GatedBy(c, line, x, {.fn = "silu"})};
    case LineOp::kGeglu:
      return {GatedBy(c, line, x, {.fn = "gelu_tanh"})};
    case LineOp::kGatedFused:
      return {GatedFused(c, line, x)};
    case LineOp::kActivation:
      return {Activated(c.write, x, c.settings.activation)};
    case LineOp::kFunction:
      return {ApplyFunction(c, line, x)};
    case LineOp::kTake:
      return {c.RoleValue(line, 0)};
    case LineOp::kMultiply:
      return {Multiply(c, x, c.Value(line, 1))};
    case LineOp::kScale:
    case LineOp::kDivide:
    case LineOp::kCap:
      return {Times(c, line, x)};
    case LineOp::kRoot:
      return {c.write.Scaled(x, {1, {PowerOf(c, line)}})};
    case LineOp::kPart:
      return Parts(c, line, x);
    case LineOp::kIndex:
      return {c.write.Index(x, c.labels.Dim(line.arguments[1].dims[0]),
                            static_cast<int64_t>(line.arguments[2].number))};
    case LineOp::kRename:
      return {Renamed(c, line, x)};
    case LineOp::kRope:
      return {c.layer_settings.rotates ? WriteRope(c, x) : x};
    case LineOp::kAttention:
    case LineOp::kAttentionNear:
      return {WriteAttention(c, line)};
    case LineOp::kMoe:
    case LineOp::kMoeFused:
      return {WriteExperts(c, line, x)};
    case LineOp::kAdd:
      break;
  }
  return {};
}

// Writes the ops for lines of a description's model section that call a rotary
// embedding, attention or a mixture of experts. Queries, keys and values are
// results of earlier lines. In modes with a cache, keys and values are written
// to the cache and read from it. For example:
//
//   attention(q, k, v), decoding:
//     cache k = write(cache k before, k, positions)
//     attention over all rows of the cache

namespace {

// Creates the labels of ring attention and of copied KV heads, once for all
// layers.
void MakeOwnLabels(BuildContext& c, ValueId key) {
  if (c.made_own_labels) return;
  c.made_own_labels = true;
  if (c.form.view == AttentionView::kRing) {
    RingLabels ring;
    ring.turns = c.labels.New("turns", "", c.form.turns);
    ring.query_rows = c.labels.New("t/turns", "", 0);
    ring.queries = c.labels.OfFactors({ring.turns, ring.query_rows});
    ring.key_rows = c.labels.New("s/turns", "", 0);
    ring.keys = c.labels.OfFactors({ring.turns, ring.key_rows});
    c.graph().ring = ring;
  }
  const Labels& labels = c.write.LabelsOf(key);
  if (c.form.copies > 1 && labels.size() == 4) {
    const LabelId copies = c.labels.New("copies", "", c.form.copies);
    c.copied_heads = c.labels.OfFactors({labels[2], copies});
    c.labels[c.copied_heads].semantic = c.labels[labels[2]].semantic;
  }
}

int64_t RopeIndex(BuildContext& c, LabelId label) {
  Rope rope = c.layer_settings.rope;
  const int64_t size = c.labels.SizeOf(label);
  // A rotary fraction above 1 is not a fraction but the number of rotated
  // elements of a head.
  if (rope.rotary_fraction > 1) {
    rope.rotary_fraction /= static_cast<double>(std::max<int64_t>(size, 1));
  }
  const auto same = [&](const Rope& a) {
    return a.base == rope.base && a.scaling == rope.scaling &&
           a.rotary_fraction == rope.rotary_fraction &&
           a.interleaved == rope.interleaved;
  };
  auto& ropes = c.graph().ropes;
  const auto known = std::find_if(ropes.begin(), ropes.end(), same);
  const int64_t index = known - ropes.begin();
  if (known == ropes.end()) ropes.push_back(std::move(rope));
  return index;
}

// Returns the keys or values that attention reads. In the result, the label of
// keys replaces the label of queries. `seen` is the layer stack whose tokens
// attention reads: in cross-attention this is the encoder, and not the stack of
// the queries. Prefill writes keys and values to a cache, and decoding reads
// them from the cache. Self-attention that is not causal has no cache.
ValueId Remembered(BuildContext& c, ValueId x, size_t seen) {
  const CommonLabels common = c.graph().common;
  const Stream& of = c.streams[seen];
  const bool remembers = seen != c.stack || of.causal;
  if (c.mode == Mode::kTrain || !remembers) {
    return c.write.Rename(x, of.query, of.key);
  }
  if (c.mode != Mode::kDecode) {
    const ValueId kept = c.write.Rename(x, of.query, of.key);
    c.write.Producer(kept).constraint = "kcache";
    c.graph().caches.push_back({c.layer, kNoValue, kept});
    return kept;
  }
  Labels labels = c.write.LabelsOf(x);
  std::replace(labels.begin(), labels.end(), of.query, of.key);
  const ValueId before =
      c.streams.NewData(DataKind::kCache, "cache", labels, false, "kcache");
  // In cross-attention, prefill has written the encoder's keys and values to
  // the cache. Decoding reads them and does not change them.
  if (seen != c.stack) {
    c.graph().caches.push_back({c.layer, before, before});
    return before;
  }
  const ValueId after =
      c.write.Append(OpKind::kCacheWrite, {before, x, c.stream().positions},
                     LabelAttributes{common.key}, std::move(labels));
  c.write.Producer(after).constraint = "kcache";
  c.graph().caches.push_back({c.layer, before, after});
  return after;
}

// Returns the position biases that are added to the scores. A bias depends on
// the distance between query and key. If several layers share a table of
// biases, its rows are looked up once. Returns kNoValue if the layer has no
// table, or after an error.
ValueId Near(BuildContext& c, const Line& line, ValueId query, size_t seen) {
  const ValueId table = c.RoleValue(line, 3);
  if (table == kNoValue) return kNoValue;
  const std::pair<ValueId, size_t> key{table, 2 * c.stack + seen};
  const auto known = c.near.find(key);
  if (known != c.near.end()) return known->second;
  const Labels labels = c.write.LabelsOf(table);
  const auto most = c.reader->Number("distance");
  if (!most || labels.size() != 2 || !c.write.Has(query, labels.back())) {
    c.Fail(line,
           "`" + line.name + "` needs `distance` and a table of rows by heads");
    return kNoValue;
  }
  if (c.distance == kNoLabel) {
    c.distance = c.labels.New("distance", "", static_cast<int64_t>(*most));
  }
  const DistanceAttributes distance{labels[0], c.distance,
                                    !(seen == c.stack && c.stream().causal)};
  std::vector<ValueId> positions;
  Labels apart = {c.stream().query, c.streams[seen].key};
  if (c.mode == Mode::kDecode && c.stack == 0) {
    // In decoding the sequences of a batch have different lengths, so the
    // distances have a batch dimension.
    positions = {c.stream().positions, c.streams[seen].key_positions};
    apart.insert(apart.begin(), c.graph().common.batch);
  } else {
    c.streams.MakePlaces(c.stream());
    c.streams.MakePlaces(c.streams[seen]);
    positions = {c.stream().places, c.streams[seen].key_places};
  }
  const ValueId rows = c.write.Append(OpKind::kDistance, std::move(positions),
                                      distance, std::move(apart), true);
  return c.near[key] = c.write.Lookup(table, rows, 0);
}

}  // namespace

ValueId WriteRope(BuildContext& c, ValueId x) {
  const LabelId label = c.write.LabelsOf(x).back();
  return c.write.Append(OpKind::kRope, {x, c.stream().positions},
                        RopeAttributes{label, RopeIndex(c, label)},
                        c.write.LabelsOf(x));
}

ValueId WriteAttention(BuildContext& c, const Line& line) {
  std::vector<ValueId> queries, keys;
  std::vector<LabelId> contracted;
  for (const int32_t variable : line.arguments[0].variables) {
    queries.push_back(c.variables[AsIndex(variable)]);
    if (queries.back() == kNoValue) return kNoValue;
    contracted.push_back(c.write.LabelsOf(queries.back()).back());
  }
  const ValueId given = c.Value(line, 2);
  const size_t seen = given == kNoValue ? c.stack : c.streams.StackOf(given);
  Stream& of = c.streams[seen];
  if (seen == c.stack) c.streams.MakeKeyPositions(of);
  for (const int32_t variable : line.arguments[1].variables) {
    const ValueId key = c.variables[AsIndex(variable)];
    if (key == kNoValue) return kNoValue;
    keys.push_back(Remembered(c, key, seen));
  }
  if (keys.size() != queries.size() || given == kNoValue) {
    c.Fail(line, "queries and keys have different parts");
    return kNoValue;
  }
  const ValueId values = Remembered(c, given, seen);
  MakeOwnLabels(c, values);
  AttentionSettings settings = c.settings.attention;
  settings.windowed = c.layer_settings.windowed;
  settings.chunked = c.layer_settings.chunked;
  settings.copied_heads = c.copied_heads;
  settings.query = c.stream().query;
  settings.key = of.key;
  settings.query_positions = c.stream().query_positions;
  settings.key_positions = of.key_positions;
  // Cross-attention reads all tokens of the encoder, so its mask is not causal.
  settings.causal = seen == c.stack && c.stream().causal;
  settings.sloped = settings.sloped && seen == c.stack;
  if (c.settings.scale > 0) {
    settings.scale.constant = c.settings.scale;
  } else {
    settings.scale.powers.emplace_back(c.labels.OfParts(contracted), -0.5);
  }
  const bool near = line.op == LineOp::kAttentionNear;
  if (near) settings.near = Near(c, line, queries[0], seen);
  return Attention(c.write, queries, keys, values,
                   near ? kNoValue : c.RoleValue(line, 3), settings);
}

namespace {

// Returns whether a weight holds the gate and the up projection in a dimension
// of size 2. This is the only dimension of the weight that the values and
// weights in `others` lack.
bool HasHalves(BuildContext& c, ValueId fused,
               std::initializer_list<ValueId> others) {
  std::set<LabelId> known;
  for (const ValueId other : others) {
    for (const LabelId label : c.write.LabelsOf(other)) {
      known.insert(label);
      const auto& factors = c.labels[label].factors;
      known.insert(factors.begin(), factors.end());
    }
  }
  std::vector<LabelId> halves;
  for (const LabelId label : c.write.LabelsOf(fused)) {
    if (known.contains(label)) continue;
    const auto& factors = c.labels[label].factors;
    if (factors.empty()) halves.push_back(label);
    for (const LabelId factor : factors) {
      if (!known.contains(factor)) halves.push_back(factor);
    }
  }
  return halves.size() == 1 && c.labels.SizeOf(halves.front()) == 2;
}

}  // namespace

ValueId WriteExperts(BuildContext& c, const Line& line, ValueId x) {
  if (c.graph().common.slot == kNoLabel) {
    c.Fail(line, "a model with experts needs `top_k`");
    return kNoValue;
  }
  if (c.stack != 0) {
    c.Fail(line, "an encoder's layers have no experts");
    return kNoValue;
  }
  const ValueId logits = CheckedLinear(c, line, x, 1);
  if (c.failed) return kNoValue;
  c.write.Producer(logits).constraint = "router";
  const LabelId experts = c.write.LabelsOf(logits).back();
  c.graph().common.experts = experts;
  RouterSettings router = c.settings.router;
  if (c.correction >= 0)
    router.correction = c.parameters->Of(c.correction, c.layer);
  const Routed routed = Route(c.write, logits, experts, router);
  const RouterLosses& losses = c.settings.router_losses;
  const bool judged = losses.balance != 0 || losses.z != 0;
  if (c.mode == Mode::kTrain && judged) {
    const std::string name = c.write.name;
    c.write.name = "router statistics";
    c.routers.push_back(Statistics(c.write, logits, routed.chosen, experts));
    c.write.name = name;
  }
  ExpertWeights weights;
  const bool fused = line.op == LineOp::kMoeFused;
  const size_t down = fused ? 3 : 4;
  if (fused) {
    weights.gate_up = c.RoleValue(line, 2);
    weights.gate_up_bias = c.BiasOf(line, 2);
    if (!HasHalves(c, weights.gate_up, {x, logits, c.RoleValue(line, down)})) {
      c.Fail(line, "`" + line.name +
                       "` needs gate and up in a dimension of size 2, "
                       "such as `z` in `z f`");
      return kNoValue;
    }
  } else {
    weights.gate = c.RoleValue(line, 2);
    weights.up = c.RoleValue(line, 3);
  }
  weights.down = c.RoleValue(line, down);
  weights.down_bias = c.BiasOf(line, down);
  return Experts(c.write, x, routed, experts, weights, c.settings.activation);
}

}  // namespace shardc::step
