// Lines are looked up once and then written layer by layer; what a layer lacks
// falls away, and with it what needs it:
//
//   s = swiglu(y, shared.gate?, shared.up) @mlp    no shared experts: no s
//   x = add(x, m?, s?) @resid                      x + m alone
//
// A norm whose weight is absent passes its operand on, and a line whose result
// is its first operand leaves it; one whose `if` does not hold is not there.
#include "step/build.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/checked.h"
#include "step/attention.h"
#include "step/formulas.h"
#include "step/functions.h"
#include "step/graph_writer.h"
#include "step/lines.h"
#include "step/macros.h"
#include "step/prune.h"
#include "step/roles.h"

namespace shardc::step {
namespace {

constexpr std::string_view kEpsilon = "norm.epsilon";

// What configurations call the functions of the table.
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

class Builder {
 public:
  Builder(const ModelDescription& description, const ModelConfig* config,
          const Manifest& manifest, Mode mode, Findings& findings,
          const std::vector<int32_t>& only_layers,
          const AttentionForm& attention, const Roles* roles)
      : description_(description),
        config_(config),
        manifest_(manifest),
        mode_(mode == Mode::kInsert ? Mode::kDecode : mode),
        findings_(findings),
        only_layers_(only_layers),
        write_(out_.graph),
        roles_(roles) {
    attention_.form = attention;
  }

  std::optional<StepModel> Run() {
    formulas_ = Formulas::Make(description_, config_, findings_);
    if (formulas_ == nullptr) return std::nullopt;
    auto lines = ResolveLines(description_, findings_);
    if (!lines) return std::nullopt;
    if (!FindRoles()) return std::nullopt;
    if (RefuseRoles()) return std::nullopt;
    MakeLabels();
    MakeParameters();
    MakeData();
    variables_.assign(lines->variables.size(), kNoValue);
    if (!ReadSettings()) return std::nullopt;
    // The encoder first.
    for (size_t stack = lines->stacks.size(); stack > 0;) {
      --stack;
      if (!WriteStack(stack, lines->stacks[stack])) return std::nullopt;
    }
    if (!Finish(*lines) || failed_) return std::nullopt;
    return std::move(out_);
  }

 private:
  // The tokens of a stack of layers.
  struct Stream {
    LabelId query = kNoLabel, key = kNoLabel;
    ValueId ids = kNoValue, positions = kNoValue;
    // As attention sees them; the keys' only where they were asked for.
    ValueId query_positions = kNoValue, key_positions = kNoValue;
    // The same of all rows, where they are asked for.
    ValueId places = kNoValue, key_places = kNoValue;
    bool causal = true;
  };

  Graph& graph() { return out_.graph; }
  Stream& stream() { return streams_[stack_]; }

  bool WriteStack(size_t stack, const LineStack& lines) {
    stack_ = stack;
    variables_[kIdsVariable] = stream().ids;
    variables_[kPositionsVariable] = stream().positions;
    Section(lines.begin, -1);
    const auto begin = static_cast<int32_t>(roles_->BeginOf(stack));
    const auto count = static_cast<int32_t>(roles_->stack_layers[stack]);
    for (int32_t layer = begin; layer < begin + count; ++layer) {
      if (!IsWritten(layer)) continue;
      if (!ReadLayerSettings(layer - begin)) return false;
      Section(lines.layer, layer);
    }
    Section(lines.end, -1);
    return !failed_;
  }

  bool IsWritten(int32_t layer) const {
    return only_layers_.empty() ||
           std::find(only_layers_.begin(), only_layers_.end(), layer) !=
               only_layers_.end();
  }

  bool FindRoles() {
    if (roles_ == nullptr) {
      own_roles_ = AssignRoles(description_, *formulas_, manifest_, findings_);
      if (own_roles_) roles_ = &*own_roles_;
    } else if (!formulas_->has_config()) {
      // What the tree told when they were found.
      for (size_t i = 0; i < description_.dims.size(); ++i) {
        const int64_t size = roles_->sizes[i];
        if (size > 0) formulas_->SetDim(description_.dims[i].first, size);
      }
    }
    return roles_ != nullptr;
  }

  // One finding a kind and role is enough.
  bool RefuseRoles() {
    std::vector<std::pair<RoleFault, int32_t>> told;
    for (const RoleProblem& problem : roles_->problems) {
      if (problem.fault == RoleFault::kUnused) continue;
      const std::pair<RoleFault, int32_t> key{problem.fault, problem.role};
      if (std::find(told.begin(), told.end(), key) != told.end()) continue;
      told.push_back(key);
      const Place place =
          problem.role < 0
              ? description_.stacks[0].repeat.place
              : description_.roles[static_cast<size_t>(problem.role)].place;
      Finding& finding = findings_.Add(code::kSchema, place, problem.message);
      if (problem.tensor >= 0) {
        finding.params.emplace_back(
            manifest_.tensors[static_cast<size_t>(problem.tensor)].name);
      }
    }
    return !told.empty();
  }

  LabelId NewLabel(std::string name, std::string_view semantic, int64_t size) {
    Label label;
    label.name = std::move(name);
    label.semantic = semantic;
    graph().labels.push_back(std::move(label));
    out_.sizes.push_back(size);
    return static_cast<LabelId>(graph().labels.size() - 1);
  }

  void MakeLabels() {
    CommonLabels& common = graph().common;
    common.batch = NewLabel("b", "BATCH", 0);
    common.query = NewLabel("t", "QUERY_LENGTH", 0);
    common.key = NewLabel("s", "KV_LENGTH", 0);
    if (description_.HasEncoder()) {
      common.encoder_query = NewLabel("te", "QUERY_LENGTH", 0);
      common.encoder_key = NewLabel("se", "KV_LENGTH", 0);
      graph().encoder_layer =
          static_cast<int32_t>(roles_->BeginOf(kEncoderStack));
    }
    for (size_t i = 0; i < description_.dims.size(); ++i) {
      const std::string& name = description_.dims[i].first;
      const auto axis = description_.axes.find(name);
      dims_.push_back(
          NewLabel(name, axis == description_.axes.end() ? "" : axis->second,
                   roles_->sizes[i]));
    }
  }

