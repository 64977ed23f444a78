// `shardc import FORMAT FILE`: writes another system's configuration as a rules
// file. With --mesh-output, writes the configuration's mesh as a mesh file.
// With --manifest, prints how many parameters have a rule. Rules files match
// names by regular expressions. Patterns of another form are rewritten:
//
//   layers.*.q_proj of a tp_plan  ->  ^model\.layers\.[0-9]+\.q_proj\.weight$
#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/input_text.h"
#include "emit/plans/rules_file.h"
#include "importers/rules/importer.h"
#include "match/match.h"
#include "parse/spec_read.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/other_words.h"
#include "source/wording.h"
#include "systems/deployment.h"
#include "systems/system.h"

namespace shardc::cli {
namespace {

struct ImportFlags {
  std::string format, file, output, mesh_output, names;
  // Of configurations of systems.
  std::string manifest_output, project_output, model, families;
  Strings set;
  InputFlags inputs;
  imports::Request request;
};

const imports::Importer* FindImporter(const std::string& format,
                                      Findings& findings) {
  if (const auto* importer = imports::FindImporter(format)) return importer;
  std::vector<std::string_view> names;
  std::string known;
  for (const imports::Importer* importer : imports::Importers()) {
    names.push_back(importer->name);
    known += (known.empty() ? "`" : ", `") + std::string(importer->name) + "`";
  }
  for (const systems::System& system : systems::Systems()) {
    names.push_back(system.name);
    known += ", `" + system.name + "`";
  }
  // Python source is read by Python.
  const bool logical = format == "flax" || format == "t5x";
  if (format == "python" || logical) {
    findings.Add(code::kUsage, {},
                 "the Python package of shardc imports `" + format + "`",
                 "run `python3 -m shardc.import_python FILE" +
                     std::string(logical ? " --logical` with `--names` and "
                                           "`--mesh`"
                                         : "`"));
    return nullptr;
  }
  std::string help = HelpForOtherWord("import", format);
  if (help.empty()) {
    help = DidYouMean(format, names, "the importers are " + known);
  }
  findings.Add(code::kUsage, {}, "there is no importer `" + format + "`",
               std::move(help));
  return nullptr;
}

// Returns false, after a finding, if an option is given that the format does
// not accept.
bool Applies(const imports::Importer& importer, const ImportFlags& flags,
             Findings& findings) {
  const std::pair<std::string_view, bool> given[] = {
      {"--symbol", !flags.request.symbol.empty()},
      {"--names", !flags.names.empty()},
      {"--mesh", !flags.inputs.asked.mesh.empty()},
      {"--axis", !flags.request.axis.empty()},
      {"--contiguous", flags.request.contiguous},
      {"--manifest-output", !flags.manifest_output.empty()},
      {"--project-output", !flags.project_output.empty()},
      {"--model", !flags.model.empty()},
      {"--families", !flags.families.empty()},
      {"--set", !flags.set.empty()}};
  return TakesFlags(importer.name, importer.flags, given, findings);
}

// Reports names that are not valid for a mesh axis, and axes that a spec names
// twice.
void CheckSpec(const SpecSource& spec, Findings& findings) {
  const auto* list = std::get_if<SpecList>(&spec);
  if (list == nullptr) return;
  CheckRepeats(*list, {}, findings);
  for (const SpecEntry& entry : list->entries) {
    for (const SpecName& name : entry.names) {
      // `_` is eformer's name for an unsharded dimension.
      const bool checked = name.is_mesh_axis && name.text != "_";
      const std::string fault = checked ? AxisNameFault(name.text) : "";
      if (fault.empty()) continue;
      findings.Add(code::kAxisName, name.place,
                   "axis name " + ShortQuote(name.text) + " " + fault,
                   "rename the axis in the source");
    }
  }
}

// Returns whether `--rules` can read the result: its patterns and specs are
// valid, and there have been no errors.
bool CanBeUsed(const Imported& imported, Findings& findings) {
  std::vector<Pattern> patterns;
  for (const ImportedRule& one : imported.rules) {
    patterns.push_back({one.rule.match, one.rule.match_place, '/'});
    CheckSpec(one.rule.spec, findings);
    for (const auto& [mode, spec] : one.rule.modes) CheckSpec(spec, findings);
  }
  return Matcher::Compile(patterns, findings).has_value() &&
         !findings.HasErrors();
}

// Prints how many names of the manifest a rule matches. Returns false after a
// finding.
bool PrintMatched(const Imported& imported, const Manifest& manifest,
                  const Common& common, Findings& findings) {
  std::vector<Pattern> patterns;
  const char separator =
      imported.separator != 0 ? imported.separator : manifest.separator;
  for (const ImportedRule& one : imported.rules) {
    patterns.push_back({one.rule.match, one.rule.match_place,
                        separator == 0 ? '/' : separator});
  }
  const auto matcher = Matcher::Compile(patterns, findings);
  if (!matcher) return false;
  std::vector<std::string_view> names;
  for (const Tensor& tensor : manifest.tensors) names.push_back(tensor.name);
  const Matches matches = matcher->Match(names, manifest.separator);
  int64_t matched = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    matched += matches.first[i] >= 0 ? 1 : 0;
  }
  PrintMessage(common, CountText(matched) + " of " +
                           Counted(static_cast<int64_t>(names.size()), "name") +
                           " have a rule\n");
  return true;
}

std::optional<Imported> ReadImport(const ImportFlags& flags,
                                   const Manifest* manifest,
                                   Findings& findings) {
  const imports::Importer* importer = FindImporter(flags.format, findings);
  if (importer == nullptr || !Applies(*importer, flags, findings)) {
    return std::nullopt;
  }
  imports::Request request = flags.request;
  request.source = ReadSource(flags.file, findings);
  if (request.source == nullptr) return std::nullopt;
  if (!flags.names.empty()) {
    request.names = ReadSource(flags.names, findings);
    if (request.names == nullptr) return std::nullopt;
  }
  if (!flags.inputs.asked.mesh.empty()) {
    TargetRequest asked = flags.inputs.asked;
    asked.no_project = true;
    const auto target = ChooseTarget(asked, findings);
    if (!target) return std::nullopt;
    request.mesh = LoadMesh(flags.inputs, *target, findings);
    if (!request.mesh) return std::nullopt;
  }
  request.manifest = manifest;
  auto imported = importer->read(request, findings);
  if (!imported || findings.HasErrors() || !CanBeUsed(*imported, findings)) {
    return std::nullopt;
  }
  return imported;
}

// Returns a project file with a target that follows the configuration.
std::string ProjectText(const ImportFlags& flags,
                        const systems::Deployment& deployment) {
  const auto quoted = [](std::string_view text) {
    return TextOf([&](Sink& out) { JsonWriter(out).String(text); });
  };
  // The target is named after the file.
  std::string name;
  for (const char c : AfterLast(flags.file, '/')) {
    if (c == '.') break;
    name += c;
  }
  std::string out =
      "version: 1\n" +
      (flags.families.empty() ? std::string()
                              : "families: " + quoted(flags.families) + "\n") +
      "targets:\n  " + quoted(name.empty() ? flags.format : name) +
      ":\n    from: {" + flags.format + ": " + quoted(flags.file);
  if (!flags.inputs.devices.empty()) {
    out += ", devices: " + flags.inputs.devices;
  }
  if (!flags.request.symbol.empty()) {
    out += ", symbol: " + quoted(flags.request.symbol);
  }
  if (!flags.set.empty()) {
    out += ", set: {" +
           Join(flags.set, ", ",
                [&](const std::string& one) {
                  const size_t equals = std::min(one.find('='), one.size());
                  return quoted(one.substr(0, equals)) + ": " +
                         quoted(one.substr(std::min(equals + 1, one.size())));
                }) +
           "}";
  }
  out += "}\n";
  const std::string& manifest = flags.inputs.asked.manifest;
  if (!manifest.empty()) out += "    manifest: " + quoted(manifest) + "\n";
  if (!flags.model.empty()) out += "    model: " + quoted(flags.model) + "\n";
  for (const auto& [key, value] : deployment.step) {
    if (key == "batch" || key == "seq" || key == "zero") {
      out += "    " + key + ": " + value + "\n";
    }
  }
  return out;
}

// Imports the configuration of a system: its rules and, with the options of
// these names, its mesh, its manifest and a project.
int ImportConfig(const ImportFlags& flags, const Common& common,
                 Findings& findings) {
  if (common.format == "json") {
    findings.Add(code::kUsage, {},
                 "the rules of a configuration are written as YAML",
                 "`shardc show config --format json` has what each rank holds");
    return kFailed;
  }
  const std::string* const outputs[] = {&flags.output, &flags.mesh_output,
                                        &flags.manifest_output,
                                        &flags.project_output};
  for (const std::string* const* one = std::begin(outputs);
       one != std::end(outputs); ++one) {
    for (const std::string* const* other = one + 1; other != std::end(outputs);
         ++other) {
      if ((*one)->empty() || !AreOneFile(**one, **other)) continue;
      findings.Add(code::kUsage, {},
                   "two outputs are one file: " + ShortQuote(**one),
                   "give different files");
      return kFailed;
    }
  }
  // A project may have other targets, and is not replaced unasked.
  if (std::error_code error;
      !flags.project_output.empty() &&
      std::filesystem::is_regular_file(flags.project_output, error)) {
    findings.Add(code::kWrite, {},
                 "`" + Printable(flags.project_output) + "` exists already",
                 "write another name, and copy its target into `targets:`; "
                 "`shardc init` writes a project of all configurations of a "
                 "folder");
    return kFailed;
  }
  ConfigFlags config;
  config.system = flags.format;
  config.file = flags.file;
  config.symbol = flags.request.symbol;
  config.devices = flags.inputs.devices;
  config.model = flags.model;
  config.families = flags.families;
  config.manifest = flags.inputs.asked.manifest;
  config.set = flags.set;
  const auto deployment = DeployFlags(config, false, findings);
  if (!deployment || findings.HasErrors()) return kFailed;
  if (!deployment->manifest) {
    findings.Add(code::kConfigUndetermined, Place{deployment->source},
                 "what a rank holds is not known: " + deployment->no_model,
                 "give the model's sizes as `--model config.json`, its "
                 "parameters as `--manifest FILE`, or a key as `--set "
                 "KEY=VALUE`");
    return kFailed;
  }
  const auto rules = systems::RulesOf(*deployment, findings);
  if (!rules || findings.HasErrors()) return kFailed;
  const auto write_mesh = [&](Sink& out) {
    out.Append(MeshFileYaml(*deployment->mesh));
  };
  const auto write_rules = [&](Sink& out) { out.Append(*rules); };
  const auto write_manifest = [&](Sink& out) {
    WriteManifestJson(*deployment->manifest, out);
  };
  if (!flags.manifest_output.empty() &&
      !PutResult(write_manifest, flags.manifest_output, findings)) {
    return kFailed;
  }
  if (!flags.project_output.empty() &&
      !PutResult(ProjectText(flags, *deployment), flags.project_output,
                 findings)) {
    return kFailed;
  }
  if (flags.mesh_output.empty()) {
    return PutResult(write_rules, flags.output, findings) ? kDone : kFailed;
  }
  return PutResults({write_mesh, flags.mesh_output},
                    {write_rules, flags.output}, findings)
             ? kDone
             : kFailed;
}

int RunImport(const ImportFlags& flags, const Common& common,
              Findings& findings) {
  if (systems::FindSystem(flags.format) != nullptr) {
    return ImportConfig(flags, common, findings);
  }
  if (AreOneFile(flags.output, flags.mesh_output)) {
    findings.Add(code::kUsage, {},
                 "`--output` and `--mesh-output` name one file",
                 "give two different files");
    return kFailed;
  }
  std::optional<Manifest> manifest;
  if (!flags.inputs.asked.manifest.empty()) {
    manifest =
        LoadManifest(flags.inputs, flags.inputs.asked.manifest, findings);
    if (!manifest) return kFailed;
  }
  const auto imported =
      ReadImport(flags, manifest ? &*manifest : nullptr, findings);
  if (!imported) return kFailed;
  if (manifest && !PrintMatched(*imported, *manifest, common, findings)) {
    return kFailed;
  }
  if (!flags.mesh_output.empty() && !imported->mesh) {
    findings.Add(code::kUsage, {}, "the source has no mesh",
                 "omit `--mesh-output`");
    return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteImportedFileJson(*imported, out);
    } else {
      out.Append(ImportedFileYaml(*imported));
    }
  };
  if (flags.mesh_output.empty()) {
    return PutResult(write, flags.output, findings) ? kDone : kFailed;
  }
  const auto write_mesh = [&](Sink& out) {
    out.Append(MeshFileYaml(*imported->mesh));
  };
  return PutResults({write_mesh, flags.mesh_output}, {write, flags.output},
                    findings)
             ? kDone
             : kFailed;
}

