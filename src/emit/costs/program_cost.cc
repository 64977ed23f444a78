// The cost of a traced program. The rows of collectives have the user's lines:
//
//   sent per device in a step                          times  bytes
//     model.py:41  forward  dot  all_reduce ["tp"]     32     4 GiB
#include "emit/costs/cost_report.h"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::ProgramCost;

std::string MemoryText(const ProgramCost& cost) {
  const bool lower = !cost.not_known.empty();
  Columns table;
  table.Row({"bytes per device"});
  for (size_t i = 0; i < cost.memory.size(); ++i) {
    if (cost.memory[i] == 0) continue;
    table.Row({"  " + std::string(cost::kProgramMemoryNames[i]),
               BytesText(cost.memory[i])});
  }
  const auto total = cost.Total();
  std::string of;
  if (cost.capacity && total) {
    of = "of " + BytesText(*cost.capacity);
    if (*total > *cost.capacity) {
      of +=
          ", exceeded by " + AtLeast(lower, BytesText(*total - *cost.capacity));
    } else if (!lower) {
      of += ", " + ShareText(*cost.capacity - *total, *cost.capacity) + " free";
    }
  }
  table.Row({"  total", AtLeast(lower, BytesOr(total)), of});
  return table.Text();
}

std::string SentText(const ProgramCost& cost) {
  if (cost.transfers.empty()) return "no communication\n";
  Columns table;
  table.Row({"sent per device in a step", "", "", "", "", "times", "bytes",
             cost.time ? "time" : ""});
  for (const cost::ProgramTransfer& one : cost.transfers) {
    table.Row({"  " + (one.line.empty() ? "an unknown line" : one.line),
               std::string(program::PhaseName(one.phase)), one.op,
               std::string(CollectiveName(one.kind)), GroupText(one.axes),
               CountText(one.count), BytesText(one.sent),
               cost.time ? SecondsText(one.seconds) : ""});
  }
  table.Row({"  total", "", "", "", "", "",
             AtLeast(!cost.not_known.empty(), BytesText(cost.Sent())),
             cost.time ? SecondsText(cost.time->communication) : ""});
  return table.Text();
}

std::string WorkText(const ProgramCost& cost) {
  const bool lower = !cost.not_known.empty();
  Columns table;
  table.Row({"matmuls", "a device", "the program"});
  table.Row({"  operations", AtLeast(lower, FlopsText(cost.device_flops)),
             AtLeast(lower, FlopsText(cost.flops))});
  if (cost.masked > 0) {
    table.Row({"  masked, not counted", FlopsText(cost.device_masked),
               FlopsText(cost.masked)});
  }
  return table.Text();
}

}  // namespace

std::string FlopsText(double flops) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}};
  std::array<char, 40> text{};
  for (const auto& [unit, name] : kUnits) {
    if (flops < unit) continue;
    std::snprintf(text.data(), text.size(), "%.4g %s", flops / unit, name);
    return text.data();
  }
  std::snprintf(text.data(), text.size(), "%.0f FLOP", flops);
  return text.data();
}

std::string ProgramCostText(const ProgramCostTexts& texts,
                            const ProgramCost& cost) {
  std::string out = Printable(texts.function) + " on " + MeshText(texts.mesh) +
                    ", " + Counted(texts.mesh.devices, "device") + "\n";
  for (const std::string& note : texts.notes) out += "note: " + note + "\n";
  out += MemoryText(cost) + SentText(cost) + WorkText(cost);
  if (cost.time) out += StepTimeText(texts.profile, *cost.time);
  out += NotKnownLines(cost.not_known);
  if (!cost.no_time.empty()) out += "not known: " + cost.no_time + "\n";
  if (!texts.explain) return out;
  out += "assumed\n";
  for (const std::string& text : cost.assumptions) {
    out += "  " + Printable(text) + "\n";
  }
  return out;
}

