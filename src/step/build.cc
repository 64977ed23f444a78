// Builds the forward graph. The lines of the description's model section are
// resolved once, and then their ops are written layer by layer. Some layers may
// lack an argument of a line, such as the weight of a shared expert. In these
// layers the line is left out, and so are the lines that read its result. In
// the following example, `?` marks arguments that some layers lack, and `@`
// names a sharding constraint:
//
//   s = swiglu(y, shared.gate?, shared.up) @mlp    no shared.gate: no s
//   x = add(x, m?, s?) @resid                      without s, x becomes x + m
//
// In four cases a line with a missing argument is not left out:
// - `add` adds the operands that exist.
// - Attention handles missing arguments itself.
// - A norm without a weight returns its operand.
// - A line that assigns to its own first operand leaves the operand unchanged.
//
// A line whose `if` condition is false is not written.
#include "step/build.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/model_description.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/build_context.h"
#include "step/graph_writer.h"
#include "step/lines.h"
#include "step/macros.h"
#include "step/program.h"
#include "step/roles.h"
#include "step/validate.h"

namespace shardc::step {
namespace {

// Returns whether a parameter has a gradient. Quantised weights, whose dtypes
// are integers or narrow floats, have none.
bool HasGradient(const Manifest& manifest, const Parameter& parameter) {
  return std::all_of(parameter.manifest_rows.begin(),
                     parameter.manifest_rows.end(), [&](int64_t row) {
                       if (row < 0) return true;
                       const auto& type =
                           manifest.TypeOf(manifest.tensors[AsIndex(row)]);
                       return !type.dtype || step::IsTrained(*type.dtype);
                     });
}

class Builder {
 public:
  Builder(const ModelDescription& description, const ModelConfig* config,
          const Manifest& manifest, Mode mode, Findings& findings,
          const std::vector<int32_t>& only_layers, const AttentionForm& form,
          const Roles* roles)
      : description_(description),
        config_(config),
        manifest_(manifest),
        findings_(findings),
        only_layers_(only_layers),
        c_(description, mode, findings, form),
        roles_(roles) {}

  std::optional<StepModel> Run() {
    formulas_ = Formulas::Make(description_, config_, findings_);
    if (formulas_ == nullptr) return std::nullopt;
    const auto lines = ResolveLines(description_, findings_);
    if (!lines || !FindRoles() || RefuseRoles() || RefuseSize(*lines)) {
      return std::nullopt;
    }
    c_.reader.emplace(description_, config_, *formulas_, findings_);
    c_.parameters.emplace(description_, *roles_, c_.write);
    MakeInputs();
    if (!ReadSettings()) return std::nullopt;
    c_.variables.assign(lines->variables.size(), kNoValue);
    // The encoder is the last stack. It is written first, because the decoder,
    // which is the first stack, reads the encoder's results.
    for (size_t stack = lines->stacks.size(); stack > 0;) {
      --stack;
      if (!WriteStack(stack, lines->stacks[stack])) return std::nullopt;
    }
    if (!Finish(*lines) || c_.failed) return std::nullopt;
    return std::move(c_.out);
  }

 private:
  bool WriteStack(size_t stack, const LineStack& lines) {
    c_.stack = stack;
    c_.variables[kIdsVariable] = c_.stream().ids;
    c_.variables[kPositionsVariable] = c_.stream().positions;
    Section(lines.begin, -1);
    const auto begin = static_cast<int32_t>(roles_->BeginOf(stack));
    const auto count = static_cast<int32_t>(roles_->stack_layers[stack]);
    for (int32_t layer = begin; layer < begin + count; ++layer) {
      if (!IsWritten(only_layers_, layer)) continue;
      const auto settings = c_.reader->ReadLayer(layer - begin, c_.settings,
                                                 c_.graph().common, c_.labels);
      if (!settings) return false;
      c_.layer_settings = *settings;
      Section(lines.layer, layer);
    }
    if (stack == 0 && c_.mode == Mode::kPrefill && c_.settings.causal) {
      TakeLastToken(lines.end);
    }
    Section(lines.end, -1);
    return !c_.failed;
  }

