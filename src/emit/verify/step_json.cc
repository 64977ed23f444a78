// Writes a verified step as JSON. The JSON has everything that the text report
// has, and further numbers. Each line of the text report's first table is an
// object. For example, the output projection of attention in layers 0 to 31:
//
//   {"part": "layer 0-31", "phase": "forward", "op": "linear o", ...
#include "emit/verify/step_json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "emit/emit.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using verify::StepReport;

void WriteOps(JsonWriter& json, const StepReport& report) {
  json.Rows("ops", report.rows, [&](const verify::StepRow& row) {
    json.Members(
        "part", row.part, "layers", row.layers, "microbatch",
        row.micro < 0 ? std::nullopt : std::optional(int64_t{row.micro}),
        "phase", verify::PhaseName(row.phase), "op", row.op, "result",
        row.result, "specs", row.specs, "collective",
        row.collective ? std::optional(CollectiveName(*row.collective))
                       : std::nullopt,
        "axes", JoinedGroup(row.axes), "bytes_per_device", row.bytes, "error",
        row.error, "allowed", row.allowed);
  });
}

void WriteConflicts(JsonWriter& json, const StepReport& report) {
  json.Rows(
      "clashes", report.conflicts, [&](const verify::StepConflict& conflict) {
        json.Members("phase", conflict.part, "op", conflict.op, "axis",
                     conflict.axis, "labels", conflict.labels, "chosen",
                     conflict.chosen, "bytes_per_device", conflict.bytes,
                     "cheapest", conflict.cheapest, "least_bytes_per_device",
                     conflict.least, "count", conflict.count);
      });
}

void WriteTotals(JsonWriter& json, const StepReport& report) {
  json.Key("totals");
  json.BeginObject(JsonLayout::kLines);
  json.Members("forward", report.Sent(step::Phase::kForward), "backward",
               report.Sent(step::Phase::kBackward), "optimizer",
               report.Sent(step::Phase::kOptimizer));
  json.Rows("by_collective", report.traffic,
            [&](const verify::StepTraffic& one) {
              json.Members("phase", verify::PhaseName(one.phase), "collective",
                           CollectiveName(one.collective), "axes",
                           JoinedGroup(one.axes), "count", one.count,
                           "bytes_per_device", one.bytes);
            });
  json.EndObject();
}

void WriteFlops(JsonWriter& json, const StepReport& report) {
  json.Key("flops");
  if (report.program.empty() || report.stages) return json.Null();
  const verify::StepFlops& flops = report.flops;
  json.BeginObject();
  for (const step::Phase phase : {step::Phase::kForward, step::Phase::kBackward,
                                  step::Phase::kOptimizer}) {
    json.Member(verify::PhaseName(phase),
                flops.by_phase[static_cast<size_t>(phase)]);
  }
  json.Member("matmuls", flops.matmuls);
  json.EndObject();
}

void WriteMemory(JsonWriter& json, const StepReport& report) {
  json.Key("memory");
  if (report.program.empty() || report.stages) return json.Null();
  json.BeginObject(JsonLayout::kLines);
  json.Key("peak");
  if (!report.memory) {
    json.Null();
  } else {
    json.Integer(report.memory->total);
    for (const auto& [name, bytes] : report.memory->components) {
      json.Member(name, bytes);
    }
    json.Member("moment", TextOrNull(report.memory->moment));
  }
  const verify::StepPeak& peak = report.peak;
  json.Key("unfused");
  json.BeginObject(JsonLayout::kLines);
  json.Member("peak", peak.Total());
  for (size_t held = 0; held < step::kHeldCount; ++held) {
    json.Member(step::HeldName(step::Held(held)), peak.bytes[held]);
  }
  json.Members("instruction", peak.instruction, "instructions",
               peak.instructions, "phase", verify::PhaseName(peak.phase),
               "part", peak.part, "op", peak.op);
  json.EndObject();
  json.EndObject();
}

