// Writes the cost of a pipeline: a line for each rank, with the layers of its
// stages and the bytes of one of its devices. The time of a step has two parts:
// the time of the schedule, and the time of the work that all ranks do after
// it. For example:
//
//   step 1.71 s: 1.66 s by the schedule, and 50 ms for data-parallel gradients
//   and the optimizer
#include "emit/costs/cost_report.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::Component;
using cost::PipelineCost;
using cost::StageCost;

std::string FactorText(double factor) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), factor,
                                 std::chars_format::fixed, 2);
  return {text.data(), end.ptr};
}

// Returns the layers of a rank's stages: "embedding 0-8", "18-25, 26-31 head".
std::string LayersText(const PipelineCost& cost,
                       const std::vector<int32_t>& stages) {
  std::string out;
  for (const int32_t s : stages) {
    const StageCost& stage = cost.stages[static_cast<size_t>(s)];
    const auto [first, end] = stage.LayersOf(cost.layers);
    std::string text;
    if (stage.begin == 0) text = "embedding";
    if (end > first) {
      AppendItem(text, " ", std::to_string(first));
      if (end > first + 1) text += '-' + std::to_string(end - 1);
    }
    if (stage.end == cost.layers + 2) text += text.empty() ? "head" : " head";
    if (text.empty()) text = "none";
    AppendItem(out, ", ", text);
  }
  return out;
}

std::string RanksText(const PipelineCost& cost) {
  Columns table;
  table.Row({"rank", "layers", "parameters", "gradients", "optimizer",
             "activations", "logits", "gathered", "total", "sent", "idle"});
  const bool lower_bound = !cost.Unknown().empty();
  for (size_t r = 0; r < cost.ranks.size(); ++r) {
    const cost::RankCost& rank = cost.ranks[r];
    const auto bytes = [&](Component one) {
      return BytesOr(rank.held.Of(one));
    };
    const double busy = cost.timeline.ranks[r].busy;
    const double idle = cost.HasTimes() ? 1 - busy / cost.timeline.step : 0;
    table.Row({"  " + std::to_string(r), LayersText(cost, rank.stages),
               bytes(Component::kParameters), bytes(Component::kGradients),
               bytes(Component::kOptimizer), bytes(Component::kActivations),
               bytes(Component::kLogits), bytes(Component::kGathered),
               AtLeast(lower_bound, BytesOr(rank.held.total)),
               BytesText(rank.sent_forward + rank.sent_back),
               cost.HasTimes() ? PercentText(std::max(0.0, idle)) : "-"});
  }
  return table.Text();
}

std::string StepText(const PipelineCost& cost) {
  const schedule::Timeline& line = cost.timeline;
  // Without the roles of parameters, tasks have no times.
  if (!cost.HasTimes()) {
    return "the times of stages are not known, so neither is the best division "
           "of the layers\n";
  }
  std::string out;
  if (cost.timed) {
    out += "step " + SecondsText(cost.Step());
    if (cost.most > 0) {
      out +=
          ", from " + SecondsText(cost.least) + " to " + SecondsText(cost.most);
    }
    out += ": " + SecondsText(line.step) + " by the schedule";
    if (cost.after > 0) {
      out += ", and " + SecondsText(cost.after) +
             " for data-parallel gradients and the optimizer";
    }
    out += "\n";
  }
  out += "bubble " + PercentText(line.StepBubble()) + " of the step, " +
         PercentText(line.RankBubble()) + " of the longest rank's own time\n";
  out += "the longest stage takes " + FactorText(cost.Unevenness()) +
         " times the mean\n";
  if (!cost.better.empty()) {
    out += "`--assign cost` gives " + Join(cost.better, ",") + " layers";
    if (cost.timed) out += ", a step of " + SecondsText(cost.better_step);
    out += "\n";
  }
  return out;
}

// Compares the memory that a rank needs with the memory that a device has:
// "exceeds 80 GiB by 2 GiB" or "has 2 GiB of 80 GiB free".
std::string LeftText(int64_t needs, int64_t has) {
  return needs > has
             ? "exceeds " + BytesText(has) + " by " + BytesText(needs - has)
             : "has " + BytesText(has - needs) + " of " + BytesText(has) +
                   " free";
}

// Returns a line on the memory of the fullest rank, including the bytes that
// the software stack allocates. If a component of the memory is unknown, the
// line states by how much the known tensors exceed the device's capacity. The
// line is then empty if the known tensors fit, or if the capacity is unknown.
std::string PeakText(const PipelineCost& cost) {
  const cost::RankCost* rank = cost.FullestRank();
  if (rank == nullptr || !cost.KnowsSums()) {
    if (!cost.capacity || cost.Fullest().value_or(0) <= *cost.capacity) {
      return "";
    }
    return "the fullest rank " + LeftText(*cost.Fullest(), *cost.capacity) +
           "\n";
  }
  const cost::TakenBytes& taken = *rank->taken;
  std::string out = "the fullest rank, " +
                    std::to_string(rank - cost.ranks.data()) + ", takes " +
                    BytesText(taken.expected) + " expected, from " +
                    BytesText(taken.least) + " to " + BytesText(taken.most);
  if (!cost.capacity || !cost.Verdict()) return out + "\n";
  const bool may = cost.Verdict() == cost::Fit::kMayFit;
  return out +
         (may ? ": of " + BytesText(*cost.capacity) + ", may not fit"
              : ": it " + LeftText(taken.expected, *cost.capacity)) +
         "\n";
}

