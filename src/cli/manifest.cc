// `shardc manifest`: one parameter tree, shown.
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/manifest_text.h"

namespace shardc::cli {
namespace {

int RunManifest(const InputFlags& flags, const Common& common,
                Findings& findings) {
  const auto target = ChooseTarget(flags.asked, findings);
  if (!target) return kFailed;
  const auto manifest = LoadManifest(flags, target->manifest, findings);
  if (!manifest) return kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteManifestJson(*manifest, out);
    } else {
      out.Append(ManifestText(*manifest));
    }
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

Options OptionsOf(InputFlags& flags) {
  Options options = ManifestInputs(flags);
  Append(options, ProjectInputs(flags));
  return options;
}

}  // namespace

const Command kManifest = {
    .name = "manifest",
    .summary = "show a parameter tree with its totals",
    .about = "Shows a parameter tree with its totals.",
    .example = "shardc manifest --manifest model.safetensors",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunManifest); },
};

}  // namespace shardc::cli
