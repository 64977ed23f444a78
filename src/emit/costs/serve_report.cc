// Writes the layouts that `search --serve` found. A line of the text has the
// instances of a layout, what each serves, and its bounds:
//
//   1  4 x tp 2  64  1467 (978 to 2717)  24 ms (13 ms to 36 ms)  ...
#include "emit/costs/search_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::Between;
using cost::TimePart;
using search::NotServing;
using search::Serving;
using search::ServingSide;
using search::Shortfall;

// The parts that a line about another layout lists by name.
constexpr size_t kListedParts = 4;
constexpr size_t kListedOthers = 16;

template <class Text>
std::string BoundsCell(const Between& of, const Text& text) {
  return text(of.expected) + " (" + text(of.least) + " to " + text(of.most) +
         ")";
}

std::string SideText(const ServingSide& side, bool instances) {
  std::string out =
      instances ? std::to_string(side.instances) + " x " : std::string();
  out += search::LayoutText(side.layout);
  if (side.serves != search::Serves::kBoth) {
    out += " ";
    out += search::kServesNames[static_cast<size_t>(side.serves)];
  }
  const int64_t prompts = side.report.request.slots.value_or(1);
  if (side.serves == search::Serves::kPrefill && prompts > side.layout.ranks) {
    out += " of " + Counted(prompts, "prompt");
  }
  return out;
}

std::string SidesText(const std::vector<ServingSide>& sides, bool instances) {
  return Join(sides, " + ", [&](const ServingSide& side) {
    return SideText(side, instances);
  });
}

std::string SlotsText(const Serving& one) {
  return CountText(one.sides.back().report.request.slots.value_or(0));
}

std::string SignedText(double value, bool bytes, bool differs) {
  const std::string size = bytes ? BytesText(std::llround(std::abs(value)))
                                 : SecondsText(std::abs(value));
  const std::string sign = value < 0 ? "-" : "+";
  return (differs || value < 0 ? sign : "") + size;
}

// Lists the largest parts, and the sum of the others.
std::string PartsText(std::vector<TimePart> parts, bool bytes, bool differs) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TimePart& a, const TimePart& b) {
                     return std::abs(a.seconds) > std::abs(b.seconds);
                   });
  std::string out;
  double others = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i >= kListedParts) {
      others += parts[i].seconds;
    } else if (parts[i].seconds != 0) {
      AppendItem(out, ", ",
                 PartName(parts[i].name) + " " +
                     SignedText(parts[i].seconds, bytes, differs));
    }
  }
  if (others != 0) {
    AppendItem(out, ", ", "others " + SignedText(others, bytes, differs));
  }
  return out;
}

std::string OtherText(const NotServing& one) {
  const bool bytes = one.shortfall == Shortfall::kMemory;
  const bool chosen = one.shortfall == Shortfall::kRate ||
                      one.shortfall == Shortfall::kRequests;
  std::string out = SidesText(one.sides, chosen) + ": ";
  const auto text = [&](double value) {
    return SignedText(value, bytes, false);
  };
  const std::string limit = text(one.limit);
  switch (one.shortfall) {
    case Shortfall::kRate:
      out += text(one.value) + " more of a device for each token";
      break;
    case Shortfall::kToken:
      out += "tpot is at least " + text(one.value) + ", the target is " + limit;
      break;
    case Shortfall::kFirst:
      out += "ttft is " + text(one.value) + ", at least " + text(one.least) +
             ", the target is " + limit;
      break;
    case Shortfall::kMemory:
      out += "one request takes " + text(one.value) + " of " + limit;
      break;
    case Shortfall::kRequests:
      return out + DigitsOf(one.value) + " of " + DigitsOf(one.limit) +
             " requests a second";
  }
  if (one.shortfall == Shortfall::kToken &&
      one.value < one.limit * (1 + search::kNearFloor)) {
    out += ", which is within the error of the time";
  }
  return out + ": " +
         PartsText(one.parts, bytes, one.shortfall == Shortfall::kRate);
}