// Returns a time, or nullopt if the tasks of stages have no times.
std::optional<double> TimeOr(const PipelineCost& cost, double time) {
  return cost.HasTimes() ? std::optional(time) : std::nullopt;
}

void WriteStage(JsonWriter& json, const PipelineCost& cost,
                const StageCost& stage, int32_t number) {
  json.BeginObject();
  json.Member("stage", number);
  json.Key("layers");
  const auto [first, end] = stage.LayersOf(cost.layers);
  json.Array(std::vector<int64_t>{first, end});
  json.Members("first", stage.begin == 0, "last", stage.end == cost.layers + 2,
               "parameters", stage.parameters, "kept",
               stage.unknown.empty() && stage.sums_known
                   ? std::optional(stage.peak.kept)
                   : std::nullopt,
               "forward", TimeOr(cost, stage.times.forward), "input",
               TimeOr(cost, stage.times.input), "weight",
               TimeOr(cost, stage.times.weight));
  json.EndObject();
}

void WriteRank(JsonWriter& json, const PipelineCost& cost, size_t r) {
  const cost::RankCost& rank = cost.ranks[r];
  const schedule::RankTime& time = cost.timeline.ranks[r];
  json.BeginObject();
  json.Members("rank", static_cast<int64_t>(r), "stages", rank.stages);
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    json.Member(cost::kComponentNames[i], rank.held.by[i]);
  }
  json.Member("total", rank.held.total);
  if (rank.taken && cost.KnowsSums()) {
    json.Member("peak", Record("expected", rank.taken->expected, "least",
                               rank.taken->least, "most", rank.taken->most));
  }
  const cost::Communication own = CommunicationOf(cost, rank);
  json.Members("sent_forward", rank.sent_forward, "sent_back", rank.sent_back,
               "communication", own.Known(own.Sent()), "first",
               TimeOr(cost, time.first), "last", TimeOr(cost, time.last),
               "busy", TimeOr(cost, time.busy));
  json.EndObject();
}

}  // namespace

std::string PipelineReportText(const PipelineCost& cost,
                               const std::string& mesh, bool explain) {
  const schedule::Table& table = cost.table;
  std::string out =
      "train on " + mesh + ", stages over `" + cost.axis + "`\n" +
      Printable(table.name) + ": " + Counted(table.ranks(), "rank") + ", " +
      Counted(table.stages, "stage") + ", " +
      Counted(table.microbatches, "micro-batch", "micro-batches") +
      ", messages of " + BytesText(cost.boundary) + "\n";
  out += RanksText(cost) + StepText(cost);
  out += PeakText(cost);
  out += NotKnownLines(cost.Unknown());
  if (!explain) return out + AlwaysAssumedText(cost.assumptions);
  out += "assumed\n";
  for (const std::string& text : cost.assumptions) {
    out += "  " + Printable(text) + "\n";
  }
  return out;
}

void WritePipelineJson(const PipelineCost& cost, const std::string& target,
                       Sink& out) {
  const schedule::Table& table = cost.table;
  WriteDocument(out, "shardc.pipeline/v1", [&](JsonWriter& json) {
    json.Members("target", target, "axis", cost.axis, "schedule", table.name,
                 "microbatches", table.microbatches, "placement",
                 PlacementName(table.placement), "layers", cost.layers,
                 "message_bytes", cost.boundary, "message_s",
                 cost.timed ? std::optional(cost.hop) : std::nullopt);
    json.Key("stages");
    json.BeginArray(JsonLayout::kLines);
    for (size_t s = 0; s < cost.stages.size(); ++s) {
      WriteStage(json, cost, cost.stages[s], static_cast<int32_t>(s));
    }
    json.EndArray();
    json.Key("ranks");
    json.BeginArray(JsonLayout::kLines);
    for (size_t r = 0; r < cost.ranks.size(); ++r) WriteRank(json, cost, r);
    json.EndArray();
    // FLOPs have no range.
    json.Members(
        "time",
        Record("unit", cost.timed ? "seconds" : "flops", "schedule",
               TimeOr(cost, cost.timeline.step), "after",
               TimeOr(cost, cost.after), "step", TimeOr(cost, cost.Step()),
               "least", cost.timed ? std::optional(cost.least) : std::nullopt,
               "most", cost.timed ? std::optional(cost.most) : std::nullopt,
               "longest_rank", TimeOr(cost, cost.timeline.LongestRank()),
               "step_bubble", TimeOr(cost, cost.timeline.StepBubble()),
               "rank_bubble", TimeOr(cost, cost.timeline.RankBubble())),
        "unevenness", TimeOr(cost, cost.Unevenness()));
    json.Key("better");
    if (cost.better.empty()) {
      json.Null();
    } else {
      json.Object("layers", cost.better, "step", cost.better_step);
    }
    json.Members("capacity", cost.capacity, "fits", cost.Fits());
    WriteNotKnown(json, cost.Unknown());
    json.Lines("assumptions", cost.assumptions);
  });
}

}  // namespace shardc
