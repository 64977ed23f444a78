// Makes the report of a plan's costs. The report lists the assumptions behind
// its figures as sentences. For example, if the user gives no --master-dtype,
// the sentence about the optimizer ends with:
//
//   "and an F32 copy of narrower parameters"
#include "cost/report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "comm/collective.h"
#include "cost/pipeline.h"
#include "cost/rates.h"
#include "cost/settings.h"
#include "cost/time.h"
#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

std::string NameOf(Dtype dtype) { return std::string(DtypeName(dtype)); }

std::string ReplicasText(int zero) {
  std::string out = "replicas divide the optimizer's states";
  if (zero > 1)
    out += zero > 2 ? ", gradients and parameters" : " and gradients";
  return out + " (ZeRO " + std::to_string(zero) + ")";
}

void AddTraining(const Settings& s, std::vector<std::string>& out) {
  std::string states =
      "optimizer " +
      std::string(kOptimizerNames[static_cast<size_t>(s.optimizer)]) +
      ": first moments " + NameOf(s.first_moment.value_or(Dtype::kF32)) +
      ", second " + NameOf(s.second_moment.value_or(Dtype::kF32));
  if (!s.master_given) {
    states += ", and an F32 copy of narrower parameters";
  } else if (s.master) {
    states += ", and a copy of the parameters in " + NameOf(*s.master);
  } else {
    states += ", no copy of the parameters";
  }
  if (s.offloads_optimizer) states += "; all in the memory of the host";
  out.push_back(std::move(states));
  out.push_back(s.gradients
                    ? "gradients in " + NameOf(*s.gradients)
                    : std::string("gradients in their parameters' dtype"));
  out.push_back(
      s.zero > 0
          ? ReplicasText(s.zero)
          : std::string(
                "gradients and states have the sharding of their parameters"));
  if (s.microbatches > 1) {
    out.emplace_back(
        s.reduction == step::Reduction::kSharded
            ? "gradients are reduced over axes that shard them in each "
              "micro-batch, over replicas once"
        : s.reduction == step::Reduction::kOnce
            ? "gradients of micro-batches are added unsharded and reduced once"
            : "gradients are reduced in each micro-batch");
  }
  out.push_back("the rematerialisation policy " + s.remat.text +
                " decides which activations are kept for the backward pass");
}

void AddServing(const CostInputs& work, const Settings& s,
                std::vector<std::string>& out) {
  out.push_back(
      "the cache holds " + NameOf(s.cache) +
      (s.cache == Dtype::kI8 ? " and an F32 scale per token and head"
                             : std::string()) +
      ", filled to its length; layers with a window keep only the window");
  out.emplace_back(
      "activations: no tensor of a layer is freed before the layer ends");
  out.emplace_back("logits of the last token only");
  const bool gathers = std::any_of(
      work.params.begin(), work.params.end(),
      [&](const ParamClass& param) { return work.IsGathered(param); });
  if (gathers) {
    out.emplace_back(
        "weights that are sharded over axes of tokens are gathered in each "
        "step, as XLA does");
  }
}

