// Chooses the layers that represent the model's step, because lowering all
// layers would take long. Two layers are of the same class if they have the
// same roles with the same shardings, and if the same conditional lines of the
// model's description apply to them. Two layers of each class are lowered. The
// first represents only itself. The second represents all other layers of the
// class. Two layers are needed because there may be a reshard between a layer
// and the next one:
//
//   61 layers, three without experts  ->  layers 0, 1, 3 and 4 are lowered,
//                                         and represent 1, 2, 1 and 57 layers
#include "lint/analysis/step_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "model/name.h"
#include "plan/planned_stages.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"
#include "step/program.h"

namespace shardc {

using step::kNoRole;
using step::kSkipped;

int64_t ModeStep::Times(const step::Op& op) const {
  const auto found = stands_for.find(op.layer);
  return found == stands_for.end() ? 1 : found->second;
}

int64_t ModeStep::Sent(const step::Instruction& instruction) const {
  return step::SentBytes(graph(), program(), instruction, step.sizes,
                         inputs.element_bytes);
}

int64_t ModeStep::Sent(const step::Program& program) const {
  int64_t out = 0;
  for (const step::Instruction& one : program.code) {
    if (one.kind != step::InstructionKind::kCollective) continue;
    const int64_t times =
        one.op < 0 ? 1 : Times(graph().ops[static_cast<size_t>(one.op)]);
    const auto bytes =
        CheckedMul(step::SentBytes(graph(), program, one, step.sizes,
                                   inputs.element_bytes),
                   times);
    out = CheckedAdd(out, bytes.value_or(INT64_MAX)).value_or(INT64_MAX);
  }
  return out;
}

std::optional<int64_t> ModeStep::SentWith(
    const std::vector<Spec>& specs,
    const std::vector<step::ShardingConstraintOverride>& constraints) const {
  StepInputs with = inputs;
  with.constraints = constraints;
  LoweredStep changed{step.model, step.sizes, specs, {}};
  std::string why;
  const auto other = LowerStep(with, changed, inputs.compiled->step_mesh, why);
  if (!other) return std::nullopt;
  return Sent(*other);
}

std::unique_ptr<const StepFacts> StepFacts::Make(const Facts& facts) {
  const ModelDescription* const description =
      facts.compiled().rules.model.get();
  constexpr unsigned kNeeds = kNeedsShapes | kNeedsModel;
  if (description == nullptr || (facts.has() & kNeeds) != kNeeds) return {};
  std::unique_ptr<StepFacts> out(new StepFacts(facts));
  out->description_ = description;
  Findings unsaid;
  const auto formulas =
      step::Formulas::Make(*description, facts.model(), unsaid);
  if (formulas == nullptr || !out->FindRoles(*formulas) ||
      !out->MostHaveRoles()) {
    return {};
  }
  const auto groups = facts.groups();
  out->group_of_.resize(facts.plan().params.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const uint32_t param : facts.Members(groups[g])) {
      out->group_of_[param] = static_cast<uint32_t>(g);
    }
  }
  // If a parameter has a wrong role or an illegal spec, the step is not
  // lowered. Another lint reports the problem.
  const auto& problems = out->roles_.problems;
  const bool whole = std::all_of(
      problems.begin(), problems.end(), [](const step::RoleProblem& problem) {
        return problem.fault == step::RoleFault::kUnused;
      });
  const bool judged =
      std::all_of(groups.begin(), groups.end(),
                  [&](const auto& group) { return facts.Judged(group); });
  if (!whole || !judged) return out;
  out->FindSample(*formulas);
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    const auto& planned = facts.plan().modes;
    if (IsAmong(mode, planned) &&
        step::HasMode(*description, facts.model(), mode)) {
      out->AddMode(mode);
    }
  }
  return out;
}

bool StepFacts::builtin() const {
  return description_->source != nullptr &&
         IsPackName(description_->source->name());
}

bool StepFacts::FindRoles(step::Formulas& formulas) {
  Findings unsaid;
  auto roles =
      step::AssignRoles(*description_, formulas, facts_.manifest(), unsaid);
  if (!roles) return false;
  roles_ = std::move(*roles);
  return true;
}

bool StepFacts::MostHaveRoles() const {
  int64_t with = 0, counted = 0;
  for (const step::TensorRole& tensor : roles_.tensors) {
    if (tensor.role == kSkipped) continue;
    ++counted;
    if (tensor.role != kNoRole) ++with;
  }
  return 2 * with > counted;
}

