// Writes a cost report as text or JSON. In the text, columns are aligned, and
// an unknown number of bytes is a dash. The reasons follow in lines that begin
// with `not known:`. For example, two lines of a report are:
//
//   parameters     239.4 MiB
//   total          2.81 GiB  of 79.65 GiB, 96.5 % free
#include "emit/costs/cost_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/inputs.h"
#include "emit/emit.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/wording.h"

namespace shardc {

std::string StepTimeText(std::string_view profile, const cost::Time& time) {
  Columns table;
  table.Row({"time of a step on " + std::string(profile)});
  table.Row({"  compute", SecondsText(time.compute)});
  table.Row({"  memory", SecondsText(time.memory)});
  table.Row({"  communication", SecondsText(time.communication)});
  table.Row(
      {"  step",
       SecondsText(time.Least()) + " to " + SecondsText(time.Most()) +
           ", bound by " +
           std::string(cost::kBoundNames[static_cast<size_t>(time.bound)])});
  return table.Text();
}

namespace {

using cost::Component;
using cost::Report;

// Returns whether the report has a row for the component of memory. It has a
// row if the bytes are unknown or above 0.
bool Shown(const Report& report, Component one) {
  const auto& bytes = report.memory.most.Of(one);
  return !bytes || *bytes > 0;
}

std::string CapacityText(const cost::Memory& memory) {
  if (!memory.capacity || !memory.Expected()) return "";
  const int64_t has = *memory.capacity, needs = *memory.Expected();
  if (memory.Verdict() == cost::Fit::kMayFit) {
    return "of " + BytesText(has) + ", may not fit";
  }
  if (needs > has) {
    return "of " + BytesText(has) + ", exceeded by " +
           AtLeast(!memory.Complete(), BytesText(needs - has));
  }
  const std::string share = FreeShareText(memory);
  return "of " + BytesText(has) + (share.empty() ? "" : ", " + share);
}

// Returns a line on the peak memory of a step, including the bytes that the
// software stack allocates: the expected bytes and their range. If the device's
// capacity is known, the bytes are compared with it.
std::string PeakText(const cost::Memory& memory) {
  const cost::TakenBytes& taken = *memory.taken;
  const std::string capacity = CapacityText(memory);
  return "  peak of a step: " + BytesText(taken.expected) + " expected, from " +
         BytesText(taken.least) + " to " + BytesText(taken.most) +
         (capacity.empty() ? "" : ", " + capacity) + "\n";
}

std::string MemoryText(const Report& report) {
  const cost::Memory& memory = report.memory;
  const bool uneven = memory.most.total != memory.least.total;
  Columns table;
  table.Row(
      {"bytes per device", uneven ? "fullest" : "", uneven ? "emptiest" : ""});
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    const auto one = static_cast<Component>(i);
    if (!Shown(report, one)) continue;
    table.Row({"  " + std::string(cost::kComponentNames[i]),
               BytesOr(memory.most.by[i]),
               uneven ? BytesOr(memory.least.by[i]) : ""});
  }
  const bool lower = !memory.Complete();
  const std::string least =
      uneven ? AtLeast(lower, BytesOr(memory.least.total)) : "";
  const bool peak = memory.HasPeak();
  table.Row({"  total", AtLeast(lower, BytesOr(memory.most.total)),
             uneven || peak ? least : CapacityText(memory)});
  std::string out = table.Text();
  if (peak) {
    out += PeakText(memory);
  } else if (uneven && memory.capacity) {
    out += "  the fullest: " + CapacityText(memory) + "\n";
  }
  return out;
}

std::string SourceText(const cost::Communication& communication) {
  if (communication.from_program) return "  read from the step's program\n";
  if (communication.why_not.empty()) return "";
  return "  estimated by formulas of a layer, without the step's program: " +
         Printable(communication.why_not) + "\n";
}

std::string CommunicationText(const Report& report) {
  const auto& transfers = report.communication.transfers;
  if (transfers.empty()) {
    return report.communication.unknown.empty() ? "no communication\n" : "";
  }
  Columns table;
  table.Row({"sent per device in a step", "", "", "times", "bytes",
             report.time ? "time" : ""});
  for (const cost::Transfer& one : transfers) {
    table.Row(
        {"  " + std::string(one.part) + (one.backward ? ", backward" : ""),
         std::string(CollectiveName(one.kind)), GroupText(one.axes),
         CountText(one.count), BytesText(one.sent),
         report.time ? SecondsText(one.seconds) : ""});
  }
  const bool lower = !report.communication.unknown.empty();
  const auto sent = report.communication.Known(report.communication.Sent());
  table.Row({"  total", "", "", "",
             sent ? AtLeast(lower, BytesText(*sent)) : "not known",
             report.time ? SecondsText(report.time->communication) : ""});
  if (sent && report.tokens && *report.tokens > 0) {
    table.Row({"  per token", "", "", "",
               AtLeast(lower, BytesText(*sent / *report.tokens))});
  }
  return table.Text() + SourceText(report.communication);
}

std::string RateText(const cost::ExpectedTime& time) {
  return ShareText(static_cast<int64_t>(time.model_flops_share * 1e6),
                   1'000'000) +
         " of the peak rate for the model's operations, " +
         CountText(static_cast<int64_t>(std::llround(time.tokens_per_second))) +
         " tokens/s a device";
}

std::string ExpectedText(const Report& report) {
  const cost::ExpectedTime& time = *report.expected;
  Columns table;
  table.Row(
      {"time of a step on " + std::string(report.settings.profile->name)});
  for (const cost::TimePart& part : time.parts) {
    if (part.seconds <= 0) continue;
    table.Row({"  " + PartName(part.name), SecondsText(part.seconds)});
  }
  table.Row({"  step", SecondsText(time.seconds) + " expected, from " +
                           SecondsText(time.least) + " to " +
                           SecondsText(time.most)});
  return table.Text() + "  " + RateText(time) + "\n";
}

std::string TimeText(const Report& report) {
  if (!report.time) return "";
  if (report.expected) return ExpectedText(report);
  return StepTimeText(report.settings.profile->name, *report.time);
}

std::string TensorsText(const cost::Activations& activations) {
  Columns table;
  table.Row({"tensors of a layer", "bytes per device", "layers", ""});
  for (const cost::LayerTensor& tensor : activations.tensors) {
    table.Row(
        {(tensor.encoder ? "  encoder " : "  ") + std::string(tensor.what.name),
         BytesText(tensor.bytes), std::to_string(tensor.layers),
         tensor.kept ? "kept" : ""});
  }
  return table.Text();
}

std::string ExpertLayerText(const Report& report) {
  if (!report.expected || report.expected->expert_layer.empty()) return "";
  Columns table;
  table.Row({"a layer with experts and a micro-batch, both passes"});
  double sum = 0;
  for (const cost::TimePart& part : report.expected->expert_layer) {
    sum += part.seconds;
    if (part.seconds > 0) {
      table.Row({"  " + PartName(part.name), SecondsText(part.seconds)});
    }
  }
  table.Row({"  layer", SecondsText(sum)});
  return table.Text();
}

void WriteHeld(JsonWriter& json, const cost::Held& held) {
  for (size_t i = 0; i < cost::kComponentCount; ++i) {
    json.Member(cost::kComponentNames[i], held.by[i]);
  }
  json.Member("total", held.total);
}

void WritePeak(JsonWriter& json, const cost::TakenBytes& taken) {
  json.Member(
      "peak",
      Record("expected", taken.expected, "least", taken.least, "most",
             taken.most, "moment",
             cost::kMomentKeys[static_cast<size_t>(taken.moment)], "stack",
             taken.stack->name, "stack_assumed", taken.stack_assumed));
}

void WriteActivations(JsonWriter& json, const cost::Activations& activations) {
  json.Key("activations");
  json.BeginObject(JsonLayout::kLines);
  const auto known = [&](int64_t bytes) {
    return activations.sums_known ? std::optional(bytes) : std::nullopt;
  };
  json.Members("kept", known(activations.kept), "working",
               known(activations.working));
  json.Rows("tensors", activations.tensors,
            [&](const cost::LayerTensor& tensor) {
              json.Members("name", tensor.what.name, "bytes", tensor.bytes,
                           "layers", tensor.layers, "kept", tensor.kept,
                           "encoder", Given(tensor.encoder));
            });
  json.EndObject();
}

std::vector<NotKnown> UnknownOf(const Report& report) {
  std::vector<NotKnown> out = report.memory.unknown;
  AddNotKnown(report.communication.unknown, out);
  return out;
}

void WriteCommunication(JsonWriter& json, const Report& report) {
  const cost::Communication& communication = report.communication;
  json.Rows(
      "communication", communication.transfers, [&](const cost::Transfer& one) {
        json.Members("part", one.part, "phase",
                     one.backward ? "backward" : "forward", "collective",
                     CollectiveName(one.kind), "axes", JoinedGroup(one.axes),
                     "bytes_per_device", one.sent, "count", one.count,
                     "seconds",
                     report.time ? std::optional(one.seconds) : std::nullopt);
      });
  json.Member("communication_from",
              communication.from_program ? "program" : "formulas");
  json.Key("communication_bytes");
  json.BeginObject();
  json.Members("forward", communication.Known(communication.Sent(false)),
               "backward", communication.Known(communication.Sent(true)),
               "total", communication.Known(communication.Sent()));
  std::optional<double> per_token;
  const auto sent = communication.Known(communication.Sent());
  if (report.tokens && *report.tokens > 0 && sent) {
    per_token =
        static_cast<double>(*sent) / static_cast<double>(*report.tokens);
  }
  json.Member("per_token", per_token);
  json.EndObject();
}

void WriteExpected(JsonWriter& json, const Report& report) {
  const cost::ExpectedTime& time = *report.expected;
  json.Member("expected_s", time.seconds);
  WriteTimeParts(json, time.parts, JsonLayout::kLines);
  if (!time.expert_layer.empty()) {
    json.Key("expert_layer");
    json.BeginObject(JsonLayout::kLines);
    WriteTimeParts(json, time.expert_layer, JsonLayout::kLines);
    json.EndObject();
  }
  json.Members(
      "mfu", time.model_flops_share, "tokens_per_second_per_device",
      time.tokens_per_second, "calibration",
      Record("stack", time.stack->name, "stack_assumed", time.stack_assumed,
             "runs", report.settings.profile->efficiency.runs, "calibrated",
             time.calibrated));
}

void WriteTime(JsonWriter& json, const Report& report) {
  const auto& time = report.time;
  const auto of = [&](double seconds) {
    return time ? std::optional(seconds) : std::nullopt;
  };
  const cost::Time known = time.value_or(cost::Time{});
  json.Key("time");
  json.BeginObject(JsonLayout::kLines);
  json.Members("compute_s", of(known.compute), "memory_s", of(known.memory),
               "communication_s", of(known.communication));
  const auto& expected = report.expected;
  json.Members(
      "least_s", expected ? expected->least : of(known.Least()), "most_s",
      expected ? expected->most : of(known.Most()), "bound_by",
      time ? std::optional(cost::kBoundNames[static_cast<size_t>(known.bound)])
           : std::nullopt,
      "flops", report.flops, "tokens", report.tokens, "profile",
      report.settings.profile != nullptr
          ? std::optional(report.settings.profile->name)
          : std::nullopt);
  if (expected) WriteExpected(json, report);
  json.EndObject();
}

}  // namespace