std::string FactorText(double factor) {
  std::string out = std::to_string(std::llround(factor * 1000));
  out.insert(0, out.size() < 4 ? 4 - out.size() : 0, '0');
  out.insert(out.size() - 3, ".");
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

// Adds the assumptions about the memory that the software uses in addition to
// the step's tensors.
void AddPeak(const TakenBytes& taken, const Settings& s,
             std::vector<std::string>& out) {
  const StackMemory& memory = taken.stack->memory;
  out.push_back("memory as the software " + std::string(taken.stack->name) +
                " takes it" +
                (taken.stack_assumed ? " (assumed: --stack)" : ""));
  if (!s.remat.Recomputes()) {
    out.push_back("the backward pass keeps " + FactorText(memory.kept) +
                  " times the tensors that derivatives read");
  }
  std::string loss = s.loss == LossKind::kFused
                         ? "a fused loss holds no logits"
                         : "the loss holds " +
                               FactorText(LossCopies(s, memory)) +
                               " copies of the logits";
  if (s.loss_chunk) {
    loss += ", of " + Counted(*s.loss_chunk, "token", "tokens") + " at once";
  }
  out.push_back(std::move(loss));
  if (memory.casts_all) {
    out.emplace_back(
        "wider parameters are cast to the dtype of activations at once");
  }
  if (memory.allocator > 1) {
    out.push_back("the allocator reserves " + FactorText(memory.allocator) +
                  " times the allocated bytes");
  }
  out.push_back("the peak is in " +
                std::string(kMomentNames[static_cast<size_t>(taken.moment)]));
}

constexpr std::string_view kAllCopies =
    "the bytes of all-to-alls are those of a copy of each token for each of "
    "its "
    "experts; only the expected time takes into account that the dispatcher "
    "sends it once to a device and once to a host";
constexpr std::string_view kNotMeasured =
    "no published run of a model with experts supports the time on this "
    "device, "
    "and its range is not measured: on TPUs, published steps took up to 1.9 "
    "times as long as expected";
constexpr std::string_view kNoExperts =
    "`--ep-overlap` has no effect: the model has no experts";
constexpr std::string_view kKeepsNothing =
    "`--ep-overlap` has no effect: with a policy that keeps no tensor, the "
    "backward pass does not wait for another micro-batch";
constexpr std::string_view kOneStage =
    "`--ep-overlap` has no effect: without virtual stages (--virtual), a rank "
    "has no other micro-batch to compute while tokens are sent";
constexpr std::string_view kAlwaysShown[] = {kDtypeAssumed, kAllCopies,
                                             kNotMeasured,  kNoExperts,
                                             kKeepsNothing, kOneStage};

void AddExpected(const ExpectedTime& time, const DeviceProfile& profile,
                 std::vector<std::string>& out) {
  const std::string device(profile.name);
  out.push_back("the software is " + std::string(time.stack->name) + ": " +
                std::string(time.stack->about) +
                (time.stack_assumed ? " (assumed: --stack)" : ""));
  const int64_t percent = std::llround(100 * profile.efficiency.matmul);
  out.push_back(
      "matmuls run at " + std::to_string(percent) + " % of the peak rate of " +
      device +
      (profile.efficiency.runs > 0
           ? ", fitted to " + Counted(profile.efficiency.runs, "published run",
                                      "published runs")
           : ", which no published run has confirmed"));
  if (profile.efficiency.measured > 0) {
    out.push_back("the figures were " + MeasuredText(&profile));
  } else if (time.calibrated) {
    out.emplace_back("the expected time is within 15 % for 95 of 100 runs");
  } else if (time.has_experts && time.measured) {
    out.emplace_back(
        "the expected time of a model with experts is within 12 % for half of "
        "the published runs, and within 32 % for 90 of 100; first software of "
        "a device, and a router early in its training, are slower");
  } else {
    out.emplace_back(
        "the expected time is not calibrated for this model and device");
  }
  out.emplace_back(
      "the times of single collectives are those at the peak rates of links");
}

std::vector<std::string> AssumptionsOf(const CostInputs& work,
                                       const Settings& s, bool from_program,
                                       const ExpectedTime* expected,
                                       const TakenBytes* taken) {
  std::vector<std::string> out;
  if (work.mode == Mode::kTrain) {
    AddTraining(s, out);
    const bool adapters =
        std::any_of(work.params.begin(), work.params.end(),
                    [](const ParamClass& param) { return param.frozen; });
    if (adapters) {
      out.emplace_back(
          "only LoRA adapters are trained: all other parameters have neither "
          "gradients nor optimizer states; activations are those of training "
          "all");
    }
  } else {
    AddServing(work, s, out);
  }
  if (taken != nullptr) AddPeak(*taken, s, out);
  out.push_back("activations in " + NameOf(s.activations) + ", logits in " +
                NameOf(s.logits));
  const exec::Operation* operation = UsualOperation(work, s);
  const bool twice = work.mode == Mode::kTrain && !from_program;
  out.push_back(
      "attention runs " + std::string(operation->name) +
      (twice ? "; in the backward pass, gathers and rings send twice" : ""));
  if (work.model && work.model->experts) {
    std::string chosen = "all experts are chosen equally often";
    if (const auto share = ChosenExperts(work, s)) {
      chosen += ", and a step reads " + FactorText(100 * *share) +
                " % of the experts of a device";
    }
    if (s.routing == Routing::kNatural && !s.capacity_factor) {
      chosen +=
          "; only the expected time takes into account that a trained router "
          "does not";
    }
    out.push_back(std::move(chosen));
    if (from_program && !IsGeneration(work.mode) &&
        work.Parts(work.Length()) > 1) {
      out.push_back("tokens of complete sequences are routed over " +
                    GroupText(work.Length()) +
                    ", as XLA does for matmuls with all queues; a runtime "
                    "that routes the tokens of a device apart sends less");
    }
  }
  if (expected != nullptr) {
    AddExpertAssumptions(work, s, false, out);
    AddExpected(*expected, *s.profile, out);
  } else if (s.profile != nullptr) {
    out.push_back(
        "rates of " + std::string(s.profile->name) +
        " are peak rates, without losses to launching, waiting or padding");
  }
  if (!work.hidden_known) {
    out.emplace_back(
        "the plan has no `activations`: the hidden size is assumed to be "
        "unsharded");
  } else if (!work.hidden.empty()) {
    out.push_back("hidden states are sharded over " + GroupText(work.hidden));
  }
  for (const std::string& note : work.notes) out.push_back(note);
  return out;
}

std::optional<int64_t> TokensIn(const CostInputs& work,
                                const Settings& settings) {
  if (!settings.batch) return std::nullopt;
  if (IsGeneration(work.mode)) return settings.batch;
  return settings.length ? CheckedMul(*settings.batch, *settings.length)
                         : std::nullopt;
}

}  // namespace

