// Writes a verified step as JSON. The JSON has everything that the text report
// (step_text.cc) has, and further numbers. Each line of the text report's first
// table is an object. For example, the output projection of attention in layers
// 0 to 31:
//
//   {"part": "layer 0-31", "phase": "forward", "op": "linear o", ...
#include "emit/verify/step_json.h"

#include <optional>

#include "model/sub_axis.h"
#include "source/json_writer.h"

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

}  // namespace shardc
