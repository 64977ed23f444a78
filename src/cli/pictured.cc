// Collects the data that pictures and the HTML page show. The cost report of a
// mode has a reason for each part of the memory that is unknown. If several
// modes have the same reason, it is listed once with these modes. Reasons are
// listed in the order in which they first occur:
//
//   prefill: no batch; decode: no batch  ->  `prefill, decode: no batch`
#include "cli/pictured.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/planned.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/stage_cost.h"
#include "lint/analysis/facts.h"
#include "model/option_value.h"
#include "plan/kv_layout.h"
#include "plan/staged_plan.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

const Spec* AttentionSpec(const ReadPlan& view, Mode mode,
                          std::string_view tensor) {
  for (const ReadActivation& one : view.attention) {
    if (one.mode == mode && one.tensor == tensor) return &one.spec;
  }
  return nullptr;
}

}  // namespace

MemoryBars BarsOf(std::span<const cost::Report> reports) {
  constexpr std::string_view kLetters = "PGOKALW";
  static_assert(kLetters.size() == cost::kComponentCount);
  MemoryBars out;
  std::vector<std::string> order;  // distinct reasons, in order of occurrence
  std::map<std::string, std::string> modes_of;
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    std::string name(cost::kComponentNames[i]);
    std::replace(name.begin(), name.end(), '_', ' ');
    out.parts.push_back({kLetters[i], std::move(name)});
  }
  for (const cost::Report& report : reports) {
    const cost::Memory& memory = report.memory;
    MemoryBar bar;
    bar.name = ModeName(report.mode);
    for (size_t i = 0; i < cost::kComponentCount; ++i) {
      bar.parts.push_back(memory.most.KnownOf(i));
    }
    bar.at_least = memory.at_least || !memory.unknown.empty();
    if (memory.least.total != memory.most.total) bar.least = memory.least.total;
    out.bars.push_back(std::move(bar));
    out.devices = report.mesh.devices;
    if (memory.capacity) out.budget = memory.capacity;
    for (const NotKnown& fact : memory.unknown) {
      const std::string text = NotKnownText(fact);
      std::string& modes = modes_of[text];
      if (modes.empty()) order.push_back(text);
      AppendItem(modes, ", ", ModeName(report.mode));
    }
  }
  for (const std::string& text : order) {
    out.unknown.push_back(modes_of[text] + ": " + text);
  }
  return out;
}

picture::Coverage CoverageIn(const Planned& planned,
                             const picture::FoldedPlan& folded) {
  picture::Coverage out = picture::CoverageOf(folded);
  if (planned.compiled == nullptr) return out;
  LintInputs inputs;
  inputs.compiled = planned.compiled.get();
  const Facts facts(inputs);
  const auto rules = facts.rule_facts();
  for (size_t i = 0; i < rules.size() && i < out.rules.size(); ++i) {
    out.rules[i].found = rules[i].found;
    const auto most = std::max_element(
        rules[i].lost.begin(), rules[i].lost.end(),
        [](const LostTo& a, const LostTo& b) { return a.count < b.count; });
    if (out.rules[i].won == 0 && most != rules[i].lost.end()) {
      out.rules[i].shadowed_by = most->rule;
    }
  }
  return out;
}

std::optional<CacheArray> CacheIn(const Planned& planned,
                                  const cost::Settings& settings, Mode mode) {
  const ReadPlan& view = planned.table.classes;
  const Spec* key = AttentionSpec(view, mode, "key");
  const Spec* value = AttentionSpec(view, mode, "value");
  if (key == nullptr) return std::nullopt;
  CacheArray out;
  out.title = value != nullptr && *value == *key ? "key, value" : "key";
  out.title += " (" + std::string(ModeName(mode)) + ")";
  out.input.mesh = planned.mesh();
  out.input.spec = *key;
  std::optional<int64_t> heads, width;
  if (planned.model) {
    heads = planned.model->kv_heads ? planned.model->kv_heads
                                    : planned.model->heads;
    width = planned.model->head_dim;
  }
  // The kinds of layers that keep keys and values of all tokens or the last.
  std::set<int64_t> kinds;
  for (const KvKind& kind : view.kv) {
    if (kind.kind == KvKindName::kFull || kind.kind == KvKindName::kWindow) {
      kinds.insert(kind.heads);
    }
  }
  if (kinds.size() == 1) heads = *kinds.begin();
  if (kinds.size() > 1) {
    heads.reset();
    std::vector<std::string> each;
    for (const int64_t count : kinds) each.push_back(CountText(count));
    out.title += ", layers with " + Join(each, ", ") + " heads";
  }
  out.input.dims = {{.name = "batch", .size = settings.batch, .axes = {}},
                    {.name = "length", .size = settings.kv_length, .axes = {}},
                    {.name = "head", .size = heads, .axes = {}},
                    {.name = "dim", .size = width, .axes = {}}};
  return out;
}