void WriteStages(JsonWriter& json, const verify::StageProof& of) {
  json.Key("stages");
  json.BeginObject(JsonLayout::kLines);
  json.Members("axis", of.axis, "mesh",
               WrittenBy(WriteMesh, of.all_mesh, MeshDetail::kSizes),
               "schedule", of.schedule, "ranks", int64_t{of.ranks},
               "virtual_stages", of.virtual_stages, "microbatches",
               int64_t{of.microbatches}, "layers", of.layers, "tasks", of.tasks,
               "channel_capacity", of.capacity, "held", of.held);
  json.Key("proof");
  if (of.proved_ranks == 0) {
    json.Null();
  } else {
    json.Object("ranks", int64_t{of.proved_ranks}, "virtual_stages",
                of.proved_virtual, "microbatches",
                int64_t{of.proved_microbatches}, "messages", of.messages);
  }
  json.EndObject();
}

void WriteProof(JsonWriter& json, const StepReport& report) {
  json.Key("proof");
  if (!report.proved) return json.Null();
  json.BeginObject(JsonLayout::kLines);
  json.Members("dtype", DtypeName(report.dtype), "mesh",
               WrittenBy(WriteMesh, JoinedMesh(report.reduced_mesh),
                         MeshDetail::kSizes));
  json.Key("sizes");
  json.BeginObject();
  for (const auto& [name, size] : report.reduced_sizes) json.Member(name, size);
  json.EndObject();
  json.Key("layers");
  json.Array(report.reduced_layers,
             [](int32_t layer) { return int64_t{layer}; });
  if (report.full) json.Member("full", true);
  json.Members("gradients", report.gradients, "updates", report.updates,
               "caches", report.caches, "worst_error", report.worst, "allowed",
               report.worst_allowed);
  json.EndObject();
}

}  // namespace

void WriteStepReport(JsonWriter& json, const StepReport& report) {
  json.BeginObject(JsonLayout::kLines);
  json.Members(
      "mode", ModeName(report.mode), "status",
      verify::StepStatusName(report.status), "reason",
      TextOrNull(report.reason), "mesh",
      WrittenBy(WriteMesh, report.mesh, MeshDetail::kSizes), "operation",
      TextOrNull(report.operation), "batch", report.batch, "length",
      report.length, "layers", report.layers, "element_bytes",
      report.element_bytes, "policy", StepPolicyName(report.policy),
      "keep_gathered", report.keep_gathered, "remat", TextOrNull(report.remat),
      "microbatches", report.microbatches, "reduce_each",
      report.reduction == step::Reduction::kEach, "reduction",
      ReductionName(report.reduction), "zero", int64_t{report.zero}, "part",
      Given(report.part), "program",
      report.program.empty() ? std::nullopt
                             : std::optional("sha256:" + report.program));
  WriteOps(json, report);
  WriteConflicts(json, report);
  WriteTotals(json, report);
  WriteFlops(json, report);
  WriteMemory(json, report);
  if (report.stages) WriteStages(json, *report.stages);
  json.Members("notes", report.notes, "problems", report.problems);
  WriteProof(json, report);
  json.EndObject();
}

void WriteStepJson(const std::vector<StepReport>& reports, Sink& out) {
  WriteDocument(out, "shardc.step/v1", [&](JsonWriter& json) {
    json.Lines("steps", reports, [&](const StepReport& report) {
      WriteStepReport(json, report);
    });
  });
}

namespace {

void WriteUses(JsonWriter& json, const verify::ParameterStep& step) {
  json.Rows("ops", step.uses, [&](const verify::ParameterUse& use) {
    json.Members("phase", verify::PhaseName(use.phase), "part", use.part, "op",
                 use.op, "layout", use.sharding, "result", use.result);
  });
}

void WriteMoves(JsonWriter& json, const verify::ParameterStep& step) {
  json.Rows("collectives", step.moves, [&](const verify::ParameterMove& move) {
    json.Members("phase", verify::PhaseName(move.phase), "part", move.part,
                 "op", move.op, "of", move.gradient ? "gradient" : "parameter",
                 "specs", move.specs, "collective",
                 CollectiveName(move.collective), "axes",
                 JoinedGroup(move.axes), "bytes_per_device", move.bytes);
  });
}

}  // namespace