  // (c + r) and (n h), each made once.
  LabelId PartsLabel(const std::vector<LabelId>& parts) {
    if (parts.size() == 1) return parts[0];
    std::string name;
    for (const LabelId part : parts) {
      name += name.empty() ? "(" : "+";
      name += graph().labels[static_cast<size_t>(part)].name;
    }
    return Composite(name + ")", parts, true);
  }
  LabelId FactorsLabel(const std::vector<LabelId>& factors) {
    if (factors.size() == 1) return factors[0];
    std::string name;
    for (const LabelId factor : factors) {
      name += name.empty() ? "(" : " ";
      name += graph().labels[static_cast<size_t>(factor)].name;
    }
    return Composite(name + ")", factors, false);
  }
  LabelId Composite(const std::string& name, const std::vector<LabelId>& of,
                    bool parts) {
    const auto known = composites_.find(name);
    if (known != composites_.end()) return known->second;
    const LabelId label = NewLabel(name, "", 0);
    Label& made = graph().labels[static_cast<size_t>(label)];
    (parts ? made.parts : made.factors) = of;
    composites_[name] = label;
    return label;
  }

  LabelId DimLabel(std::string_view name) const {
    for (size_t i = 0; i < description_.dims.size(); ++i) {
      if (description_.dims[i].first == name) return dims_[i];
    }
    return kNoLabel;
  }
  LabelId LabelFor(const DescribedDim& dim) {
    std::vector<LabelId> factors;
    for (const auto& names : dim.factors) {
      std::vector<LabelId> parts;
      for (const std::string& name : names) parts.push_back(DimLabel(name));
      factors.push_back(PartsLabel(parts));
    }
    return FactorsLabel(factors);
  }

  void MakeParameters() {
    const size_t roles = description_.roles.size();
    parameters_.assign(roles * static_cast<size_t>(roles_->layers), kNoValue);
    std::vector<Labels> labels(roles);
    for (size_t role = 0; role < roles; ++role) {
      if (!AnyRow(role)) continue;
      for (const DescribedDim& dim : description_.roles[role].dims) {
        labels[role].push_back(LabelFor(dim));
      }
    }
    for (const bool in_layers : {false, true}) {
      const int64_t layers = in_layers ? roles_->layers : 1;
      for (int32_t layer = 0; layer < layers; ++layer) {
        for (size_t role = 0; role < roles; ++role) {
          if (roles_->in_layers[role] != in_layers) continue;
          if (in_layers && !IsWritten(layer) && !Serves(role, layer)) continue;
          MakeParameter(role, in_layers ? layer : -1, labels[role]);
        }
      }
    }
    write_.layer = -1;
  }

  // Layers that lack their own take this one's.
  bool Serves(size_t role, int64_t layer) const {
    const DescribedRole& described = description_.roles[role];
    return described.shared && layer == roles_->BeginOf(described.stack);
  }

  bool AnyRow(size_t role) const {
    const size_t begin = role * static_cast<size_t>(roles_->layers);
    for (size_t i = 0; i < static_cast<size_t>(roles_->layers); ++i) {
      if (!roles_->rows[begin + i].empty()) return true;
    }
    return false;
  }

  void MakeParameter(size_t role, int32_t layer, const Labels& labels) {
    const size_t at = role * static_cast<size_t>(roles_->layers) +
                      static_cast<size_t>(std::max(layer, 0));
    if (roles_->rows[at].empty()) return;
    const std::string& name = description_.roles[role].name;
    write_.layer = layer;
    write_.name = name;
    parameters_[at] = write_.Input(labels);
    // Norms and biases do not decay.
    graph().parameters.push_back(
        {name, layer, parameters_[at], roles_->rows[at], labels.size() > 1});
  }

  // Absent: kNoValue. A tied role is another's tensor.
  ValueId ParameterOf(int32_t role, int32_t layer) {
    const bool in_layers = roles_->in_layers[static_cast<size_t>(role)];
    const DescribedRole& described =
        description_.roles[static_cast<size_t>(role)];
    if (in_layers && layer < 0) return kNoValue;
    const ValueId value = parameters_[static_cast<size_t>(
        role * roles_->layers + (in_layers ? layer : 0))];
    if (value != kNoValue) return value;
    const auto first = static_cast<int32_t>(roles_->BeginOf(described.stack));
    if (described.shared && layer != first) return ParameterOf(role, first);
    if (described.tied.empty()) return value;
    const int32_t other = RoleNamed(described.tied);
    return other < 0 ? kNoValue : ParameterOf(other, layer);
  }
  int32_t RoleNamed(std::string_view name) const {
    for (size_t i = 0; i < description_.roles.size(); ++i) {
      if (description_.roles[i].name == name) return static_cast<int32_t>(i);
    }
    return -1;
  }

  ValueId MakeDatum(DataKind kind, std::string name, Labels labels,
                    bool integral) {
    write_.name = std::move(name);
    const ValueId value = write_.Input(std::move(labels), integral);
    graph().data.push_back({kind, value});
    return value;
  }

  void MakeData() {
    const CommonLabels common = graph().common;
    const Labels tokens = {common.batch, common.query};
    streams_.resize(description_.stacks.size());
    Stream& own = streams_[0];
    own.query = common.query;
    own.key = common.key;
    own.ids = MakeDatum(DataKind::kIds, "ids", tokens, true);
    own.positions = MakeDatum(DataKind::kPositions, "positions", tokens, true);
    if (mode_ == Mode::kTrain) {
      const Labels each =
          Holds("per_row", false) ? Labels{common.batch} : tokens;
      labels_ = MakeDatum(DataKind::kLabels, "labels", each, true);
      weights_ = MakeDatum(DataKind::kWeights, "weights", each, false);
    }
    if (mode_ == Mode::kDecode) {
      own.key_positions =
          MakeDatum(DataKind::kCachePositions, "cache positions",
                    {common.batch, common.key}, true);
    }
    if (description_.HasEncoder()) MakeEncoderData();
    for (const Data& data : graph().data) {
      write_.Producer(data.value).anchor = "tokens";
    }
    if (mode_ == Mode::kDecode) {
      write_.Producer(own.key_positions).anchor = "cache_positions";
    }
    for (Stream& stream : streams_) stream.query_positions = stream.positions;
    if (attention_.form.view != AttentionView::kGlobal) MakeOwnPositions();
  }

  void MakeEncoderData() {
    const CommonLabels common = graph().common;
    const Labels tokens = {common.batch, common.encoder_query};
    Stream& stream = streams_[kEncoderStack];
    stream.query = common.encoder_query;
    stream.key = common.encoder_key;
    stream.ids = MakeDatum(DataKind::kIds, "encoder ids", tokens, true);
    stream.positions =
        MakeDatum(DataKind::kPositions, "encoder positions", tokens, true);
    stream.causal = false;
  }