  // A prompt is followed by the token that its last token predicts, so only the
  // logits of the last token are computed. Replaces each variable that the
  // lines after the layers read by its last token.
  void TakeLastToken(const std::vector<Line>& end) {
    c_.write.layer = -1;
    c_.write.name = "last token";
    const LabelId tokens = c_.stream().query;
    std::vector<char> written(c_.variables.size(), 0);
    for (const Line& line : end) {
      for (const LineArgument& argument : line.arguments) {
        for (const int32_t variable : argument.variables) {
          ValueId& value = c_.variables[AsIndex(variable)];
          if (written[AsIndex(variable)] != 0 || value == kNoValue) continue;
          written[AsIndex(variable)] = 1;
          if (!c_.write.Has(value, tokens)) continue;
          value = c_.write.Index(value, tokens, -1);
        }
      }
      for (const int32_t variable : line.results) {
        written[AsIndex(variable)] = 1;
      }
    }
  }

  bool FindRoles() {
    if (roles_ == nullptr) {
      own_roles_ = AssignRoles(description_, *formulas_, manifest_, findings_);
      if (own_roles_) roles_ = &*own_roles_;
    } else {
      SetInferredSizes(description_, *roles_, *formulas_);
    }
    return roles_ != nullptr;
  }

  // Reports the problems of roles as errors, except roles that no op uses
  // (kUnused). If a role has several problems of the same RoleFault, only the
  // first one is reported. Returns whether there was an error.
  bool RefuseRoles() {
    std::vector<std::pair<RoleFault, int32_t>> reported;
    for (const RoleProblem& problem : roles_->problems) {
      if (problem.fault == RoleFault::kUnused) continue;
      const std::pair<RoleFault, int32_t> key{problem.fault, problem.role};
      if (IsAmong(key, reported)) continue;
      reported.push_back(key);
      const Place place = problem.role < 0
                              ? description_.stacks[0].repeat.place
                              : description_.roles[AsIndex(problem.role)].place;
      const bool needs_config =
          problem.fault == RoleFault::kShape && !formulas_->has_config();
      Finding& finding = findings_.Add(
          code::kSchema, place, problem.message,
          needs_config ? "give the model's config.json: `--model config.json`"
                       : "");
      if (problem.tensor >= 0) {
        finding.params.emplace_back(
            manifest_.tensors[AsIndex(problem.tensor)].name);
      }
    }
    return !reported.empty();
  }

  // Returns true and reports an error if the model's layers have too many lines
  // in total (a line is an op of the description, such as `q = linear(y, q)`).
  // The ops and instructions of one line take about 17 KB, so the limit keeps
  // the memory of a step below 1 GiB.
  bool RefuseSize(const Lines& lines) {
    constexpr size_t kMostLines = 30000;
    size_t count = 0;
    for (size_t stack = 0; stack < lines.stacks.size(); ++stack) {
      const auto begin = static_cast<int32_t>(roles_->BeginOf(stack));
      const auto layers = static_cast<int32_t>(roles_->stack_layers[stack]);
      for (int32_t layer = begin; layer < begin + layers; ++layer) {
        if (!IsWritten(only_layers_, layer)) continue;
        count += lines.stacks[stack].layer.size();
      }
    }
    if (count <= kMostLines) return false;
    findings_.Add(
        code::kLimit, description_.stacks[0].repeat.place,
        "the model's layers have " + CountText(static_cast<int64_t>(count)) +
            " lines of ops, and a step has at most " + CountText(kMostLines),
        "give a tree and a config.json with fewer layers: those of one kind "
        "have the same ops");
    return true;
  }