void StepFacts::FindSample(step::Formulas& formulas) {
  // The index of the second layer of each class; -1 if there is only one layer
  // so far. Keyed by what the layers of a class have in common: roles,
  // shardings and conditions.
  std::map<std::vector<int64_t>, int32_t> kinds;
  const auto roles = static_cast<int32_t>(description_->roles.size());
  for (int32_t layer = 0; layer < roles_.layers; ++layer) {
    std::vector<int64_t> kind = {static_cast<int64_t>(roles_.StackOf(layer))};
    for (int32_t role = 0; role < roles; ++role) {
      if (!roles_.InLayers(role)) continue;
      const auto& rows = roles_.RowsOf(role, layer);
      kind.push_back(rows.empty() || rows.front() < 0
                         ? -1
                         : static_cast<int64_t>(
                               facts_.plan()
                                   .params[static_cast<size_t>(rows.front())]
                                   .layout));
    }
    const size_t stack = roles_.StackOf(layer);
    formulas.SetLayer(layer - roles_.BeginOf(stack));
    for (const DescribedLine& line : description_->stacks[stack].layer) {
      kind.push_back(line.when.text.empty() || formulas.Condition(line.when));
    }
    const auto [known, fresh] = kinds.emplace(std::move(kind), layer);
    int32_t& counts = known->second;
    if (fresh) {
      stands_for_[layer] = 1;
      // The first layer of a class represents only itself. A second layer of
      // the class will represent all others.
      counts = -1;
    } else {
      if (counts < 0) counts = layer;
      ++stands_for_[counts];
    }
  }
}

void StepFacts::AddMode(Mode mode) {
  auto made = std::make_unique<ModeStep>();
  made->inputs = UsualStepInputs(
      facts_.compiled(), facts_.model(), facts_.inputs().batch,
      IsGeneration(mode) ? facts_.inputs().kv_len : facts_.inputs().length);
  made->inputs.mode = mode;
  made->inputs.roles = &roles_;
  made->stands_for = stands_for_;
  std::vector<int32_t> layers;
  for (const auto& [layer, count] : stands_for_) layers.push_back(layer);
  Findings wrong;
  auto step = BuildStep(made->inputs, layers, wrong);
  if (!step) {
    const Finding& first = wrong.all().front();
    refusals_.push_back({mode, first.place, first.message});
    return;
  }
  made->step = std::move(*step);
  StepRefusal refusal{mode, description_->stacks[0].repeat.place, {}};
  made->step.program = LowerStep(made->inputs, made->step,
                                 facts_.compiled().step_mesh, refusal.message);
  if (!made->step.program) {
    refusals_.push_back(std::move(refusal));
    return;
  }
  made->weight = step::FindWeights(made->graph());
  modes_.push_back(std::move(made));
}

const ModeStep* StepFacts::Find(Mode mode) const {
  for (const auto& one : modes_) {
    if (one->inputs.mode == mode) return one.get();
  }
  return nullptr;
}

const ParameterGroup& StepFacts::GroupOf(int64_t row) const {
  return facts_.groups()[group_of_[static_cast<size_t>(row)]];
}

void ReportRoleFault(const Facts& facts, step::RoleFault fault,
                     const Code& code, const std::string& help,
                     FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  std::vector<const ParameterGroup*> reported;
  for (const step::RoleProblem& problem : step->roles().problems) {
    if (problem.fault != fault) continue;
    const ParameterGroup& group = step->GroupOf(problem.tensor);
    if (IsAmong(&group, reported)) continue;
    reported.push_back(&group);
    LintFinding finding = GroupFinding(
        facts, code, group,
        ParametersText(facts, group) + " " + problem.predicate, help);
    constexpr std::string_view kHas = "has ";
    if (problem.predicate.starts_with(kHas)) {
      finding.several = {problem.predicate, "",
                         " have " + problem.predicate.substr(kHas.size())};
    }
    sink.push_back(std::move(finding));
  }
}

// Computes how evenly a pipeline divides its work, without a device profile.
// The time of a stage is estimated by the number of multiplications for a
// token. Schedules are simulated with tasks of equal length. For example, four
// stages have 8 layers each, and the output head takes as long as 2.4 layers:
//
//   the mean is 34.4 / 4 = 8.6 layers, and the last stage takes
//   10.4 / 8.6 = 1.21 times the mean

namespace {

// Stages are reported as uneven if the longest stage takes at least kUneven
// times the mean, and another division of the layers reduces this factor to at
// most kShorter of its value.
constexpr double kUneven = 1.15, kShorter = 0.95;
constexpr double kLargeBubble = 0.2;
// The schedules that Megatron-LM or MaxText have for several stages on a rank.
constexpr std::array<std::string_view, 2> kRounds = {"interleaved",
                                                     "looped-bfs"};
// A schedule with more tasks is not simulated, because that would take too
// long.
constexpr int64_t kMostTasks = 1 << 16;
// The search for a better division takes stages * units^2 steps. A unit, such
// as a layer, is a part of the model that is never divided between stages. The
// search is skipped if it would take more steps than this.
constexpr int64_t kMostSteps = int64_t{1} << 28;

std::vector<double> TimesOf(const PlannedStages& stages,
                            const schedule::StageBounds& bounds) {
  std::vector<double> out;
  for (size_t s = 0; s + 1 < bounds.size(); ++s) {
    double time = 0;
    for (int64_t u = bounds[s]; u < bounds[s + 1]; ++u) {
      time += stages.weights[AsIndex(u)].time;
    }
    out.push_back(time);
  }
  return out;
}

// Returns the longest of the times as a multiple of their mean.
double Unevenness(const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) sum += time;
  const double longest = *std::max_element(times.begin(), times.end());
  return sum > 0 ? longest * static_cast<double>(times.size()) / sum : 1;
}

