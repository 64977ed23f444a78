// `shardc show`: draws a plan in the terminal. A table in this file has an
// entry for each kind of picture. The data is read from a plan file or from
// inputs:
//
//   shardc show layout model.embed_tokens.weight --plan plan.json
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/planned.h"
#include "cost/report.h"
#include "emit/pictures/line.h"
#include "model/mesh.h"
#include "model/name.h"
#include "model/option_value.h"
#include "picture/array.h"
#include "picture/fold.h"
#include "plan/staged_plan.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct ShowCommand {
  CostFlags flags;
  PictureFlags style;
  std::string what, param, plan, dims;
  bool allow_edited = false;
};

// A plan to draw, and the style of the picture.
struct Subject {
  const ShowCommand& command;
  const Target& target;
  const Planned& planned;
  PictureStyle style;
  bool json = false;  // whether to write what is drawn as JSON
};

struct Drawn {
  std::string text;
  // Whether a device has too little memory, or the roles of parameters that
  // show how much it needs are not known.
  bool over = false;
};
using Draw = std::optional<Drawn> (*)(const Subject& of, Findings& findings);

// Returns the requested mode. If no mode is requested, returns `otherwise` if
// the plan has that mode, or else the plan's first mode.
std::optional<Mode> ModeOf(const Subject& of, Mode otherwise,
                           Findings& findings) {
  const auto& planned = of.planned.table.classes.modes;
  const std::string& text = of.command.flags.mode;
  if (text.empty()) {
    const bool there = IsAmong(otherwise, planned);
    return there || planned.empty() ? otherwise : planned.front();
  }
  const auto mode = ParseModeFlag(text, findings);
  return mode && CheckMode(planned, *mode, findings) ? mode : std::nullopt;
}

// Parses two different dimensions below `rank`, such as `0,2`. Returns nullopt
// after a finding.
std::optional<std::pair<size_t, size_t>> DrawnDims(const std::string& text,
                                                   size_t rank,
                                                   Findings& findings) {
  const Strings parts = SplitList({text});
  std::array<size_t, 2> out = {};
  for (size_t i = 0; i < 2 && parts.size() == 2; ++i) {
    const auto dim = ParseInteger("--dims", parts[i], 0, findings);
    if (!dim) return std::nullopt;
    out[i] = AsIndex(*dim);
  }
  if (parts.size() != 2 || out[0] == out[1] || out[0] >= rank ||
      out[1] >= rank) {
    findings.Add(code::kUsage, {},
                 "`--dims " + text + "` does not give two dimensions of " +
                     std::to_string(rank),
                 rank < 2 ? "leave out `--dims`"
                          : "give rows and columns, such as `--dims 0,1`");
    return std::nullopt;
  }
  return std::pair(out[0], out[1]);
}

Drawn DrawArray(const Subject& of, picture::ArrayInput input,
                const std::vector<std::string>& title) {
  const picture::ArrayPicture array(std::move(input));
  return {of.json ? ArrayJson(array, title)
                  : ArrayText(array, title, of.style)};
}

std::string DrawBars(const Subject& of, const MemoryBars& bars) {
  return of.json ? MemoryJson(bars) : MemoryText(bars, of.style);
}

std::optional<Drawn> DrawLayout(const Subject& of, Findings& findings) {
  const PlanTable& table = of.planned.table;
  if (of.command.param.empty()) {
    findings.Add(code::kUsage, {}, "no parameter is given",
                 "write `shardc show layout PARAM`");
    return std::nullopt;
  }
  const char separator =
      SeparatorOf(table.names.empty() ? "" : table.names.front());
  const auto param =
      FindParam(table.names, separator, of.command.param, findings);
  const auto mode = ModeOf(of, Mode::kTrain, findings);
  if (!param || !mode) return std::nullopt;
  const ReadParam& planned = table.classes.params[table.class_of[*param]];
  const auto& stages = table.classes.stages;
  DrawnParam drawn{planned, std::nullopt};
  std::string ranks;
  if (stages) {
    ranks = RanksText(RanksOf(*stages, planned.stages)) + " of " + stages->axis;
    drawn = DrawnWithoutStages(*stages, planned);
  }
  const ReadParam& read = drawn.param;
  picture::ArrayInput input;
  input.mesh = of.planned.mesh();
  const Spec& spec = read.SpecOf(*mode);
  const DimParts parts = ShardedParts(read.parts, spec);
  const auto equal = EqualPartsOf(parts);
  if (!equal) {
    findings.Add(code::kInexpressible, planned.place,
                 "the parts " + DimPartsText(parts) + " of " +
                     ShortQuote(planned.name) +
                     " have different sizes, which a layout cannot draw",
                 "`shardc explain PARAM --device N` lists the ranges of a "
                 "device");
    return std::nullopt;
  }
  input.spec = SplitSpec(spec, *equal);
  input.dims = picture::DimsOf(read.type.shape, spec, *equal);
  input.placement = read.placement;
  input.rank = drawn.rank;
  if (!of.command.dims.empty()) {
    input.drawn = DrawnDims(of.command.dims, input.dims.size(), findings);
    if (!input.drawn) return std::nullopt;
  }
  std::vector<std::string> title = {
      Printable(table.names[*param]),
      planned.type.shape ? ShapeText(*planned.type.shape) : "shape unknown",
      SpecText(spec) + InPartsText(parts)};
  if (*mode != Mode::kTrain) title.emplace_back(ModeName(*mode));
  if (!ranks.empty()) title.push_back(std::move(ranks));
  return DrawArray(of, std::move(input), title);
}