std::string LayoutLines(const ServeReport& report) {
  const auto& layouts = report.found.layouts;
  Columns table;
  table.Row({"", "instances", "slots of each", "tokens/s a device",
             "requests/s", "tpot", "ttft", "target above floor"});
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Serving& one = layouts[i];
    table.Row({std::to_string(i + 1), SidesText(one.sides, true),
               SlotsText(one), DigitsOf(one.rate),
               BoundsCell(one.requests, DigitsOf),
               BoundsCell(one.token, SecondsText),
               BoundsCell(one.first, SecondsText), PercentText(one.margin)});
  }
  return table.Text();
}

std::vector<std::string> NotSearchedServing() {
  return {
      "pipeline stages and context parallelism, which no published step "
      "supports",
      "experts over devices that do not divide their number",
      "more requests than 80 % of the room in the cache, whose ttft is not "
      "known",
      "tp above 16, or without `--unmeasured` other than a power of two"};
}

std::vector<std::string> UnmeasuredOf(const Serving& one) {
  std::vector<std::string> out;
  for (const ServingSide& side : one.sides) {
    for (const std::string& text : side.report.unmeasured) {
      AddOnce(out, text);
    }
  }
  return out;
}

std::string NotesOf(const ServeReport& report) {
  std::string out;
  for (size_t i = 0; i < report.found.layouts.size(); ++i) {
    const Serving& one = report.found.layouts[i];
    const std::string begin = "note: " + std::to_string(i + 1) + ": ";
    if (one.margin < search::kNearFloor) {
      out += begin + "the target is " + PercentText(one.margin) +
             " above the least tpot of this layout, " + SecondsText(one.floor) +
             ", which is within the error of the time\n";
    }
    if (one.first.expected > report.targets.first) {
      out += begin +
             "the ttft target is within the bounds of the ttft, and "
             "below what is expected\n";
    }
    const auto unmeasured = UnmeasuredOf(one);
    if (!unmeasured.empty()) {
      out +=
          begin + "no published step supports " + Join(unmeasured, ", ") + "\n";
    }
  }
  return out;
}

void WriteSide(JsonWriter& json, const ServingSide& side) {
  const search::ServingLayout& layout = side.layout;
  json.BeginObject(JsonLayout::kLines);
  json.Members("serves", search::kServesNames[static_cast<size_t>(side.serves)],
               "instances", side.instances, "tp", layout.tensor, "attention_dp",
               layout.ranks, "ep", layout.experts);
  json.Key("mesh");
  WriteMesh(json, layout.mesh, MeshDetail::kSizes);
  json.Members("rules", layout.rules, "slots", side.report.request.slots, "osl",
               side.report.request.output);
  json.Key("instance");
  if (side.report.times) {
    const cost::ServingTimes& times = *side.report.times;
    json.BeginObject();
    json.Member("step_s", times.step);
    if (side.serves != search::Serves::kPrefill) {
      json.Members("running", times.running, "tpot_s",
                   WrittenBy(WriteBetween, times.token));
    }
    if (times.first)
      json.Member("ttft_s", WrittenBy(WriteBetween, *times.first));
    json.Member("tokens_s_device", WrittenBy(WriteBetween, times.rate));
    json.EndObject();
  } else {
    json.Null();
  }
  json.Lines("unmeasured", side.report.unmeasured);
  json.EndObject();
}

void WriteSides(JsonWriter& json, const std::vector<ServingSide>& sides) {
  json.Key("sides");
  json.BeginArray(JsonLayout::kLines);
  for (const ServingSide& side : sides) WriteSide(json, side);
  json.EndArray();
}

void WriteParts(JsonWriter& json, const std::vector<TimePart>& parts) {
  json.Rows("parts", parts, [&](const TimePart& part) {
    json.Members("name", part.name, "value", part.seconds);
  });
}

}  // namespace