  // A kernel's device knows the positions of all its queries and keys.
  void MakeOwnPositions() {
    const CommonLabels& common = graph().common;
    Stream& own = streams_[0];
    own.query_positions =
        MakeDatum(DataKind::kPositions, "positions of queries",
                  {common.batch, common.query}, true);
    const bool decodes = mode_ == Mode::kDecode;
    own.key_positions =
        MakeDatum(decodes ? DataKind::kCachePositions : DataKind::kPositions,
                  "positions of keys", {common.batch, common.key}, true);
    for (const ValueId value : {own.query_positions, own.key_positions}) {
      write_.Producer(value).anchor = "op_positions";
    }
  }

  // Labels of the ring, and of kv heads that are there several times.
  void MakeOwnLabels(ValueId key) {
    if (made_own_labels_) return;
    made_own_labels_ = true;
    const AttentionForm& form = attention_.form;
    if (form.view == AttentionView::kRing) {
      RingLabels ring;
      ring.turns = NewLabel("turns", "", form.turns);
      ring.query_rows = NewLabel("t/turns", "", 0);
      ring.queries = FactorsLabel({ring.turns, ring.query_rows});
      ring.key_rows = NewLabel("s/turns", "", 0);
      ring.keys = FactorsLabel({ring.turns, ring.key_rows});
      graph().ring = ring;
    }
    const Labels& labels = write_.LabelsOf(key);
    if (form.copies > 1 && labels.size() == 4) {
      const LabelId copies = NewLabel("copies", "", form.copies);
      attention_.copied_heads = FactorsLabel({labels[2], copies});
      graph().labels[static_cast<size_t>(attention_.copied_heads)].semantic =
          graph().labels[static_cast<size_t>(labels[2])].semantic;
    }
  }

  // The one word of a choice, or the one that an expression gives.
  std::optional<std::string> WordOf(std::string_view key,
                                    std::span<const std::string_view> choices) {
    const DescribedText* const text = description_.Setting(key);
    if (text == nullptr) return std::nullopt;
    const bool literal =
        std::find(choices.begin(), choices.end(), text->text) != choices.end();
    const auto word = literal ? text->text : formulas_->Word(*text);
    if (!word ||
        std::find(choices.begin(), choices.end(), *word) != choices.end()) {
      return word;
    }
    findings_.Add(
        code::kUnknownName, text->place,
        "`" + std::string(key) + "` is `" + *word + "`, which is not known",
        "write " + Words(choices));
    failed_ = true;
    return std::nullopt;
  }
  static std::string Words(std::span<const std::string_view> words) {
    std::string out;
    for (const std::string_view word : words) {
      out += (out.empty() ? "`" : ", `") + std::string(word) + "`";
    }
    return out;
  }
  std::optional<double> Number(std::string_view key) {
    const DescribedText* const text = description_.Setting(key);
    return text == nullptr ? std::nullopt : formulas_->Real(*text);
  }
  bool Holds(std::string_view key, bool otherwise) {
    const DescribedText* const text = description_.Setting(key);
    return text == nullptr ? otherwise : formulas_->Condition(*text);
  }

  bool ReadSettings() {
    norm_.epsilon = Number(kEpsilon).value_or(norm_.epsilon);
    norm_.plus_one = Holds("norm.plus_one", false);
    ReadActivation();
    attention_.sloped = Holds("slopes.when", false);
    attention_.slopes_scaled = Holds("slopes.scaled", false);
    if (config_ != nullptr) {
      scale_ = config_->softmax_scale.value_or(0);
      attention_.cap = config_->soft_cap.value_or(0);
    }
    streams_[0].causal = Holds("causal", true);
    if (!streams_[0].causal && mode_ == Mode::kDecode) {
      Refuse("causal",
             "a model whose queries see what is behind them does not decode");
    }
    if (description_.HasEncoder()) ReadEncoder();
    scale_ = Number("scale").value_or(scale_);
    attention_.cap = Number("soft_cap").value_or(attention_.cap);
    if (const auto* top_k = description_.Setting("top_k")) {
      const auto chosen = formulas_->Integer(*top_k);
      if (!chosen) return false;
      graph().common.top_k = NewLabel("top_k", "", *chosen);
      graph().common.slot = NewLabel("slot", "", 0);
      ReadRouter();
    }
    ReadRope();
    return !failed_;
  }

  void ReadActivation() {
    std::vector<std::string_view> names = {"clamped"};
    for (const ActivationName& at : kActivations) names.push_back(at.name);
    const auto word = WordOf("activation", names);
    if (!word) return;
    activation_.clamped = *word == "clamped";
    for (const ActivationName& at : kActivations) {
      if (at.name == *word) activation_.fn = at.fn;
    }
    activation_.limit = formulas_->Key("swiglu_limit").value_or(7);
    activation_.alpha = kQuickGelu;
  }

  void ReadRouter() {
    using Score = RouterSettings::Score;
    static constexpr std::array<std::string_view, 4> kScores = {
        "softmax", "sigmoid", "softmax_after_topk", "sparse_mixer"};
    static constexpr std::array<Score, 4> kValues = {
        Score::kSoftmax, Score::kSigmoid, Score::kSoftmaxAfterTopK,
        Score::kSparseMixer};
    const auto score = WordOf("router.score", kScores);
    for (size_t i = 0; score && i < kScores.size(); ++i) {
      if (kScores[i] == *score) router_.score = kValues[i];
    }
    router_.renormalise = Holds("router.renormalise", false);
    router_.scale = Number("router.scale").value_or(1);
    router_.before = Holds("router.before", false);
    ReadPower();
    if (router_.score == Score::kSparseMixer) ReadSparseMixer();
    const auto groups = Number("router.groups");
    if (groups && *groups > 1) {
      router_.groups = NewLabel("groups", "", static_cast<int64_t>(*groups));
      const auto chosen = Number("router.top_groups").value_or(*groups);
      router_.chosen_groups =
          NewLabel("top_groups", "", static_cast<int64_t>(chosen));
      static constexpr std::array<std::string_view, 2> kGroupScores = {"max",
                                                                       "top2"};
      router_.group_by_two =
          WordOf("router.group_score", kGroupScores).value_or("top2") == "top2";
    }
    if (const auto* text = description_.Setting("router.correction")) {
      correction_ = RoleNamed(text->text);
    }
    router_losses_ = {.balance = Number("router.balance").value_or(0),
                      .z = Number("router.z_loss").value_or(0)};
    out_.capacity = Number("router.capacity").value_or(0);
    graph().dropless = out_.capacity <= 0;
  }