std::optional<Drawn> DrawMesh(const Subject& of, Findings&) {
  if (!of.json) {
    return Drawn{
        MeshPictureText(picture::MeshPicture(of.planned.mesh()), of.style)};
  }
  return Drawn{TextOf([&](Sink& out) {
    JsonWriter json(out);
    WriteMesh(json, of.planned.mesh());
  })};
}

// Draws the memory of each rank of the pipeline in training, as bars.
std::optional<Drawn> DrawRanks(const Subject& of, Findings& findings) {
  const auto settings =
      CostSettings(of.command.flags, of.target, Mode::kTrain, findings);
  if (!settings) return std::nullopt;
  const auto cost = StagedCostOf(of.planned, *settings, findings);
  if (!cost) return std::nullopt;
  return Drawn{DrawBars(of, BarsOfRanks(*cost, of.planned.mesh().devices)),
               !cost->Fits().value_or(true) ||
                   (of.planned.compiled != nullptr &&
                    !of.planned.WorkIn(Mode::kTrain).not_known.empty())};
}

std::optional<Drawn> DrawMemory(const Subject& of, Findings& findings) {
  const std::string& given = of.command.flags.mode;
  const bool trains = given.empty() || given == ModeName(Mode::kTrain);
  if (of.planned.table.classes.stages) {
    if (trains) return DrawRanks(of, findings);
    findings.Add(code::kUsage, FlagPlace("--mode", given),
                 "the plan has stages, whose schedule is that of training",
                 "leave out `--mode`");
    return std::nullopt;
  }
  std::vector<Mode> modes = of.planned.table.classes.modes;
  if (!of.command.flags.mode.empty()) {
    const auto mode = ParseModeFlag(of.command.flags.mode, findings);
    if (!mode || !CheckMode(modes, *mode, findings)) return std::nullopt;
    modes = {*mode};
  }
  std::vector<cost::Report> reports;
  for (Mode mode : modes) {
    const auto settings =
        CostSettings(of.command.flags, of.target, mode, findings);
    if (!settings) return std::nullopt;
    const Compiled* const compiled = of.planned.compiled.get();
    reports.push_back(cost::ReportOf(
        of.planned.WorkIn(mode),
        compiled == nullptr ? *settings
                            : cost::WithLossOf(compiled->rules, *settings)));
  }
  Drawn out;
  for (const cost::Report& report : reports) {
    out.over = out.over || report.memory.at_least ||
               !report.memory.Fits().value_or(true);
  }
  out.text = DrawBars(of, BarsOf(reports));
  return out;
}

std::optional<Drawn> DrawRules(const Subject& of, Findings&) {
  const picture::FoldedPlan folded(of.planned.table);
  const picture::Coverage coverage = CoverageIn(of.planned, folded);
  return Drawn{of.json ? CoverageJson(coverage)
                       : CoverageText(coverage, of.style)};
}

std::optional<Drawn> DrawCache(const Subject& of, Findings& findings) {
  const auto mode = ModeOf(of, Mode::kDecode, findings);
  const auto settings =
      mode ? CostSettings(of.command.flags, of.target, *mode, findings)
           : std::nullopt;
  if (!settings) return std::nullopt;
  auto cache = CacheIn(of.planned, *settings, *mode);
  if (!cache) {
    findings.Add(code::kUsage, {},
                 "the plan has no attention specs for mode " +
                     std::string(ModeName(*mode)));
    return std::nullopt;
  }
  const std::vector<std::string> title = {cache->title,
                                          SpecText(cache->input.spec)};
  return DrawArray(of, std::move(cache->input), title);
}

// Draws the mesh, what each rule won, and the memory.
std::optional<Drawn> DrawAll(const Subject& of, Findings& findings) {
  constexpr std::array<std::pair<std::string_view, Draw>, 3> kParts = {
      {{"{\"mesh\": ", DrawMesh},
       {",\n\"coverage\": ", DrawRules},
       {",\n\"memory\": ", DrawMemory}}};
  Drawn out;
  for (const auto& [key, draw] : kParts) {
    const auto part = draw(of, findings);
    if (!part) return std::nullopt;
    if (of.json) out.text += key;
    out.text += part->text;
    out.over = out.over || part->over;
  }
  if (of.json) out.text += "}";
  return out;
}