std::string PartName(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string CostReportText(const Report& report, const CostText& how) {
  std::string out = std::string(ModeName(report.mode)) + " on " +
                    MeshText(report.mesh) + ", " +
                    Counted(report.mesh.devices, "device") + "\n";
  out += MemoryText(report) + CommunicationText(report) + TimeText(report);
  out += NotKnownLines(UnknownOf(report));
  if (!how.explain) return out + AlwaysAssumedText(report.assumptions);
  if (report.memory.activations) {
    out += TensorsText(*report.memory.activations);
  }
  out += ExpertLayerText(report);
  out += "assumed\n";
  for (const std::string& text : report.assumptions) {
    out += "  " + Printable(text) + "\n";
  }
  return out;
}

void WriteCostMembers(JsonWriter& json, const Report& report) {
  json.Members("target", report.target, "mode", ModeName(report.mode), "mesh",
               WrittenBy(WriteMesh, report.mesh, MeshDetail::kSizes));
  json.Key("memory");
  json.BeginObject(JsonLayout::kLines);
  WriteHeld(json, report.memory.most);
  json.Key("least");
  json.BeginObject();
  WriteHeld(json, report.memory.least);
  json.EndObject();
  json.Members("capacity", report.memory.capacity, "fits",
               report.memory.Fits());
  if (report.memory.HasPeak()) WritePeak(json, *report.memory.taken);
  json.EndObject();
  if (report.memory.activations) {
    WriteActivations(json, *report.memory.activations);
  }
  WriteCommunication(json, report);
  WriteTime(json, report);
  WriteNotKnown(json, UnknownOf(report));
  json.Lines("assumptions", report.assumptions);
}

void WriteCostJson(const Report& report, Sink& out) {
  WriteDocument(out, "shardc.cost/v1",
                [&](JsonWriter& json) { WriteCostMembers(json, report); });
}

void WriteTimeParts(JsonWriter& json, std::span<const cost::TimePart> parts,
                    JsonLayout layout) {
  json.Key("parts");
  json.BeginArray(layout);
  for (const cost::TimePart& part : parts) {
    json.Object("name", part.name, "seconds", part.seconds);
  }
  json.EndArray();
}

std::string BytesOr(const std::optional<int64_t>& bytes) {
  return bytes ? BytesText(*bytes) : "-";
}

std::string SecondsText(double seconds) {
  const std::array<std::pair<double, const char*>, 3> units = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  std::array<char, 32> text{};
  for (const auto& [unit, name] : units) {
    if (seconds < unit && unit > 1e-6) continue;
    const double count = seconds / unit;
    if (count < 999.5) {
      std::snprintf(text.data(), text.size(), "%.3g %s", count, name);
    } else {  // %.3g would write 1000 as 1e+03
      std::snprintf(text.data(), text.size(), "%.0f %s", count, name);
    }
    break;
  }
  return text.data();
}

std::string ShareText(int64_t part, int64_t whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

std::string PercentText(double part) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * part);
  return text.data();
}

