// `shardc resolve AXES`: semantic axes to a spec in a mode, which is given or
// follows from a shape: --mode-dim 1 --shape 4,1,4096 means decoding.
#include "resolve/resolve.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/rule_json.h"
#include "parse/rules.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ResolveFlags {
  InputFlags inputs;
  std::string axes;
  std::string mode;
  std::string mode_dim;
  std::string shape;
};

// "4,128,4096"
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

// Python's indexing: -1 is the last dimension.
std::optional<Mode> ModeFromShape(int64_t dim, const Shape& shape,
                                  const std::string& shape_text,
                                  Findings& findings) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t at = dim < 0 ? dim + rank : dim;
  if (at >= 0 && at < rank) {
    return shape[static_cast<size_t>(at)] == 1 ? Mode::kDecode : Mode::kTrain;
  }
  findings.Add(code::kUsage, {},
               shape.empty()
                   ? "the mode is taken from dimension " + std::to_string(dim) +
                         " of a shape, and no shape is given"
                   : "the mode is taken from dimension " + std::to_string(dim) +
                         ", but shape `" + shape_text + "` has " +
                         Counted(rank, "dimension"),
               "give `--shape 4,1,4096`, or the mode itself with `--mode`");
  return std::nullopt;
}

std::optional<Mode> ChooseMode(const ResolveFlags& flags, const Bundle* bundle,
                               Findings& findings) {
  if (!flags.mode.empty() && !flags.mode_dim.empty()) {
    findings.Add(code::kUsage, {},
                 "`--mode` and `--mode-dim` both choose the mode",
                 "give one of them");
    return std::nullopt;
  }
  if (!flags.mode.empty()) return ParseModeFlag(flags.mode, findings);
  const auto shape = ParseShape(flags.shape, findings);
  if (!shape) return std::nullopt;
  if (!flags.mode_dim.empty()) {
    const auto dim = ParseInteger("--mode-dim", flags.mode_dim,
                                  -static_cast<int64_t>(1000), findings);
    if (!dim) return std::nullopt;
    return ModeFromShape(*dim, *shape, flags.shape, findings);
  }
  if (bundle == nullptr) return Mode::kTrain;
  if (const Mode* mode = std::get_if<Mode>(&bundle->mode)) return *mode;
  return ModeFromShape(std::get<int>(bundle->mode), *shape, flags.shape,
                       findings);
}

int RunResolve(const ResolveFlags& flags, const Common& common,
               Findings& findings) {
  const auto resolver = LoadResolver(flags.inputs, findings);
  const auto written = ParseSpec(MakeSource("AXES", flags.axes), findings);
  if (!resolver || !written) return kFailed;
  const auto* named = std::get_if<SpecBundle>(&*written);
  const Bundle* bundle =
      named == nullptr ? nullptr : resolver->FindBundle(named->name);
  const auto mode = ChooseMode(flags, bundle, findings);
  if (!mode) return kFailed;
  const auto resolved = resolver->Resolve(*written, *mode, findings);
  if (!resolved) return kFailed;

  const auto write = [&](JsonWriter& json) {
    if (common.format != "json") {
      WriteSpec(json, resolved->spec);
      return;
    }
    const auto* list = std::get_if<SpecList>(&*written);
    json.BeginObject();
    json.Key("axes");
    WriteSpecList(json, list != nullptr ? *list : bundle->axes,
                  SpecForm::kAsWritten);
    json.Member("mode", ModeName(*mode));
    json.Key("spec");
    WriteSpec(json, resolved->spec);
    json.EndObject();
  };
  return PutOut(JsonText(write) + "\n", findings) ? kDone : kFailed;
}

Options OptionsOf(ResolveFlags& flags) {
  Options options = {
      {.name = "AXES",
       .to = &flags.axes,
       .help = "semantic axes such as '[BATCH, [FSDP, SP], _]', or the name "
               "of a bundle",
       .required = true},
      {.name = "--mode",
       .to = &flags.mode,
       .value = "MODE",
       .help = "train, prefill, decode or insert (default: the bundle's "
               "own, else train)",
       .words = ModeNames()},
      {.name = "--mode-dim",
       .to = &flags.mode_dim,
       .value = "N",
       .help = "decode where this dimension of --shape is 1, else train"},
      {.name = "--shape",
       .to = &flags.shape,
       .value = "N,N,...",
       .help = "shape to take the mode from"}};
  Append(options, MeshInputs(flags.inputs));
  Append(options, RulesInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

const Command kResolve = {
    .name = "resolve",
    .summary = "resolve semantic axes in a mode to a spec",
    .about = R"(
Resolves a list of semantic axes, or a bundle by its name, to mesh axes in a
mode. With `--mode-dim` the mode comes from a shape: a length of 1 in that
dimension means decoding.)",
    .example = "shardc resolve '[BATCH, [FSDP, SP], _]' --mode decode",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunResolve); },
};

}  // namespace shardc::cli