struct Picture {
  std::string_view name;
  Draw draw;
};
constexpr std::array<Picture, 3> kPictures = {
    {{"layout", DrawLayout}, {"memory", DrawMemory}, {"kv", DrawCache}}};

Draw FindPicture(const std::string& name, Findings& findings) {
  if (name.empty()) return DrawAll;
  std::vector<std::string_view> names;
  for (const Picture& picture : kPictures) {
    if (picture.name == name) return picture.draw;
    names.push_back(picture.name);
  }
  names.insert(names.end(), {"mesh", "manifest", "rules"});
  // A word with a `.` or a `/` is the name of a file; a file that is there was
  // recognised, or is of no kind that can be drawn.
  if (name.find_first_of("./") != std::string::npos &&
      !IsThere(name, nullptr)) {
    findings.Add(code::kMissing, {}, "there is no file " + ShortQuote(name),
                 "give a plan, which `shardc plan -o FILE` writes");
    return nullptr;
  }
  findings.Add(code::kUsage, {}, ShortQuote(name) + " is not a picture",
               DidYouMean(name, names,
                          "the pictures are: " + Join(names, ", ") +
                              "; a plan file is also taken"));
  return nullptr;
}

int RunShow(const ShowCommand& command, const Common& common,
            Findings& findings) {
  const Draw draw = FindPicture(command.what, findings);
  const auto style = StyleOf(command.style, common, findings);
  if (draw == nullptr || !style) return kFailed;
  if (!command.param.empty() && draw != DrawLayout) {
    // A word with a `.` or a `/` may be the name of a plan that is missing.
    const bool file = command.param.find_first_of("./") != std::string::npos &&
                      !IsThere(command.param, nullptr);
    findings.Add(file ? code::kMissing : code::kUsage, {},
                 file ? "there is no file " + ShortQuote(command.param)
                      : ShortQuote(command.param) + " has no effect on " +
                            Quote(command.what),
                 file ? "give a plan, which `shardc plan -o FILE` writes"
                      : "only `shardc show layout` draws one parameter");
    return kFailed;
  }
  const auto target =
      TargetOrPlan(command.flags.inputs, command.plan, findings);
  if (!target) return kFailed;
  bool found = false;
  InputFlags inputs = command.flags.inputs;
  inputs.trains = command.flags.mode == ModeName(Mode::kTrain);
  const auto planned =
      LoadPlanned(inputs, command.plan, EditedPlanOf(command.allow_edited),
                  *target, common, found, findings);
  if (planned == nullptr) return found ? kFound : kFailed;
  // The pictures `layout` and `memory` show the shards of parameters. A
  // parameter with an illegal spec has no valid shards, so it is an error.
  const bool shards = draw != DrawCache;
  if (shards && !command.plan.empty() &&
      HasIllegalSpec(planned->table.classes, findings)) {
    return kFound;
  }
  const auto drawn = draw(
      {command, *target, *planned, *style, common.format == "json"}, findings);
  if (!drawn) return findings.HasErrors() ? StageStatus(findings) : kFailed;
  if (!PutOut(drawn->text + (common.format == "json" ? "\n" : ""), findings)) {
    return kFailed;
  }
  return drawn->over ? kFound : kDone;
}

Options OptionsOf(ShowCommand& command) {
  command.flags.mode.clear();
  Options options = {{.name = "PICTURE",
                      .to = &command.what,
                      .value = "layout|memory|kv",
                      .help = "picture to draw (default: the mesh, the rules "
                              "and memory)",
                      .words = Words({"layout", "memory", "kv"})},
                     {.name = "PARAM",
                      .to = &command.param,
                      .value = "PARAM",
                      .help = "name of a parameter, for `layout`"},
                     {.name = "--plan",
                      .need = HelpNeed::kMost,
                      .to = &command.plan,
                      .value = "FILE",
                      .help = "plan file to use instead of the inputs"},
                     AllowEditedOption(&command.allow_edited),
                     {.name = "--dims",
                      .to = &command.dims,
                      .value = "ROWS,COLUMNS",
                      .help = "the two dimensions to draw, for `layout` "
                              "(default: the last two sharded ones)"}};
  Append(options, OptionsOf(command.style));
  Options costs = OptionsOfCost(command.flags);
  for (Option& option : costs) {
    if (option.name != "--mode") continue;
    option.help =
        "mode: train, prefill, decode or insert (default: train for layout, "
        "decode for kv, all for memory)";
  }
  Append(options, std::move(costs));
  return options;
}

}  // namespace

Declared DeclareShow() { return Declare(OptionsOf, RunShow); }

}  // namespace shardc::cli
