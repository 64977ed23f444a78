// Runs `shardc search --serve`. The best layout is written as a project: a
// target for prefill and one for decode, or one target for both, each with its
// plan, and the map of a prompt's cache between the two:
//
//   shardc search --serve --devices 8 ... -o serve
//     ->  serve/prefill.plan.json, serve/decode.plan.json, serve/kv-map.json,
//         serve/serve.json, serve/shardc.yaml, meshes, rules, a manifest
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/kv_report.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/search_project.h"
#include "cost/setting_rows.h"
#include "emit/costs/search_report.h"
#include "emit/emit.h"
#include "emit/kv/kv_map.h"
#include "model/option_value.h"
#include "plan/plan_table.h"
#include "search/serving.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr double kMostSeconds = 1e6, kMostRequests = 1e9;

// Reads a positive number that may have one of these units. Returns nullopt
// after a finding.
struct Unit {
  std::string_view name;
  double size;
};
std::optional<double> ReadQuantity(std::string_view flag,
                                   const std::string& text,
                                   std::span<const Unit> units, double most,
                                   std::string_view form, Findings& findings) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view name(stop, static_cast<size_t>(end - stop));
  const auto unit =
      std::find_if(units.begin(), units.end(),
                   [&](const Unit& one) { return one.name == name; });
  if (error == std::errc() && unit != units.end() && value > 0 &&
      value * unit->size <= most) {
    return value * unit->size;
  }
  findings.Add(code::kUsage, FlagPlace(flag, text),
               ShortQuote(text) + " is not " + std::string(form));
  return std::nullopt;
}

std::optional<double> ReadTime(std::string_view flag, const std::string& text,
                               Findings& findings) {
  if (text.empty()) {
    findings.Add(code::kUsage, {},
                 "`--serve` also needs " + Quote(flag) + ", the most time " +
                     (flag == "--ttft" ? "to the first token"
                                       : "of each further token"));
    return std::nullopt;
  }
  static constexpr Unit kUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  // A bare number may be seconds or milliseconds, as the systems differ.
  if (text.find_first_not_of("0123456789.") == std::string::npos) {
    findings.Add(code::kUsage, FlagPlace(flag, text),
                 Quote(flag) + " is " + ShortQuote(text) + ", of what unit?",
                 "write " + Quote(text + "ms") + " or " + Quote(text + "s"));
    return std::nullopt;
  }
  return ReadQuantity(flag, text, kUnits, kMostSeconds,
                      "a positive time such as 20ms or 1.5s", findings);
}

std::optional<search::ServeTargets> ReadTargets(const SearchFlags& flags,
                                                const SearchInputs& inputs,
                                                Findings& findings) {
  const ServeFlags& serve = flags.serve;
  search::ServeTargets out;
  if (serve.engine.engine.empty()) {
    findings.Add(code::kUsage, {}, "`--serve` also needs `--engine`",
                 "write for example `--engine vllm`");
    return std::nullopt;
  }
  ServingFlags engine = serve.engine;
  engine.slots = "1";  // is searched
  auto requests = ServingRequestOf(engine, {}, Mode::kDecode, findings);
  const auto first = ReadTime("--ttft", serve.first, findings);
  const auto token = ReadTime("--tpot", serve.token, findings);
  if (!requests || !first || !token) return std::nullopt;
  out.requests = std::move(*requests);
  out.requests.stored = StoredFormatsOf(inputs.request.model);
  out.first = *first;
  out.token = *token;
  if (!serve.arriving.empty()) {
    static constexpr Unit kUnits[] = {{"", 1}};
    out.arriving =
        ReadQuantity("--requests", serve.arriving, kUnits, kMostRequests,
                     "a positive number of requests a second", findings);
    if (!out.arriving) return std::nullopt;
  }
  if (serve.aggregated && serve.engine.disaggregated) {
    findings.Add(code::kUsage, {},
                 "`--aggregated` and `--disaggregated` exclude each other",
                 "leave out both to try both");
    return std::nullopt;
  }
  out.aggregated = !serve.engine.disaggregated;
  out.disaggregated = !serve.aggregated;
  out.rules_text = [&inputs](const search::RulesFile& file) {
    return SearchedRulesText(file, inputs);
  };
  return out;
}