void WriteParameterStepJson(std::string_view name,
                            const std::vector<verify::ParameterStep>& steps,
                            Sink& out) {
  WriteDocument(out, "shardc.step/v1", [&](JsonWriter& json) {
    json.Member("parameter", name);
    json.Blocks("steps", steps, [&](const verify::ParameterStep& step) {
      json.Members("mode", ModeName(step.mode), "mesh",
                   WrittenBy(WriteMesh, step.mesh, MeshDetail::kSizes), "batch",
                   step.batch, "length", step.length, "policy",
                   StepPolicyName(step.policy), "unsupported",
                   TextOrNull(step.unsupported), "role", TextOrNull(step.role),
                   "labels", TextOrNull(step.labels), "layout",
                   TextOrNull(step.sharding), "gradient",
                   TextOrNull(step.gradient));
      WriteUses(json, step);
      WriteMoves(json, step);
      json.Member("bytes_per_device", step.Sent());
    });
  });
}

// Prints a verified step as text, one line per collective. Layers with the same
// collectives share a line. The following parts are printed after the lines:
// the sharding conflicts, the total of the bytes sent, the stages of a
// pipeline, the memory, and the result of the proof. For example, the output
// projection of layers 0 to 31 needs an all_reduce over tp:
//
//   layer 0-31  linear o  [b,t,d]  ... -> b:dp  all_reduce tp  192 MiB

namespace {

using verify::StepConflict;
using verify::StepReport;
using verify::StepRow;
using verify::StepTraffic;

std::string ErrorText(double error) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", error);
  return text.data();
}

std::string AxesText(const AxisGroup& axes) {
  return Join(JoinedGroup(axes), "+");
}

// Returns the mesh of the step and, if the step has stages, the mesh of a
// stage.
std::string StepMeshText(const StepReport& report) {
  if (!report.stages) return MeshText(report.mesh);
  return MeshText(report.stages->all_mesh) + ", each stage on " +
         MeshText(report.mesh);
}

std::string HeadText(const StepReport& report) {
  std::string out =
      "step " + std::string(ModeName(report.mode)) + "  " +
      StepMeshText(report) + "  batch " + std::to_string(report.batch) + " x " +
      std::to_string(report.length) + "  " +
      std::to_string(report.element_bytes) + " bytes per element  policy " +
      std::string(StepPolicyName(report.policy));
  if (!report.operation.empty()) out += "  operation " + report.operation;
  if (report.keep_gathered) out += "  gathered copies kept";
  if (!report.remat.empty() && report.remat != step::Remat().text) {
    out += "  " + report.remat;
  }
  if (report.microbatches > 1) {
    out += "  " + std::to_string(report.microbatches) + " micro-batches, " +
           (report.reduction == step::Reduction::kEach   ? "each reduced"
            : report.reduction == step::Reduction::kOnce ? "reduced once"
                                                         : "reduced where "
                                                           "sharded");
  }
  if (report.zero > 0) out += "  ZeRO " + std::to_string(report.zero);
  if (!report.part.empty()) out += "  part " + report.part;
  if (!report.program.empty()) {
    out += "\nprogram sha256:" + report.program;
  }
  return out + "\n";
}

std::string RowsText(const StepReport& report) {
  if (report.rows.empty()) return "";
  Columns table;
  table.Row({"phase", "part", "op", "value", "layout", "collective",
             "sent/device", "error", "tolerance"});
  for (const StepRow& row : report.rows) {
    table.Row({std::string(verify::PhaseName(row.phase)) +
                   (row.micro < 0 ? "" : " " + std::to_string(row.micro)),
               row.part, row.op, row.result, row.specs,
               row.collective ? std::string(CollectiveName(*row.collective)) +
                                    " " + AxesText(row.axes)
                              : "",
               BytesText(row.bytes), row.error ? ErrorText(*row.error) : "",
               row.allowed ? ErrorText(*row.allowed) : ""});
  }
  return table.Text();
}

