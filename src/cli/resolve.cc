// `shardc resolve AXES`: resolves logical axes to a spec in a mode. The mode is
// given, or inferred from a shape: --mode-dim 1 --shape 4,1,4096 means decode,
// because dimension 1 has size 1. With a shape and a mesh, the spec is
// legalized like a parameter's:
//
//   '[VOCAB, FSDP]' --shape 50257,768 --mesh fsdp:8,tp:4 --illegal drop
//     ->  [null, "fsdp"], and a warning: 50257 % 4 = 1
#include "resolve/resolve.h"

#include <set>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "emit/plans/rules_file.h"
#include "legalize/legalize.h"
#include "model/option_value.h"
#include "parse/rules.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ResolveFlags {
  InputFlags inputs;
  std::string axes;
  std::string mode;
  std::string mode_dim;
  std::string shape;
  bool names = false;
  std::string output;
};

// Parses a shape such as "4,128,4096". Returns nullopt after a finding.
std::optional<Shape> ParseShape(const std::string& text, Findings& findings) {
  Shape shape;
  size_t begin = 0;
  while (begin <= text.size() && !text.empty()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const auto size =
        ParseInteger("--shape", text.substr(begin, comma - begin), 0, findings);
    if (!size) return std::nullopt;
    shape.push_back(*size);
    begin = comma + 1;
  }
  return shape;
}

std::optional<Mode> ModeByShape(int64_t dim, const Shape& shape,
                                const std::string& shape_text,
                                Findings& findings) {
  if (const auto mode = ModeFromShape(dim, shape)) return mode;
  findings.Add(
      code::kUsage, {},
      shape.empty()
          ? "the mode depends on dimension " + std::to_string(dim) +
                " of a shape, and no shape is given"
          : "the mode depends on dimension " + std::to_string(dim) +
                ", but shape `" + shape_text + "` has " +
                Counted(static_cast<int64_t>(shape.size()), "dimension"),
      shape.empty()
          ? "give `--shape 4,1,4096`, or the mode itself with `--mode`"
          : "count dimensions from 0, or from the end from -1; or give the "
            "mode itself with `--mode`");
  return std::nullopt;
}

std::optional<Mode> ChooseMode(const ResolveFlags& flags, const Shape& shape,
                               const Bundle* bundle, Findings& findings) {
  if (!flags.mode.empty() && !flags.mode_dim.empty()) {
    findings.Add(code::kUsage, {},
                 "`--mode` and `--mode-dim` both choose the mode",
                 "give one of them");
    return std::nullopt;
  }
  if (!flags.mode.empty()) return ParseModeFlag(flags.mode, findings);
  if (!flags.mode_dim.empty()) {
    const auto dim = ParseInteger("--mode-dim", flags.mode_dim,
                                  -static_cast<int64_t>(1000), findings);
    if (!dim) return std::nullopt;
    return ModeByShape(*dim, shape, flags.shape, findings);
  }
  if (bundle == nullptr) return Mode::kTrain;
  if (const Mode* mode = std::get_if<Mode>(&bundle->mode)) return *mode;
  return ModeByShape(std::get<int>(bundle->mode), shape, flags.shape, findings);
}

// Returns a text that describes a correction of one entry of `spec`.
std::string EditText(const Edit& edit, const Spec& spec, const Shape& shape,
                     const Mesh& mesh) {
  switch (edit.reason) {
    case Reason::kMissingAxis:
      return "the spec names axis `" + edit.axis + "`, which the mesh (" +
             MeshText(mesh) + ") lacks";
    case Reason::kRepeatedAxis:
      return "axis `" + edit.axis + "` occurs twice in the spec, " +
             SpecText(spec);
    case Reason::kTooLong:
      return "the spec has " +
             Counted(static_cast<int64_t>(spec.size()), "entry", "entries") +
             ", the shape " +
             Counted(static_cast<int64_t>(shape.size()), "dimension");
    default:
      return "dimension " + std::to_string(edit.dim.value_or(0)) + " is " +
             std::to_string(edit.size) + ", which " + GroupText(edit.from) +
             " splits into " + std::to_string(edit.parts) +
             " parts: " + std::to_string(edit.size) + " % " +
             std::to_string(edit.parts) + " = " +
             std::to_string(edit.size % edit.parts);
  }
}

