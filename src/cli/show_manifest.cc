// `shardc show manifest`: prints the parameter tree of a file or of a target,
// or a tree that is built from a config.json:
//
//   --model config.json --naming flax  ->  model/layers/0/self_attn/...

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/input_text.h"
#include "families/families.h"
#include "model/option_value.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ManifestFlags {
  InputFlags inputs;
  std::string naming;
  std::string output;
};

// Builds the parameter tree from the config.json of `--model`, with the
// requested naming.
std::optional<Manifest> Build(const ManifestFlags& flags, Findings& findings) {
  if (!flags.inputs.asked.manifest.empty()) {
    findings.Add(code::kUsage, {},
                 "`--manifest` and `--model` each give a parameter tree, and "
                 "one can be shown",
                 "omit one of them");
    return std::nullopt;
  }
  const std::string& naming = flags.naming;
  const auto& known = families::kNamings;
  if (!naming.empty() && !IsAmong(naming, known)) {
    findings.Add(code::kUsage, FlagPlace("--naming", naming),
                 "there is no naming `" + naming + "`",
                 DidYouMean(naming, known,
                            "the namings are `hf`, `hf-files`, `flax` and "
                            "`easydel`"));
    return std::nullopt;
  }
  const auto own = ChooseFamilies(flags.inputs.asked, findings);
  if (!own) return std::nullopt;
  return families::BuildTree(flags.inputs.asked.model, naming, findings, *own,
                             {false, flags.inputs.asked.weights_dtype});
}

std::optional<Manifest> LoadShownManifest(const ManifestFlags& flags,
                                          Findings& findings) {
  if (!flags.inputs.asked.model.empty()) return Build(flags, findings);
  if (!flags.naming.empty()) {
    findings.Add(code::kUsage, {},
                 "`--naming` applies to the parameters of `--model`",
                 "omit it: a manifest has its own names");
    return std::nullopt;
  }
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  return LoadManifest(flags.inputs, target->manifest, findings);
}

int RunManifest(const ManifestFlags& flags, const Common& common,
                Findings& findings) {
  const auto manifest = LoadShownManifest(flags, findings);
  if (!manifest) return kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteManifestJson(*manifest, out);
    } else {
      out.Append(ManifestText(*manifest));
    }
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

Options OptionsOf(ManifestFlags& flags) {
  Options options = ManifestInputs(flags.inputs);
  Append(options, ModelInputs(flags.inputs,
                              "config.json of a model, to build the parameter "
                              "tree from"));
  Append(options,
         Under(kInputsGroup,
               {{.name = "--naming",
                 .need = HelpNeed::kOften,
                 .to = &flags.naming,
                 .value = "hf|hf-files|flax|easydel",
                 .help = "naming of the parameters (default: hf; hf-files "
                         "for quantised weights)"}}));
  Append(options, ProjectInputs(flags.inputs));
  Append(options, {OutputOption(&flags.output)});
  return options;
}

}  // namespace

Declared DeclareShowManifest() { return Declare(OptionsOf, RunManifest); }

}  // namespace shardc::cli
