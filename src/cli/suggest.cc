// `shardc suggest`: proposes rules for a model without any. They are written
// only if they are proven: the rule intended for each tensor wins it, and
// `check` reports nothing.
#include <algorithm>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/picked_mesh.h"
#include "cli/suggested.h"
#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "parse/project.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct SuggestFlags {
  InputFlags inputs;
  std::string output, prefer = "memory", naming = "hf";
  MeshFlags mesh;
  bool place_experts = false;
  bool force = false;
};

struct SuggestInputs {
  Mesh mesh;
  Manifest manifest;
  std::optional<ModelConfig> model;
  bool none_fits = false;  // no mesh of the devices fits; reported
};

// The parameter tree of the manifest, or the one built from a config.json.
std::optional<Manifest> ReadTree(const SuggestFlags& flags,
                                 const Target& target, Findings& findings) {
  if (!target.manifest.empty()) {
    return LoadManifest(flags.inputs, target.manifest, findings);
  }
  if (!target.model.empty()) {
    return families::BuildTree(target.model, flags.naming, findings);
  }
  findings.Add(code::kUsage, {}, "no manifest is given",
               "write `--manifest FILE`, `--model config.json`, or a target in "
               "`shardc.yaml`");
  return std::nullopt;
}

// If no mesh is given, chooses one for the number of devices.
std::optional<SuggestInputs> ReadInputs(const SuggestFlags& flags,
                                        const Target& target,
                                        const suggest::Preferences& preferences,
                                        const Common& common,
                                        Findings& findings) {
  const size_t before = findings.errors();
  SuggestInputs out;
  const bool choose = !IsNamed(target.mesh) && !flags.inputs.devices.empty();
  std::optional<Mesh> mesh;
  if (!choose) mesh = LoadMesh(flags.inputs, target, findings);
  auto manifest = ReadTree(flags, target, findings);
  if (!target.model.empty()) {
    out.model = ReadModelConfig(target.model, findings);
  }
  if (findings.errors() > before || !manifest) return std::nullopt;
  if (!HasShapes(*manifest, findings)) return std::nullopt;
  out.manifest = std::move(*manifest);
  if (choose) {
    const auto picked = PickMesh(flags.mesh, flags.inputs.devices, out.manifest,
                                 out.model, preferences, common, findings);
    if (!picked) return std::nullopt;
    out.none_fits = picked->none_fits;
    mesh = picked->mesh;
  }
  if (!mesh) return std::nullopt;
  out.mesh = std::move(*mesh);
  return out;
}

int RunSuggest(const SuggestFlags& flags, const Common& common,
               Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  suggest::Preferences preferences;
  preferences.prefer_traffic = flags.prefer == "traffic";
  preferences.place_experts = flags.place_experts;
  const auto inputs = ReadInputs(flags, *target, preferences, common, findings);
  if (!inputs) return kFailed;
  if (inputs->none_fits) return kFound;
  const std::string name = flags.output.empty() ? "rules" : flags.output;
  const auto rules = SuggestFor(inputs->manifest, inputs->mesh, inputs->model,
                                preferences, common, name);
  PrintMessage(common, SuggestionText(rules));
  if (!rules.Good() && !flags.force) {
    Refuse(rules, inputs->mesh, inputs->model, findings);
    return kFound;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteImportedFileJson(rules.suggestion.file, out);
    } else {
      out.Append(rules.text);
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return rules.Good() ? kDone : kFound;
}

Options OptionsOf(SuggestFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, ManifestInputs(flags.inputs));
  Append(options, Under("Inputs", {{.name = "--model",
                                    .to = &flags.inputs.asked.model,
                                    .value = "FILE",
                                    .help = "the model's config.json"}}));
  Append(options,
         Under("Inputs", {{.name = "--naming",
                           .to = &flags.naming,
                           .value = "hf|hf-files|flax|easydel",
                           .help = "how parameters are called that a "
                                   "config.json makes, without a manifest",
                           .checked = true}}));
  Append(options, ProjectInputs(flags.inputs));
  Append(options, MeshChoice(flags.mesh));
  Append(options,
         {OutputOption(&flags.output, "where the rules go (default: stdout)"),
          {.name = "--prefer",
           .to = &flags.prefer,
           .value = "memory|traffic",
           .help = "where tp does not divide a vocabulary: slices, gathered "
                   "before use, or whole rows",
           .checked = true},
          {.name = "--place-experts",
           .to = &flags.place_experts,
           .help = "place experts over fsdp on a mesh without ep: for runtimes "
                   "that exchange tokens between experts"},
          {.name = "--force",
           .to = &flags.force,
           .help = "write the rules though something is left to be done"}});
  return options;
}

}  // namespace

const Command kSuggest = {
    .name = "suggest",
    .summary = "write a rules file for a model without a pack",
    .about = R"(
Reads a model's tree of parameters, and its config.json where one is given, and
writes a rules file for a mesh, shardc-rules(5), with a comment on each rule.

What a parameter is for is found by its name, its sizes and its place: the
model's width, heads, the vocabulary, experts, several parts in one matrix,
stacked layers, scales of quantisation. Tensor parallelism splits what is
inside, such as heads or a feed-forward width, and never inside of a head, a
part or a quantisation block; data axes split the model's width. What tensor
parallelism cannot split inside is stored in slices, which are gathered before
use. Names that say nothing still get a legal and balanced plan.

Without a mesh, `--devices` and `--memory` choose one: of all ways to write the
devices as dp, fsdp, ep and tp that the model divides by and that hold its
training, with Adam's states and recomputed activations, the fastest. Without a
manifest, `--model` makes the tree, as shardc-manifest(1) does.

What is written is proven first: every parameter is found by the one rule that
is meant for it, and shardc-check(1) has no error and no warning. Where that
cannot be, as on a mesh that does not divide the model, nothing is written, what
is left is told, and the exit status is 1.)",
    .example =
        "shardc suggest --mesh fsdp:16,tp:4 --manifest model/ "
        "--model model/config.json -o rules.yaml",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunSuggest); },
};

}  // namespace shardc::cli
