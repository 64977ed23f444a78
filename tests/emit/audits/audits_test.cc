// Compares the reports of audits of small programs with the expected texts in
// testdata/tables/emit_audits.txt.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "audit/growth.h"
#include "devices/profiles.h"
#include "emit/audits/audit_report.h"
#include "emit/compared_step.h"
#include "hlo/program.h"
#include "parse/mesh.h"
#include "tables.h"

namespace shardc {
namespace {

std::string Titled(std::string_view title, const std::string& text) {
  return "### " + std::string(title) + "\n" + text +
         (text.ends_with("\n") ? "" : "\n");
}

TEST_CASE("what is written of an audit") {
  CheckTable("emit_audits.txt", [](const TableCase& given) {
    Findings findings;
    const auto program =
        hlo::ReadProgram(MakeSource("p.txt", given.Text("program")), findings);
    REQUIRE(program);
    std::optional<Mesh> mesh;
    if (const std::string text = given.Text("mesh"); !text.empty()) {
      mesh =
          ParseMeshString(MakeSource("--mesh", text), std::nullopt, findings);
    }
    const DeviceProfile* profile = FindDeviceProfile(given.Text("device"));
    const auto report =
        audit::Audit(*program, {mesh ? &*mesh : nullptr, profile}, findings);
    REQUIRE(report);
    AuditText how;
    if (mesh && given.Find("drift") != nullptr) {
      const audit::Planned planned[] = {{"w", {16, 4}, {{"tp"}, {}}},
                                        {"v", {16, 4}, {{"dp"}, {}}}};
      how.drifts = audit::DriftsOf(*program, *mesh, planned);
    }
    if (given.Find("growth") != nullptr) {
      how.growth = audit::GrowthOf({}, audit::SentOf(*report));
    }
    if (given.Find("no growth") != nullptr) {
      how.growth =
          audit::GrowthOf(audit::SentOf(*report), audit::SentOf(*report));
    }
    if (given.Find("step") != nullptr) how.compared = ComparedStep(*report);
    std::string out;
    for (size_t i = 0; i < std::size(audit::kByNames); ++i) {
      how.by = static_cast<audit::By>(i);
      out += Titled(audit::kByNames[i], AuditReportText(*report, how));
    }
    for (const audit::By by : {audit::By::kAll, audit::By::kLine}) {
      how.by = by;
      out += Titled("JSON", TextOf([&](Sink& sink) {
                      WriteAuditJson(*report, how, sink);
                    }));
    }
    return out + Titled("lock", TextOf([&](Sink& sink) {
                          WriteAuditLock(*report, true, sink);
                        }));
  });
}

}  // namespace
}  // namespace shardc