  void MakeInputs() {
    c_.labels.MakeCommon(roles_->sizes);
    if (description_.HasEncoder()) {
      c_.graph().encoder_layer =
          static_cast<int32_t>(roles_->BeginOf(kEncoderStack));
    }
    c_.parameters->Make(only_layers_, c_.labels);
    for (Parameter& parameter : c_.graph().parameters) {
      parameter.trained = HasGradient(manifest_, parameter);
    }
    c_.streams.Make(description_.stacks.size(), c_.mode,
                    c_.reader->Holds("per_row", false), c_.form.view);
  }

  bool ReadSettings() {
    auto settings =
        c_.reader->Read(c_.mode, c_.form.view, c_.graph().common, c_.labels);
    if (!settings) return false;
    c_.settings = std::move(*settings);
    c_.settings.attention.form = c_.form;
    c_.streams[0].causal = c_.settings.causal;
    c_.correction = c_.parameters->RoleNamed(c_.settings.correction);
    c_.out.capacity = c_.settings.capacity;
    c_.out.encoder_length = c_.settings.encoder_length;
    if (c_.graph().common.slot != kNoLabel) {
      c_.graph().dropless = c_.settings.capacity <= 0;
    }
    return true;
  }

  void Section(const std::vector<Line>& lines, int32_t layer) {
    c_.write.layer = layer;
    c_.layer = layer;
    for (const Line& line : lines) {
      if (c_.failed) return;
      Write(line);
    }
  }

  // Returns whether all variables and parameters that the line reads exist in
  // this layer.
  bool Complete(const Line& line) {
    for (size_t i = 0; i < line.arguments.size(); ++i) {
      const LineArgument& argument = line.arguments[i];
      for (const int32_t variable : argument.variables) {
        if (c_.variables[AsIndex(variable)] == kNoValue) return false;
      }
      if (argument.role >= 0 && c_.RoleValue(line, i) == kNoValue) return false;
    }
    return true;
  }

  bool Applies(const Line& line) {
    const DescribedText& when = line.described->when;
    return when.text.empty() || formulas_->Condition(when);
  }

  void Write(const Line& line) {
    c_.write.name = line.name;
    c_.write.line = line.number;
    std::vector<ValueId> results;
    const bool norm =
        line.op == LineOp::kRmsNorm || line.op == LineOp::kLayerNorm;
    if (!Applies(line)) return;
    if (line.op == LineOp::kAdd) {
      results = {AddPresent(line)};
    } else if (!Complete(line) && line.op != LineOp::kAttention &&
               line.op != LineOp::kAttentionNear) {
      if (norm) results = {c_.Value(line, 0)};
    } else {
      results = WriteLine(c_, line);
    }
    results.resize(line.results.size(), kNoValue);
    for (size_t i = 0; i < results.size(); ++i) {
      ValueId value = results[i];
      if (value == kNoValue && IsFirstOperand(line, line.results[i])) continue;
      if (value != kNoValue)
        value = c_.write.Constrained(value, line.constraint);
      c_.variables[AsIndex(line.results[i])] = value;
    }
  }

  // Returns whether the line assigns to its first operand, like x = linear(x,
  // w). In a layer without the weight w, such a line has no effect.
  static bool IsFirstOperand(const Line& line, int32_t variable) {
    const auto& first = line.arguments[0].variables;
    return first.size() == 1 && first[0] == variable;
  }

  ValueId AddPresent(const Line& line) {
    std::vector<ValueId> terms;
    for (size_t i = 0; i < line.arguments.size(); ++i) {
      if (c_.Value(line, i) != kNoValue) terms.push_back(c_.Value(line, i));
    }
    if (terms.empty()) return kNoValue;
    // The results of several branches are added before they are added to the
    // value that the line updates. If they are partial, one collective then
    // reduces their sum.
    if (terms.size() > 2 && IsFirstOperand(line, line.results[0]) &&
        terms[0] == c_.Value(line, 0)) {
      const ValueId first = terms[0];
      terms.erase(terms.begin());
      terms = {first, c_.write.Add(std::move(terms))};
    }
    return c_.write.Add(std::move(terms));
  }