  void ReadPower() {
    const double power = Number("router.power").value_or(0);
    if (power == 0 || power == 1 || power == 2) {
      router_.power = static_cast<int>(power);
      return;
    }
    Refuse("router.power", "weights are divided by a norm of power 1 or 2");
  }
  void ReadSparseMixer() {
    constexpr int64_t kChosen = 2;
    const LabelId top_k = graph().common.top_k;
    if (out_.sizes[static_cast<size_t>(top_k)] != kChosen) {
      Refuse("top_k", "`sparse_mixer` chooses two experts");
    }
    router_.jitter = Number("router.jitter").value_or(router_.jitter);
    router_.first = NewLabel("first", "", 1);
  }
  void ReadEncoder() {
    const Place& place = description_.stacks[kEncoderStack].repeat.place;
    const auto refuse = [&](const char* message) {
      findings_.Add(code::kSchema, place, message);
      failed_ = true;
    };
    out_.encoder_length =
        static_cast<int64_t>(Number("encoder.length").value_or(0));
    if (attention_.form.view != AttentionView::kGlobal) {
      refuse("a model with an encoder beside it runs attention as described");
    }
  }

  // A setting that cannot be as it is.
  void Refuse(std::string_view key, const std::string& message) {
    findings_.Add(code::kSchema, description_.Setting(key)->place, message);
    failed_ = true;
  }

  void ReadRope() {
    if (config_ == nullptr || !config_->rope) return;
    const RopeConfig& from = *config_->rope;
    rope_.base = from.base;
    rope_.scaling = from.scaling;
    rope_.factor = from.factor;
    rope_.original_length = from.original_length;
    rope_.beta_fast = from.beta_fast;
    rope_.beta_slow = from.beta_slow;
    rope_.whole_numbers = from.truncate;
    rope_.low_part = from.low_frequency_factor;
    rope_.high_part = from.high_frequency_factor;
    rope_.amplitude = from.attention_factor.value_or(0);
  }

  bool ReadLayerSettings(int32_t layer) {
    formulas_->SetLayer(layer);
    ReadWindow();
    static constexpr std::array<std::string_view, 2> kPairs = {"halves",
                                                               "neighbours"};
    turns_ = Holds("rope.when", true);
    Rope rope = rope_;
    if (Holds("rope.plain", false)) {
      rope.scaling.clear();
      rope.factor = 1;
    }
    rope.base = Number("rope.base").value_or(rope.base);
    rope.turned = Number("rope.turned").value_or(1);
    rope.neighbours =
        WordOf("rope.pairs", kPairs).value_or("halves") == "neighbours";
    layer_rope_ = std::move(rope);
    return !failed_;
  }

  void ReadWindow() {
    const DescribedText* const text = description_.Setting("window");
    const auto window = text ? formulas_->Real(*text) : std::nullopt;
    attention_.windowed = window.has_value() && *window > 0;
    if (!attention_.windowed) return;
    const auto tokens = static_cast<int64_t>(*window);
    LabelId& label = graph().common.window;
    if (label == kNoLabel) label = NewLabel("window", "", tokens);
    attention_.chunked = Holds("chunks", false);
    if (out_.sizes[static_cast<size_t>(label)] != tokens) {
      Refuse("window", "the windows of layers differ in size");
    }
  }

  void Section(const std::vector<Line>& lines, int32_t layer) {
    write_.layer = layer;
    layer_ = layer;
    for (const Line& line : lines) {
      if (failed_) return;
      Write(line);
    }
  }

  // An argument's value; kNoValue where it fell away.
  ValueId Value(const Line& line, size_t i) const {
    if (i >= line.arguments.size()) return kNoValue;
    return variables_[static_cast<size_t>(line.arguments[i].variables[0])];
  }
  ValueId RoleValue(const Line& line, size_t i) {
    if (i >= line.arguments.size()) return kNoValue;
    return ParameterOf(line.arguments[i].role, layer_);
  }
  // The role's bias; what it is called follows from the role.
  ValueId BiasOf(const Line& line, size_t i) {
    if (i >= line.arguments.size()) return kNoValue;
    const int32_t role = line.arguments[i].role;
    auto [at, is_new] = biases_.emplace(role, -1);
    if (is_new) {
      at->second = RoleNamed(
          description_.roles[static_cast<size_t>(role)].name + ".bias");
    }
    return at->second < 0 ? kNoValue : ParameterOf(at->second, layer_);
  }

  void Fail(const Line& line, const std::string& message) {
    findings_.Add(code::kSchema, line.described->place, message);
    failed_ = true;
  }

  // Whether the line has all that it cannot do without.
  bool Complete(const Line& line) {
    for (size_t i = 0; i < line.arguments.size(); ++i) {
      const LineArgument& argument = line.arguments[i];
      for (const int32_t variable : argument.variables) {
        if (variables_[static_cast<size_t>(variable)] == kNoValue) return false;
      }
      if (argument.role >= 0 && RoleValue(line, i) == kNoValue) return false;
    }
    return true;
  }

  bool Applies(const Line& line) {
    const DescribedText& when = line.described->when;
    return when.text.empty() || formulas_->Condition(when);
  }

  void Write(const Line& line) {
    write_.name = line.name;
    std::vector<ValueId> results;
    const bool norm =
        line.op == LineOp::kRmsNorm || line.op == LineOp::kLayerNorm;
    if (!Applies(line)) return;
    if (line.op == LineOp::kAdd) {
      results = {AddPresent(line)};
    } else if (!Complete(line) && line.op != LineOp::kAttention &&
               line.op != LineOp::kAttentionNear) {
      if (norm) results = {Value(line, 0)};
    } else {
      results = Results(line);
    }
    results.resize(line.results.size(), kNoValue);
    for (size_t i = 0; i < results.size(); ++i) {
      ValueId value = results[i];
      if (value == kNoValue && IsFirstOperand(line, line.results[i])) continue;
      if (value != kNoValue) value = write_.Anchored(value, line.anchor);
      variables_[static_cast<size_t>(line.results[i])] = value;
    }
  }

  // x = linear(x, w): without w it stays as it is.
  static bool IsFirstOperand(const Line& line, int32_t variable) {
    const auto& first = line.arguments[0].variables;
    return first.size() == 1 && first[0] == variable;
  }

  ValueId AddPresent(const Line& line) {
    std::vector<ValueId> terms;
    for (size_t i = 0; i < line.arguments.size(); ++i) {
      if (Value(line, i) != kNoValue) terms.push_back(Value(line, i));
    }
    return terms.empty() ? kNoValue : write_.Add(std::move(terms));
  }

