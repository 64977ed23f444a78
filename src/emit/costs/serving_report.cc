// Writes the report of an engine that serves a plan, as text and as JSON
// (`shardc.serving/v1`). Times are given with their bounds:
//
//   tpot           12.1 ms  from 7.5 ms to 18.2 ms
#include <cmath>
#include <cstdio>
#include <string>

#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::Between;
using cost::ServingReport;
using cost::ServingTimes;

template <class Text>
std::string BoundsText(const Between& of, const Text& text) {
  return text(of.expected) + "  from " + text(of.least) + " to " +
         text(of.most);
}

std::string CountOr(const std::optional<int64_t>& count) {
  return count ? CountText(*count) : "-";
}

std::string BytesPart(const ServingReport& report) {
  Columns table;
  table.Row({"bytes per device"});
  table.Row({"  weights", BytesOr(report.weights)});
  table.Row({"  left to the runtime", BytesText(report.reserve)});
  table.Row({"  memory", BytesOr(report.capacity)});
  table.Row({"  cache of a token", BytesOr(report.cache_token)});
  table.Row({"  cache of a request", BytesOr(report.cache_request)});
  table.Row({"requests that fit"});
  table.Row({"  at full length", CountOr(report.full_slots)});
  table.Row({"  at mean length", CountOr(report.mean_slots)});
  if (report.context) {
    table.Row({"  tokens of each of " + CountOr(report.request.slots),
               CountOr(report.context)});
  }
  return table.Text();
}

std::string ReadPart(const ServingReport& report) {
  if (report.mode == Mode::kPrefill) return "";
  Columns table;
  table.Row({"read in a step"});
  table.Row({"  weights", BytesText(std::llround(report.weights_read))});
  table.Row({"  cache", BytesText(std::llround(report.cache_read))});
  if (report.experts > 0) {
    table.Row({"  experts of a layer", DigitsOf(report.experts_read) + " of " +
                                           DigitsOf(report.experts)});
  }
  return table.Text();
}

std::string TimesPart(const ServingReport& report) {
  const ServingTimes& times = *report.times;
  const bool prefill = report.mode == Mode::kPrefill;
  Columns table;
  table.Row({std::string(prefill ? "prefill of a prompt on "
                                 : "time of a decode step on ") +
             std::string(report.profile->name)});
  for (const cost::TimePart& part : times.parts) {
    if (part.seconds <= 0) continue;
    table.Row({"  " + PartName(part.name), SecondsText(part.seconds)});
  }
  table.Row({prefill ? "  prefill" : "  step", SecondsText(times.step)});
  if (!prefill) {
    table.Row({"  prefill between steps", SecondsText(times.between)});
  }
  std::string out = table.Text();
  Columns rates;
  if (!prefill) {
    rates.Row({"requests at once", DigitsOf(times.running)});
    rates.Row({"tpot", BoundsText(times.token, SecondsText)});
  }
  if (prefill || !report.request.disaggregated) {
    rates.Row({"ttft", times.first
                           ? BoundsText(*times.first, SecondsText)
                           : "not known: requests wait for room in the cache"});
  }
  rates.Row({prefill ? "input tokens/s a device" : "tokens/s a device",
             BoundsText(times.rate, DigitsOf)});
  return out + rates.Text();
}

void WriteServingTimes(JsonWriter& json, const ServingReport& report) {
  const ServingTimes& times = *report.times;
  json.BeginObject(JsonLayout::kLines);
  WriteTimeParts(json, times.parts, JsonLayout::kLines);
  json.Members("step_s", times.step, "prefill_s", times.prefill);
  if (report.mode != Mode::kPrefill) {
    json.Members("between_s", times.between, "running", times.running, "tpot_s",
                 WrittenBy(WriteBetween, times.token));
  }
  json.Key("ttft_s");
  if (times.first) {
    WriteBetween(json, *times.first);
  } else {
    json.Null();
  }
  json.Member("tokens_s_device", WrittenBy(WriteBetween, times.rate));
  json.EndObject();
}

}  // namespace

std::string DigitsOf(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) < 99.5 ? "%.3g" : "%.0f",
                value);
  return text;
}

void WriteBetween(JsonWriter& json, const Between& of) {
  json.Object("least", of.least, "expected", of.expected, "most", of.most);
}

std::string ServingReportText(const ServingReport& report, bool explain) {
  const cost::ServingRequest& request = report.request;
  std::string out = std::string(ModeName(report.mode)) + " on " +
                    MeshText(report.mesh) + ", " +
                    Counted(report.mesh.devices, "device");
  if (request.engine != nullptr) {
    out += ", " + Printable(request.engine->name) + " of " +
           Printable(request.engine->month);
  }
  out += "\n" + CountOr(request.slots) + " slots in " +
         Counted(report.attention_ranks, "attention rank", "attention ranks") +
         ", prompts of " + CountText(request.input) + " tokens, " +
         CountText(request.output) + " generated" +
         (request.disaggregated
              ? ", on other devices than " +
                    std::string(report.mode == Mode::kPrefill ? "decode"
                                                              : "prefill")
              : "") +
         "\n";
  out += BytesPart(report);
  if (report.times) out += ReadPart(report) + TimesPart(report);
  out += NotKnownLines(report.unknown);
  if (!explain) return out;
  out += "assumed\n";
  for (const std::string& text : report.assumptions) {
    out += "  " + Printable(text) + "\n";
  }
  return out;
}

void WriteServingJson(const ServingReport& report, Sink& out) {
  const cost::ServingRequest& request = report.request;
  WriteDocument(out, "shardc.serving/v1", [&](JsonWriter& json) {
    json.Members("target", report.target, "mode", ModeName(report.mode));
    json.Key("mesh");
    WriteMesh(json, report.mesh, MeshDetail::kSizes);
    json.Member(
        "profile",
        TextOrNull(report.profile == nullptr ? "" : report.profile->name));
    json.Key("engine");
    if (request.engine == nullptr) {
      json.Null();
    } else {
      const EngineProfile& engine = *request.engine;
      json.Object("name", engine.name, "month", engine.month, "versions",
                  engine.versions);
    }
    json.Members(
        "slots", request.slots, "isl", request.input, "osl", request.output,
        "fill", cost::kFillNames[static_cast<size_t>(request.fill)],
        "disaggregated", request.disaggregated, "attention_ranks",
        report.attention_ranks, "memory",
        Record("capacity", report.capacity, "reserve", report.reserve,
               "weights", report.weights, "cache_of_token", report.cache_token,
               "cache_of_request", report.cache_request),
        "fits",
        Record("full_length", report.full_slots, "mean_length",
               report.mean_slots, "tokens_of_request", report.context),
        "read",
        Record("weights", std::llround(report.weights_read), "cache",
               std::llround(report.cache_read), "experts", report.experts_read,
               "all_experts", report.experts));
    json.Key("time");
    if (report.times) {
      WriteServingTimes(json, report);
    } else {
      json.Null();
    }
    WriteNotKnown(json, report.unknown);
    json.Lines("assumptions", report.assumptions);
  });
}

}  // namespace shardc