// Proves the step of a side in a mode.
ServeReport::Proof ProofOf(const search::ServingSide& side, Mode mode,
                           const SearchInputs& inputs) {
  const auto set = [&](const Compiled&, verify::StepRequest& step, Findings&) {
    step.mode = mode;
    step.batch = side.layout.ranks * 2;
    return true;
  };
  return {mode, ProveStep(side.layout.mesh, side.layout.file, inputs, 0, set)};
}

// A target of the project, and the plan of its side.
struct ServedTarget {
  std::string name;
  const search::ServingSide* side;
  std::vector<Mode> modes;
  std::string plan;
};

std::vector<ServedTarget> TargetsOf(const search::Serving& best) {
  if (best.sides.size() == 1) {
    return {{"serve", &best.sides[0], {Mode::kPrefill, Mode::kDecode}, ""}};
  }
  return {{"prefill", &best.sides[0], {Mode::kPrefill}, ""},
          {"decode", &best.sides[1], {Mode::kDecode}, ""}};
}

std::string PrefixOf(const ServedTarget& target) { return target.name + "."; }

// Compiles the plans of the targets. Returns false after a finding.
bool MakePlans(const SearchInputs& inputs, const SearchProject& project,
               std::vector<ServedTarget>& targets, Findings& findings) {
  for (ServedTarget& target : targets) {
    CompileOptions options = inputs.request.options;
    options.modes = target.modes;
    const search::ServingLayout& layout = target.side->layout;
    const auto compiled = CompileSearched(
        layout.mesh, layout.file, inputs, options,
        [&](const std::string& file) {
          return project.SourceName(PrefixOf(target), file);
        },
        findings);
    if (compiled == nullptr) return false;
    target.plan =
        TextOf([&](Sink& sink) { WritePlanJson(compiled->plan, {}, sink); });
  }
  return true;
}

std::optional<KvMapReport> MapOf(const std::vector<ServedTarget>& targets,
                                 const SearchInputs& inputs, int64_t tokens,
                                 Findings& findings) {
  KvMapReport out;
  out.settings.tokens = tokens;
  out.from.settings.dtype = out.to.settings.dtype =
      inputs.request.settings.cache;
  out.to.settings.mode = Mode::kDecode;
  std::vector<PlanTable> plans;
  for (const ServedTarget& target : targets) {
    auto plan =
        ReadPlanTable(MakeSource(PrefixOf(target) + "plan.json", target.plan),
                      EditedPlan::kRefused, findings);
    if (!plan) return std::nullopt;
    plans.push_back(std::move(*plan));
  }
  out.from.plan = PrefixOf(targets[0]) + "plan.json";
  out.to.plan = PrefixOf(targets[1]) + "plan.json";
  out.from.mesh = MeshText(plans[0].classes.mesh);
  out.to.mesh = MeshText(plans[1].classes.mesh);
  if (!MakeKvReport(plans[0].classes, plans[1].classes, {}, out, findings)) {
    return std::nullopt;
  }
  return out;
}

// Returns the commands that print the figures of the sides from the project
// that was written.
std::string CostCommandsOf(const std::vector<ServedTarget>& targets,
                           const SearchFlags& flags,
                           const SearchInputs& inputs) {
  std::string out;
  const ServingFlags& engine = flags.serve.engine;
  for (const ServedTarget& target : targets) {
    const Mode mode = target.modes.back();
    out += "the same figures: shardc cost --project " +
           ShellWord(flags.output + "/shardc.yaml") + " --target " +
           target.name + " --mode " + std::string(ModeName(mode)) +
           " --profile " + ShellWord(inputs.profile) + " --engine " +
           ShellWord(engine.engine) + " --isl " + engine.input + " --slots " +
           std::to_string(*target.side->report.request.slots);
    if (mode == Mode::kDecode) out += " --osl " + engine.output;
    if (!engine.format.empty()) out += " --served-dtype " + engine.format;
    for (const std::string& setting : engine.settings) {
      out += " --set " + ShellWord(setting);
    }
    for (const std::string& flag : cost::StatedSettings(
             inputs.request.settings, Mode::kDecode, cost::Stated::kChanges)) {
      out += " " + flag;
    }
    if (target.side->serves != search::Serves::kBoth) {
      out += " --disaggregated";
    }
    out += "\n";
  }
  return out;
}