  std::vector<ValueId> Results(const Line& line) {
    const ValueId x =
        line.arguments[0].variables.empty() ? kNoValue : Value(line, 0);
    switch (line.op) {
      case LineOp::kLookup:
        return {
            write_.Lookup(RoleValue(line, 0), Value(line, 1), OffsetOf(line))};
      case LineOp::kRows:
        return {Rows(line, x)};
      case LineOp::kPatches:
        return {Patches(line)};
      case LineOp::kToken:
        return {write_.Index(x, stream().query,
                             static_cast<int64_t>(line.arguments[1].number))};
      case LineOp::kFrames:
        return {Frames(line)};
      case LineOp::kConvolve:
        return {Convolve(line, x)};
      case LineOp::kLinear:
        return {CheckedLinear(line, x, 1)};
      case LineOp::kRmsNorm:
      case LineOp::kLayerNorm:
        return {Norm(line, x)};
      case LineOp::kGated:
        return {GatedBy(line, x, activation_)};
      case LineOp::kSwiglu:
        return {GatedBy(line, x, {.fn = "silu"})};
      case LineOp::kGeglu:
        return {GatedBy(line, x, {.fn = "gelu_tanh"})};
      case LineOp::kGatedFused:
        return {GatedFused(line, x)};
      case LineOp::kActivation:
        return {write_.Fn(activation_.fn, x,
                          activation_.fn == "swish" ? kQuickGelu : 0)};
      case LineOp::kFunction:
        return {Function(line, x)};
      case LineOp::kTake:
        return {RoleValue(line, 0)};
      case LineOp::kMultiply:
        return {Multiply(x, Value(line, 1))};
      case LineOp::kScale:
      case LineOp::kDivide:
      case LineOp::kCap:
        return {Times(line, x)};
      case LineOp::kRoot:
        return {write_.Scaled(x, {1, {PowerOf(line)}})};
      case LineOp::kPart:
        return Parts(line, x);
      case LineOp::kIndex:
        return {write_.Index(
            x, dims_[static_cast<size_t>(line.arguments[1].dims[0])],
            static_cast<int64_t>(line.arguments[2].number))};
      case LineOp::kRename:
        return {Renamed(line, x)};
      case LineOp::kRope:
        return {turns_ ? Turned(x) : x};
      case LineOp::kAttention:
      case LineOp::kAttentionNear:
        return {Attend(line)};
      case LineOp::kMoe:
      case LineOp::kMoeFused:
        return {Mixture(line, x)};
      case LineOp::kAdd:
        break;
    }
    return {};
  }

  // A dimension's root, or the power that is given.
  std::pair<LabelId, double> PowerOf(const Line& line) const {
    const auto dim = static_cast<size_t>(line.arguments[1].dims[0]);
    const bool given = line.arguments.size() > 2;
    return {dims_[dim], given ? line.arguments[2].number : 0.5};
  }

  int64_t OffsetOf(const Line& line) {
    if (line.arguments.size() < 3) return 0;
    return static_cast<int64_t>(Constant(line.arguments[2]).value_or(0));
  }
  ValueId Rows(const Line& line, ValueId table) {
    if (write_.LabelsOf(table).size() == 2) {
      return write_.Lookup(table, Value(line, 1), OffsetOf(line));
    }
    Fail(line, "`" + line.name + "` needs a table of two dimensions");
    return kNoValue;
  }

  // A convolution whose windows do not overlap: of each token's numbers.
  ValueId Patches(const Line& line) {
    const ValueId weight = RoleValue(line, 0);
    const LabelId left = dims_[static_cast<size_t>(line.arguments[1].dims[0])];
    const CommonLabels& common = graph().common;
    if (!write_.Has(weight, left)) {
      Fail(line, "`" + line.name + "` leaves a dimension that is not there");
      return kNoValue;
    }
    const LabelId tokens = stream().query;
    Labels labels = {common.batch, tokens};
    for (const LabelId label : write_.LabelsOf(weight)) {
      if (label != left) labels.push_back(label);
    }
    const std::string name = write_.name;
    const ValueId patches =
        MakeDatum(DataKind::kPatches, "patches", std::move(labels), false);
    write_.Producer(patches).anchor = "tokens";
    write_.name = name;
    const ValueId y =
        write_.Einsum(patches, weight, {graph().common.batch, tokens, left});
    const ValueId bias = BiasOf(line, 0);
    return bias == kNoValue ? y : write_.Add({y, bias});
  }

  // So many a token, each of as many numbers as the dimension says.
  ValueId Frames(const Line& line) {
    const auto several = static_cast<int64_t>(line.arguments[1].number);
    if (several < 1 || frames_ != kNoLabel) {
      Fail(line, "a model has one input of frames, of one or more a token");
      return kNoValue;
    }
    frames_ = NewLabel("frames", "", several);
    const LabelId all = FactorsLabel({stream().query, frames_});
    graph().labels[static_cast<size_t>(all)].semantic = "QUERY_LENGTH";
    const LabelId numbers =
        dims_[static_cast<size_t>(line.arguments[0].dims[0])];
    const std::string name = write_.name;
    const ValueId out = MakeDatum(DataKind::kPatches, "frames",
                                  {graph().common.batch, all, numbers}, false);
    write_.Producer(out).anchor = "tokens";
    write_.name = name;
    return out;
  }

  ValueId Convolve(const Line& line, ValueId x) {
    const ValueId weight = RoleValue(line, 1);
    Convolution settings;
    settings.kernel = dims_[static_cast<size_t>(line.arguments[2].dims[0])];
    settings.width = out_.sizes[static_cast<size_t>(settings.kernel)];
    settings.tokens = stream().query;
    if (!write_.Has(x, stream().query)) settings.tokens = TokensOf(x);
    const bool thins =
        line.arguments.size() > 3 && line.arguments[3].number != 1;
    if (thins) settings.frames = frames_;
    const bool fits =
        !thins ||
        (frames_ != kNoLabel && settings.tokens != stream().query &&
         static_cast<double>(out_.sizes[static_cast<size_t>(frames_)]) ==
             line.arguments[3].number);
    if (settings.tokens == kNoLabel || !fits || settings.width % 2 == 0 ||
        !write_.Has(weight, settings.kernel) || !Shares(x, weight)) {
      Fail(line, "`" + line.name +
                     "` needs tokens, an odd kernel, and as many frames a token"
                     " as it passes over");
      return kNoValue;
    }
    return Convolved(write_, x, weight, BiasOf(line, 1), settings);
  }
  // Tokens with several frames each.
  LabelId TokensOf(ValueId x) {
    for (const LabelId label : write_.LabelsOf(x)) {
      const auto& factors = graph().labels[static_cast<size_t>(label)].factors;
      if (!factors.empty() && factors[0] == stream().query) return label;
    }
    return kNoLabel;
  }

