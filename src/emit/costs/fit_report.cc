// Writes which meshes fit, for `shardc search --all`. First come the possible
// sizes of each axis: a legal size with its figures, and any other size with
// the reasons why it is illegal. Then the meshes are listed, from the best to
// the worst. For example, a line of a mesh is:
//
//   fsdp=8 tp=8   9.13 GiB  88.5 % free  146.7 GiB sent  1.03 s
#include "emit/costs/cost_report.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/setting_rows.h"
#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using cost::FitMesh;

int64_t AxisSizeOf(const cost::AxisSize& one) {
  return one.fit.mesh.SizeOf(one.axis);
}

// Returns the axes of size above 1, such as `fsdp=8 tp=8`. Returns `one device`
// if the mesh has no such axis.
std::string AxesText(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size == 1) continue;
    AppendItem(out, " ", axis.name + "=" + std::to_string(axis.size));
  }
  return out.empty() ? "one device" : out;
}

std::string FreeText(const FitMesh& one) {
  const auto& memory = one.memory;
  if (!memory.capacity || !memory.Expected()) return "";
  if (one.MayFit()) {
    return "may take " + BytesText(memory.taken->most) + " of " +
           BytesText(*memory.capacity);
  }
  const int64_t left = *memory.capacity - *memory.Expected();
  return left < 0 ? "exceeds memory by " + BytesText(-left)
                  : FreeShareText(memory);
}

// Returns the schedule of a pipeline: "1f1b, 8 micro-batches, bubble 15.8 %".
std::string StagesText(const cost::FitStages& stages) {
  return Printable(stages.schedule) + ", " +
         Counted(stages.microbatches, "micro-batch", "micro-batches") +
         (stages.bubble ? ", bubble " + PercentText(*stages.bubble) : "");
}

// Returns remarks on a mesh: the schedule if it has pipeline stages, and the
// axes that shard the batch if the rules name fewer axes for the batch
// (FitMesh::batch).
std::string NotesText(const FitMesh& one) {
  std::string out = one.stages ? StagesText(*one.stages) : "";
  if (one.batch.empty()) return out;
  return out + (out.empty() ? "" : ", ") + "batch over " +
         Join(one.batch, ", ");
}

// Returns the cells of the table row of a mesh. If `tie` is true, a cell states
// that another mesh has the same rank in the list.
std::vector<std::string> Cells(std::string name, const FitMesh& one,
                               bool tie = false) {
  if (!one.legal) return {"  " + std::move(name), "-", Join(one.reasons, "; ")};
  const bool known = one.MemoryOrder() < INT64_MAX;
  return {"  " + std::move(name),
          known ? AtLeast(!one.memory.Complete(),
                          BytesText(one.memory.Expected().value_or(0)))
                : "-",
          known ? FreeText(one) : "",
          one.communication ? BytesText(*one.communication) + " sent" : "",
          one.Seconds().value_or(0) > 0 ? SecondsText(*one.Seconds()) : "",
          tie ? "tie for " + CountText(*one.rank) : "",
          NotesText(one)};
}

// Returns the settings that the mode uses, as flags such as `--batch 64`.
std::vector<std::string> FlagsOf(const cost::FitReport& report) {
  auto out =
      cost::StatedSettings(report.settings, report.mode, cost::Stated::kAll);
  if (report.usual_microbatches) {
    std::erase_if(out, [](const std::string& flag) {
      return flag.starts_with("--microbatches ");
    });
  }
  return out;
}

// Returns whether another mesh has the same rank in the list. Meshes are sorted
// by rank, so it is enough to compare neighbours.
bool Ties(const std::vector<FitMesh>& meshes, size_t i) {
  const auto same = [&](size_t other) {
    return other < meshes.size() && meshes[other].rank == meshes[i].rank;
  };
  return meshes[i].rank && (same(i + 1) || (i > 0 && same(i - 1)));
}

std::string NearestChange(const cost::FitReport& report) {
  if (!report.change) return "";
  std::string out = "with";
  for (const std::string& flag : report.change->flags) out += " " + flag;
  const FitMesh& fit = report.change->fit;
  return out + ", " + AxesText(fit.mesh) +
         (fit.memory.Complete() ? " fits: "
                                : " fits by what is known of its memory: ") +
         AtLeast(!fit.memory.Complete(),
                 BytesText(fit.memory.Expected().value_or(0))) +
         (fit.memory.Complete() ? ", " + FreeText(fit) : "") + "\n";
}

std::string SizesText(const cost::FitReport& report) {
  Columns table;
  table.Row({"one axis alone", "bytes per device"});
  for (const cost::AxisSize& one : report.sizes) {
    table.Row(Cells(one.axis + "=" + std::to_string(AxisSizeOf(one)), one.fit));
  }
  return table.Text();
}

// Returns whether a legal mesh is listed as fitting although a component of its
// memory is unknown. The known components of such a mesh fit into the capacity.
bool FitsWithoutUnknown(const FitMesh& one) {
  return one.legal && one.memory.capacity && !one.memory.Fits();
}