namespace {

constexpr int64_t kLeastWidth = 60, kMostWidth = 1000, kUsualWidth = 80;

// Returns whether the locale's character set is UTF-8.
bool IsUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return text.find("utf-8") != std::string::npos ||
           text.find("utf8") != std::string::npos;
  }
  return false;
}

int64_t TerminalWidth() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return std::clamp<int64_t>(size.ws_col, kLeastWidth, kMostWidth);
}

}  // namespace

Options OptionsOf(PictureFlags& flags) {
  return {{.name = "--ascii",
           .to = &flags.ascii,
           .help = "draw with ASCII only (default: if a terminal's locale is "
                   "not UTF-8)"},
          {.name = "--width",
           .to = &flags.width,
           .value = "N",
           .help = "width of the drawing in columns, 60 to 1000 (default: the "
                   "terminal's, else 80)"}};
}

std::optional<PictureStyle> StyleOf(const PictureFlags& flags,
                                    const Common& common, Findings& findings) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  PictureStyle out;
  out.ascii = flags.ascii || (terminal && !IsUtf8Locale());
  out.color = UsesColor(common, STDOUT_FILENO);
  if (flags.width.empty()) {
    out.width = terminal ? TerminalWidth() : kUsualWidth;
    return out;
  }
  const auto width =
      ParseInteger("--width", flags.width, kLeastWidth, findings);
  if (!width) return std::nullopt;
  out.width = std::min(*width, kMostWidth);
  return out;
}

// Computes the cost of pipeline stages for pictures and the report page. A
// compiled plan has its stages in memory. A plan file only states which layers
// are in which stage, and the name of the schedule. The stages are made again
// from these. For example:
//
//   show memory --plan staged.json --batch 64 --seq 4096
//     ->  a bar for each rank, with the memory that `cost --plan` prints

namespace {

bool CheckSizes(const cost::Settings& settings, Findings& findings) {
  if (settings.batch && settings.length) return true;
  findings.Add(code::kUsage, {},
               "the memory of each rank of the pipeline needs a batch and a "
               "length",
               "give `--batch` and `--seq`");
  return false;
}

}  // namespace

std::optional<cost::CostInputs> CompiledWork(const StagedTarget& target,
                                             Mode mode, Findings& findings) {
  const Compiled& compiled = *target.compiled;
  Findings wrong = PlanFindings(compiled);
  std::optional<cost::CostInputs> work;
  if (!wrong.HasErrors()) {
    work = cost::MakeCostInputs(compiled, target.model, mode);
    wrong.Append(HeadFindings(compiled, *work));
  }
  if (wrong.HasErrors()) work.reset();
  findings.Append(std::move(wrong));
  return work;
}

std::optional<cost::PipelineCost> CostOfStages(const StagedTarget& target,
                                               const cost::CostInputs& work,
                                               const cost::Settings& settings,
                                               bool exposed,
                                               const StageSizes& sizes,
                                               Findings& findings) {
  const auto planned = StagesOf(target, sizes, findings);
  if (planned == nullptr) return std::nullopt;
  return cost::PipelineCostOf(*target.compiled, work, settings, *planned,
                              exposed, findings);
}

std::optional<cost::PipelineCost> StagedCostOf(const Planned& planned,
                                               const cost::Settings& settings,
                                               Findings& findings) {
  if (!CheckSizes(settings, findings)) return std::nullopt;
  if (planned.compiled != nullptr) {
    return cost::PipelineCostOf(*planned.compiled, planned.WorkIn(Mode::kTrain),
                                settings, *planned.compiled->stages, false,
                                findings);
  }
  const auto staged = StagedPlanOf(*planned.view, {}, findings);
  if (!staged) return std::nullopt;
  return cost::PipelineCostOf(
      *staged, cost::StagedPlanInputs(*planned.view, planned.model), settings,
      false, findings);
}

