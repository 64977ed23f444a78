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
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "source/index.h"
#include "source/wording.h"
#include "step/attention.h"
#include "step/formulas.h"
#include "step/functions.h"
#include "step/graph_writer.h"
#include "step/label_table.h"
#include "step/lines.h"
#include "step/macros.h"
#include "step/parameters.h"
#include "step/prune.h"
#include "step/roles.h"
#include "step/settings.h"
#include "step/sizes.h"
#include "step/streams.h"

namespace shardc::step {
namespace {

class Builder {
 public:
  Builder(const ModelDescription& description, const ModelConfig* config,
          const Manifest& manifest, Mode mode, Findings& findings,
          const std::vector<int32_t>& only_layers, const AttentionForm& form,
          const Roles* roles)
      : description_(description),
        config_(config),
        manifest_(manifest),
        mode_(mode == Mode::kInsert ? Mode::kDecode : mode),
        findings_(findings),
        only_layers_(only_layers),
        form_(form),
        labels_(description, out_.graph, out_.sizes),
        write_(out_.graph),
        streams_(write_),
        roles_(roles) {}

  std::optional<StepModel> Run() {
    formulas_ = Formulas::Make(description_, config_, findings_);
    if (formulas_ == nullptr) return std::nullopt;
    const auto lines = ResolveLines(description_, findings_);
    if (!lines || !FindRoles() || RefuseRoles() || RefuseSize(*lines)) {
      return std::nullopt;
    }
    reader_.emplace(description_, config_, *formulas_, findings_);
    parameters_.emplace(description_, *roles_, write_);
    MakeInputs();
    if (!ReadSettings()) return std::nullopt;
    variables_.assign(lines->variables.size(), kNoValue);
    // The encoder first.
    for (size_t stack = lines->stacks.size(); stack > 0;) {
      --stack;
      if (!WriteStack(stack, lines->stacks[stack])) return std::nullopt;
    }
    if (!Finish(*lines) || failed_) return std::nullopt;
    return std::move(out_);
  }