std::string VerdictText(const cost::FitReport& report, int64_t fitting,
                        int64_t legal) {
  const auto all = static_cast<int64_t>(report.meshes.size());
  const bool unknown = std::any_of(report.meshes.begin(), report.meshes.end(),
                                   FitsWithoutUnknown);
  const auto uncertain = static_cast<int64_t>(
      std::count_if(report.meshes.begin(), report.meshes.end(),
                    [](const FitMesh& one) { return one.MayFit(); }));
  if (report.meshes.front().memory.at_least) {
    return CountText(legal) + " of " + Counted(all, "mesh is", "meshes are") +
           " legal; which of them fit, and which is the fastest, is not "
           "known\n";
  }
  std::string out =
      Counted(fitting, "mesh fits", "meshes fit") + " of " + CountText(all) +
      (unknown ? " by what is known of their memory" : "") + ", " +
      (uncertain > 0 ? CountText(uncertain) + " may fit, " : "") +
      CountText(legal) + " legal\n";
  if (fitting > 0) return out;
  const FitMesh* nearest = cost::NearestToFit(report.meshes);
  if (nearest != nullptr) {
    return out + "nearest: " + AxesText(nearest->mesh) + ", " +
           FreeText(*nearest) + "\n" + NearestChange(report);
  }
  if (report.meshes.empty()) return out;
  const FitMesh& first = report.meshes.front();
  return out + "for example " + AxesText(first.mesh) + ": " +
         Join(first.reasons, "; ") + "\n";
}

void WriteFit(JsonWriter& json, const FitMesh& one) {
  json.Key("axes");
  json.BeginObject();
  for (const MeshAxis& axis : one.mesh.axes) json.Member(axis.name, axis.size);
  json.EndObject();
  json.Members(
      "batch", one.batch.empty() ? std::nullopt : std::optional(one.batch),
      "legal", one.legal, "fits", one.legal ? one.memory.Fits() : std::nullopt);
  if (one.legal) json.Member("may_fit", one.Fits() || one.MayFit());
  const auto bytes =
      one.legal ? one.memory.most.total : std::optional<int64_t>();
  json.Member("bytes_per_device", bytes);
  if (one.legal && one.memory.HasPeak()) {
    json.Member("expected_bytes_per_device", one.memory.taken->expected);
  }
  json.Members("communication", one.communication, "seconds", one.Seconds());
  if (one.stages) {
    json.Member(
        "stages",
        Record("axis", one.stages->axis, "schedule", one.stages->schedule,
               "microbatches", one.stages->microbatches, "layers",
               one.stages->layers, "bubble", one.stages->bubble));
  }
  json.Member("reason", one.legal ? std::nullopt
                                  : std::optional(Join(one.reasons, "; ")));
}

}  // namespace

std::string FitReportText(const cost::FitReport& report, int64_t most,
                          bool all) {
  std::string out;
  if (!report.sizes.empty()) out += SizesText(report);
  if (report.meshes.empty()) return out;
  Columns table;
  const bool open = report.meshes.front().memory.at_least;
  table.Row({open ? "meshes, not compared" : "meshes, best first",
             "bytes per device"});
  int64_t fitting = 0, legal = 0, shown = 0;
  bool ties = false;
  const AxisGroup* batch = nullptr;
  for (size_t i = 0; i < report.meshes.size(); ++i) {
    const FitMesh& one = report.meshes[i];
    fitting += one.Fits() ? 1 : 0;
    legal += one.legal ? 1 : 0;
    const bool listed =
        one.Fits() || one.MayFit() || all || (one.legal && open);
    if (!listed || shown == most) continue;
    ++shown;
    const bool tie = Ties(report.meshes, i);
    ties = ties || tie;
    table.Row(Cells(AxesText(one.mesh), one, tie));
    if (!one.batch.empty()) batch = &one.batch;
  }
  if (shown > 0) out += table.Text();
  out += VerdictText(report, fitting, legal);
  if (ties) {
    out += "tie: the times differ by less than " +
           CountText(cost::kTiePerHundred) +
           " %, so the mesh that needs less memory is first\n";
  }
  if (batch != nullptr) {
    out += "batch over " + Join(*batch, ", ") +
           ": the rules need `axes: {batch: [" + Join(*batch, ", ") + "]}`\n";
  }
  out += "assumed:";
  for (const std::string& flag : FlagsOf(report)) out += " " + flag;
  out += "\n";
  return out + NotKnownLines(report.unknown);
}

void WriteFitJson(const cost::FitReport& report, Sink& out) {
  WriteDocument(out, "shardc.meshes/v1", [&](JsonWriter& json) {
    json.Members("target", report.target, "mode", ModeName(report.mode));
    json.Rows("sizes", report.sizes, [&](const cost::AxisSize& one) {
      json.Members("axis", one.axis, "size", AxisSizeOf(one));
      WriteFit(json, one.fit);
    });
    json.Rows("meshes", report.meshes, [&](const FitMesh& one) {
      WriteFit(json, one);
      json.Member("rank", one.rank);
    });
    json.Key("nearest");
    const FitMesh* nearest = cost::NearestToFit(report.meshes);
    if (nearest == nullptr || report.meshes.front().Fits()) {
      json.Null();
    } else {
      json.BeginObject();
      WriteFit(json, *nearest);
      json.EndObject();
    }
    json.Key("change");
    if (report.change) {
      json.BeginObject();
      json.Member("flags", report.change->flags);
      WriteFit(json, report.change->fit);
      json.EndObject();
    } else {
      json.Null();
    }
    json.Member("assumed", FlagsOf(report));
    WriteNotKnown(json, report.unknown);
  });
}

}  // namespace shardc