bool IsAlwaysShown(std::string_view assumption) {
  return assumption.starts_with(kRepeatedWork) ||
         std::find(std::begin(kAlwaysShown), std::end(kAlwaysShown),
                   assumption) != std::end(kAlwaysShown);
}

void AddExpertAssumptions(const CostInputs& work, const Settings& settings,
                          bool one_stage, std::vector<std::string>& out) {
  const bool experts = work.model && work.model->experts;
  if (settings.overlap_experts) {
    const bool repeats = settings.remat.keep == step::Keep::kNothing;
    if (!experts) {
      out.emplace_back(kNoExperts);
    } else if (repeats) {
      out.emplace_back(kKeepsNothing);
    } else if (one_stage) {
      out.emplace_back(kOneStage);
    }
  }
  if (!experts) return;
  const Stack& stack = StackOf(work, settings);
  if (settings.dispatcher.value_or(stack.dispatcher) != Dispatcher::kAllToAll) {
    out.emplace_back(kAllCopies);
  }
  const DeviceProfile* profile = settings.profile;
  if (profile != nullptr && profile->efficiency.measured == 0 &&
      !SupportsExperts(*profile)) {
    out.emplace_back(kNotMeasured);
  }
}

std::string MeasuredText(const DeviceProfile* profile, bool pipelines) {
  if (profile == nullptr) return "";
  const Efficiency& of = profile->efficiency;
  if ((pipelines ? of.measured_pipelines : of.measured) == 0) return "";
  std::string out = "fitted to " + Counted(of.measured, "measured step");
  if (of.measured_pipelines > 0) {
    out += ", " + CountText(of.measured_pipelines) + " of pipelines";
  }
  return out + ", whose expected times differ by at most " +
         CountText(std::max<int64_t>(
             1, std::llround(std::ceil(100 * of.measured_error)))) +
         " %";
}

bool Report::LacksVerdict() const {
  const bool asked = tokens.has_value() || memory.at_least;
  return asked && ((memory.capacity && !memory.Verdict()) ||
                   (settings.profile != nullptr && !time));
}

Report ReportOf(const CostInputs& work, const Settings& settings,
                std::optional<Communication> program) {
  Report out;
  out.mode = work.mode;
  out.mesh = JoinedMesh(work.mesh);
  out.settings = settings;
  if (out.settings.profile == nullptr && work.mesh.device) {
    out.settings.profile = FindDeviceProfile(work.mesh.device->profile);
  }
  out.memory = MemoryOf(work, out.settings);
  out.communication =
      program ? std::move(*program) : CommunicationOf(work, out.settings);
  if (program) AddNotKnown(work.not_known, out.communication.unknown);
  // If mesh axes or micro-batches do not divide a number of rows or tokens,
  // MemoryOf computes the bytes of the fullest device, but the program of the
  // step leaves such a dimension unsharded. It then sends few activations
  // instead of weights, and no time follows from both: a step of 9 rows on 8
  // devices would be shorter than one of 16 rows.
  for (const std::string& uneven : UnevenTokensOf(work, out.settings)) {
    out.communication.unknown.push_back(
        {.what = "the time of a step: " + uneven +
                 ", so memory is that of the fullest device, and what is sent "
                 "may be that of an unsharded dimension",
         .settled_by = "sizes that the axes divide"});
  }
  out.time = TimeOf(work, out.settings, out.memory, out.communication);
  out.expected =
      ExpectedTimeOf(work, out.settings, out.memory, out.communication);
  if (out.communication.heads_known) {
    out.flops = FlopsOf(work, out.settings, out.memory);
  }
  out.tokens = TokensIn(work, out.settings);
  out.assumptions =
      AssumptionsOf(work, out.settings, out.communication.from_program,
                    out.expected ? &*out.expected : nullptr,
                    out.memory.taken ? &*out.memory.taken : nullptr);
  return out;
}