  bool Finish(const Lines& lines) {
    const auto at =
        std::find(lines.variables.begin(), lines.variables.end(), "logits");
    const ValueId logits =
        at == lines.variables.end()
            ? kNoValue
            : c_.variables[AsIndex(at - lines.variables.begin())];
    if (logits == kNoValue) {
      findings_.Add(code::kSchema, description_.stacks[0].repeat.place,
                    "the model's section makes no `logits`");
      return false;
    }
    c_.graph().logits = logits;
    c_.write.line = 0;
    if (c_.mode == Mode::kTrain) {
      c_.write.name = "loss";
      std::vector<ValueId> losses = {
          CrossEntropy(c_.write, logits, c_.streams.labels(),
                       c_.streams.weights(), c_.write.LabelsOf(logits).back(),
                       c_.reader->Number("z_loss").value_or(0))};
      for (const ValueId one :
           LossesOf(c_.write, c_.routers, c_.graph().common.experts,
                    c_.settings.router_losses)) {
        losses.push_back(one);
      }
      c_.write.name = "total loss";
      c_.graph().loss = c_.write.Add(std::move(losses));
    }
    // Decoding reads the encoder's keys and values from the cache that prefill
    // has written, so the ops of the encoder are removed.
    if (c_.mode == Mode::kDecode && description_.HasEncoder())
      Prune(c_.graph());
    FinishSizes(c_.graph(), c_.out.sizes);
    return CheckSizes(c_.graph(), c_.out.sizes,
                      description_.stacks[0].repeat.place, findings_);
  }

