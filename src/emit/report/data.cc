// Writes what a page shows as JSON (shardc.report/v1), for a script that
// comments on a change or draws its own page: the costs of each mode as `shardc
// cost` has them, findings as `shardc check` has them, and whether the plan is
// the same as the base plan. For example:
//
//   {"schema": "shardc.report/v1", "title": "llama", "fits": true,
//    "costs": [{"mode": "train", ...}], "findings": [...], "base": null}
#include <optional>

#include "emit/costs/cost_report.h"
#include "emit/findings/formats.h"
#include "emit/report/report.h"
#include "model/mesh.h"
#include "plan/difference/plan_difference.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc::report {
namespace {

// Returns whether a device can hold each mode; nullopt if that is not known of
// a mode, and of those that are known all fit.
std::optional<bool> FitsAll(const Input& input) {
  std::optional<bool> out = true;
  for (const cost::Report& one : input.costs) {
    const auto fits = one.memory.Fits();
    if (fits == false) return false;
    if (!fits) out.reset();
  }
  return input.costs.empty() ? std::nullopt : out;
}

}  // namespace

void WriteReportJson(const Input& input, Sink& out) {
  WriteDocument(out, "shardc.report/v1", [&](JsonWriter& json) {
    json.Members(
        "title", input.title, "plan", TextOrNull(input.made_from), "mesh",
        WrittenBy(shardc::WriteMesh, input.plan->mesh(), MeshDetail::kSizes),
        "fits", FitsAll(input));
    json.Array("costs", input.costs, [&](const cost::Report& one) {
      json.BeginObject(JsonLayout::kLines);
      WriteCostMembers(json, one);
      json.EndObject();
    });
    json.Key("findings");
    if (input.checked) {
      WriteFindings(json, input.findings);
    } else {
      json.Null();
    }
    json.Key("base");
    if (input.base) {
      json.Value(
          Record("plan", input.base->name, "same", input.base->diff->empty()));
    } else {
      json.Null();
    }
  });
}

}  // namespace shardc::report