std::string ServeReportText(const ServeReport& report) {
  const search::FoundServing& found = report.found;
  const cost::ServingRequest& requests = report.targets.requests;
  std::string out = CountText(report.devices) + " x " + report.profile +
                    " with " + Printable(requests.engine->name) + " of " +
                    Printable(requests.engine->month) + ": prompts of " +
                    CountText(requests.input) + " tokens, " +
                    CountText(requests.output) + " generated; tpot up to " +
                    SecondsText(report.targets.token) + ", ttft up to " +
                    SecondsText(report.targets.first);
  if (report.targets.arriving) {
    out += ", " + DigitsOf(*report.targets.arriving) + " requests a second";
  }
  out += "\n";
  if (!found.not_known.empty()) {
    return out + "no layout is compared, because its time is not known\n" +
           NotKnownLines(found.not_known);
  }
  if (found.layouts.empty()) {
    out += "no layout meets the targets\n";
  } else {
    out += "layouts within 15 % of the best\n" + LayoutLines(report) +
           NotesOf(report);
  }
  if (!found.others.empty()) out += "others\n";
  for (const NotServing& one : First(found.others, kListedOthers)) {
    out += "  " + OtherText(one) + "\n";
  }
  if (found.others.size() > kListedOthers) {
    out += "  and " + std::to_string(found.others.size() - kListedOthers) +
           " more: `--format json` lists them\n";
  }
  for (const search::RefusedServing& one : found.refused) {
    out += "not possible: " + Join(one.layouts, "; ") + ": " +
           Join(one.reasons, "; ") + "\n";
  }
  for (const auto& [mode, proof] : report.proofs) {
    out += std::string(ModeName(mode)) + ": " + Printable(proof.text) + "\n";
  }
  if (!report.map.empty()) out += "kv map: " + report.map + "\n";
  return out + "not searched: " + Join(NotSearchedServing(), "; ") + "\n";
}

void WriteServeJson(const ServeReport& report, Sink& out) {
  const search::FoundServing& found = report.found;
  const search::ServeTargets& targets = report.targets;
  const EngineProfile& engine = *targets.requests.engine;
  WriteDocument(out, "shardc.serve/v1", [&](JsonWriter& json) {
    json.Members("target", report.target, "devices", report.devices, "profile",
                 report.profile, "engine",
                 Record("name", engine.name, "month", engine.month, "versions",
                        engine.versions),
                 "isl", targets.requests.input, "osl", targets.requests.output,
                 "ttft_s", targets.first, "tpot_s", targets.token, "requests_s",
                 targets.arriving, "evaluated", found.evaluated);
    json.Blocks("layouts", found.layouts, [&](const Serving& one) {
      json.Members("used_devices", one.used, "tokens_s_device", one.rate,
                   "requests_s", WrittenBy(WriteBetween, one.requests),
                   "tpot_s", WrittenBy(WriteBetween, one.token), "ttft_s",
                   WrittenBy(WriteBetween, one.first), "transfer_s",
                   one.transfer, "ttft_within_bounds",
                   one.first.expected > targets.first, "floor_tpot_s",
                   one.floor, "margin", one.margin, "near_floor",
                   one.margin < search::kNearFloor);
      WriteParts(json, one.device_time);
      WriteSides(json, one.sides);
    });
    json.Blocks("others", found.others, [&](const NotServing& one) {
      json.Members("shortfall",
                   search::kShortfallNames[static_cast<size_t>(one.shortfall)],
                   "value", one.value, "least", one.least, "limit", one.limit);
      WriteParts(json, one.parts);
      WriteSides(json, one.sides);
    });
    json.Blocks("refused", found.refused,
                [&](const search::RefusedServing& one) {
                  json.Lines("layouts", one.layouts);
                  json.Lines("reasons", one.reasons);
                });
    json.Rows("proofs", report.proofs, [&](const ServeReport::Proof& one) {
      json.Member("mode", ModeName(one.mode));
      WriteProved(json, one.proof);
      json.Member("text", one.proof.text);
    });
    json.Member("kv_map", TextOrNull(report.map));
    WriteNotKnown(json, found.not_known);
    json.Lines("not_searched", NotSearchedServing());
    json.Lines("assumptions", found.assumptions);
  });
}