std::string ChangeText(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%+.1f %%", 100 * (ratio - 1));
  return text.data();
}

std::string AtLeast(bool lower_bound, std::string bytes) {
  return lower_bound && bytes != "-" ? "at least " + bytes : bytes;
}

std::string FreeShareText(const cost::Memory& memory) {
  if (!memory.Complete()) return "";
  return ShareText(*memory.capacity - *memory.Expected(), *memory.capacity) +
         " free";
}

std::string AlwaysAssumedText(const std::vector<std::string>& assumptions) {
  std::string out;
  for (const std::string& one : assumptions) {
    if (cost::IsAlwaysShown(one)) out += "assumed: " + Printable(one) + "\n";
  }
  return out;
}

namespace {

// Writes bytes as an integer. A time is not a whole number of seconds.
void WriteNumber(JsonWriter& json, std::string_view key, double value,
                 bool bytes) {
  constexpr double kMost = 9.2e18;
  if (bytes && value < kMost) {
    json.Member(key, static_cast<int64_t>(std::llround(value)));
  } else {
    json.Member(key, value);
  }
}

}  // namespace

void WriteCostLock(const cost::CostLock& lock, Sink& out) {
  WriteDocument(out, cost::kCostLockSchema, [&](JsonWriter& json) {
    json.Members("plan", lock.plan, "mode", ModeName(lock.mode));
    for (size_t i = 0; i < lock.figures.size(); ++i) {
      const cost::StepFigure& figure = lock.figures[i];
      const bool bytes =
          static_cast<cost::BudgetFigure>(i) != cost::BudgetFigure::kTime;
      json.Key(cost::kBudgetFigureNames[i]);
      json.BeginObject();
      if (figure.value) {
        WriteNumber(json, "value", *figure.value, bytes);
      } else {
        json.Member("value", nullptr);
      }
      json.Member("at_least", figure.at_least);
      json.Key("parts");
      json.BeginObject();
      for (const auto& [name, value] : figure.parts) {
        WriteNumber(json, name, value, bytes);
      }
      json.EndObject();
      json.EndObject();
    }
  });
}