  // A finding where the two have nothing in common.
  ValueId CheckedLinear(const Line& line, ValueId x, size_t role) {
    const ValueId weight = RoleValue(line, role);
    const ValueId bias = BiasOf(line, role);
    if (!Shares(x, weight)) {
      Fail(line, "`" + line.name + "` has nothing to contract");
      return kNoValue;
    }
    return Linear(write_, x, weight, bias);
  }
  bool Shares(ValueId x, ValueId weight) {
    for (const LabelId label : write_.LabelsOf(weight)) {
      if (write_.Has(x, label)) return true;
      const auto& factors = graph().labels[static_cast<size_t>(label)].factors;
      const bool all = !factors.empty() &&
                       std::all_of(factors.begin(), factors.end(),
                                   [&](LabelId f) { return write_.Has(x, f); });
      if (all) return true;
    }
    return false;
  }

  ValueId Norm(const Line& line, ValueId x) {
    const ValueId weight = RoleValue(line, 1);
    const LabelId label = weight == kNoValue ? write_.LabelsOf(x).back()
                                             : write_.LabelsOf(weight).back();
    if (weight != kNoValue && !Shares(x, weight)) {
      Fail(line, "`" + line.name + "` norms a dimension that is not there");
      return kNoValue;
    }
    if (line.op == LineOp::kRmsNorm) {
      return RmsNorm(write_, x, label, weight, norm_);
    }
    return LayerNorm(write_, x, label, weight, BiasOf(line, 1), norm_);
  }

  ValueId GatedBy(const Line& line, ValueId x, const Activation& activation) {
    const ValueId gate = CheckedLinear(line, x, 1);
    const ValueId up = CheckedLinear(line, x, 2);
    if (failed_) return kNoValue;
    return Gated(write_, gate, up, activation);
  }

  ValueId GatedFused(const Line& line, ValueId x) {
    const ValueId both = CheckedLinear(line, x, 1);
    if (failed_) return kNoValue;
    const LabelId half = dims_[size_t(line.arguments[2].dims[0])];
    if (!write_.Has(both, half)) {
      Fail(line, "`" + line.name + "` has no such halves");
      return kNoValue;
    }
    const ValueId gate = write_.Index(both, half, 0);
    return Gated(write_, gate, write_.Index(both, half, 1), activation_);
  }

  ValueId Function(const Line& line, ValueId x) {
    const std::string& fn = line.arguments[1].word;
    if (FindFunction(fn) == nullptr) {
      Fail(line, "there is no function `" + fn + "`");
      return kNoValue;
    }
    if (line.arguments.size() < 3) return write_.Fn(fn, x);
    const auto by = Constant(line.arguments[2]);
    return by ? write_.Fn(fn, x, *by) : x;
  }
  // A number, a constant of the description, or a key of the configuration.
  std::optional<double> Constant(const LineArgument& by) {
    if (by.word.empty()) return by.number;
    const std::string constant = "constants." + by.word;
    if (description_.Setting(constant) != nullptr) return Number(constant);
    return formulas_->Key(by.word);
  }

  // The wider one first.
  ValueId Multiply(ValueId a, ValueId b) {
    const bool swap = write_.LabelsOf(a).size() < write_.LabelsOf(b).size();
    return swap ? write_.Times(b, a) : write_.Times(a, b);
  }

  // By a constant; without it, not at all.
  ValueId Times(const Line& line, ValueId x) {
    const auto number = Constant(line.arguments[1]);
    if (!number || *number == 0) return x;
    if (line.op == LineOp::kCap) return write_.Fn("cap", x, *number);
    const double c = line.op == LineOp::kScale ? *number : 1 / *number;
    return write_.Scaled(x, {c, {}});
  }

  std::vector<ValueId> Parts(const Line& line, ValueId x) {
    std::vector<LabelId> parts;
    for (const int32_t dim : line.arguments[1].dims) {
      parts.push_back(dims_[static_cast<size_t>(dim)]);
    }
    const LabelId whole = PartsLabel(parts);
    std::vector<ValueId> out;
    if (!write_.Has(x, whole)) {
      Fail(line, "`" + line.name + "` has no such parts");
      return {};
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      out.push_back(write_.Part(x, whole, i));
    }
    return out;
  }

  // Another dimension's, of the same size.
  ValueId Renamed(const Line& line, ValueId x) {
    const LabelId from = dims_[static_cast<size_t>(line.arguments[1].dims[0])];
    const LabelId to = dims_[static_cast<size_t>(line.arguments[2].dims[0])];
    const bool same = out_.sizes[static_cast<size_t>(from)] ==
                      out_.sizes[static_cast<size_t>(to)];
    if (!same || !write_.Has(x, from) || write_.Has(x, to)) {
      Fail(line, "`" + line.name + "` needs a dimension and one of its size");
      return kNoValue;
    }
    return write_.Rename(x, from, to);
  }

  int64_t RopeIndex(LabelId label) {
    Rope rope = layer_rope_;
    const int64_t size = out_.sizes[static_cast<size_t>(label)];
    // So many elements of a head, not such a part.
    if (rope.turned > 1) {
      rope.turned /= static_cast<double>(std::max<int64_t>(size, 1));
    }
    const auto same = [&](const Rope& a) {
      return a.base == rope.base && a.scaling == rope.scaling &&
             a.turned == rope.turned && a.neighbours == rope.neighbours;
    };
    auto& ropes = graph().ropes;
    const auto known = std::find_if(ropes.begin(), ropes.end(), same);
    const int64_t index = known - ropes.begin();
    if (known == ropes.end()) ropes.push_back(std::move(rope));
    return index;
  }

  ValueId Turned(ValueId x) {
    Op op;
    op.kind = OpKind::kRope;
    op.in = {x, stream().positions};
    op.label = write_.LabelsOf(x).back();
    op.index = RopeIndex(op.label);
    return write_.Append(std::move(op), write_.LabelsOf(x));
  }