namespace {

// Writes the report of an engine that serves a plan, as text and as JSON
// (`shardc.serving/v1`). Times are given with their bounds:
//
//   tpot           12.1 ms  from 7.5 ms to 18.2 ms

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
  table.Row({"  weights", (report.weights_at_least ? "at least " : "") +
                              BytesOr(report.weights)});
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

std::string SettingName(SchedulerSetting setting) {
  return std::string(kSchedulerSettings[static_cast<size_t>(setting)]);
}

// Returns what the time to the first token consists of, and what it would be
// with another value of the setting that moves it most.
std::string FirstPart(const ServingReport& report) {
  const ServingTimes& times = *report.times;
  Columns table;
  table.Row({"time to the first token"});
  for (const cost::TimePart& part : times.first_parts) {
    if (part.seconds == 0) continue;
    table.Row(
        {"  " + PartName(part.name), SignedText(part.seconds, false, false)});
  }
  std::string out = table.Text();
  if (times.first_steady > 0) {
    out += "  without the start " + SecondsText(times.first_steady) +
           "; half of the requests up to " + SecondsText(times.first_median) +
           ", 99 % up to " + SecondsText(times.first_99) +
           " (no published table has percentiles)\n";
  }
  if (!cost::StatesAllSettings(report.request)) {
    std::vector<std::string> settings;
    for (const EngineSetting& one : report.request.engine->settings) {
      if (IsAmong(one.setting, report.request.stated)) continue;
      settings.push_back(SettingName(one.setting) + "=" + one.value);
    }
    out += "  assumes " + Join(settings, " ") + ": `--set NAME=VALUE` states " +
           "them, and narrows the bounds\n";
  }
  if (times.weighty) {
    out += "  most depends on " + SettingName(*times.weighty) + ": ";
    out += Join(times.weighed, ", ", [](const auto& one) {
      return SecondsText(one.second) + " with " + one.first;
    });
    out += "\n";
  }
  return out;
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
  const bool has_first = prefill || !report.request.disaggregated;
  if (has_first) {
    rates.Row({"ttft", times.first ? BoundsText(*times.first, SecondsText)
                                   : "not known: " + times.first_unknown});
  }
  rates.Row({prefill ? "input tokens/s a device" : "tokens/s a device",
             BoundsText(times.rate, DigitsOf)});
  out += rates.Text();
  return times.first && has_first ? out + FirstPart(report) : out;
}

// Writes the parts of the time to the first token, and the settings that it
// depends on.
void WriteFirst(JsonWriter& json, const ServingReport& report) {
  const ServingTimes& times = *report.times;
  json.Rows("ttft_parts", times.first_parts, [&](const cost::TimePart& part) {
    json.Members("name", part.name, "seconds", part.seconds);
  });
  if (times.first_steady <= 0) return;
  json.Members("ttft_steady_s", times.first_steady, "ttft_p50_s",
               times.first_median, "ttft_p99_s", times.first_99);
  json.Key("ttft_depends_on");
  if (!times.weighty) {
    json.Null();
    return;
  }
  json.BeginObject();
  json.Member("setting", SettingName(*times.weighty));
  json.Rows("values", times.weighed, [&](const auto& one) {
    json.Members("value", one.first, "ttft_s", one.second);
  });
  json.EndObject();
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
  json.Member("ttft_unknown", TextOrNull(times.first_unknown));
  if (times.first) WriteFirst(json, report);
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
      json.BeginObject(JsonLayout::kLines);
      json.Members("name", engine.name, "month", engine.month, "versions",
                   engine.versions);
      json.Rows("settings", engine.settings, [&](const EngineSetting& one) {
        json.Members("name", SettingName(one.setting), "value", one.value,
                     "stated", IsAmong(one.setting, request.stated), "source",
                     one.source);
      });
      json.EndObject();
    }
    json.Members(
        "slots", request.slots, "isl", request.input, "osl", request.output,
        "fill", cost::kFillNames[static_cast<size_t>(request.fill)],
        "disaggregated", request.disaggregated, "attention_ranks",
        report.attention_ranks, "memory",
        Record("capacity", report.capacity, "reserve", report.reserve,
               "weights", report.weights, "weights_at_least",
               report.weights_at_least, "cache_of_token", report.cache_token,
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
