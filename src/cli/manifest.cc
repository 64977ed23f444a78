// `shardc manifest`: one parameter tree, shown.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/manifest_text.h"

namespace shardc::cli {

Run DeclareManifest(CLI::App& app) {
  auto flags = std::make_shared<InputFlags>();
  AddManifestFlags(app, *flags);
  AddProjectFlags(app, *flags);
  return [flags](const Common& common, Findings& findings) -> int {
    const auto target = ChooseTarget(*flags, findings);
    if (!target) return kFailed;
    const auto manifest = LoadManifest(*flags, target->manifest, findings);
    if (!manifest) return kFailed;
    const std::string text = common.format == "json" ? ManifestJson(*manifest)
                                                     : ManifestText(*manifest);
    return PutOut(text, findings) ? kDone : kFailed;
  };
}

}  // namespace shardc::cli