  // Keys and values as the queries see them, through the cache where there is
  // one; of `seen`'s tokens, which may be another stack's.
  ValueId Remembered(ValueId x, size_t seen) {
    const CommonLabels common = graph().common;
    const Stream& of = streams_[seen];
    const bool remembers = seen != stack_ || of.causal;
    if (mode_ == Mode::kTrain || !remembers) {
      return write_.Rename(x, of.query, of.key);
    }
    if (mode_ != Mode::kDecode) {
      const ValueId kept = write_.Rename(x, of.query, of.key);
      write_.Producer(kept).anchor = "kcache";
      graph().caches.push_back({layer_, kNoValue, kept});
      return kept;
    }
    Labels labels = write_.LabelsOf(x);
    std::replace(labels.begin(), labels.end(), of.query, of.key);
    const std::string name = write_.name;
    const ValueId before = MakeDatum(DataKind::kCache, "cache", labels, false);
    write_.Producer(before).anchor = "kcache";
    write_.name = name;
    // What prefill kept of another stack's tokens stays as it is; `x` is not
    // made again.
    if (seen != stack_) {
      graph().caches.push_back({layer_, before, before});
      return before;
    }
    Op op;
    op.kind = OpKind::kCacheWrite;
    op.in = {before, x, stream().positions};
    op.label = common.key;
    const ValueId after = write_.Append(std::move(op), std::move(labels));
    write_.Producer(after).anchor = "kcache";
    graph().caches.push_back({layer_, before, after});
    return after;
  }

  // Positions of keys from those of queries, outside the layers.
  void MakeKeys(const Stream& of, ValueId queries, ValueId& keys) {
    if (keys != kNoValue) return;
    keys = write_.Rename(queries, of.query, of.key);
    write_.Producer(keys).layer = -1;
    graph().values[static_cast<size_t>(keys)].integral = true;
  }

  // Whose tokens a value has.
  size_t StreamOf(ValueId value) const {
    const LabelId encoder = out_.graph.common.encoder_query;
    return encoder != kNoLabel && write_.Has(value, encoder) ? kEncoderStack
                                                             : 0;
  }

  void MakePlaces(Stream& of) {
    if (of.places != kNoValue) return;
    const std::string name = write_.name;
    of.places = MakeDatum(DataKind::kPositions, "places", {of.query}, true);
    write_.name = name;
    Op& op = write_.Producer(of.places);
    op.layer = -1;
    op.anchor = "tokens";
    MakeKeys(of, of.places, of.key_places);
  }

  // What scores get by how far apart query and key are; of a table that several
  // layers have, once.
  ValueId Near(const Line& line, ValueId query, size_t seen) {
    const ValueId table = RoleValue(line, 3);
    if (table == kNoValue) return kNoValue;
    const std::pair<ValueId, size_t> key{table, 2 * stack_ + seen};
    const auto known = near_.find(key);
    if (known != near_.end()) return known->second;
    const Labels labels = write_.LabelsOf(table);
    const auto most = Number("distance");
    if (!most || labels.size() != 2 || !write_.Has(query, labels.back())) {
      Fail(line,
           "`" + line.name + "` needs `distance` and a table of rows by heads");
      return kNoValue;
    }
    if (distance_ == kNoLabel) {
      distance_ = NewLabel("distance", "", static_cast<int64_t>(*most));
    }
    Op op;
    op.kind = OpKind::kDistance;
    op.label = labels[0];
    op.counts = {distance_};
    op.fn = seen == stack_ && stream().causal ? "before" : "both";
    Labels apart = {stream().query, streams_[seen].key};
    if (mode_ == Mode::kDecode && stack_ == 0) {
      // Rows have come to different places.
      op.in = {stream().positions, streams_[seen].key_positions};
      apart.insert(apart.begin(), graph().common.batch);
    } else {
      MakePlaces(stream());
      MakePlaces(streams_[seen]);
      op.in = {stream().places, streams_[seen].key_places};
    }
    const ValueId rows = write_.Append(std::move(op), std::move(apart), true);
    return near_[key] = write_.Lookup(table, rows, 0);
  }

  ValueId Attend(const Line& line) {
    std::vector<ValueId> queries, keys;
    std::vector<LabelId> contracted;
    for (const int32_t variable : line.arguments[0].variables) {
      queries.push_back(variables_[static_cast<size_t>(variable)]);
      if (queries.back() == kNoValue) return kNoValue;
      contracted.push_back(write_.LabelsOf(queries.back()).back());
    }
    const ValueId given = Value(line, 2);
    const size_t seen = given == kNoValue ? stack_ : StreamOf(given);
    Stream& of = streams_[seen];
    if (seen == stack_) MakeKeys(of, of.positions, of.key_positions);
    for (const int32_t variable : line.arguments[1].variables) {
      const ValueId key = variables_[static_cast<size_t>(variable)];
      if (key == kNoValue) return kNoValue;
      keys.push_back(Remembered(key, seen));
    }
    if (keys.size() != queries.size() || given == kNoValue) {
      Fail(line, "queries and keys have different parts");
      return kNoValue;
    }
    const ValueId values = Remembered(given, seen);
    MakeOwnLabels(values);
    AttentionSettings settings = attention_;
    settings.query = stream().query;
    settings.key = of.key;
    settings.query_positions = stream().query_positions;
    settings.key_positions = of.key_positions;
    // Of another stack's tokens all are seen.
    settings.causal = seen == stack_ && stream().causal;
    settings.sloped = settings.sloped && seen == stack_;
    if (scale_ > 0) {
      settings.scale.constant = scale_;
    } else {
      settings.scale.powers.emplace_back(PartsLabel(contracted), -0.5);
    }
    const bool near = line.op == LineOp::kAttentionNear;
    if (near) settings.near = Near(line, queries[0], seen);
    return Attention(write_, queries, keys, values,
                     near ? kNoValue : RoleValue(line, 3), settings);
  }

  ValueId Mixture(const Line& line, ValueId x) {
    if (graph().common.slot == kNoLabel) {
      Fail(line, "a model with experts needs `top_k`");
      return kNoValue;
    }
    if (stack_ != 0) {
      Fail(line, "an encoder's layers have no experts");
      return kNoValue;
    }
    const ValueId logits = CheckedLinear(line, x, 1);
    if (failed_) return kNoValue;
    write_.Producer(logits).anchor = "router";
    const LabelId experts = write_.LabelsOf(logits).back();
    graph().common.experts = experts;
    RouterSettings router = router_;
    if (correction_ >= 0) router.correction = ParameterOf(correction_, layer_);
    const Routed routed = Route(write_, logits, experts, router);
    const bool judged = router_losses_.balance != 0 || router_losses_.z != 0;
    if (mode_ == Mode::kTrain && judged) {
      const std::string name = write_.name;
      write_.name = "router statistics";
      routers_.push_back(Statistics(write_, logits, routed.chosen, experts));
      write_.name = name;
    }
    ExpertWeights weights;
    const bool fused = line.op == LineOp::kMoeFused;
    const size_t down = fused ? 3 : 4;
    if (fused) {
      weights.gate_up = RoleValue(line, 2);
      weights.gate_up_bias = BiasOf(line, 2);
    } else {
      weights.gate = RoleValue(line, 2);
      weights.up = RoleValue(line, 3);
    }
    weights.down = RoleValue(line, down);
    weights.down_bias = BiasOf(line, down);
    return Experts(write_, x, routed, experts, weights, activation_);
  }

