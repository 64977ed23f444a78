// Writes a verified step as JSON. The JSON has everything that the text report
// (step_text.cc) has, and further numbers. Each line of the text report's first
// table is an object. For example, the output projection of attention in layers
// 0 to 31:
//
//   {"part": "layer 0-31", "phase": "forward", "op": "linear o", ...
#include "emit/verify/step_json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

using verify::StepReport;

void WriteOps(JsonWriter& json, const StepReport& report) {
  json.Key("ops");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::StepRow& row : report.rows) {
    json.BeginObject();
    json.Member("part", row.part);
    json.Member("layers", row.layers);
    json.Member("microbatch", row.micro < 0
                                  ? std::nullopt
                                  : std::optional(int64_t{row.micro}));
    json.Member("phase", verify::PhaseName(row.phase));
    json.Member("op", row.op);
    json.Member("result", row.result);
    json.Member("specs", row.specs);
    json.Member("collective",
                row.collective ? std::optional(CollectiveName(*row.collective))
                               : std::nullopt);
    json.Key("axes");
    json.Array(JoinedGroup(row.axes));
    json.Member("bytes_per_device", row.bytes);
    json.Member("error", row.error);
    json.Member("allowed", row.allowed);
    json.EndObject();
  }
  json.EndArray();
}

void WriteConflicts(JsonWriter& json, const StepReport& report) {
  json.Key("clashes");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::StepConflict& conflict : report.conflicts) {
    json.BeginObject();
    json.Member("phase", conflict.part);
    json.Member("op", conflict.op);
    json.Member("axis", conflict.axis);
    json.Key("labels");
    json.Array(conflict.labels);
    json.Member("chosen", conflict.chosen);
    json.Member("bytes_per_device", conflict.bytes);
    json.Member("cheapest", conflict.cheapest);
    json.Member("least_bytes_per_device", conflict.least);
    json.Member("count", conflict.count);
    json.EndObject();
  }
  json.EndArray();
}

void WriteTotals(JsonWriter& json, const StepReport& report) {
  json.Key("totals");
  json.BeginObject(JsonLayout::kLines);
  json.Member("forward", report.Sent(step::Phase::kForward));
  json.Member("backward", report.Sent(step::Phase::kBackward));
  json.Member("optimizer", report.Sent(step::Phase::kOptimizer));
  json.Key("by_collective");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::StepTraffic& one : report.traffic) {
    json.BeginObject();
    json.Member("phase", verify::PhaseName(one.phase));
    json.Member("collective", CollectiveName(one.collective));
    json.Key("axes");
    json.Array(JoinedGroup(one.axes));
    json.Member("count", one.count);
    json.Member("bytes_per_device", one.bytes);
    json.EndObject();
  }
  json.EndArray();
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
  json.Member("products", flops.products);
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
    json.TextOrNull("moment", report.memory->moment);
  }
  const verify::StepPeak& peak = report.peak;
  json.Key("unfused");
  json.BeginObject(JsonLayout::kLines);
  json.Member("peak", peak.Total());
  for (size_t held = 0; held < step::kHeldCount; ++held) {
    json.Member(step::HeldName(step::Held(held)), peak.bytes[held]);
  }
  json.Member("instruction", peak.instruction);
  json.Member("instructions", peak.instructions);
  json.Member("phase", verify::PhaseName(peak.phase));
  json.Member("part", peak.part);
  json.Member("op", peak.op);
  json.EndObject();
  json.EndObject();
}

void WriteStages(JsonWriter& json, const verify::StageProof& of) {
  json.Key("stages");
  json.BeginObject(JsonLayout::kLines);
  json.Member("axis", of.axis);
  json.Key("mesh");
  WriteMesh(json, of.all_mesh, MeshDetail::kSizes);
  json.Member("schedule", of.schedule);
  json.Member("ranks", int64_t{of.ranks});
  json.Member("virtual_stages", of.virtual_stages);
  json.Member("microbatches", int64_t{of.microbatches});
  json.Key("layers");
  json.Array(of.layers);
  json.Member("tasks", of.tasks);
  json.Member("channel_capacity", of.capacity);
  json.Key("held");
  json.Array(of.held);
  json.Key("proof");
  if (of.proved_ranks == 0) {
    json.Null();
  } else {
    json.BeginObject();
    json.Member("ranks", int64_t{of.proved_ranks});
    json.Member("virtual_stages", of.proved_virtual);
    json.Member("microbatches", int64_t{of.proved_microbatches});
    json.Member("messages", of.messages);
    json.EndObject();
  }
  json.EndObject();
}