// Returns the place of the corrected entry in the argument AXES. If AXES does
// not contain the entry, returns `whole`, the place of the complete argument.
Place PlaceOf(const SpecSource& written, const Edit& edit, Place whole) {
  const auto* list = std::get_if<SpecList>(&written);
  if (list == nullptr || !edit.dim) return whole;
  const auto dim = AsIndex(*edit.dim);
  if (dim >= list->entries.size() || list->entries[dim].names.empty()) {
    return whole;
  }
  return list->entries[dim].names[0].place;
}

// Returns the spec after legalization. Adds a warning for each correction and
// an error for each fault that was not corrected.
Legal Judge(const Spec& spec, const Shape& shape, const OpenedResolver& opened,
            const SpecSource& written, const Place& whole, Findings& findings) {
  const Mesh& mesh = opened.resolver.mesh();
  LegalizeOptions options;
  options.illegal = opened.policy.illegal.value_or(IllegalPolicy::kError);
  options.compat = opened.policy.compat.value_or(Compat::kNone);
  Legal legal = Legalize(spec, shape, mesh, options);
  const auto say = [&](const Edit& edit, bool stands) {
    // If the spec has more entries than the shape has dimensions, only one
    // finding is added, at the first surplus entry.
    if (edit.reason == Reason::kTooLong &&
        edit.dim > static_cast<int>(shape.size())) {
      return;
    }
    Finding finding;
    finding.code = &CodeOf(edit.reason);
    finding.level = stands ? Level::kError : Level::kWarning;
    finding.message = EditText(edit, spec, shape, mesh);
    if (!stands) {
      finding.message += edit.reason == Reason::kTooLong
                             ? "; the surplus entries are dropped"
                             : "; it becomes " + GroupText(edit.to);
    }
    finding.place = PlaceOf(written, edit, whole);
    if (stands && edit.reason == Reason::kRepeatedAxis) {
      // `drop` leaves a repeated axis as it is.
      finding.help = "`--illegal shrink` makes it legal";
    } else if (stands && options.illegal == IllegalPolicy::kError) {
      finding.help = "`--illegal shrink` or `--illegal drop` makes it legal";
    }
    findings.Add(std::move(finding));
  };
  for (const Edit& edit : legal.problems) say(edit, true);
  for (const Edit& edit : legal.edits) say(edit, false);
  return legal;
}

// Returns the mesh axes in a spec, each once, sorted.
std::vector<std::string> NamesIn(const Spec& spec) {
  std::set<std::string> names;
  for (const AxisGroup& group : spec) names.insert(group.begin(), group.end());
  return {names.begin(), names.end()};
}

void WriteCorrections(JsonWriter& json, const std::vector<Edit>& edits) {
  json.BeginArray();
  for (const Edit& edit : edits) {
    json.Object(
        "dim",
        edit.dim ? std::optional<int64_t>(*edit.dim) : std::optional<int64_t>(),
        "from", WrittenBy(WriteGroup, edit.from), "to",
        WrittenBy(WriteGroup, edit.to), "reason", ReasonName(edit.reason));
  }
  json.EndArray();
}

struct Resolution {
  // The entries of the spec in the argument AXES. If AXES is the name of a
  // bundle (a spec with a name), the entries of the bundle.
  SpecList axes;
  Mode mode = Mode::kTrain;
  Spec spec;
  std::optional<Legal> legal;  // set if shape and mesh are known
};

void WriteResolution(const Resolution& answer, const ResolveFlags& flags,
                     bool as_json, JsonWriter& json) {
  const std::vector<std::string> names = NamesIn(answer.spec);
  if (!as_json) {
    if (flags.names) {
      json.Array(names);
    } else {
      WriteSpec(json, answer.spec);
    }
    return;
  }
  json.BeginObject();
  json.Members(
      "axes", WrittenBy(WriteSpecList, answer.axes, SpecForm::kAsWritten),
      "mode", ModeName(answer.mode), "spec", WrittenBy(WriteSpec, answer.spec));
  if (flags.names) {
    json.Member("names", names);
  }
  if (answer.legal) {
    json.Member("corrections",
                WrittenBy(WriteCorrections, answer.legal->edits));
  }
  json.EndObject();
}

