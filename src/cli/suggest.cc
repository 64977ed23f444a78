// `shardc suggest`: rules for a model that has none. They are written when they
// are proven: each tensor has the one rule that is meant for it, and `check`
// finds nothing.
#include <algorithm>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/suggested.h"
#include "emit/plans/rules_file.h"
#include "parse/project.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct SuggestFlags {
  InputFlags inputs;
  std::string output, prefer = "memory";
  bool place_experts = false;
  bool force = false;
};

struct SuggestInputs {
  Mesh mesh;
  Manifest manifest;
  std::optional<ModelConfig> model;
};

std::optional<SuggestInputs> ReadInputs(const SuggestFlags& flags,
                                        const Target& target,
                                        Findings& findings) {
  if (target.manifest.empty()) {
    findings.Add(code::kUsage, {}, "no manifest is given",
                 "write `--manifest FILE`, or a target in `shardc.yaml`");
    return std::nullopt;
  }
  const size_t before = findings.errors();
  SuggestInputs out;
  auto mesh = LoadMesh(flags.inputs, target, findings);
  auto manifest = LoadManifest(flags.inputs, target.manifest, findings);
  if (!target.model.empty()) {
    out.model = ReadModelConfig(target.model, findings);
  }
  if (findings.errors() > before || !mesh || !manifest) return std::nullopt;
  out.mesh = std::move(*mesh);
  out.manifest = std::move(*manifest);
  return out;
}

int RunSuggest(const SuggestFlags& flags, const Common& common,
               Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  const auto inputs = ReadInputs(flags, *target, findings);
  if (!inputs) return kFailed;
  suggest::Wishes wishes;
  wishes.prefer_traffic = flags.prefer == "traffic";
  wishes.place_experts = flags.place_experts;
  const std::string name = flags.output.empty() ? "rules" : flags.output;
  const auto rules = SuggestFor(inputs->manifest, inputs->mesh, inputs->model,
                                wishes, common, name, findings);
  if (!rules) return kFailed;
  Tell(common, SuggestionText(*rules));
  if (!rules->Good() && !flags.force) {
    if (!rules->misfit.empty()) {
      findings.Add(code::kInexpressible, {},
                   "no good rules for mesh " + MeshText(inputs->mesh) + ": " +
                       rules->misfit,
                   "take another mesh; `--force` writes them all the same");
    }
    for (const Finding& finding : rules->left) findings.Add(finding);
    return kFound;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteImportedFileJson(rules->suggestion.file, out);
    } else {
      out.Append(rules->text);
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return rules->Good() ? kDone : kFound;
}

Options OptionsOf(SuggestFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, ManifestInputs(flags.inputs));
  Append(options, Under("Inputs", {{.name = "--model",
                                    .to = &flags.inputs.asked.model,
                                    .value = "FILE",
                                    .help = "the model's config.json"}}));
  Append(options, ProjectInputs(flags.inputs));
  Append(options,
         {{.name = "--output",
           .to = &flags.output,
           .value = "FILE",
           .help = "where the rules go (default: stdout)",
           .letter = 'o'},
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