namespace {

// Takes the figures that a budget limits from the report of a step, or from the
// cost of a pipeline, and reads the figures that a project has committed. A
// figure lists its parts, so that a finding can name what is largest:
//
//   memory 22 GiB = parameters 4 GiB + optimizer 12 GiB + activations 6 GiB

void AddPart(std::string name, double value, StepFigure& to) {
  if (value > 0) to.parts.emplace_back(std::move(name), value);
}

// Sets the parts of a device's memory. `expected` includes what the allocator
// reserves in addition to the tensors.
void AddHeld(const Held& held, std::optional<int64_t> expected,
             StepFigure& to) {
  for (size_t i = 0; i < kComponentCount; ++i) {
    AddPart(std::string(kComponentNames[i]), Real(held.KnownOf(i)), to);
  }
  if (expected && held.total) {
    AddPart("the allocator's reserve", Real(*expected - *held.total), to);
  }
}

StepFigure SentOf(const Communication& sent) {
  StepFigure out;
  if (const auto bytes = sent.Known(sent.Sent())) out.value = Real(*bytes);
  out.at_least = !sent.unknown.empty();
  out.unknown = sent.unknown;
  std::map<std::string, double> parts;
  for (const Transfer& one : sent.transfers) {
    std::string axes;
    for (const std::string& axis : one.axes) {
      axes += (axes.empty() ? "" : "+") + axis;
    }
    parts[std::string(one.part) + (one.backward ? " backward" : "") + " " +
          std::string(CollectiveName(one.kind)) + " over " + axes] +=
        Real(one.sent);
  }
  for (auto& [name, bytes] : parts) AddPart(name, bytes, out);
  return out;
}

NotKnown NoProfile() {
  return {.what = "the rates of the device",
          .settled_by = "a `device` in the mesh that names a profile"};
}

StepFigure TimeFigure(const Report& report) {
  StepFigure out;
  if (report.expected) {
    out.value = report.expected->seconds;
    for (const TimePart& part : report.expected->parts) {
      AddPart(std::string(part.name), part.seconds, out);
    }
    return out;
  }
  if (report.time) {
    const Time& time = *report.time;
    out.value = time.Most();
    AddPart(std::string(kBoundNames[0]), time.compute, out);
    AddPart(std::string(kBoundNames[1]), time.memory, out);
    AddPart(std::string(kBoundNames[2]), time.communication, out);
    return out;
  }
  if (report.settings.profile == nullptr) out.unknown.push_back(NoProfile());
  AddNotKnown(report.memory.unknown, out.unknown);
  AddNotKnown(report.communication.unknown, out.unknown);
  return out;
}

// Returns false if the value is not of the form that WriteCostLock writes.
bool ReadFigure(const JsonValue& value, StepFigure& out) {
  if (!value.IsObject()) return false;
  const auto number = value.Find("value");
  const auto least = value.Find("at_least");
  const auto parts = value.Find("parts");
  if (!number || !least || least->kind() != JsonKind::kBool || !parts ||
      !parts->IsObject()) {
    return false;
  }
  const auto valid = [](const JsonValue& one) {
    const JsonKind kind = one.kind();
    return (kind == JsonKind::kInteger || kind == JsonKind::kUnsigned ||
            kind == JsonKind::kReal) &&
           std::isfinite(one.real()) && one.real() >= 0;
  };
  if (!number->IsNull()) {
    if (!valid(*number)) return false;
    out.value = number->real();
  }
  out.at_least = least->boolean();
  for (const JsonMember part : parts->members()) {
    if (!valid(part.value)) return false;
    out.parts.emplace_back(part.name(), part.value.real());
  }
  return true;
}

}  // namespace