std::string ConflictsText(const StepReport& report) {
  if (report.conflicts.empty()) return "";
  std::string out =
      "\nsharding conflicts: a compiler may choose another resharding\n";
  Columns table;
  for (const StepConflict& conflict : report.conflicts) {
    std::string labels = Join(conflict.labels, " or ");
    table.Row({"  " + Counted(conflict.count, "op"), conflict.part, conflict.op,
               conflict.axis + ": " + labels, "chosen " + conflict.chosen,
               conflict.least < conflict.bytes
                   ? conflict.cheapest + " sends " + BytesText(conflict.least) +
                         ", instead of " + BytesText(conflict.bytes)
                   : "no choice sends less"});
  }
  return out + table.Text();
}

std::string TotalsText(const StepReport& report) {
  std::string out = report.stages ? "\ntotals of a device that ran all stages\n"
                                  : "\ntotals per device\n";
  Columns table;
  for (const step::Phase phase : {step::Phase::kForward, step::Phase::kBackward,
                                  step::Phase::kOptimizer}) {
    if (phase != step::Phase::kForward && report.mode != Mode::kTrain) continue;
    table.Row({"  " + std::string(verify::PhaseName(phase)), "", "",
               BytesText(report.Sent(phase))});
    for (const StepTraffic& one : report.traffic) {
      if (one.phase != phase) continue;
      table.Row({"    " + std::string(CollectiveName(one.collective)),
                 AxesText(one.axes), std::to_string(one.count),
                 BytesText(one.bytes)});
    }
  }
  return out + table.Text();
}

// Returns the number of stages on a rank, "2 stages each". If the numbers
// differ between ranks, as they may in a schedule from a file, returns the
// number of all stages, "5 stages".
std::string StagesOnRanks(std::optional<int32_t> each, int32_t all) {
  return each ? Counted(*each, "stage") + " each" : Counted(all, "stage");
}

std::string StagesText(const StepReport& report) {
  if (!report.stages) return "";
  const verify::StageProof& of = *report.stages;
  std::string layers, held;
  for (const int64_t number : of.layers) layers += " " + CountText(number);
  for (const int64_t number : of.held) held += " " + CountText(number);
  std::string out = "\nstages over " + of.axis + ": " + of.schedule + " on " +
                    Counted(of.ranks, "rank") + ", " +
                    StagesOnRanks(of.virtual_stages, of.stages) + ", " +
                    Counted(of.microbatches, "micro-batch", "micro-batches") +
                    "\n";
  Columns table;
  table.Row({"  layers", "by stage:" + layers});
  if (!of.held.empty()) {
    table.Row({"  order", Counted(of.tasks, "task") +
                              ", each once and after those whose results it "
                              "reads"});
    table.Row(
        {"  channels",
         std::string("no rank waits for ever if receives are posted in the "
                     "sender's turn") +
             (of.capacity
                  ? ", or if channels hold " + Counted(*of.capacity, "message")
                  : "")});
    table.Row({"  memory", "micro-batches of stages held, by rank:" + held});
  }
  return out + table.Text();
}

std::string MemoryText(const StepReport& report) {
  if (report.stages) {
    return "memory of each rank: `shardc cost --stages " + report.stages->axis +
           "`\n";
  }
  std::string out;
  if (report.memory) {
    out += "\nmemory " + BytesText(report.memory->total) + " per device" +
           (report.memory->moment == "loss"       ? ", in the loss"
            : report.memory->moment == "backward" ? ", in a backward pass"
                                                  : "") +
           "\n";
    Columns table;
    for (const auto& [name, bytes] : report.memory->components) {
      if (bytes > 0) table.Row({"  " + std::string(name), BytesText(bytes)});
    }
    out += table.Text();
  }
  const verify::StepPeak& peak = report.peak;
  out += (report.memory ? "if no op were fused: " : "\nif no op were fused: ") +
         BytesText(peak.Total()) + " at " +
         std::string(verify::PhaseName(peak.phase)) + " " + peak.part + ", " +
         peak.op + " (instruction " + std::to_string(peak.instruction) +
         " of " + std::to_string(peak.instructions) + ")\n";
  return out;
}