// Returns "NAME: what it reads; ..." for all importers.
std::string ImportersText() {
  return Join(imports::Importers(), "; ",
              [&](const imports::Importer* importer) {
                return std::string(importer->name) + ": " +
                       std::string(importer->what);
              }) +
         "; " + SystemsText();
}

Strings ImporterNames() {
  Strings names;
  for (const imports::Importer* importer : imports::Importers()) {
    names.emplace_back(importer->name);
  }
  for (std::string& name : SystemNames()) names.push_back(std::move(name));
  return names;
}

Options OptionsOf(ImportFlags& flags) {
  Options options = {
      {.name = "FORMAT",
       .to = &flags.format,
       .value = "FORMAT",
       .help = ImportersText(),
       .required = true,
       .words = ImporterNames},
      {.name = "FILE",
       .to = &flags.file,
       .help = "file to read; - is standard input",
       .required = true},
      OutputOption(&flags.output, "file to write (default: standard output)"),
      {.name = "--mesh-output",
       .need = HelpNeed::kMost,
       .to = &flags.mesh_output,
       .value = "FILE",
       .help = "file to write the source's mesh to, if it has one"},
      {.name = "--symbol",
       .need = HelpNeed::kOften,
       .to = &flags.request.symbol,
       .value = "NAME",
       .help = "hf-tp-plan: name of the plan in a file with several, such as "
               "base_model_tp_plan; systems: function of a Python file"},
      {.name = "--manifest-output",
       .need = HelpNeed::kOften,
       .to = &flags.manifest_output,
       .value = "FILE",
       .help = "systems: file to write the parameters to, as the system pads "
               "them"},
      {.name = "--project-output",
       .need = HelpNeed::kOften,
       .to = &flags.project_output,
       .value = "FILE",
       .help = "systems: project file to write, with a target that follows the "
               "configuration"},
      {.name = "--model",
       .need = HelpNeed::kMost,
       .to = &flags.model,
       .value = "FILE",
       .help = "systems: the model's config.json (default: next to the "
               "configuration)"},
      {.name = "--families",
       .to = &flags.families,
       .value = "DIR",
       .help = "folder of further descriptions of model families, which win "
               "over the bundled ones"},
      {.name = "--set",
       .need = HelpNeed::kOften,
       .to = &flags.set,
       .value = "KEY=VALUE",
       .help = "systems: key that the configuration lacks; may be repeated"},
  };
  Append(options,
         {{.name = "--names",
           .to = &flags.names,
           .value = "FILE",
           .help = "file with the logical names of the parameters' dimensions: "
                   "MaxText's logical_shardings.json, or a list by name"},
          {.name = "--axis",
           .to = &flags.request.axis,
           .value = "AXIS",
           .help = "hf-tp-plan: mesh axis to shard over (default: tp)"},
          {.name = "--contiguous",
           .to = &flags.request.contiguous,
           .help = "hf-tp-plan: shard a packed weight in one range for each "
                   "device, although transformers shards both its matrices"}});
  Append(options, MeshInputs(flags.inputs));
  Append(options, ManifestInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareImport() { return Declare(OptionsOf, RunImport); }

}  // namespace shardc::cli
