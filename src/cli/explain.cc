// `shardc explain`: why a parameter got its spec, or what a code means. Codes
// are asked first, as no parameter is called SHD101; a name is found in
// either separator: model/layers/0 for model.layers.0.
#include "emit/plans/explain.h"
#include "cli/commands.h"
#include "cli/find_param.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "emit/findings/explain_code.h"

namespace shardc::cli {
namespace {

struct ExplainFlags {
  InputFlags inputs;
  std::string what;
  bool codes = false;
  std::string device;
};

int RunExplain(const ExplainFlags& flags, const Common& common,
               Findings& findings) {
  if (flags.codes) return PutOut(CodesMarkdown(), findings) ? kDone : kFailed;
  if (flags.what.empty()) {
    findings.Add(code::kUsage, {}, "there is nothing to explain",
                 "name a parameter or a code; `--codes` lists the codes");
    return kFailed;
  }
  if (const auto text = ExplainCode(flags.what)) {
    return PutOut(*text, findings) ? kDone : kFailed;
  }
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  const auto compiled = LoadAndCompile(flags.inputs, *target, common, findings);
  if (compiled == nullptr) return kFailed;
  const auto param = FindParam(
      compiled->plan.names, compiled->manifest.separator, flags.what, findings);
  if (!param) return kFailed;
  std::optional<DevicePlace> place;
  if (!flags.device.empty()) {
    const auto device = ParseDevice(flags.device, compiled->mesh, findings);
    if (!device) return kFailed;
    place = PlaceOfDevice(compiled->mesh, *device);
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteExplainJson(*compiled, *param, out, place);
    } else {
      out.Append(ExplainText(*compiled, *param, place));
    }
  };
  findings.Append(SeparatorFindings(*compiled));
  return PutOut(write, findings) ? kDone : kFailed;
}

Options OptionsOf(ExplainFlags& flags) {
  Options options = {{.name = "WHAT",
                      .to = &flags.what,
                      .value = "PARAM|CODE",
                      .help = "a parameter's name, or a code or its name"},
                     {.name = "--codes",
                      .to = &flags.codes,
                      .help = "list every diagnostic as Markdown"},
                     DeviceInput(flags.device)};
  Append(options, AllInputs(flags.inputs));
  return options;
}

}  // namespace

const Command kExplain = {
    .name = "explain",
    .summary = "why a parameter got its spec, or what a diagnostic means",
    .about = R"(
With the name of a parameter, tells how it got its spec: the rules tried, each
token resolved in each mode, corrections and bytes. With a code such as
`SHD203` or a code's name, tells what the diagnostic means and how to fix
it.)",
    .example =
        "shardc explain model/embed_tokens/embedding --mesh fsdp:8,tp:4 "
        "--rules builtin:llama --manifest manifest.json",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunExplain); },
};

}  // namespace shardc::cli