void WriteProof(JsonWriter& json, const StepReport& report) {
  json.Key("proof");
  if (!report.proved) return json.Null();
  json.BeginObject(JsonLayout::kLines);
  json.Member("dtype", DtypeName(report.dtype));
  json.Key("mesh");
  WriteMesh(json, JoinedMesh(report.reduced_mesh), MeshDetail::kSizes);
  json.Key("sizes");
  json.BeginObject();
  for (const auto& [name, size] : report.reduced_sizes) json.Member(name, size);
  json.EndObject();
  json.Key("layers");
  json.Array(report.reduced_layers,
             [](int32_t layer) { return int64_t{layer}; });
  if (report.full) json.Member("full", true);
  json.Member("gradients", report.gradients);
  json.Member("updates", report.updates);
  json.Member("caches", report.caches);
  json.Member("worst_error", report.worst);
  json.Member("allowed", report.worst_allowed);
  json.EndObject();
}

}  // namespace

void WriteStepReport(JsonWriter& json, const StepReport& report) {
  json.BeginObject(JsonLayout::kLines);
  json.Member("mode", ModeName(report.mode));
  json.Member("status", verify::StepStatusName(report.status));
  json.TextOrNull("reason", report.reason);
  json.Key("mesh");
  WriteMesh(json, report.mesh, MeshDetail::kSizes);
  json.TextOrNull("operation", report.operation);
  json.Member("batch", report.batch);
  json.Member("length", report.length);
  json.Member("layers", report.layers);
  json.Member("element_bytes", report.element_bytes);
  json.Member("policy", StepPolicyName(report.policy));
  json.Member("keep_gathered", report.keep_gathered);
  json.TextOrNull("remat", report.remat);
  json.Member("microbatches", report.microbatches);
  json.Member("reduce_each", report.reduction == step::Reduction::kEach);
  json.Member("reduction", ReductionName(report.reduction));
  json.Member("zero", int64_t{report.zero});
  if (!report.part.empty()) json.Member("part", report.part);
  json.Key("program");
  if (report.program.empty()) {
    json.Null();
  } else {
    json.String("sha256:" + report.program);
  }
  WriteOps(json, report);
  WriteConflicts(json, report);
  WriteTotals(json, report);
  WriteFlops(json, report);
  WriteMemory(json, report);
  if (report.stages) WriteStages(json, *report.stages);
  json.Key("notes");
  json.Array(report.notes);
  json.Key("problems");
  json.Array(report.problems);
  WriteProof(json, report);
  json.EndObject();
}

void WriteStepJson(const std::vector<StepReport>& reports, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.step/v1");
  json.Key("steps");
  json.BeginArray(JsonLayout::kLines);
  for (const StepReport& report : reports) WriteStepReport(json, report);
  json.EndArray();
  json.EndObject();
  out.Append("\n");
}

namespace {

void WriteUses(JsonWriter& json, const verify::ParameterStep& step) {
  json.Key("ops");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ParameterUse& use : step.uses) {
    json.BeginObject();
    json.Member("phase", verify::PhaseName(use.phase));
    json.Member("part", use.part);
    json.Member("op", use.op);
    json.Member("layout", use.sharding);
    json.Member("result", use.result);
    json.EndObject();
  }
  json.EndArray();
}

