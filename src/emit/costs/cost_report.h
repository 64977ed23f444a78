// Directory: emit/costs. Writes costs, the meshes that fit, pipelines,
// searches, device profiles and calibrations.
// Its files include headers of these directories: source, model, devices, cost,
// search, emit.
//
// Writes a cost report as text and as JSON (`shardc.cost/v1`).
#ifndef SHARDC_EMIT_COSTS_COST_REPORT_H_
#define SHARDC_EMIT_COSTS_COST_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/calibrate.h"
#include "cost/expected.h"
#include "cost/fit.h"
#include "cost/memory.h"
#include "cost/pipeline.h"
#include "cost/report.h"
#include "cost/serving.h"
#include "cost/traced_program.h"
#include "devices/profiles.h"
#include "emit/emit.h"
#include "model/mesh.h"
#include "source/json_writer.h"
#include "source/sink.h"
#include "source/wording.h"

namespace shardc {

struct CostText {
  // True if the assumptions and the tensors of one layer are printed as well.
  bool explain = false;
};

std::string CostReportText(const cost::Report& report, const CostText& how);
void WriteCostJson(const cost::Report& report, Sink& out);
// Writes the members of that object but for `schema`.
void WriteCostMembers(JsonWriter& json, const cost::Report& report);

// Writes the member `parts`: an array of objects with `name` and `seconds`.
void WriteTimeParts(JsonWriter& json, std::span<const cost::TimePart> parts,
                    JsonLayout layout = JsonLayout::kInline);

// Returns "1.5 GiB", or "-" if the number of bytes is unknown.
std::string BytesOr(const std::optional<int64_t>& bytes);
std::string SecondsText(double seconds);  // "1.03 s", "470 ms", "11.7 us"
// Returns a table with the parts of a step's time on the accelerator `profile`.
std::string StepTimeText(std::string_view profile, const cost::Time& time);
std::string ShareText(int64_t part, int64_t whole);  // "88.5 %"
std::string PercentText(double part);                // "88.5 %" for 0.885
std::string ChangeText(double ratio);                // "+12.5 %" for 1.125
// Returns "at least 1.5 GiB" for the bytes "1.5 GiB" if they are a lower bound.
std::string AtLeast(bool lower_bound, std::string bytes);
// Returns "88.5 % free": the part of the capacity that remains; empty if a
// component of the memory is unknown. The capacity and the expected bytes must
// be known, and the capacity must be larger than the bytes.
std::string FreeShareText(const cost::Memory& memory);
// Returns a line "assumed: ..." for each assumption that reports print even if
// they do not print the others (cost::IsAlwaysShown).
std::string AlwaysAssumedText(const std::vector<std::string>& assumptions);

void WriteCostLock(const cost::CostLock& lock, Sink& out);

// Returns the report as text. It lists the first `most` meshes that fit or may
// fit. If `all` is true, it lists the first `most` of all meshes.
std::string FitReportText(const cost::FitReport& report, int64_t most,
                          bool all);
void WriteFitJson(const cost::FitReport& report, Sink& out);

// Returns the cost of a pipeline as text. If `explain` is true, the text also
// lists the assumptions.
std::string PipelineReportText(const cost::PipelineCost& cost,
                               const std::string& mesh, bool explain);
void WritePipelineJson(const cost::PipelineCost& cost,
                       const std::string& target, Sink& out);

// Returns the name of a part of a time as text: "all reduce".
std::string PartName(std::string_view name);
std::string DigitsOf(double value);  // "62.9", "1467"
// Writes {"least", "expected", "most"}.
void WriteBetween(JsonWriter& json, const cost::Between& of);

// Returns the report of an engine that serves the plan. If `explain` is true,
// the text also lists the assumptions.
std::string ServingReportText(const cost::ServingReport& report, bool explain);
void WriteServingJson(const cost::ServingReport& report, Sink& out);

std::string ProfileListText();
void WriteProfileListJson(Sink& out);

// Returns the text of a shardc.profile/v1 file, with the fitted figures and the
// runs from which they were fitted.
std::string CalibratedProfileText(const DeviceProfile& base,
                                  std::string_view name,
                                  const cost::Calibration& calibration);
// Returns a table of the runs, and then the figures before and after the fit.
std::string CalibrationText(const DeviceProfile& base,
                            const cost::Calibration& calibration);
// Writes the same as JSON: figures and seconds of runs before and after.
void WriteCalibrationJson(const DeviceProfile& base, std::string_view name,
                          const cost::Calibration& calibration, Sink& out);

// Writes the cost of a traced program as text and as JSON
// (`shardc.program-cost/v1`), and that of the meshes of a search.

struct ProgramCostTexts {
  std::string function;
  Mesh mesh;
  std::string profile;             // its name; empty without one
  std::vector<std::string> notes;  // inputs whose specs could not be used
  bool explain = false;  // whether the text also lists the assumptions
};

std::string ProgramCostText(const ProgramCostTexts& texts,
                            const cost::ProgramCost& cost);
void WriteProgramCostJson(const ProgramCostTexts& texts,
                          const cost::ProgramCost& cost, Sink& out);

// A mesh on which a program could run.
struct ProgramOnMesh {
  Mesh mesh;
  std::string why_not = {};                    // why there is no cost
  std::optional<cost::ProgramCost> cost = {};  // nullopt if it cannot run
};

struct ProgramSearch {
  std::string function;
  int64_t devices = 1;
  std::string profile = {};                // its name; empty without one
  std::vector<ProgramOnMesh> meshes = {};  // the cheapest first
  std::string proof = {};  // of the cheapest: its verdict, or why there is none
};

std::string ProgramSearchText(const ProgramSearch& search);
// Writes `shardc.program-search/v1`.
void WriteProgramSearchJson(const ProgramSearch& search, Sink& out);

// Returns "421.6 TFLOP".
std::string FlopsText(double flops);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_COST_REPORT_H_
