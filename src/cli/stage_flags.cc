// Converts the options of pipeline stages to a request. The size of the axis is
// the number of ranks:
//
//   --stages pp --schedule zbv --microbatches 64 with pp:8
//     ->  the table of zbv on 8 ranks with 16 stages
#include "cli/stage_flags.h"

#include "cli/output.h"
#include "cli/schedule_table.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kEven = "even", kCost = "cost";
constexpr std::string_view kExposed = "exposed";

bool ReadAssign(const StageFlags& flags, cost::StageRequest& out,
                Findings& findings) {
  out.balance = flags.assign != kEven;
  if (flags.assign.empty() || flags.assign == kEven || flags.assign == kCost) {
    return true;
  }
  for (const std::string& part : SplitList({flags.assign})) {
    const auto layers = ParseInteger("--assign", part, 0, findings);
    if (!layers) return false;
    out.layers.push_back(*layers);
  }
  return true;
}

bool CheckInputs(const StageFlags& flags, const Mesh& mesh,
                 const cost::Settings& settings, Mode mode,
                 Findings& findings) {
  const Place place = FlagPlace("--stages", flags.axis);
  if (!mesh.Find(flags.axis)) {
    std::vector<std::string> names;
    for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
    findings.Add(
        code::kUsage, place, "the mesh has no axis " + ShortQuote(flags.axis),
        DidYouMean(flags.axis, names, "its axes are " + MeshText(mesh)));
    return false;
  }
  if (mode != Mode::kTrain) {
    findings.Add(code::kUsage, place,
                 "`--stages` is for training: a schedule has backward tasks",
                 "leave out `--mode`");
    return false;
  }
  if (!settings.batch || !settings.length) {
    findings.Add(code::kUsage, place,
                 "the times and activations of stages need a batch and a "
                 "length",
                 "give `--batch` and `--seq`");
    return false;
  }
  return true;
}

}  // namespace

Options OptionsOf(StageFlags& flags) {
  return {{.name = "--stages",
           .to = &flags.axis,
           .value = "AXIS",
           .help = "divide the layers into stages over this axis of the mesh, "
                   "and print what each rank of the pipeline costs"},
          {.name = "--assign",
           .to = &flags.assign,
           .value = "even|cost|N,...",
           .help = "layers of the stages: so that the longest stage is "
                   "shortest (cost, the default), evenly, or a number for "
                   "each stage"},
          {.name = "--virtual",
           .to = &flags.virtual_stages,
           .value = "N",
           .help = "stages on each rank (default: 1, or 2 where the schedule "
                   "has several)"},
          {.name = "--schedule",
           .to = &flags.schedule,
           .value = "NAME|FILE",
           .help = "schedule of the pipeline, or a file in PyTorch's CSV "
                   "(default: 1f1b)",
           .words = ScheduleNames()},
          {.name = "--p2p",
           .to = &flags.p2p,
           .value = "overlapped|exposed",
           .help = "whether a rank computes while it sends to the next stage "
                   "(default: overlapped)",
           .checked = true}};
}

std::optional<cost::StageRequest> StageRequestOf(const StageFlags& flags,
                                                 const Mesh& mesh,
                                                 const cost::Settings& settings,
                                                 Mode mode,
                                                 Findings& findings) {
  if (!CheckInputs(flags, mesh, settings, mode, findings)) return std::nullopt;
  cost::StageRequest out;
  out.axis = flags.axis;
  out.exposed = flags.p2p == kExposed;
  if (!ReadAssign(flags, out, findings)) return std::nullopt;
  const size_t before = findings.errors();
  ScheduleChoice choice{flags.schedule, "--schedule"};
  choice.ranks = ScheduleSize(
      "--stages", std::to_string(mesh.SizeOf(flags.axis)), findings);
  choice.virtual_stages =
      ScheduleSize("--virtual", flags.virtual_stages, findings);
  choice.microbatches = ScheduleSize(
      "--microbatches", std::to_string(settings.microbatches), findings);
  if (findings.errors() > before) return std::nullopt;
  auto table = ScheduleTable(choice, findings);
  if (!table) return std::nullopt;
  out.table = std::move(*table);
  return out;
}

}  // namespace shardc::cli