 private:
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
      if (!IsWritten(only_layers_, layer)) continue;
      const auto settings =
          reader_->ReadLayer(layer - begin, settings_, graph().common, labels_);
      if (!settings) return false;
      layer_settings_ = *settings;
      Section(lines.layer, layer);
    }
    Section(lines.end, -1);
    return !failed_;
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
      const Place place = problem.role < 0
                              ? description_.stacks[0].repeat.place
                              : description_.roles[AsIndex(problem.role)].place;
      Finding& finding = findings_.Add(code::kSchema, place, problem.message);
      if (problem.tensor >= 0) {
        finding.params.emplace_back(
            manifest_.tensors[AsIndex(problem.tensor)].name);
      }
    }
    return !told.empty();
  }

  // Each line is some ops, which are judged, drawn and told one by one.
  bool RefuseSize(const Lines& lines) {
    constexpr size_t kMostLines = 200000;
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
        "the model's layers have more than " + CountText(kMostLines) + " ops");
    return true;
  }

  void MakeInputs() {
    labels_.MakeCommon(roles_->sizes);
    if (description_.HasEncoder()) {
      graph().encoder_layer =
          static_cast<int32_t>(roles_->BeginOf(kEncoderStack));
    }
    parameters_->Make(only_layers_, labels_);
    streams_.Make(description_.stacks.size(), mode_,
                  reader_->Holds("per_row", false), form_.view);
  }

  bool ReadSettings() {
    auto settings = reader_->Read(mode_, form_.view, graph().common, labels_);
    if (!settings) return false;
    settings_ = std::move(*settings);
    settings_.attention.form = form_;
    streams_[0].causal = settings_.causal;
    correction_ = parameters_->RoleNamed(settings_.correction);
    out_.capacity = settings_.capacity;
    out_.encoder_length = settings_.encoder_length;
    if (graph().common.slot != kNoLabel) {
      graph().dropless = settings_.capacity <= 0;
    }
    return true;
  }

  // Labels of the ring, and of kv heads that are there several times.
  void MakeOwnLabels(ValueId key) {
    if (made_own_labels_) return;
    made_own_labels_ = true;
    if (form_.view == AttentionView::kRing) {
      RingLabels ring;
      ring.turns = labels_.New("turns", "", form_.turns);
      ring.query_rows = labels_.New("t/turns", "", 0);
      ring.queries = labels_.OfFactors({ring.turns, ring.query_rows});
      ring.key_rows = labels_.New("s/turns", "", 0);
      ring.keys = labels_.OfFactors({ring.turns, ring.key_rows});
      graph().ring = ring;
    }
    const Labels& labels = write_.LabelsOf(key);
    if (form_.copies > 1 && labels.size() == 4) {
      const LabelId copies = labels_.New("copies", "", form_.copies);
      copied_heads_ = labels_.OfFactors({labels[2], copies});
      labels_[copied_heads_].semantic = labels_[labels[2]].semantic;
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
    return variables_[AsIndex(line.arguments[i].variables[0])];
  }
  ValueId RoleValue(const Line& line, size_t i) {
    if (i >= line.arguments.size()) return kNoValue;
    return parameters_->Of(line.arguments[i].role, layer_);
  }
  ValueId BiasOf(const Line& line, size_t i) {
    if (i >= line.arguments.size()) return kNoValue;
    return parameters_->BiasOf(line.arguments[i].role, layer_);
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
        if (variables_[AsIndex(variable)] == kNoValue) return false;
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
      if (value != kNoValue) value = write_.Constrained(value, line.constraint);
      variables_[AsIndex(line.results[i])] = value;
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
        return {GatedBy(line, x, settings_.activation)};
      case LineOp::kSwiglu:
        return {GatedBy(line, x, {.fn = "silu"})};
      case LineOp::kGeglu:
        return {GatedBy(line, x, {.fn = "gelu_tanh"})};
      case LineOp::kGatedFused:
        return {GatedFused(line, x)};
      case LineOp::kActivation:
        return {Activated(x)};
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
        return {write_.Index(x, labels_.Dim(line.arguments[1].dims[0]),
                             static_cast<int64_t>(line.arguments[2].number))};
      case LineOp::kRename:
        return {Renamed(line, x)};
      case LineOp::kRope:
        return {layer_settings_.rotates ? Rotated(x) : x};
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
    const int32_t dim = line.arguments[1].dims[0];
    const bool given = line.arguments.size() > 2;
    return {labels_.Dim(dim), given ? line.arguments[2].number : 0.5};
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
    const LabelId left = labels_.Dim(line.arguments[1].dims[0]);
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
    const ValueId patches = streams_.NewData(
        DataKind::kPatches, "patches", std::move(labels), false, "tokens");
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
    frames_ = labels_.New("frames", "", several);
    const LabelId all = labels_.OfFactors({stream().query, frames_});
    labels_[all].semantic = "QUERY_LENGTH";
    const LabelId numbers = labels_.Dim(line.arguments[0].dims[0]);
    return streams_.NewData(DataKind::kPatches, "frames",
                            {graph().common.batch, all, numbers}, false,
                            "tokens");
  }

  ValueId Convolve(const Line& line, ValueId x) {
    const ValueId weight = RoleValue(line, 1);
    Convolution settings;
    settings.kernel = labels_.Dim(line.arguments[2].dims[0]);
    settings.width = labels_.SizeOf(settings.kernel);
    settings.tokens = stream().query;
    if (!write_.Has(x, stream().query)) settings.tokens = TokensOf(x);
    const bool thins =
        line.arguments.size() > 3 && line.arguments[3].number != 1;
    if (thins) settings.frames = frames_;
    const bool fits =
        !thins || (frames_ != kNoLabel && settings.tokens != stream().query &&
                   static_cast<double>(labels_.SizeOf(frames_)) ==
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
      const auto& factors = labels_[label].factors;
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
      const auto& factors = labels_[label].factors;
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
      return RmsNorm(write_, x, label, weight, settings_.norm);
    }
    return LayerNorm(write_, x, label, weight, BiasOf(line, 1), settings_.norm);
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
    const LabelId half = labels_.Dim(line.arguments[2].dims[0]);
    if (!write_.Has(both, half)) {
      Fail(line, "`" + line.name + "` has no such halves");
      return kNoValue;
    }
    const ValueId gate = write_.Index(both, half, 0);
    return Gated(write_, gate, write_.Index(both, half, 1),
                 settings_.activation);
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
  std::optional<double> Constant(const LineArgument& by) {
    return by.word.empty() ? by.number : reader_->Constant(by.word);
  }
  ValueId Activated(ValueId x) {
    const Activation& by = settings_.activation;
    return write_.Fn(by.fn, x, by.fn == "swish" ? by.alpha : 0);
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
      parts.push_back(labels_.Dim(dim));
    }
    const LabelId whole = labels_.OfParts(parts);
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
    const LabelId from = labels_.Dim(line.arguments[1].dims[0]);
    const LabelId to = labels_.Dim(line.arguments[2].dims[0]);
    const bool same = labels_.SizeOf(from) == labels_.SizeOf(to);
    if (!same || !write_.Has(x, from) || write_.Has(x, to)) {
      Fail(line, "`" + line.name + "` needs a dimension and one of its size");
      return kNoValue;
    }
    return write_.Rename(x, from, to);
  }

  int64_t RopeIndex(LabelId label) {
    Rope rope = layer_settings_.rope;
    const int64_t size = labels_.SizeOf(label);
    // So many elements of a head, not such a part.
    if (rope.rotary_fraction > 1) {
      rope.rotary_fraction /= static_cast<double>(std::max<int64_t>(size, 1));
    }
    const auto same = [&](const Rope& a) {
      return a.base == rope.base && a.scaling == rope.scaling &&
             a.rotary_fraction == rope.rotary_fraction &&
             a.interleaved == rope.interleaved;
    };
    auto& ropes = graph().ropes;
    const auto known = std::find_if(ropes.begin(), ropes.end(), same);
    const int64_t index = known - ropes.begin();
    if (known == ropes.end()) ropes.push_back(std::move(rope));
    return index;
  }

  ValueId Rotated(ValueId x) {
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
      write_.Producer(kept).constraint = "kcache";
      graph().caches.push_back({layer_, kNoValue, kept});
      return kept;
    }
    Labels labels = write_.LabelsOf(x);
    std::replace(labels.begin(), labels.end(), of.query, of.key);
    const ValueId before =
        streams_.NewData(DataKind::kCache, "cache", labels, false, "kcache");
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
    write_.Producer(after).constraint = "kcache";
    graph().caches.push_back({layer_, before, after});
    return after;
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
    const auto most = reader_->Number("distance");
    if (!most || labels.size() != 2 || !write_.Has(query, labels.back())) {
      Fail(line,
           "`" + line.name + "` needs `distance` and a table of rows by heads");
      return kNoValue;
    }
    if (distance_ == kNoLabel) {
      distance_ = labels_.New("distance", "", static_cast<int64_t>(*most));
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
      streams_.MakePlaces(stream());
      streams_.MakePlaces(streams_[seen]);
      op.in = {stream().places, streams_[seen].key_places};
    }
    const ValueId rows = write_.Append(std::move(op), std::move(apart), true);
    return near_[key] = write_.Lookup(table, rows, 0);
  }

  ValueId Attend(const Line& line) {
    std::vector<ValueId> queries, keys;
    std::vector<LabelId> contracted;
    for (const int32_t variable : line.arguments[0].variables) {
      queries.push_back(variables_[AsIndex(variable)]);
      if (queries.back() == kNoValue) return kNoValue;
      contracted.push_back(write_.LabelsOf(queries.back()).back());
    }
    const ValueId given = Value(line, 2);
    const size_t seen = given == kNoValue ? stack_ : streams_.StackOf(given);
    Stream& of = streams_[seen];
    if (seen == stack_) streams_.MakeKeyPositions(of);
    for (const int32_t variable : line.arguments[1].variables) {
      const ValueId key = variables_[AsIndex(variable)];
      if (key == kNoValue) return kNoValue;
      keys.push_back(Remembered(key, seen));
    }
    if (keys.size() != queries.size() || given == kNoValue) {
      Fail(line, "queries and keys have different parts");
      return kNoValue;
    }
    const ValueId values = Remembered(given, seen);
    MakeOwnLabels(values);
    AttentionSettings settings = settings_.attention;
    settings.windowed = layer_settings_.windowed;
    settings.chunked = layer_settings_.chunked;
    settings.copied_heads = copied_heads_;
    settings.query = stream().query;
    settings.key = of.key;
    settings.query_positions = stream().query_positions;
    settings.key_positions = of.key_positions;
    // Of another stack's tokens all are seen.
    settings.causal = seen == stack_ && stream().causal;
    settings.sloped = settings.sloped && seen == stack_;
    if (settings_.scale > 0) {
      settings.scale.constant = settings_.scale;
    } else {
      settings.scale.powers.emplace_back(labels_.OfParts(contracted), -0.5);
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
    write_.Producer(logits).constraint = "router";
    const LabelId experts = write_.LabelsOf(logits).back();
    graph().common.experts = experts;
    RouterSettings router = settings_.router;
    if (correction_ >= 0)
      router.correction = parameters_->Of(correction_, layer_);
    const Routed routed = Route(write_, logits, experts, router);
    const RouterLosses& losses = settings_.router_losses;
    const bool judged = losses.balance != 0 || losses.z != 0;
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
    return Experts(write_, x, routed, experts, weights, settings_.activation);
  }

  bool Finish(const Lines& lines) {
    const auto at =
        std::find(lines.variables.begin(), lines.variables.end(), "logits");
    const ValueId logits =
        at == lines.variables.end()
            ? kNoValue
            : variables_[AsIndex(at - lines.variables.begin())];
    if (logits == kNoValue) {
      findings_.Add(code::kSchema, description_.stacks[0].repeat.place,
                    "the model's section makes no `logits`");
      return false;
    }
    graph().logits = logits;
    if (mode_ == Mode::kTrain) {
      write_.name = "loss";
      std::vector<ValueId> losses = {
          CrossEntropy(write_, logits, streams_.labels(), streams_.weights(),
                       write_.LabelsOf(logits).back(),
                       reader_->Number("z_loss").value_or(0))};
      for (const ValueId one :
           LossesOf(write_, routers_, graph().common.experts,
                    settings_.router_losses)) {
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
  const AttentionForm form_;
  StepModel out_;
  LabelTable labels_;
  GraphWriter write_;
  Streams streams_;
  std::unique_ptr<Formulas> formulas_;
  std::optional<Roles> own_roles_;
  const Roles* roles_;
  std::optional<SettingsReader> reader_;
  std::optional<Parameters> parameters_;
  ModelSettings settings_;
  LayerSettings layer_settings_;
  std::vector<ValueId> variables_;
  size_t stack_ = 0;
  int32_t layer_ = -1;
  // What attention adds, by its table, and whose queries and keys it is for.
  std::map<std::pair<ValueId, size_t>, ValueId> near_;
  LabelId distance_ = kNoLabel, frames_ = kNoLabel;
  LabelId copied_heads_ = kNoLabel;
  std::vector<RouterStatistics> routers_;  // of the layers so far
  int32_t correction_ = -1;
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

}  // namespace shardc::step