schedule::Times UnitTimes(int32_t stages) {
  schedule::Times out;
  out.stages.resize(AsIndex(stages));
  return out;
}

int64_t MostHeld(const schedule::Table& table) {
  const auto held = schedule::HeldByRank(table);
  return *std::max_element(held.begin(), held.end());
}

}  // namespace

std::string TimesText(double times) {
  const int64_t hundredths = std::llround(100 * times);
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (rest.size() < 2 ? ".0" : ".") +
         rest;
}

std::string PartText(double part) {
  constexpr int64_t kMillionth = 1'000'000;
  return PercentText(std::llround(part * static_cast<double>(kMillionth)),
                     kMillionth);
}

std::string StageAxis(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  return stages == nullptr ? std::string() : stages->axis;
}

Place StagesPlace(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  return stages == nullptr ? Place{} : stages->place;
}

std::string AddedOverRanks(const Facts& facts) {
  const std::string axis = StageAxis(facts);
  const int64_t ranks = axis.empty() ? 1 : facts.mesh().SizeOf(axis);
  if (ranks == 1) return "";
  return ", each added over the " + CountText(ranks) + " ranks of the pipeline";
}

std::optional<UnevenStages> UnevenStagesOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  // If a tensor holds several layers, a spec can only divide them evenly, so no
  // other division is possible.
  if (stages == nullptr || !stages->units.stacks.empty()) return std::nullopt;
  const int64_t count = stages->stages(), units = stages->units.count();
  if (count < 2 || count * units > kMostSteps / units) return std::nullopt;
  const auto times = TimesOf(*stages, stages->bounds);
  UnevenStages out;
  out.times = Unevenness(times);
  const std::vector<int64_t> nothing(AsIndex(count), 0);
  const auto best =
      schedule::AssignUnits(stages->weights, nothing, std::nullopt);
  if (out.times < kUneven || !best) return std::nullopt;
  out.better_times = Unevenness(TimesOf(*stages, *best));
  if (out.better_times > kShorter * out.times) return std::nullopt;
  out.stage = static_cast<int32_t>(
      std::max_element(times.begin(), times.end()) - times.begin());
  out.layers = stages->LayersOf(out.stage).count();
  for (size_t s = 0; s + 1 < best->size(); ++s) {
    out.better.push_back(
        LayersIn((*best)[s], (*best)[s + 1], stages->units.layers).count());
  }
  return out;
}

std::optional<LargeBubble> LargeBubbleOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  if (stages == nullptr || !stages->sized || stages->table.ranks() < 2) {
    return std::nullopt;
  }
  const schedule::Table& table = stages->table;
  const schedule::Extent extent{table.ranks(), table.stages / table.ranks(),
                                table.microbatches};
  if (schedule::TaskCount(extent) > kMostTasks) return std::nullopt;
  LargeBubble out;
  out.part = schedule::Simulate(table, UnitTimes(table.stages)).StepBubble();
  if (out.part < kLargeBubble) return std::nullopt;
  out.schedule = table.name;
  out.ranks = extent.ranks;
  out.microbatches = extent.microbatches;
  out.held = MostHeld(table);
  out.better_part = out.part;
  for (const schedule::Schedule& one : schedule::Schedules()) {
    // Two kinds of schedules are skipped. Schedules that hold parameters twice
    // need more memory. Schedules with another number of stages need another
    // division of the layers.
    if (one.placement == schedule::Placement::kBoth ||
        extent.Stages() != table.stages || schedule::Refusal(one, extent)) {
      continue;
    }
    const schedule::Table other = schedule::MakeTable(one, extent);
    if (MostHeld(other) > out.held) continue;
    const double part =
        schedule::Simulate(other, UnitTimes(other.stages)).StepBubble();
    if (part >= 0.99 * out.better_part) continue;
    out.better_part = part;
    out.better = one.name;
  }
  return out;
}

std::optional<UnevenRounds> UnevenRoundsOf(const Facts& facts) {
  const PlannedStages* stages = facts.compiled().stages.get();
  if (stages == nullptr || !stages->sized) return std::nullopt;
  const schedule::Table& table = stages->table;
  const int32_t ranks = table.ranks();
  if (ranks < 2 || table.stages <= ranks || table.microbatches % ranks == 0 ||
      !IsAmong(table.name, kRounds)) {
    return std::nullopt;
  }
  return UnevenRounds{table.name, table.stages, ranks, table.microbatches};
}

}  // namespace shardc
