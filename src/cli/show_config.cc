// `shardc show config`: prints what a system makes of a configuration: its
// ranks and their coordinates, and the shapes that each rank holds. For
// example, AutoTP of DeepSpeed on 4 ranks with 2 KV heads gives ranks 2 and 3
// nothing of attention:
//
//   q_proj.weight  [0, 256] of [256, 256]
#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/config_report.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "model/option_value.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/list.h"
#include "source/wording.h"
#include "systems/config_text.h"
#include "systems/system.h"
#include "target/from_config.h"

namespace shardc::cli {
namespace {

struct ShowConfigFlags {
  ConfigFlags config;
  std::string output;
};

// Returns the system whose configuration the file has, or an empty text after a
// finding.
std::string SystemOf(const std::string& file, Findings& findings) {
  const SourceRef source = ReadSource(file, findings);
  if (source == nullptr) return {};
  Findings own;
  const systems::System* const system = SystemOfFile(source, own);
  if (system != nullptr) return system->name;
  if (own.HasErrors()) {
    findings.Append(std::move(own));
  } else {
    findings.Add(code::kConfigNotUnderstood, Place{source},
                 "no system has a configuration like this",
                 "name it with `--system`: " + Join(SystemNames(), ", "));
  }
  return {};
}

int RunShowConfig(const ShowConfigFlags& given, const Common& common,
                  Findings& findings) {
  ShowConfigFlags flags = given;
  if (flags.config.system.empty()) {
    flags.config.system = SystemOf(flags.config.file, findings);
    if (flags.config.system.empty()) return kFailed;
  }
  Findings own;
  const auto deployment = DeployFlags(flags.config, true, own);
  const bool refused = own.HasErrors();
  // A configuration that could be read, and that the system refuses, is a
  // finding; one that cannot be read, or that lacks a value, is a failure.
  bool unreadable = false, checked = false;
  for (const Finding& finding : own.all()) {
    if (finding.level != Level::kError) continue;
    checked = checked || finding.code == &code::kConfigRefused;
    unreadable = unreadable || !IsAmong(finding.code, ConfigCodes());
  }
  // What is only noted of a configuration is an error where nothing can be
  // shown without it.
  for (Finding finding : own.all()) {
    const bool lacks = finding.code == &code::kConfigUndetermined;
    if (!deployment && !refused && lacks) finding.level = Level::kError;
    findings.Add(std::move(finding));
  }
  if (!deployment) return checked && !unreadable ? kFound : kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteDeploymentJson(*deployment, out);
    } else {
      out.Append(DeploymentText(*deployment));
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return refused ? kFound : kDone;
}

Options OptionsOf(ShowConfigFlags& flags) {
  ConfigFlags& config = flags.config;
  return {
      {.name = "FILE",
       .to = &config.file,
       .help = "configuration: a shell script, YAML, TOML, JSON or Python",
       .required = true},
      {.name = "--system",
       .need = HelpNeed::kOften,
       .to = &config.system,
       .value = "NAME",
       .help = "system whose configuration it is (default: the one that it "
               "fits)",
       .words = SystemNames},
      {.name = "--symbol",
       .to = &config.symbol,
       .value = "NAME",
       .help = "function of a Python file with several configurations"},
      {.name = "--devices",
       .need = HelpNeed::kOften,
       .to = &config.devices,
       .value = "N",
       .help = "number of devices, which most files lack"},
      {.name = "--set",
       .need = HelpNeed::kOften,
       .to = &config.set,
       .value = "KEY=VALUE",
       .help = "key that the file lacks, or another value of it; may be "
               "repeated"},
      {.name = "--model",
       .need = HelpNeed::kOften,
       .to = &config.model,
       .value = "FILE",
       .help = "the model's config.json (default: next to the file)"},
      {.name = "--manifest",
       .to = &config.manifest,
       .value = "FILE",
       .help = "parameters of the model: JSON, safetensors, an index, a "
               "directory or a traced program (default: those of its "
               "family)"},
      {.name = "--families",
       .to = &config.families,
       .value = "DIR",
       .help = "folder of further descriptions of model families, which win "
               "over the bundled ones"},
      OutputOption(&flags.output)};
}

}  // namespace

std::optional<systems::Deployment> DeployFlags(const ConfigFlags& flags,
                                               bool lenient,
                                               Findings& findings) {
  ConfigOrigin origin;
  origin.system = flags.system;
  origin.file = flags.file;
  origin.symbol = flags.symbol;
  origin.set = flags.set;
  if (!flags.devices.empty()) {
    origin.devices = ParseInteger("--devices", flags.devices, 1, findings);
    if (!origin.devices) return std::nullopt;
  }
  origin.model = flags.model;
  origin.manifest = flags.manifest;
  origin.families = flags.families;
  return DeployFile(origin, lenient, findings);
}

const systems::System* SystemOfFile(const SourceRef& source,
                                    Findings& findings) {
  for (const systems::ConfigText& text :
       systems::ReadConfigTexts(source, findings)) {
    for (const systems::System& system : systems::Systems()) {
      if (systems::IsOf(system, text)) return &system;
    }
  }
  return nullptr;
}

Strings SystemNames() {
  Strings names;
  for (const systems::System& system : systems::Systems()) {
    names.push_back(system.name);
  }
  return names;
}

std::string SystemsText() {
  return Join(systems::Systems(), "; ", [](const systems::System& system) {
    return system.name + ": configurations of " + system.title;
  });
}

Declared DeclareShowConfig() { return Declare(OptionsOf, RunShowConfig); }

}  // namespace shardc::cli
