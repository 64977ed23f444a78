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
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "source/index.h"
#include "source/wording.h"
#include "step/build_context.h"
#include "step/check_sizes.h"
#include "step/formulas.h"
#include "step/line_ops.h"
#include "step/lines.h"
#include "step/macros.h"
#include "step/parameters.h"
#include "step/prune.h"
#include "step/roles.h"
#include "step/sizes.h"
#include "step/widths.h"

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
    Section(lines.end, -1);
    return !c_.failed;
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
      if (std::find(reported.begin(), reported.end(), key) != reported.end())
        continue;
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
    return terms.empty() ? kNoValue : c_.write.Add(std::move(terms));
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

}  // namespace shardc::step