// Writes a calibrated profile, and a table of the expected and the measured
// times. Figures have four significant digits, because measurements are not
// more precise. For example:
//
//   efficiency:
//     matmul: {bf16: 0.6612}

namespace {

using cost::Figure;

std::string DigitsText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::general, 4);
  return {text, end.ptr};
}

// Returns the text as a double-quoted YAML scalar.
std::string QuotedYaml(std::string_view text) {
  std::string out;
  {
    StringSink sink(out);
    JsonWriter(sink).String(text);
  }
  return out;
}

std::string PercentOff(double expected, double measured) {
  const auto tenths = std::llround(1000 * (expected / measured - 1));
  const auto whole = std::abs(tenths) / 10, part = std::abs(tenths) % 10;
  return std::string(tenths < 0 ? "-" : "+") + std::to_string(whole) + "." +
         std::to_string(part) + " %";
}

// Returns the path of keys to a figure in a profile file: {"efficiency",
// "matmul", "bf16"}.
std::vector<std::string> PathOf(Figure figure) {
  std::vector<std::string> out(1);
  for (const char c : cost::FigureName(figure)) {
    if (c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

std::string CalibratedProfileText(const DeviceProfile& base,
                                  std::string_view name,
                                  const cost::Calibration& calibration) {
  std::string out =
      "schema: shardc.profile/v1\nbase: " + std::string(base.name) +
      "\nname: " + QuotedYaml(name) + "\n";
  // The values of the keys of `efficiency`: a figure, or figures by name.
  std::map<std::string, std::string> efficiency;
  std::string others;
  for (const Figure figure : calibration.figures) {
    const auto path = PathOf(figure);
    const std::string value =
        DigitsText(cost::FigureOf(calibration.efficiency, figure));
    if (path.size() == 1) {
      others += path[0] + ": " + value + "\n";
      continue;
    }
    std::string& section = efficiency[path[1]];
    if (path.size() == 2) {
      section = value;
      continue;
    }
    section =
        (section.empty() ? "{" : section.substr(0, section.size() - 1) + ", ") +
        path[2] + ": " + value + "}";
  }
  if (!efficiency.empty()) out += "efficiency:\n";
  for (const auto& [key, value] : efficiency) {
    out += "  " + key + ": " + value + "\n";
  }
  out += others + "measured:\n";
  for (const cost::CalibratedStep& step : calibration.steps) {
    out += "  - {run: " + QuotedYaml(step.name) +
           (step.ranks > 0 ? ", stages: " + std::to_string(step.ranks) : "") +
           ", step_s: " + DigitsText(step.seconds) +
           ", expected_s: " + DigitsText(step.after) + "}\n";
  }
  return out;
}

std::string CalibrationText(const DeviceProfile& base,
                            const cost::Calibration& calibration) {
  Columns table;
  table.Row({"run", "measured", "expected before", "", "after", ""});
  for (const cost::CalibratedStep& step : calibration.steps) {
    table.Row({step.name, SecondsText(step.seconds), SecondsText(step.before),
               PercentOff(step.before, step.seconds), SecondsText(step.after),
               PercentOff(step.after, step.seconds)});
  }
  std::string out = table.Text();
  for (const Figure figure : calibration.figures) {
    out += std::string(cost::FigureName(figure)) + ": " +
           DigitsText(cost::FigureOf(calibration.efficiency, figure)) +
           ", of " + std::string(base.name) + " " +
           DigitsText(cost::FigureOf(base.efficiency, figure)) + "\n";
  }
  for (const std::string& text : calibration.remarks) out += text + "\n";
  return out;
}

void WriteCalibrationJson(const DeviceProfile& base, std::string_view name,
                          const cost::Calibration& calibration, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Members("profile", name, "base", base.name);
  json.Array("figures", calibration.figures, [&](Figure figure) {
    json.Value(Record("name", cost::FigureName(figure), "before",
                      cost::FigureOf(base.efficiency, figure), "after",
                      cost::FigureOf(calibration.efficiency, figure)));
  });
  json.Array("runs", calibration.steps, [&](const cost::CalibratedStep& step) {
    json.Value(Record("name", step.name, "measured_s", step.seconds, "before_s",
                      step.before, "after_s", step.after));
  });
  json.Member("remarks", calibration.remarks);
  json.EndObject();
  out.Append("\n");
}

}  // namespace shardc