void WriteMoves(JsonWriter& json, const verify::ParameterStep& step) {
  json.Key("collectives");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ParameterMove& move : step.moves) {
    json.BeginObject();
    json.Member("phase", verify::PhaseName(move.phase));
    json.Member("part", move.part);
    json.Member("op", move.op);
    json.Member("of", move.gradient ? "gradient" : "parameter");
    json.Member("specs", move.specs);
    json.Member("collective", CollectiveName(move.collective));
    json.Key("axes");
    json.Array(JoinedGroup(move.axes));
    json.Member("bytes_per_device", move.bytes);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

void WriteParameterStepJson(std::string_view name,
                            const std::vector<verify::ParameterStep>& steps,
                            Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.step/v1");
  json.Member("parameter", name);
  json.Key("steps");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ParameterStep& step : steps) {
    json.BeginObject(JsonLayout::kLines);
    json.Member("mode", ModeName(step.mode));
    json.Key("mesh");
    WriteMesh(json, step.mesh, MeshDetail::kSizes);
    json.Member("batch", step.batch);
    json.Member("length", step.length);
    json.Member("policy", StepPolicyName(step.policy));
    json.TextOrNull("unsupported", step.unsupported);
    json.TextOrNull("role", step.role);
    json.TextOrNull("labels", step.labels);
    json.TextOrNull("layout", step.sharding);
    json.TextOrNull("gradient", step.gradient);
    WriteUses(json, step);
    WriteMoves(json, step);
    json.Member("bytes_per_device", step.Sent());
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Append("\n");
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
  std::string out;
  for (const std::string& axis : JoinedGroup(axes)) {
    out += (out.empty() ? "" : "+") + axis;
  }
  return out;
}

void AppendTable(const std::vector<std::vector<std::string>>& rows,
                 std::string& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
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
  std::vector<std::vector<std::string>> rows = {
      {"phase", "part", "op", "value", "layout", "collective", "sent/device",
       "error", "tolerance"}};
  for (const StepRow& row : report.rows) {
    rows.push_back(
        {std::string(verify::PhaseName(row.phase)) +
             (row.micro < 0 ? "" : " " + std::to_string(row.micro)),
         row.part, row.op, row.result, row.specs,
         row.collective ? std::string(CollectiveName(*row.collective)) + " " +
                              AxesText(row.axes)
                        : "",
         BytesText(row.bytes), row.error ? ErrorText(*row.error) : "",
         row.allowed ? ErrorText(*row.allowed) : ""});
  }
  std::string out;
  if (rows.size() > 1) AppendTable(rows, out);
  return out;
}

std::string ConflictsText(const StepReport& report) {
  if (report.conflicts.empty()) return "";
  std::string out =
      "\nsharding conflicts: a compiler may choose another resharding\n";
  std::vector<std::vector<std::string>> rows;
  for (const StepConflict& conflict : report.conflicts) {
    std::string labels;
    for (const std::string& label : conflict.labels) {
      labels += (labels.empty() ? "" : " or ") + label;
    }
    rows.push_back(
        {"  " + Counted(conflict.count, "op"), conflict.part, conflict.op,
         conflict.axis + ": " + labels, "chosen " + conflict.chosen,
         conflict.least < conflict.bytes
             ? conflict.cheapest + " sends " + BytesText(conflict.least) +
                   ", instead of " + BytesText(conflict.bytes)
             : "no choice sends less"});
  }
  AppendTable(rows, out);
  return out;
}

std::string TotalsText(const StepReport& report) {
  std::string out = report.stages ? "\ntotals of a device that ran all stages\n"
                                  : "\ntotals per device\n";
  std::vector<std::vector<std::string>> rows;
  for (const step::Phase phase : {step::Phase::kForward, step::Phase::kBackward,
                                  step::Phase::kOptimizer}) {
    if (phase != step::Phase::kForward && report.mode != Mode::kTrain) continue;
    rows.push_back({"  " + std::string(verify::PhaseName(phase)), "", "",
                    BytesText(report.Sent(phase))});
    for (const StepTraffic& one : report.traffic) {
      if (one.phase != phase) continue;
      rows.push_back({"    " + std::string(CollectiveName(one.collective)),
                      AxesText(one.axes), std::to_string(one.count),
                      BytesText(one.bytes)});
    }
  }
  AppendTable(rows, out);
  return out;
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
  std::vector<std::vector<std::string>> rows = {
      {"  layers", "by stage:" + layers},
      {"  order", Counted(of.tasks, "task") + ", each once and after those "
                                              "whose results it reads"}};
  if (of.held.empty()) rows.pop_back();
  if (!of.held.empty()) {
    rows.push_back(
        {"  channels",
         std::string("no rank waits for ever if receives are posted in the "
                     "sender's turn") +
             (of.capacity
                  ? ", or if channels hold " + Counted(*of.capacity, "message")
                  : "")});
    rows.push_back(
        {"  memory", "micro-batches of stages held, by rank:" + held});
  }
  AppendTable(rows, out);
  return out;
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
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, bytes] : report.memory->components) {
      if (bytes > 0)
        rows.push_back({"  " + std::string(name), BytesText(bytes)});
    }
    AppendTable(rows, out);
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
    text += (text.empty() ? "" : ", ") +
            std::to_string(own ? layer : layer - report.encoder_layer);
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
  std::vector<std::vector<std::string>> rows;
  for (const verify::ParameterUse& use : step.uses) {
    rows.push_back({"  " + std::string(verify::PhaseName(use.phase)), use.part,
                    use.op, "as " + use.sharding, "-> " + use.result});
  }
  AppendTable(rows, out);
  for (const bool gradient : {false, true}) {
    rows.clear();
    for (const verify::ParameterMove& move : step.moves) {
      if (move.gradient != gradient) continue;
      rows.push_back({"  " + std::string(verify::PhaseName(move.phase)),
                      move.op, move.specs,
                      std::string(CollectiveName(move.collective)) + " " +
                          AxesText(move.axes),
                      BytesText(move.bytes)});
    }
    const bool none = gradient && step.gradient.empty();
    if (none) continue;
    out += gradient ? "\ngradient  " + step.gradient + "\n" : "\ncollectives\n";
    if (rows.empty()) out += "  none\n";
    AppendTable(rows, out);
  }
  return out + "\nsent per device  " + BytesText(step.Sent()) + "\n";
}

}  // namespace shardc
