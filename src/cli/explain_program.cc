// Prints the report of `shardc audit`, limited to one parameter. A program
// names its arguments by their paths, and all layers of a layer stack are one
// argument:
//
//   parameter model/layers/3/up  ->  argument params['model']['layers']['up']
//
// To match a parameter with an argument, layer numbers are removed from both
// names. The two match if one of the remaining names ends with the other.
#include "cli/explain_program.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "cli/output.h"
#include "emit/audits/audit_report.h"
#include "hlo/program.h"
#include "plan/plan.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Returns the parts of a name in reverse order and without layer numbers:
// `layers/3/up` -> {"up", "layers"}.
std::vector<std::string> PartsOf(std::string_view name) {
  std::vector<std::string> out(1);
  for (const char c : name) {
    if (c == '/' || c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  std::erase_if(out, [](const std::string& part) {
    return part.find_first_not_of("0123456789") == std::string::npos;
  });
  std::ranges::reverse(out);
  return out;
}

bool Names(const std::vector<std::string>& param, std::string_view argument) {
  const auto other = PartsOf(argument);
  const size_t shared = std::min(param.size(), other.size());
  return shared > 0 &&
         std::equal(param.begin(),
                    param.begin() + static_cast<std::ptrdiff_t>(shared),
                    other.begin());
}

// Removes what does not concern the parameter `param` from the report: the
// collectives of other parameters, and all transfers to or from the host.
void Limit(audit::Report& report, const std::vector<std::string>& param) {
  std::erase_if(report.traffic, [&](const audit::Traffic& one) {
    return !Names(param, one.moved.name);
  });
  report.calls = 0;
  report.sent = 0;
  for (const audit::Traffic& one : report.traffic) {
    report.calls += one.calls.value();
    report.sent += one.sent.value();
  }
  report.host_transfers.clear();
}

}  // namespace

int ExplainProgram(const SourceRef& source, const Compiled& compiled,
                   size_t param, const Common& common, Findings& findings) {
  const auto program = hlo::ReadProgram(source, findings);
  if (!program) return kFailed;
  auto report = audit::Audit(*program, {&compiled.mesh, nullptr}, findings);
  if (!report) return kFailed;
  const std::string name(compiled.plan.names[param]);
  Limit(*report, PartsOf(name));
  AuditText how;
  // The prefix that an argument may lack is found in the names of all
  // parameters.
  std::vector<audit::Planned> planned;
  bool has_shape = false;
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    const ParamLayout& layout =
        compiled.plan.layouts[compiled.plan.params[i].layout];
    const auto& shape = compiled.plan.types[layout.type].shape;
    // A program shards an array in one range for each device, so the sharding
    // of a parameter whose parts are divided is not compared.
    if (!shape || layout.modes.empty() || !layout.parts.empty()) continue;
    planned.push_back(
        {std::string(compiled.plan.names[i]), *shape, layout.modes[0].spec});
    has_shape = has_shape || i == param;
  }
  if (has_shape) {
    how.drifts = audit::DriftsOf(*program, compiled.mesh, planned, name);
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteAuditJson(*report, how, out);
    out.Append(Printable(name) + "\n" + AuditReportText(*report, how));
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

}  // namespace shardc::cli