  const ModelDescription& description_;
  const ModelConfig* const config_;
  const Manifest& manifest_;
  Findings& findings_;
  const std::vector<int32_t>& only_layers_;
  BuildContext c_;
  std::unique_ptr<Formulas> formulas_;
  std::optional<Roles> own_roles_;
  const Roles* roles_;
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
  Findings unreported;
  const auto formulas = Formulas::Make(description, config, unreported);
  return formulas == nullptr || formulas->Condition(*causal);
}

// Creates an input of the graph for each parameter: first for the parameters
// outside of layers, then for those of each layer. If all layers of a stack
// share one parameter, its input is created for the first layer, and the other
// layers use this input. A role that is tied to another role uses the other
// role's input:
//
//   lm_head, tied to embed  ->  lm_head uses the input of embed

bool IsWritten(std::span<const int32_t> only_layers, int32_t layer) {
  return only_layers.empty() || IsAmong(layer, only_layers);
}

void Parameters::Make(std::span<const int32_t> only_layers,
                      LabelTable& labels) {
  const size_t roles = description_.roles.size();
  values_.assign(roles * AsIndex(roles_.layers), kNoValue);
  std::vector<Labels> of_role(roles);
  std::vector<std::vector<size_t>> leads(roles);
  for (size_t role = 0; role < roles; ++role) {
    if (!AnyRow(role)) continue;
    for (const DescribedDim& dim : description_.roles[role].dims) {
      of_role[role].push_back(labels.Of(dim));
      leads[role].push_back(labels.LeadOf(dim));
    }
  }
  for (const bool in_layers : {false, true}) {
    const int64_t layers = in_layers ? roles_.layers : 1;
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (size_t role = 0; role < roles; ++role) {
        if (roles_.in_layers[role] != in_layers) continue;
        if (in_layers && !IsWritten(only_layers, layer) &&
            !Serves(role, layer)) {
          continue;
        }
        MakeOne(role, in_layers ? layer : -1, of_role[role], leads[role]);
      }
    }
  }
  write_.layer = -1;
}

// Returns whether the other layers of a stack use the parameter of this layer,
// because the role is shared.
bool Parameters::Serves(size_t role, int64_t layer) const {
  const DescribedRole& described = description_.roles[role];
  return described.shared && layer == roles_.BeginOf(described.stack);
}

bool Parameters::AnyRow(size_t role) const {
  const size_t begin = role * AsIndex(roles_.layers);
  for (size_t i = 0; i < AsIndex(roles_.layers); ++i) {
    if (!roles_.rows[begin + i].empty()) return true;
  }
  return false;
}

void Parameters::MakeOne(size_t role, int32_t layer, const Labels& labels,
                         const std::vector<size_t>& leads) {
  const size_t at = role * AsIndex(roles_.layers) + AsIndex(std::max(layer, 0));
  if (roles_.rows[at].empty()) return;
  const std::string& name = description_.roles[role].name;
  write_.layer = layer;
  write_.name = name;
  values_[at] = write_.Input(labels);
  // Parameters with one dimension, such as norms, have no weight decay.
  const int64_t row = roles_.rows[at].front();
  write_.graph().parameters.push_back(
      {name, layer, values_[at], roles_.rows[at], labels.size() > 1, true,
       row < 0 ? -1 : roles_.tensors[AsIndex(row)].stack_dim, leads});
}

ValueId Parameters::Of(int32_t role, int32_t layer) const {
  const bool in_layers = roles_.in_layers[AsIndex(role)];
  const DescribedRole& described = description_.roles[AsIndex(role)];
  if (in_layers && layer < 0) return kNoValue;
  const ValueId value =
      values_[AsIndex(role * roles_.layers + (in_layers ? layer : 0))];
  if (value != kNoValue) return value;
  const auto first = static_cast<int32_t>(roles_.BeginOf(described.stack));
  if (described.shared && layer != first) return Of(role, first);
  if (described.tied.empty()) return value;
  const int32_t other = RoleNamed(described.tied);
  return other < 0 ? kNoValue : Of(other, layer);
}

ValueId Parameters::BiasOf(int32_t role, int32_t layer) {
  auto [at, is_new] = biases_.emplace(role, -1);
  if (is_new) {
    at->second = RoleNamed(description_.roles[AsIndex(role)].name + ".bias");
  }
  return at->second < 0 ? kNoValue : Of(at->second, layer);
}

int32_t Parameters::RoleNamed(std::string_view name) const {
  for (size_t i = 0; i < description_.roles.size(); ++i) {
    if (description_.roles[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

// Removes the ops on which none of the loss, the logits and the caches depends.
// An op comes after the ops that compute its operands, so one pass over the ops
// in reverse order finds all values that are needed. For example, in the
// decoding step of a model with an encoder, the cache already holds k, the keys
// of the encoder's tokens:
//
//   e = encoder(..), k = linear(e, w)    removed
//   logits = .., which reads k's cache   kept

namespace {

// Returns for each value whether it is needed: true for parameters, and for
// values on which the loss, the logits or the caches depend.
std::vector<bool> Needed(const Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  const auto need = [&](ValueId value) {
    if (value != kNoValue) needed[AsIndex(value)] = true;
  };
  need(graph.loss);
  need(graph.logits);
  for (const Cache& cache : graph.caches) {
    need(cache.before);
    need(cache.after);
  }
  for (const Parameter& parameter : graph.parameters) need(parameter.value);
  for (size_t i = graph.ops.size(); i > 0;) {
    --i;
    const Op& op = graph.ops[i];
    if (!needed[AsIndex(op.out)]) continue;
    for (const ValueId value : op.in) need(value);
  }
  return needed;
}

}  // namespace

void Prune(Graph& graph) {
  const std::vector<bool> needed = Needed(graph);
  std::vector<ValueId> now(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    now[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&](ValueId& value) {
    if (value != kNoValue) value = now[AsIndex(value)];
  };
  std::erase_if(graph.ops,
                [&](const Op& op) { return !needed[AsIndex(op.out)]; });
  for (Op& op : graph.ops) {
    renumber(op.out);
    for (ValueId& value : op.in) renumber(value);
  }
  std::erase_if(graph.data,
                [&](const Data& data) { return !needed[AsIndex(data.value)]; });
  for (Data& data : graph.data) renumber(data.value);
  for (Parameter& parameter : graph.parameters) renumber(parameter.value);
  for (Cache& cache : graph.caches) {
    renumber(cache.before);
    renumber(cache.after);
  }
  renumber(graph.loss);
  renumber(graph.logits);
}

// Creates the inputs of a step other than parameters. A stream is the sequence
// of tokens that a layer stack reads. Stream 0 has the model's own tokens, and
// stream 1 has the tokens of an encoder. For example:
//
//   whisper: decoder tokens [b, t], encoder frames [b, te]
//
// Several lines of a description may read the same input, so its name describes
// its contents ("encoder positions") and not one of the lines.

void Streams::Make(size_t stacks, Mode mode, bool per_row, AttentionView view) {
  const CommonLabels common = write_.graph().common;
  const Labels tokens = {common.batch, common.query};
  streams_.resize(stacks);
  Stream& own = streams_[0];
  own.query = common.query;
  own.key = common.key;
  own.ids = NewData(DataKind::kIds, "ids", tokens, true, "tokens");
  own.positions =
      NewData(DataKind::kPositions, "positions", tokens, true, "tokens");
  if (mode == Mode::kTrain) {
    const Labels each = per_row ? Labels{common.batch} : tokens;
    labels_ = NewData(DataKind::kLabels, "labels", each, true, "tokens");
    weights_ = NewData(DataKind::kWeights, "weights", each, false, "tokens");
  }
  if (mode == Mode::kDecode) {
    own.key_positions =
        NewData(DataKind::kCachePositions, "cache positions",
                {common.batch, common.key}, true, "cache_positions");
  }
  if (common.encoder_query != kNoLabel) MakeEncoder();
  for (Stream& stream : streams_) stream.query_positions = stream.positions;
  if (view != AttentionView::kGlobal) MakeOwnPositions(mode);
}

void Streams::MakeEncoder() {
  const CommonLabels common = write_.graph().common;
  const Labels tokens = {common.batch, common.encoder_query};
  Stream& stream = streams_[kEncoderStack];
  stream.query = common.encoder_query;
  stream.key = common.encoder_key;
  stream.ids = NewData(DataKind::kIds, "encoder ids", tokens, true, "tokens");
  stream.positions = NewData(DataKind::kPositions, "encoder positions", tokens,
                             true, "tokens");
  stream.causal = false;
}

void Streams::MakeOwnPositions(Mode mode) {
  const CommonLabels common = write_.graph().common;
  Stream& own = streams_[0];
  own.query_positions =
      NewData(DataKind::kPositions, "positions of queries",
              {common.batch, common.query}, true, "op_positions");
  own.key_positions = NewData(
      mode == Mode::kDecode ? DataKind::kCachePositions : DataKind::kPositions,
      "positions of keys", {common.batch, common.key}, true, "op_positions");
}

size_t Streams::StackOf(ValueId value) const {
  const LabelId encoder = write_.graph().common.encoder_query;
  return encoder != kNoLabel && write_.Has(value, encoder) ? kEncoderStack : 0;
}

ValueId Streams::NewData(DataKind kind, std::string name, Labels labels,
                         bool integral, std::string_view constraint) {
  std::swap(write_.name, name);
  const ValueId value = write_.Input(std::move(labels), integral);
  std::swap(write_.name, name);
  write_.graph().data.push_back({kind, value});
  write_.Producer(value).constraint = constraint;
  return value;
}

void Streams::MakeKeys(const Stream& of, ValueId queries, ValueId& keys) {
  if (keys != kNoValue) return;
  keys = write_.Rename(queries, of.query, of.key);
  write_.Producer(keys).layer = -1;
  write_.graph().values[AsIndex(keys)].integral = true;
}

void Streams::MakeKeyPositions(Stream& of) {
  MakeKeys(of, of.positions, of.key_positions);
}

void Streams::MakePlaces(Stream& of) {
  if (of.places != kNoValue) return;
  of.places =
      NewData(DataKind::kPositions, "places", {of.query}, true, "tokens");
  write_.Producer(of.places).layer = -1;
  MakeKeys(of, of.places, of.key_places);
}

// Appends the optimizer to a graph. The gradients are clipped by their global
// norm, the root of the sum of squares of all gradients. The squares of a
// gradient are summed by an einsum of the gradient with itself. The einsum's
// result is partial only over the axes that shard the gradient, so the elements
// of replicas are counted once. For a parameter p with gradient g and moments m
// and v:
//
//   norm = sqrt(the sum of einsum(g, g -> ) over all gradients g)
//   clip = min(1, Adam::clip / norm)
//   p', m', v' = AdamW(p, g, m, v, clip)

namespace {

ValueId Update(GraphWriter& write, const std::vector<ValueId>& in,
               AdamWResult result, const Parameter& parameter) {
  const Adam& adam = write.graph().adam;
  const AdamWAttributes update{result, parameter.decays ? adam.decay : 0};
  const ValueId out =
      write.Append(OpKind::kAdamW, in, update, write.LabelsOf(in[0]));
  write.Producer(out).constraint = "new:" + parameter.role;
  return out;
}

// Appends the gradients' norm (the square root of `sum`), the factor that clips
// gradients by this norm, and the updates.
void AppendUpdates(GraphWriter& write, ValueId sum) {
  Graph& graph = write.graph();
  graph.gradient_norm = write.Fn("sqrt", sum);
  const ValueId clip = write.Fn("clip", graph.gradient_norm, graph.adam.clip);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const ValueId g = graph.gradients[i];
    graph.moments.emplace_back();
    graph.updated_moments.emplace_back();
    graph.updated.push_back(kNoValue);
    if (g == kNoValue) continue;
    write.layer = parameter.layer;
    write.name = "adamw " + parameter.role;
    const Labels labels = write.LabelsOf(parameter.value);
    Moments& moments = graph.moments.back();
    moments = {write.Input(labels), write.Input(labels)};
    const std::vector<ValueId> in = {parameter.value, g, moments.first,
                                     moments.second, clip};
    graph.updated.back() =
        Update(write, in, AdamWResult::kParameter, parameter);
    graph.updated_moments.back() = {
        Update(write, in, AdamWResult::kFirstMoment, parameter),
        Update(write, in, AdamWResult::kSecondMoment, parameter)};
  }
}

}  // namespace

void AppendOptimizer(Graph& graph) {
  GraphWriter write(graph);
  write.phase = Phase::kOptimizer;
  write.name = "norm";
  std::vector<ValueId> squares;
  for (const ValueId g : graph.gradients) {
    if (g != kNoValue) squares.push_back(write.Einsum(g, g, {}));
  }
  if (squares.empty()) return;
  AppendUpdates(write, write.Add(std::move(squares)));
}

void AppendOptimizer(Graph& graph, std::vector<NormPart>& parts) {
  GraphWriter write(graph);
  write.phase = Phase::kOptimizer;
  write.name = "norm";
  std::vector<ValueId> sums;
  for (NormPart& part : parts) {
    std::vector<ValueId> squares;
    for (const size_t parameter : part.parameters) {
      const ValueId own = graph.gradients[parameter];
      if (own != kNoValue) squares.push_back(write.Einsum(own, own, {}));
    }
    if (squares.empty()) continue;
    part.sum = write.Add(std::move(squares));
    sums.push_back(part.sum);
  }
  if (!sums.empty()) AppendUpdates(write, write.Add(std::move(sums)));
}

}  // namespace shardc::step