std::string MapText(const KvMapReport& report, int64_t tokens) {
  const kv::Map& map = report.map;
  if (!map.refused.empty()) return "refused: " + map.refused.front();
  if (!map.complete || !map.totals) return "not known";
  return Counted(map.totals->pairs, "pair") + ", " +
         BytesText(map.totals->sent) + " for a prompt of " + CountText(tokens) +
         " tokens, at most " +
         BytesText(std::max(map.totals->largest_source,
                            map.totals->largest_destination)) +
         " on a device; " + CountText(map.proved) + " elements proved";
}

}  // namespace

int RunServe(const SearchFlags& flags, SearchInputs& inputs,
             const Common& common, Findings& findings) {
  ServeReport report;
  auto targets = ReadTargets(flags, inputs, findings);
  if (!targets) return kFailed;
  report.targets = std::move(*targets);
  search::Request& request = inputs.request;
  request.options.modes = {Mode::kTrain, Mode::kPrefill, Mode::kDecode};
  report.target = inputs.target;
  report.devices = request.devices;
  report.profile = request.settings.profile->name;
  ShowStage(common,
            "searching layouts of " + CountText(request.devices) + " devices");
  report.found = search::SearchServing(request, report.targets);
  bool good = !report.found.layouts.empty();
  std::string commands;
  if (good) {
    const search::Serving& best = report.found.layouts.front();
    SearchProject project(inputs, flags.output);
    ShowStage(common, "proving the best layout");
    auto served = TargetsOf(best);
    for (const ServedTarget& target : served) {
      for (const Mode mode : target.modes) {
        if (inputs.prove == 0) break;
        report.proofs.push_back(ProofOf(*target.side, mode, inputs));
        good &= report.proofs.back().proof.status != SearchProof::Status::kFail;
      }
    }
    if (!MakePlans(inputs, project, served, findings)) return kFailed;
    const int64_t tokens = report.targets.requests.input;
    std::optional<KvMapReport> map;
    if (served.size() > 1) {
      map = MapOf(served, inputs, tokens, findings);
      if (!map) return kFailed;
      report.map = MapText(*map, tokens);
      good &= map->IsMapped();
    }
    if (good && !flags.output.empty()) {
      for (const ServedTarget& target : served) {
        std::string modes;
        for (const Mode mode : target.modes) {
          modes += (modes.empty() ? "" : ", ") + std::string(ModeName(mode));
        }
        std::string lines = "    modes: [" + modes + "]\n";
        if (const auto memory = OwnMemory(inputs)) {
          lines += "    memory: " + std::to_string(*memory) + "\n";
        }
        const search::ServingLayout& layout = target.side->layout;
        project.AddTarget(
            target.name, PrefixOf(target), layout.mesh, layout.file, true,
            lines + "    plan: " + PrefixOf(target) + "plan.json\n");
        project.AddFile({PrefixOf(target) + "plan.json", target.plan});
      }
      if (map) {
        project.AddFile({"kv-map.json", TextOf([&](Sink& sink) {
                           WriteKvMapJson(*map, sink);
                         })});
      }
      project.AddFile({"serve.json", TextOf([&](Sink& sink) {
                         WriteServeJson(report, sink);
                       })});
      if (!project.Write("Found by `shardc search --serve`.", common,
                         findings)) {
        return kFailed;
      }
      commands = CostCommandsOf(served, flags, inputs);
    }
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteServeJson(report, out);
    } else {
      out.Append(ServeReportText(report) + commands);
    }
  };
  if (!PutOut(write, findings)) return kFailed;
  return good ? kDone : kFound;
}

}  // namespace shardc::cli