MemoryBars BarsOfRanks(const cost::PipelineCost& cost, int64_t devices) {
  MemoryBars out = BarsOf({});
  out.devices = devices;
  out.of_ranks = true;
  out.budget = cost.capacity;
  for (const NotKnown& fact : cost.Unknown()) {
    out.unknown.push_back(NotKnownText(fact));
  }
  for (size_t r = 0; r < cost.ranks.size(); ++r) {
    MemoryBar bar;
    bar.name = "rank " + std::to_string(r);
    bar.at_least = !out.unknown.empty();
    for (size_t i = 0; i < cost::kComponentCount; ++i) {
      bar.parts.push_back(cost.ranks[r].held.KnownOf(i));
    }
    out.bars.push_back(std::move(bar));
  }
  return out;
}

// Estimates the memory of a step that `verify step` proves. The request is
// converted to the settings of `cost`. Settings that `verify step` does not
// have, such as the optimizer, get the defaults of `cost`:
//
//   --microbatches 4 --zero 1  ->  cost::Settings with the same two values

namespace {

// Returns the settings of the request's step, with the dtypes of `given`.
cost::Settings SettingsOf(const verify::StepRequest& request,
                          const cost::Settings& given) {
  cost::Settings out;
  out.batch = request.batch;
  if (IsGeneration(request.mode)) {
    out.kv_length = request.length;
  } else {
    out.length = request.length;
  }
  out.activations = given.activations;
  out.cache = given.cache;
  out.gradients = given.gradients;
  out.operation = request.operation;
  if (request.mode != Mode::kTrain) return out;
  out.remat = request.remat;
  out.zero = request.zero;
  out.microbatches = request.microbatches;
  out.reduction = request.reduction;
  return out;
}

}  // namespace

Options StepSettingOptions(StepSettingFlags& flags) {
  Option activations = OptionOfSetting("--dtype", &flags.activations);
  // `--dtype` is that of the proof.
  activations.name = "--activation-dtype";
  Options out = {std::move(activations),
                 OptionOfSetting("--grad-dtype", &flags.gradients),
                 OptionOfSetting("--kv-dtype", &flags.cache)};
  for (Option& option : out) {
    const size_t end =
        std::min(option.help.find(" (default"), option.help.find(';'));
    option.help.insert(end, ", for the bytes");
  }
  out.push_back(OptionOfSetting("--zero", &flags.zero));
  return out;
}

std::optional<cost::Settings> ReadSettingsOfStep(const StepSettingFlags& flags,
                                                 verify::StepRequest& request,
                                                 Findings& findings) {
  const auto given = [](std::string_view row, std::string_view flag,
                        const std::string& text) {
    return cost::GivenSetting{row, text, FlagPlace(flag, text)};
  };
  const cost::GivenSetting all[] = {
      given("--dtype", "--activation-dtype", flags.activations),
      given("--grad-dtype", "--grad-dtype", flags.gradients),
      given("--kv-dtype", "--kv-dtype", flags.cache),
      given("--zero", "--zero", flags.zero),
      given("--reduce", "--reduce", flags.reduce),
      given("--remat", "--remat", flags.remat)};
  const auto out =
      cost::ReadSettings(all, Mode::kTrain, cost::Settings(), findings);
  if (!out) return std::nullopt;
  request.element_bytes = DtypeBits(out->activations) / 8;
  request.cache_bytes = DtypeBits(out->cache) / 8;
  if (out->gradients) request.gradient_bytes = DtypeBits(*out->gradients) / 8;
  request.zero = out->zero;
  request.remat = out->remat;
  if (!flags.reduce.empty()) request.reduction = out->reduction;
  return out;
}

std::optional<verify::StepMemory> MemoryOfStep(
    const verify::StepRequest& request, const cost::Settings& given,
    const std::optional<ModelConfig>& model) {
  const cost::Memory memory =
      MemoryOf(cost::MakeCostInputs(*request.compiled, model, request.mode),
               WithLossOf(request.compiled->rules, SettingsOf(request, given)));
  if (!memory.unknown.empty() || !memory.most.total) return std::nullopt;
  verify::StepMemory out;
  out.total = *memory.most.total;
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    const int64_t bytes = memory.most.by[i].value_or(0);
    out.components.emplace_back(cost::kComponentNames[i], bytes);
  }
  if (memory.taken) {
    out.moment = cost::kMomentKeys[static_cast<size_t>(memory.taken->moment)];
  }
  return out;
}

}  // namespace shardc::cli