  bool Finish(const Lines& lines) {
    const auto at =
        std::find(lines.variables.begin(), lines.variables.end(), "logits");
    const ValueId logits =
        at == lines.variables.end()
            ? kNoValue
            : variables_[static_cast<size_t>(at - lines.variables.begin())];
    if (logits == kNoValue) {
      findings_.Add(code::kSchema, description_.stacks[0].repeat.place,
                    "the model's section makes no `logits`");
      return false;
    }
    graph().logits = logits;
    if (mode_ == Mode::kTrain) {
      write_.name = "loss";
      std::vector<ValueId> losses = {CrossEntropy(
          write_, logits, labels_, weights_, write_.LabelsOf(logits).back(),
          Number("z_loss").value_or(0))};
      for (const ValueId one :
           LossesOf(write_, routers_, graph().common.experts, router_losses_)) {
        losses.push_back(one);
      }
      write_.name = "total loss";
      graph().loss = write_.Add(std::move(losses));
    }
    // The encoder was run in prefill.
    if (mode_ == Mode::kDecode && description_.HasEncoder()) Prune(graph());
    FinishSizes(graph(), out_.sizes);
    return true;
  }

  const ModelDescription& description_;
  const ModelConfig* const config_;
  const Manifest& manifest_;
  const Mode mode_;
  Findings& findings_;
  const std::vector<int32_t>& only_layers_;
  StepModel out_;
  GraphWriter write_;
  std::unique_ptr<Formulas> formulas_;
  std::optional<Roles> own_roles_;
  const Roles* roles_;
  std::vector<LabelId> dims_;  // by the description's
  std::map<std::string, LabelId, std::less<>> composites_;
  std::vector<ValueId> parameters_;    // by role and layer
  std::map<int32_t, int32_t> biases_;  // by role
  std::vector<ValueId> variables_;
  std::vector<Stream> streams_;  // by stack
  size_t stack_ = 0;
  ValueId labels_ = kNoValue, weights_ = kNoValue;
  // What attention adds, by its table, and whose queries and keys it is for.
  std::map<std::pair<ValueId, size_t>, ValueId> near_;
  LabelId distance_ = kNoLabel, frames_ = kNoLabel;
  NormSettings norm_;
  Activation activation_;
  AttentionSettings attention_;
  RouterSettings router_;
  RouterLosses router_losses_;
  std::vector<RouterStatistics> routers_;  // of the layers so far
  Rope rope_, layer_rope_;
  double scale_ = 0;
  int32_t correction_ = -1;
  int32_t layer_ = -1;
  bool turns_ = true;
  bool made_own_labels_ = false;
  bool failed_ = false;
};

}  // namespace

std::optional<StepModel> BuildForward(const ModelDescription& description,
                                      const ModelConfig* config,
                                      const Manifest& manifest, Mode mode,
                                      Findings& findings,
                                      const std::vector<int32_t>& only_layers,
                                      const AttentionForm& attention,
                                      const Roles* roles) {
  const size_t before = findings.errors();
  auto step = Builder(description, config, manifest, mode, findings,
                      only_layers, attention, roles)
                  .Run();
  if (findings.errors() > before) return std::nullopt;
  return step;
}

bool HasMode(const ModelDescription& description, const ModelConfig* config,
             Mode mode) {
  const DescribedText* const causal = description.Setting("causal");
  const bool decodes = mode == Mode::kDecode || mode == Mode::kInsert;
  if (causal == nullptr || !decodes) return true;
  Findings unsaid;
  const auto formulas = Formulas::Make(description, config, unsaid);
  return formulas == nullptr || formulas->Condition(*causal);
}

void FinishSizes(const Graph& graph, Sizes& sizes) {
  const RingLabels& ring = graph.ring;
  if (ring.turns != kNoLabel) {
    const auto size = [&](LabelId label) -> int64_t& {
      return sizes[static_cast<size_t>(label)];
    };
    size(ring.query_rows) = size(graph.common.query) / size(ring.turns);
    size(ring.key_rows) = size(graph.common.key) / size(ring.turns);
  }
  // Labels are made after those that they are made of.
  for (size_t i = 0; i < graph.labels.size(); ++i) {
    const Label& label = graph.labels[i];
    if (!label.parts.empty()) {
      sizes[i] = 0;
      for (const LabelId part : label.parts) {
        sizes[i] += sizes[static_cast<size_t>(part)];
      }
    }
    if (!label.factors.empty()) {
      std::vector<int64_t> factors;
      for (const LabelId factor : label.factors) {
        factors.push_back(sizes[static_cast<size_t>(factor)]);
      }
      sizes[i] = CheckedProduct(factors).value_or(0);
    }
  }
}

Sizes RealSizes(const StepModel& step, int64_t batch, int64_t length) {
  const Graph& graph = step.graph;
  const CommonLabels& common = graph.common;
  Sizes sizes = step.sizes;
  const auto size = [&](LabelId label) -> int64_t& {
    return sizes[static_cast<size_t>(label)];
  };
  const bool decodes =
      std::any_of(graph.caches.begin(), graph.caches.end(),
                  [](const Cache& cache) { return cache.before != kNoValue; });
  size(common.batch) = batch;
  size(common.query) = decodes ? 1 : length;
  size(common.key) = length;
  if (common.encoder_query != kNoLabel) {
    const int64_t tokens =
        step.encoder_length > 0 ? step.encoder_length : length;
    size(common.encoder_query) = size(common.encoder_key) = tokens;
  }
  if (common.slot != kNoLabel && common.experts != kNoLabel) {
    const double each =
        static_cast<double>(size(common.query)) *
        static_cast<double>(size(common.top_k)) /
        static_cast<double>(std::max<int64_t>(size(common.experts), 1));
    const double factor = step.capacity > 0 ? step.capacity : 1;
    size(common.slot) =
        std::max<int64_t>(1, static_cast<int64_t>(std::ceil(each * factor)));
  }
  FinishSizes(graph, sizes);
  return sizes;
}

}  // namespace shardc::step