std::string ReducedText(const StepReport& report) {
  std::string out = std::string("proved ") + (report.full ? "in full " : "") +
                    "on " + MeshText(JoinedMesh(report.reduced_mesh)) + " with";
  for (const auto& [name, size] : report.reduced_sizes) {
    out += " " + name + " " + std::to_string(size);
  }
  std::string layers, encoder;
  for (const int32_t layer : report.reduced_layers) {
    const bool own = !IsEncoderLayer(layer, report.encoder_layer);
    std::string& text = own ? layers : encoder;
    AppendItem(text, ", ",
               std::to_string(own ? layer : layer - report.encoder_layer));
  }
  if (!layers.empty()) out += "; layers " + layers;
  if (!encoder.empty()) out += "; encoder " + encoder;
  if (report.stages) {
    const verify::StageProof& of = *report.stages;
    out += "; " + of.schedule + " on " + Counted(of.proved_ranks, "rank") +
           ", " + StagesOnRanks(of.proved_virtual, of.proved_stages) + ", " +
           Counted(of.proved_microbatches, "micro-batch", "micro-batches") +
           ", " + Counted(of.messages, "message");
  }
  return out + "\n";
}

std::string ResultText(const StepReport& report) {
  if (report.status == verify::StepStatus::kUnsupported) {
    return "\nunsupported: " + report.reason + "\n";
  }
  std::string out = "\n";
  for (const std::string& problem : report.problems) {
    out += "fail: " + problem + "\n";
  }
  if (report.proved) {
    out += ReducedText(report);
    if (report.problems.empty()) {
      out += "pass: " + std::string(DtypeName(report.dtype)) + ", " +
             (report.mode == Mode::kTrain
                  ? "loss, " + Counted(report.gradients, "gradient") + ", " +
                        Counted(report.updates, "update")
                  : "logits" + (report.caches > 0
                                    ? ", " + Counted(report.caches, "cache")
                                    : std::string())) +
             " equal (largest error " + ErrorText(report.worst) +
             ", tolerance " + ErrorText(report.worst_allowed) +
             "); replicas agree, layouts and bytes sent are as planned\n";
    }
  }
  return out;
}

}  // namespace

std::string StepText(const StepReport& report) {
  std::string out = HeadText(report);
  if (report.status != verify::StepStatus::kUnsupported ||
      !report.rows.empty()) {
    out += RowsText(report) + ConflictsText(report) + TotalsText(report) +
           StagesText(report) + MemoryText(report);
  }
  if (!report.notes.empty()) {
    out += "\n";
    for (const std::string& note : report.notes) out += "note: " + note + "\n";
  }
  return out + ResultText(report);
}

std::string ParameterStepText(const verify::ParameterStep& step) {
  std::string out = "step " + std::string(ModeName(step.mode)) + "  " +
                    MeshText(step.mesh) + "  batch " +
                    std::to_string(step.batch) + " x " +
                    std::to_string(step.length) + "  policy " +
                    std::string(StepPolicyName(step.policy)) + "\n";
  if (!step.unsupported.empty()) {
    return out + "unsupported: " + step.unsupported + "\n";
  }
  if (!step.takes_part) return out + "the step does not use this parameter\n";
  out += "role  " + step.role + (step.stacked ? ", one of several" : "") +
         "  " + step.labels + "  " + step.sharding + "\n";
  out += "\nops that use it\n";
  Columns table;
  for (const verify::ParameterUse& use : step.uses) {
    table.Row({"  " + std::string(verify::PhaseName(use.phase)), use.part,
               use.op, "as " + use.sharding, "-> " + use.result});
  }
  out += table.Text();
  for (const bool gradient : {false, true}) {
    if (gradient && step.gradient.empty()) continue;
    Columns moves;
    for (const verify::ParameterMove& move : step.moves) {
      if (move.gradient != gradient) continue;
      moves.Row({"  " + std::string(verify::PhaseName(move.phase)), move.op,
                 move.specs,
                 std::string(CollectiveName(move.collective)) + " " +
                     AxesText(move.axes),
                 BytesText(move.bytes)});
    }
    out += gradient ? "\ngradient  " + step.gradient + "\n" : "\ncollectives\n";
    const std::string text = moves.Text();
    out += text.empty() ? "  none\n" : text;
  }
  return out + "\nsent per device  " + BytesText(step.Sent()) + "\n";
}

}  // namespace shardc