StepFigures FiguresOf(const Report& report) {
  StepFigures out;
  StepFigure& memory = out[static_cast<size_t>(BudgetFigure::kMemory)];
  const auto expected = report.memory.Expected();
  if (expected) memory.value = Real(*expected);
  memory.at_least = !report.memory.Complete();
  memory.unknown = report.memory.unknown;
  AddHeld(report.memory.most, expected, memory);
  out[static_cast<size_t>(BudgetFigure::kSent)] = SentOf(report.communication);
  out[static_cast<size_t>(BudgetFigure::kTime)] = TimeFigure(report);
  return out;
}

StepFigures FiguresOf(const PipelineCost& cost, const CostInputs& work) {
  StepFigures out;
  std::vector<NotKnown> unknown = cost.Unknown();
  AddNotKnown(work.not_known, unknown);

  StepFigure& memory = out[static_cast<size_t>(BudgetFigure::kMemory)];
  memory.unknown = unknown;
  const RankCost* fullest = cost.FullestRank();
  if (fullest != nullptr && cost.KnowsSums()) {
    memory.value = Real(fullest->taken->expected);
    AddHeld(fullest->held, fullest->taken->expected, memory);
  } else if (const auto known = cost.Fullest()) {
    memory.value = Real(*known);
    memory.at_least = true;
  }
  const bool complete =
      std::ranges::all_of(cost.stages, &StageCost::logits_known);
  memory.at_least = memory.at_least || !complete || !unknown.empty();

  StepFigure& sent = out[static_cast<size_t>(BudgetFigure::kSent)];
  for (const RankCost& rank : cost.ranks) {
    StepFigure one = SentOf(CommunicationOf(cost, rank));
    AddNotKnown(unknown, one.unknown);
    one.at_least = one.at_least || !unknown.empty();
    if (!sent.value || !one.value || *one.value > *sent.value) {
      sent = std::move(one);
    }
    if (!sent.value) break;
  }

  StepFigure& time = out[static_cast<size_t>(BudgetFigure::kTime)];
  if (cost.timed && cost.timeline.step > 0) {
    time.value = cost.Step();
    AddPart("the schedule", cost.timeline.step, time);
    AddPart("gradients and optimizer", cost.after, time);
  } else {
    if (cost.settings.profile == nullptr) time.unknown.push_back(NoProfile());
    AddNotKnown(unknown, time.unknown);
  }
  return out;
}

std::optional<CostLock> ReadCostLock(const JsonDocument& document,
                                     Findings& findings) {
  const JsonValue root = document.root();
  const auto refuse = [&](const JsonValue& at, std::string message) {
    findings.Add(code::kSchema, at.place(), std::move(message),
                 "`shardc plan --write-locked` writes it");
    return std::nullopt;
  };
  if (SchemaOf(root) != kCostLockSchema) {
    return refuse(root, "this is no committed cost of a step (`" +
                            std::string(kCostLockSchema) + "`)");
  }
  CostLock out;
  const auto plan = root.Find("plan");
  const auto mode = root.Find("mode");
  const auto known =
      mode && mode->IsString() ? ParseMode(mode->string()) : std::nullopt;
  if (!plan || !plan->IsString() || !known) {
    return refuse(root, "`plan` or `mode` is missing or of the wrong type");
  }
  out.plan = std::string(plan->string());
  out.mode = *known;
  for (size_t i = 0; i < kBudgetFigureNames.size(); ++i) {
    const auto figure = root.Find(kBudgetFigureNames[i]);
    if (!figure || !ReadFigure(*figure, out.figures[i])) {
      return refuse(figure ? *figure : root,
                    "`" + std::string(kBudgetFigureNames[i]) +
                        "` is missing or of the wrong type");
    }
  }
  return out;
}

std::vector<FigurePart> LargestParts(const StepFigure& now,
                                     const StepFigure* before) {
  std::vector<FigurePart> out;
  for (const auto& [name, value] : now.parts) {
    double grown = value;
    if (before != nullptr) {
      for (const auto& [other, was] : before->parts) {
        if (other == name) grown -= was;
      }
    }
    if (grown > 0) out.emplace_back(name, grown);
  }
  std::ranges::stable_sort(out, std::greater<>(), &FigurePart::second);
  return out;
}

}  // namespace shardc::cost