std::optional<Resolution> ResolveName(const ResolveFlags& flags,
                                      Findings& findings) {
  const auto opened = LoadResolver(flags.inputs, findings);
  const SourceRef source = MakeSource("AXES", flags.axes);
  auto written = ParseSpec(source, findings);
  const auto shape = ParseShape(flags.shape, findings);
  if (!opened || !written || !shape) return std::nullopt;
  const bool judged = !flags.shape.empty() && opened->has_mesh;
  if (!judged && !flags.inputs.illegal.empty()) {
    findings.Add(code::kUsage, {}, "`--illegal` needs a shape and a mesh",
                 "give `--shape 4,128,4096` and `--mesh dp:2,tp:4`");
    return std::nullopt;
  }
  const auto* named = std::get_if<SpecBundle>(&*written);
  const Bundle* bundle =
      named == nullptr ? nullptr : opened->resolver.FindBundle(named->name);
  const auto mode = ChooseMode(flags, *shape, bundle, findings);
  if (!mode) return std::nullopt;
  auto resolved = opened->resolver.Resolve(*written, *mode, findings);
  if (!resolved) return std::nullopt;
  Resolution out;
  out.mode = *mode;
  const auto* list = std::get_if<SpecList>(&*written);
  out.axes = list != nullptr ? *list : bundle->axes;
  out.spec = std::move(resolved->spec);
  if (judged) {
    out.legal = Judge(out.spec, *shape, *opened, *written,
                      {source, 0, flags.axes.size()}, findings);
    if (out.legal->problems.empty()) out.spec = out.legal->spec;
  }
  return out;
}

int RunResolve(const ResolveFlags& flags, const Common& common,
               Findings& findings) {
  // The parser would take the second word of `resolve attention` for a required
  // argument.
  if (flags.axes.empty()) {
    findings.Add(code::kUsage, {}, "AXES is required",
                 "`shardc resolve --help` shows its options");
    return kFailed;
  }
  const auto answer = ResolveName(flags, findings);
  if (!answer) return kFailed;
  if (answer->legal && !answer->legal->problems.empty()) return kFound;
  const auto write = [&](JsonWriter& json) {
    WriteResolution(*answer, flags, common.format == "json", json);
  };
  return PutResult(JsonText(write) + "\n", flags.output, findings) ? kDone
                                                                   : kFailed;
}

Options OptionsOf(ResolveFlags& flags) {
  Options options = {
      {.name = "AXES",
       .to = &flags.axes,
       .help = "logical axes such as '[BATCH, [FSDP, SP], _]', or the name of "
               "a bundle"},
      OutputOption(&flags.output),
      {.name = "--mode",
       .need = HelpNeed::kOften,
       .to = &flags.mode,
       .value = "MODE",
       .help = "mode: train, prefill, decode or insert (default: the bundle's "
               "own, else train)",
       .words = ModeNames},
      {.name = "--mode-dim",
       .to = &flags.mode_dim,
       .value = "N",
       .help = "use mode decode if this dimension of --shape is 1, else train"},
      {.name = "--shape",
       .need = HelpNeed::kOften,
       .to = &flags.shape,
       .value = "N,N,...",
       .help = "shape for --mode-dim, and with a mesh for checking the spec"},
      {.name = "--axis-names",
       .to = &flags.names,
       .help = "print the sorted names of the mesh axes in the spec instead of "
               "the spec (in JSON both)"},
      IllegalInput(flags.inputs)};
  Append(options, MeshInputs(flags.inputs));
  Append(options, RulesInputs(flags.inputs));
  Append(options, ModelInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareResolve() { return Declare(OptionsOf, RunResolve); }

}  // namespace shardc::cli
