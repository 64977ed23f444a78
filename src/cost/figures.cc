// Takes the figures that a budget limits from the report of a step, or from the
// cost of a pipeline, and reads the figures that a project has committed. A
// figure lists its parts, so that a finding can name what is largest:
//
//   memory 22 GiB = parameters 4 GiB + optimizer 12 GiB + activations 6 GiB
#include "cost/pipeline.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "comm/collective.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

void AddPart(std::string name, double value, StepFigure& to) {
  if (value > 0) to.parts.emplace_back(std::move(name), value);
}

// Sets the parts of a device's memory. `expected` includes what the allocator
// reserves in addition to the tensors.
void AddHeld(const Held& held, std::optional<int64_t> expected,
             StepFigure& to) {
  for (size_t i = 0; i < kComponentCount; ++i) {
    AddPart(std::string(kComponentNames[i]), Real(held.by[i].value_or(0)), to);
  }
  if (expected && held.total) {
    AddPart("the allocator's reserve", Real(*expected - *held.total), to);
  }
}

StepFigure SentOf(const Communication& sent) {
  StepFigure out;
  if (sent.roles_known) out.value = Real(sent.Sent());
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
  if (fullest != nullptr && fullest->taken) {
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
