// `shardc explain`: explains why a parameter got its spec, what an axis of the
// mesh is for, or what the code of a finding means. The argument is first
// looked up among the codes, such as SHD101; no parameter has such a name. The
// parts of a parameter's name may be separated by `/` or by `.`:
// model/layers/0 finds model.layers.0.
#include "emit/plans/explain.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/verify_step.h"
#include "emit/findings/formats.h"
#include "emit/plans/explain_facts.h"
#include "emit/verify/step_json.h"
#include "lint/rules/lint.h"
#include "program/read.h"
#include "source/file.h"
#include "source/wording.h"
#include "target/choose.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

struct ExplainFlags {
  InputFlags inputs;
  std::string what;
  bool codes = false;
  bool facts = false;
  std::string device, program, compiled;
  Strings steps_of;
};

// Explains how the steps of the model use a parameter.
int ExplainSteps(const ExplainFlags& flags, const Target& target,
                 const Compiled& compiled,
                 const std::optional<ModelConfig>& model, size_t param,
                 const Common& common, Findings& findings) {
  const auto modes = ParseModes(flags.steps_of, findings);
  if (!modes || !HasDescription(compiled, findings)) return kFailed;
  std::vector<verify::ParameterStep> steps;
  for (const Mode mode : *modes) {
    verify::StepRequest request = UsualStep(compiled, model, target.batch);
    request.mode = mode;
    auto step =
        verify::FollowParameter(request, static_cast<int64_t>(param), findings);
    if (!step) return kFailed;
    steps.push_back(std::move(*step));
  }
  const std::string_view name = compiled.plan.names[param];
  const auto write = [&](Sink& out) {
    if (common.format == "json")
      return WriteParameterStepJson(name, steps, out);
    for (const verify::ParameterStep& step : steps) {
      out.Append(Printable(name) + "\n" + ParameterStepText(step));
    }
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

// Returns the words that shell completion offers: the codes of findings, such
// as SHD101, and their names, such as `catch-all-replicates`.
Strings CodeWords() {
  Strings words;
  for (const Code* code : AllCodes()) {
    words.push_back(code->Id());
    words.emplace_back(code->name);
  }
  return words;
}

// Returns true, and adds a finding, if the word looks like a code or a code's
// name but is neither, such as `SHD1` or `catch-all-replicate`. A parameter's
// name looks different, because its parts are separated by `/` or `.`.
bool IsWrongCode(const std::string& what, Findings& findings) {
  const Strings names = CodeWords();
  const std::string folded = FoldCase(what);
  const bool is_code =
      folded.starts_with("shd") &&
      folded.find_first_not_of("0123456789", 3) == std::string::npos;
  const auto near = Nearest(what, names);
  const bool is_name = near && what.find('-') != std::string::npos &&
                       what.find_first_of("./") == std::string::npos;
  if (!is_code && !is_name) return false;
  findings.Add(
      code::kUsage, {}, "there is no diagnostic `" + what + "`",
      (near && !is_code ? "did you mean `" + *near + "`? " : std::string()) +
          "`shardc explain --codes` lists all codes, such as `SHD101`");
  return true;
}

// Returns the index of the axis of the mesh that `what` names; nullopt if there
// is none, or if a parameter has exactly this name.
std::optional<size_t> AxisNamed(const Compiled& compiled,
                                const std::string& what) {
  const auto& names = compiled.plan.names;
  if (std::ranges::find(names, what) != std::ranges::end(names)) return {};
  return compiled.mesh.Find(what);
}

// Explains what the parameters of a target and the axes of its mesh are; only
// one axis if `axis` is given.
int ExplainFacts(const Compiled& compiled, std::optional<size_t> axis,
                 const Common& common, Findings& findings) {
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteFactsJson(compiled, out, axis);
    } else {
      out.Append(axis ? AxisFactsText(compiled, *axis)
                      : AllFactsText(compiled));
    }
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

int RunExplain(const ExplainFlags& flags, const Common& common,
               Findings& findings) {
  const bool json = common.format == "json";
  if (flags.codes) {
    const auto write = [&](Sink& out) {
      json ? WriteCodesJson(out) : out.Append(CodesMarkdown());
    };
    return PutOut(write, findings) ? kDone : kFailed;
  }
  // A traced program needs neither a mesh nor rules. Without a name, all of its
  // parameters are explained.
  if (!flags.program.empty()) {
    const auto program = ReadSource(flags.program, findings);
    if (program == nullptr) return kFailed;
    return ExplainTraced(program, flags.what, common, findings);
  }
  if (flags.facts) {
    const auto target = ChooseTarget(flags.inputs.asked, findings);
    if (!target) return kFailed;
    if (target->rules.empty()) {
      return ExplainDescribed(*target, flags.what, common, findings);
    }
    if (!flags.what.empty()) {
      findings.Add(code::kUsage, {}, "`--facts` prints the facts about all",
                   "leave out `--facts`: those about " +
                       ShortQuote(flags.what) + " are printed with it");
      return kFailed;
    }
    const auto compiled =
        LoadAndCompile(flags.inputs, *target, common, findings);
    return compiled == nullptr
               ? kFailed
               : ExplainFacts(*compiled, std::nullopt, common, findings);
  }
  if (flags.what.empty()) {
    findings.Add(code::kUsage, {}, "there is nothing to explain",
                 "name a parameter, an axis of the mesh or a code; `--codes` "
                 "lists the codes, and `--facts` all facts");
    return kFailed;
  }
  if (const auto text = ExplainCode(flags.what)) {
    const auto write = [&](Sink& out) {
      json ? WriteCodeJson(flags.what, out) : out.Append(*text);
    };
    return PutOut(write, findings) ? kDone : kFailed;
  }
  if (IsWrongCode(flags.what, findings)) return kFailed;
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  std::optional<ModelConfig> model;
  const auto compiled =
      LoadAndCompile(flags.inputs, *target, common, findings, &model);
  if (compiled == nullptr) return kFailed;
  if (const auto axis = AxisNamed(*compiled, flags.what)) {
    return ExplainFacts(*compiled, axis, common, findings);
  }
  const auto param = FindParam(
      compiled->plan.names, compiled->manifest.separator, flags.what, findings);
  if (!param) return kFailed;
  std::optional<DevicePlace> place;
  if (!flags.device.empty()) {
    const auto device = ParseDevice(flags.device, compiled->mesh, findings);
    if (!device) return kFailed;
    place = PlaceOfDevice(compiled->mesh, *device);
  }
  findings.Append(SeparatorFindings(*compiled));
  if (!flags.steps_of.empty()) {
    return ExplainSteps(flags, *target, *compiled, model, *param, common,
                        findings);
  }
  if (!flags.compiled.empty()) {
    const auto program = ReadSource(flags.compiled, findings);
    if (program == nullptr) return kFailed;
    return ExplainProgram(program, *compiled, *param, common, findings);
  }
  // Errors in declared pipeline stages are not printed here, because `check`
  // reports them.
  const auto write = [&](Sink& out) {
    if (json) {
      WriteExplainJson(*compiled, *param, out, place);
    } else {
      out.Append(ExplainText(*compiled, *param, place));
    }
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

Options OptionsOf(ExplainFlags& flags) {
  Options options = {
      {.name = "WHAT",
       .to = &flags.what,
       .value = "PARAM|AXIS|CODE",
       .help = "name of a parameter or of an axis of the mesh, or code or name "
               "of a diagnostic",
       .words = CodeWords},
      {.name = "--codes",
       .need = HelpNeed::kOften,
       .to = &flags.codes,
       .help = "list every diagnostic; as Markdown, or in JSON "
               "with its explanation"},
      {.name = "--ops",
       .need = HelpNeed::kMost,
       .to = &flags.steps_of,
       .value = "MODE,...",
       .help = "list the ops of a step that use the parameter; and "
               "what is sent for it and its gradient: train, "
               "prefill, decode",
       .several = Several::kCommas,
       .words = Words({"train", "prefill", "decode"})},
      {.name = "--program",
       .need = HelpNeed::kOften,
       .to = &flags.program,
       .value = "FILE",
       .help = "traced program of your function; prints how the "
               "dimensions of the parameter are tied, fused and "
               "shardable"},
      {.name = "--facts",
       .to = &flags.facts,
       .help = "list what all parameters and axes are, with the evidence; "
               "without --rules, what the description of the model's family "
               "states about the dimensions of --model"},
      {.name = "--compiled",
       .need = HelpNeed::kMost,
       .to = &flags.compiled,
       .value = "FILE",
       .help = "text of a compiled program; lists what it sends of "
               "the parameter, and compares its sharding with the "
               "plan's"},
      DeviceInput(flags.device)};
  Append(options, AllInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareExplain() { return Declare(OptionsOf, RunExplain); }

}  // namespace shardc::cli
