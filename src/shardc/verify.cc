// Checks the names and sizes in the options, and then runs the same cases as
// `shardc verify`. An empty list in the options means all names. For example,
// the operation sdpa is run in all layouts (dimension orders):
//
//   operations {"sdpa"}, layouts {}: sdpa in bthd, bhtd and thd
#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "emit/verify/report_text.h"
#include "emit/verify/verify_json.h"
#include "exec/operations/operation.h"
#include "resolve/attention.h"
#include "shardc/verify.h"
#include "source/wording.h"
#include "verify/cases/limits.h"
#include "verify/cases/matrix.h"
#include "verify/report.h"

namespace shardc::v1 {
namespace {

constexpr std::array<std::string_view, 3> kDtypes = {"float32", "bfloat16",
                                                     "float16"};

// Returns `names`, or all known names if `names` is empty. Returns nullopt
// after a finding for the first unknown name.
template <class Known>
std::optional<std::vector<std::string>> Chosen(
    std::string_view what, const std::vector<std::string>& names,
    const Known& known, shardc::Findings& findings) {
  const std::vector<std::string> all(known.begin(), known.end());
  if (names.empty()) return all;
  for (const std::string& name : names) {
    if (std::find(all.begin(), all.end(), name) != all.end()) continue;
    const auto near = Nearest(name, all);
    findings.Add(code::kUsage, {},
                 "no " + std::string(what) + " is named `" + name + "`",
                 near ? "did you mean `" + *near + "`?" : "");
    return std::nullopt;
  }
  return names;
}

std::vector<std::string> OperationNames() {
  std::vector<std::string> names;
  for (const exec::Operation* operation : exec::Operations()) {
    names.emplace_back(operation->name);
  }
  return names;
}

// Converts the sizes. Returns nullopt after a finding in these cases: a size is
// below 1, `key_heads` does not divide `heads`, or `query_length` exceeds
// `key_length`.
std::optional<verify::Sizes> SizesOf(const AttentionSizes& sizes,
                                     shardc::Findings& findings) {
  verify::Sizes out;
  out.batch = sizes.batch;
  out.query_length = sizes.query_length;
  out.key_length = sizes.key_length;
  out.heads = sizes.heads;
  out.key_heads = sizes.key_heads;
  out.head_dim = sizes.head_dim;
  for (const int64_t size : {out.batch, out.query_length, out.key_length,
                             out.heads, out.key_heads, out.head_dim}) {
    if (size > 0) continue;
    findings.Add(code::kUsage, {},
                 "a size of the attention is " + std::to_string(size) +
                     ", the minimum is 1");
    return std::nullopt;
  }
  if (!verify::CheckSizes(out, findings)) return std::nullopt;
  return out;
}

std::optional<verify::Request> RequestOf(const VerifyOptions& options,
                                         const shardc::Mesh& mesh,
                                         shardc::Findings& findings) {
  const auto sizes = SizesOf(options.sizes, findings);
  const auto operations =
      Chosen("operation", options.operations, OperationNames(), findings);
  const auto layouts =
      Chosen("layout", options.layouts, kLayoutNames, findings);
  const auto dtypes = Chosen("dtype", options.dtypes, kDtypes, findings);
  if (!sizes || !operations || !layouts || !dtypes) return std::nullopt;
  verify::Request request;
  request.sizes = *sizes;
  for (const std::string& name : *operations) {
    request.operations.push_back(exec::FindOperation(name));
  }
  for (const std::string& name : *layouts) {
    request.layouts.push_back(*ParseLayout(name));
  }
  for (const std::string& name : *dtypes) {
    request.dtypes.push_back(*ParseDtype(name));
  }
  request.modes = ModesOf(options.modes);
  request.seed = options.seed;
  request.full = options.full;
  if (!verify::CheckWork(request, mesh, findings)) return std::nullopt;
  return request;
}

Verdict VerdictOf(verify::Status status) {
  switch (status) {
    case verify::Status::kPass:
      return Verdict::kPass;
    case verify::Status::kFail:
      return Verdict::kFail;
    case verify::Status::kUnsupported:
      return Verdict::kUnsupported;
  }
  return Verdict::kFail;
}

VerifiedCase CaseOf(const verify::Case& test,
                    const verify::CaseResult& result) {
  VerifiedCase out;
  out.operation = test.operation->name;
  out.mode = ModeOf(test.mode);
  out.layout = LayoutName(test.layout);
  out.dtype = DtypeName(test.dtype);
  out.verdict = VerdictOf(result.status);
  out.reason = result.reason;
  out.error = result.error.max_abs;
  out.allowed = result.tolerance;
  for (const int64_t sent : result.ledger.SentByDevice()) {
    out.bytes_sent = std::max(out.bytes_sent, sent);
  }
  return out;
}

}  // namespace

std::optional<VerifyReport> Verify(const Mesh& mesh, const Rules& rules,
                                   const VerifyOptions& options,
                                   Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  const shardc::Mesh& devices = mesh.inside().mesh;
  const auto resolver = Resolver::Make(rules.inside().rules, devices, all);
  auto request = RequestOf(options, devices, all);
  if (!resolver || !request) return std::nullopt;
  const auto& policy = rules.inside().rules.policy;
  if (policy.illegal) request->illegal = *policy.illegal;
  auto matrix = verify::BuildReducedMatrix(*request, rules.inside().rules,
                                           *resolver, devices, 1, all);
  if (!matrix) return std::nullopt;
  const verify::Report report = verify::RunMatrix(*request, std::move(*matrix),
                                                  std::max(options.threads, 1));
  VerifyReport out;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    out.cases.push_back(CaseOf(report.cases[i], report.results[i]));
  }
  out.passed = report.Count(verify::Status::kPass);
  out.failed = report.Count(verify::Status::kFail);
  out.unsupported = report.Count(verify::Status::kUnsupported);
  out.text = ReportText(report);
  out.json = TextOf(
      [&](Sink& sink) { WriteVerifyJson(report, Metrics::kReduced, sink); });
  return out;
}

}  // namespace shardc::v1
