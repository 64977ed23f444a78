// Compares everything that an audit finds in the programs of testdata/audit
// with testdata/tables/audit.txt: a line for each operand of a collective, the
// flaws, and the result of comparing the collectives with a planned step.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "audit/audit.h"
#include "audit/equivalent.h"
#include "audit/growth.h"
#include "devices/profiles.h"
#include "parse/mesh.h"
#include "source/file.h"
#include "tables.h"

namespace shardc::audit {
namespace {

std::string Number(double x) {
  std::ostringstream out;
  out.precision(5);
  out << x;
  return out.str();
}

std::string RewritesText(const Sending& one) {
  std::string out;
  for (int i = 0; i < 5; ++i) {
    if (one.Has(static_cast<Rewrite>(i))) {
      out += " " + std::string(kRewriteNames[i]);
    }
  }
  return out;
}

void AddTraffic(const Traffic& one, std::string& out) {
  out += std::string(CollectiveName(one.kind)) + " over " + one.members->text +
         (one.members->named ? "" : " (unnamed)") + ": " +
         MovedText(one.moved) + " " + one.moved.shape + ", ";
  if (one.phase != Phase::kNone) {
    out += std::string(PhaseName(one.phase)) + ", ";
  }
  out += std::to_string(one.times.value()) + " times, " +
         std::to_string(one.calls.value()) + " calls, " +
         (one.at_most ? "up to " : "") + std::to_string(one.sent.value()) +
         " bytes, ";
  if (one.members->edges > 0) {
    out += std::to_string(one.members->edges) + " edges, ";
  }
  if (one.seconds) out += Number(*one.seconds * 1e6) + " us, ";
  out += LineText(one.line) + (one.scope.empty() ? "" : ", in " + one.scope) +
         "\n";
}

void AddRemarks(const char* title, const std::vector<Remark>& remarks,
                std::string& out) {
  for (const Remark& one : remarks) {
    out += std::string(title) + " " + one.name + " at " + LineText(one.line) +
           "\n";
  }
}

void AddFlaws(const Report& report, std::string& out) {
  for (const Flaw& one : report.flaws) {
    out += one.code->Id() + (one.level == Level::kNote ? " note" : "") +
           " at " + std::string(one.at) + ", " + LineText(one.line) + ", `" +
           one.parameter + "`: " + one.message + " (" + one.help + ")\n";
  }
}

void AddSends(const hlo::Program& program, const Report& report,
              Findings& findings, std::string& out) {
  if (!report.mesh) return;
  const auto sends = EquivalentOf(program, report, findings);
  if (!sends) return;
  for (const Sending& one : *sends) {
    if (one.rewrites == 0) continue;
    out += "rewritten: " + std::string(CollectiveName(one.kind)) + " over " +
           (one.named ? AxesText(one.axes) : "no axes") + ", " +
           std::to_string(one.elements) + " elements of " +
           std::to_string(one.bits) + " bits, " + std::to_string(one.times) +
           " times, " + std::to_string(one.Sent(one.bits)) + " bytes," +
           RewritesText(one) + "\n";
  }
}

std::string Audited(const std::string& path, const std::string& mesh_text,
                    const std::string& device) {
  Findings findings;
  const auto text = ReadSource(path, findings);
  REQUIRE_MESSAGE(text != nullptr, path);
  const auto program = hlo::ReadProgram(text, findings);
  REQUIRE_MESSAGE(program, path);
  std::optional<Mesh> mesh;
  if (!mesh_text.empty()) {
    mesh = ParseMeshString(MakeSource("mesh", mesh_text), {}, findings);
    REQUIRE_MESSAGE(mesh, mesh_text);
  }
  const auto report =
      Audit(*program,
            {mesh ? &*mesh : nullptr,
             device.empty() ? nullptr : FindDeviceProfile(device)},
            findings);
  std::string out;
  for (const Finding& one : findings.all()) out += one.message + "\n";
  if (!report) return out;
  out +=
      report->program + ", " + std::to_string(report->devices) + " devices, " +
      std::to_string(report->calls) + " calls, " +
      std::to_string(report->sent) + " bytes" +
      (report->seconds ? ", " + Number(*report->seconds * 1e6) + " us" : "") +
      "\n";
  for (const Traffic& one : report->traffic) AddTraffic(one, out);
  AddRemarks("unknown loop", report->unknown_loops, out);
  AddRemarks("conditional", report->conditionals, out);
  AddRemarks("host transfer", report->host_transfers, out);
  AddFlaws(*report, out);
  AddSends(*program, *report, findings, out);
  const Sums sums = SumsOf(*report);
  out += "most: " + sums.total.most + "; of gathered activations: " +
         std::to_string(sums.activations_gathered.bytes) + " bytes " +
         sums.activations_gathered.most + "\n";
  return out;
}

TEST_CASE("what an audit finds in each program") {
  const std::string root = std::getenv("SHARDC_SOURCE_ROOT");
  CheckTable("audit.txt", [&](const TableCase& one) {
    return Audited(root + "/testdata/audit/" + one.title + ".hlo.txt.gz",
                   one.Text("mesh"), one.Text("profile"));
  });
}

}  // namespace
}  // namespace shardc::audit