void WriteProgramCostJson(const ProgramCostTexts& texts,
                          const ProgramCost& cost, Sink& out) {
  WriteDocument(out, "shardc.program-cost/v1", [&](JsonWriter& json) {
    json.Members("function", texts.function, "mesh",
                 WrittenBy(WriteMesh, texts.mesh, MeshDetail::kSizes));
    json.Key("memory");
    json.BeginObject();
    for (size_t i = 0; i < cost.memory.size(); ++i) {
      json.Member(cost::kProgramMemoryNames[i], cost.memory[i]);
    }
    json.Members("total", cost.Total(), "capacity", cost.capacity, "fits",
                 cost.Fits());
    json.EndObject();
    json.Member("flops",
                Record("program", cost.flops, "device", cost.device_flops,
                       "masked", cost.masked, "device_masked",
                       cost.device_masked, "device_elements", cost.elements));
    json.Rows(
        "collectives", cost.transfers, [&](const cost::ProgramTransfer& one) {
          json.Members("line", TextOrNull(one.line), "phase",
                       program::PhaseName(one.phase), "op", one.op,
                       "collective", CollectiveName(one.kind), "axes", one.axes,
                       "count", one.count, "bytes_per_device", one.sent,
                       "seconds",
                       cost.time ? std::optional(one.seconds) : std::nullopt);
        });
    json.Member("communication_bytes", cost.Sent());
    json.Key("time");
    if (cost.time) {
      const cost::Time& time = *cost.time;
      json.Object("compute_s", time.compute, "memory_s", time.memory,
                  "communication_s", time.communication, "least_s",
                  time.Least(), "most_s", time.Most(), "bound_by",
                  cost::kBoundNames[static_cast<size_t>(time.bound)], "profile",
                  texts.profile);
    } else {
      json.Null();
    }
    json.Member("time_not_known", TextOrNull(cost.no_time));
    WriteNotKnown(json, cost.not_known);
    json.Lines("notes", texts.notes);
    json.Lines("assumptions", cost.assumptions);
  });
}

std::string ProgramSearchText(const ProgramSearch& search) {
  const bool timed = !search.profile.empty();
  Columns table;
  table.Row({"mesh", "bytes per device", "sent per device", "operations",
             timed ? "time of a step on " + search.profile : ""});
  std::string left;
  for (const ProgramOnMesh& one : search.meshes) {
    if (!one.cost) {
      left += "left out: " + MeshText(one.mesh) + ": " +
              Printable(one.why_not) + "\n";
      continue;
    }
    const bool lower = !one.cost->not_known.empty();
    const auto& time = one.cost->time;
    table.Row(
        {MeshText(one.mesh),
         AtLeast(lower, BytesOr(one.cost->Total())) +
             (one.cost->Fits().value_or(true) ? "" : ", too many"),
         AtLeast(lower, BytesText(one.cost->Sent())),
         AtLeast(lower, FlopsText(one.cost->device_flops)),
         time ? SecondsText(time->Least()) + " to " + SecondsText(time->Most())
              : ""});
  }
  std::string out = Printable(search.function) + " on " +
                    Counted(search.devices, "device") + "\n" + table.Text() +
                    left;
  const auto& best = search.meshes.front().cost;
  if (!best) return out + "no mesh suits the program\n";
  out += NotKnownLines(best->not_known);
  if (!best->no_time.empty()) out += "not known: " + best->no_time + "\n";
  return out + "cheapest: " + MeshText(search.meshes.front().mesh) + ", " +
         search.proof + "\n";
}

void WriteProgramSearchJson(const ProgramSearch& search, Sink& out) {
  WriteDocument(out, "shardc.program-search/v1", [&](JsonWriter& json) {
    json.Members("function", search.function, "devices", search.devices,
                 "profile", TextOrNull(search.profile), "proof",
                 TextOrNull(search.proof));
    json.Rows("meshes", search.meshes, [&](const ProgramOnMesh& one) {
      const cost::ProgramCost* const cost = one.cost ? &*one.cost : nullptr;
      const auto& time = cost != nullptr ? cost->time : std::nullopt;
      json.Members(
          "mesh", MeshText(one.mesh), "why_not", TextOrNull(one.why_not),
          "bytes_per_device", cost != nullptr ? cost->Total() : std::nullopt,
          "fits", cost != nullptr ? cost->Fits() : std::nullopt,
          "sent_per_device",
          cost != nullptr ? std::optional(cost->Sent()) : std::nullopt,
          "device_flops",
          cost != nullptr ? std::optional(cost->device_flops) : std::nullopt,
          "least_s", time ? std::optional(time->Least()) : std::nullopt,
          "most_s", time ? std::optional(time->Most()) : std::nullopt,
          "at_least", cost != nullptr && !cost->not_known.empty());
    });
  });
}

}  // namespace shardc
