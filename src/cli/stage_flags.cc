// Converts the options of pipeline stages to a request. The size of the axis is
// the number of ranks:
//
//   --stages pp --schedule zbv --microbatches 64 with pp:8
//     ->  the table of zbv on 8 ranks with 16 stages
#include "cli/stage_flags.h"

#include <vector>

#include "cli/output.h"
#include "cli/schedule_table.h"
#include "parse/stages_read.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr std::string_view kEven = "even", kCost = "cost";

// The division that `--assign` gives.
bool ReadAssign(const StageFlags& flags, StageRequest& out,
                Findings& findings) {
  if (flags.assign.empty()) return true;
  out.layers.clear();
  out.layers_name = "`--assign`";
  out.layers_place = {};
  out.balance =
      flags.assign == kCost ? StageBalance::kSearched : StageBalance::kEven;
  if (flags.assign == kEven || flags.assign == kCost) return true;
  for (const std::string& part : SplitList({flags.assign})) {
    const auto layers = ParseInteger("--assign", part, 0, findings);
    if (!layers) return false;
    out.layers.push_back(*layers);
  }
  return true;
}

Place StagesPlace(const StageFlags& flags, const StageDeclaration* declared) {
  return declared != nullptr && !flags.Given()
             ? declared->axis_place
             : FlagPlace("--stages", flags.axis);
}

bool CheckSizes(const StageFlags& flags, const StageDeclaration* declared,
                const StageSizes& sizes, Findings& findings) {
  const Place place = StagesPlace(flags, declared);
  const bool given = flags.Given();
  if (sizes.mode != Mode::kTrain) {
    findings.Add(code::kUsage, place,
                 std::string(given ? "`--stages` is" : "`stages` are") +
                     " for training: a schedule has backward tasks",
                 given ? "leave out `--mode`"
                       : "leave out `--mode`, or pass `--stages none` for the "
                         "model on one stage");
    return false;
  }
  if (!sizes.batch || !sizes.length) {
    findings.Add(code::kUsage, place,
                 "the times and activations of stages need a batch and a "
                 "length",
                 "give `--batch` and `--seq`");
    return false;
  }
  return true;
}

// The table of `--schedule`, with the sizes that flags give.
std::optional<schedule::Table> TableOf(const StageFlags& flags,
                                       const Mesh& mesh,
                                       const std::string& axis,
                                       const StageSizes& sizes,
                                       Findings& findings) {
  const size_t before = findings.errors();
  ScheduleChoice choice{flags.schedule.empty() ? "1f1b" : flags.schedule,
                        "--schedule"};
  choice.ranks =
      ScheduleSize("--stages", std::to_string(mesh.SizeOf(axis)), findings);
  choice.virtual_stages =
      ScheduleSize("--virtual", flags.virtual_stages, findings);
  choice.microbatches =
      ScheduleSize("--microbatches",
                   std::to_string(sizes.microbatches.value_or(1)), findings);
  if (findings.errors() > before) return std::nullopt;
  return ScheduleTable(choice, findings);
}

}  // namespace

Options OptionsOf(StageFlags& flags) {
  return {{.name = "--stages",
           .to = &flags.axis,
           .value = "AXIS|none",
           .help = "divide the layers into stages over this axis of the mesh "
                   "(default: the `stages:` of the rules or of the target); "
                   "none: into no stages"},
          {.name = "--assign",
           .to = &flags.assign,
           .value = "even|cost|N,...",
           .help = "layers of the stages: so that the longest stage is "
                   "shortest (cost, the default of --stages), evenly, or a "
                   "number for each stage"},
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

bool ReadDeclaredStages(const StageFlags& flags, const Target& target,
                        const TargetRequest& asked, const RuleSet& rules,
                        std::optional<StageDeclaration>& out,
                        Findings& findings) {
  if (flags.None()) return true;
  const size_t before = findings.errors();
  out = DeclaredStages(target, rules, RulesBoundary(target, asked), findings);
  return findings.errors() == before;
}

std::optional<int64_t> StageMicrobatches(bool given, int64_t flag,
                                         const StageDeclaration* declared) {
  if (given || declared == nullptr) return flag;
  if (declared->microbatches) return *declared->microbatches;
  if (declared->schedule_is_file) return std::nullopt;
  return 1;
}

std::optional<StageRequest> MergedStages(const StageFlags& flags,
                                         const StageDeclaration& declared,
                                         const Mesh& mesh,
                                         std::optional<int64_t> given,
                                         Findings& findings) {
  StageDeclaration own = declared;
  if (flags.Given()) {
    own.axis = flags.axis;
    own.axis_place = {};
  }
  if (!flags.virtual_stages.empty()) {
    own.virtual_stages =
        ScheduleSize("--virtual", flags.virtual_stages, findings);
    own.virtual_place = FlagPlace("--virtual", flags.virtual_stages);
    if (!own.virtual_stages) return std::nullopt;
  }
  std::optional<int32_t> microbatches;
  if (given) {
    microbatches =
        ScheduleSize("--microbatches", std::to_string(*given), findings);
    if (!microbatches) return std::nullopt;
  }
  if (!flags.schedule.empty()) {
    own.schedule = flags.schedule;
    own.schedule_is_file = IsScheduleFile(flags.schedule);
    own.schedule_place = FlagPlace("--schedule", flags.schedule);
  }
  auto out = DeclaredRequest(own, mesh, microbatches, findings);
  if (!out || !ReadAssign(flags, *out, findings)) return std::nullopt;
  return out;
}

std::optional<StageRequest> StageRequestOf(const StageFlags& flags,
                                           const StageDeclaration* declared,
                                           const Mesh& mesh,
                                           const StageSizes& sizes,
                                           Findings& findings) {
  const std::string& axis =
      flags.Given() || declared == nullptr ? flags.axis : declared->axis;
  if (!StageRanks(mesh, axis, StagesPlace(flags, declared), findings) ||
      !CheckSizes(flags, declared, sizes, findings)) {
    return std::nullopt;
  }
  if (declared != nullptr) {
    return MergedStages(flags, *declared, mesh, sizes.microbatches, findings);
  }
  StageRequest out;
  out.axis = axis;
  out.balance = StageBalance::kSearched;
  if (!ReadAssign(flags, out, findings)) return std::nullopt;
  auto table = TableOf(flags, mesh, axis, sizes, findings);
  if (!table) return std::nullopt;
  out.table = std::move(*table);
  return out;
}

}  // namespace shardc::cli
