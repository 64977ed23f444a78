// `shardc verify`: compares sharded attention on a simulated mesh with the
// dense reference.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/dumped_cases.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/verify_request.h"
#include "emit/verify/dump.h"
#include "emit/verify/verify_json.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/process.h"
#include "source/sink.h"
#include "source/wording.h"
#include "verify/report.h"

namespace shardc::cli {
namespace {

// Prints the attention operations, and how each operation supports the sharding
// of each dimension (batch, lengths, heads, head size). If an operation does
// not support the sharding of a dimension, exec::Supports has `-` for this
// dimension. The text then has `unsupported`, and JSON has null.

constexpr std::array<std::string_view, 5> kDims = {
    "batch", "query_length", "key_length", "heads", "dim"};

std::array<std::string_view, 5> Splits(const exec::Supports& s) {
  return {s.batch, s.query_length, s.key_length, s.heads, s.dim};
}

std::string OperationsText() {
  size_t width = 0;
  for (const std::string_view dim : kDims) width = std::max(width, dim.size());
  std::string out;
  for (const exec::Operation* operation : exec::Operations()) {
    AppendItem(out, "\n", operation->name);
    out += ": ";
    out += operation->summary;
    out += '\n';
    const auto splits = Splits(operation->supports);
    for (size_t i = 0; i < kDims.size(); ++i) {
      out += "  ";
      out += kDims[i];
      out.append(width - kDims[i].size() + 2, ' ');
      out += splits[i] == "-" ? "unsupported" : splits[i];
      out += '\n';
    }
  }
  return out;
}

// Writes {"operations": [{"name", "summary", "supports": {"batch",
// "query_length", "key_length", "heads", "dim"}}]}. A value of `supports` is
// null if the operation does not support a split of that dimension.
void WriteOperationsJson(Sink& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Rows(
      "operations", exec::Operations(), [&](const exec::Operation* operation) {
        json.Members("name", operation->name, "summary", operation->summary);
        json.Key("supports");
        json.BeginObject();
        const auto splits = Splits(operation->supports);
        for (size_t i = 0; i < kDims.size(); ++i) {
          json.Member(kDims[i], splits[i] == "-" ? std::nullopt
                                                 : std::optional(splits[i]));
        }
        json.EndObject();
      });
  json.EndObject();
  out.Put('\n');
}

// Checks that the plan shards the heads of attention in the same way as the
// attention cases of `shardc verify`. The plan shards heads by the specs of the
// attention projections: the parameters of query, key, value and output.
// Projections that cannot be compared are listed with the reason. For example:
//
//   not compared with the axis rules: `h/*/attn/c_attn/kernel`, since it holds
//   query, key and value in one tensor; `shardc verify step` runs them

constexpr std::string_view kStepRuns = "`shardc verify step` runs them";

std::string_view RoleText(Role role) {
  switch (role) {
    case Role::kQuery:
      return "query";
    case Role::kKey:
      return "key";
    case Role::kValue:
      return "value";
    case Role::kOutput:
      return "output";
    default:
      return {};
  }
}

verify::Status StatusOf(ProjectionStatus status) {
  return status == ProjectionStatus::kAgrees    ? verify::Status::kPass
         : status == ProjectionStatus::kDiffers ? verify::Status::kFail
                                                : verify::Status::kUnsupported;
}

AxisGroup HeadsOf(const Spec& spec) {
  constexpr size_t kHeads = 2;  // index in [batch, length, heads, head size]
  return spec.size() > kHeads ? spec[kHeads] : AxisGroup{};
}

std::vector<HeadAxes> AxesByMode(const VerifyWork& work) {
  std::vector<HeadAxes> out;
  for (const Mode mode : work.request.modes) {
    verify::Case test;
    test.mode = mode;
    test.mesh = work.compiled->step_mesh;
    test.sizes = verify::SizesOfMode(work.request.sizes, mode);
    const auto specs = verify::ResolveSpecs(*work.compiled->resolver, test,
                                            work.request.illegal);
    out.push_back({mode, JoinedGroup(HeadsOf(specs.query)),
                   JoinedGroup(HeadsOf(specs.key))});
  }
  return out;
}

// Some projections cannot be compared with the axis rules, by which the cases
// shard heads. Adds a remark for each reason, which lists the parameters that
// could not be compared for this reason.
void AddRemarks(verify::Report& report) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const verify::Projection& one : report.projections) {
    if (one.status != verify::Status::kUnsupported) continue;
    const auto at = std::find_if(
        reasons.begin(), reasons.end(),
        [&](const auto& other) { return other.first == one.reason; });
    auto& names =
        at != reasons.end()
            ? at->second
            : reasons.emplace_back(one.reason, std::vector<std::string>{})
                  .second;
    names.push_back("`" + one.parameter + "`");
  }
  for (const auto& [reason, names] : reasons) {
    report.remarks.push_back(
        "not compared with the axis rules: " + ListText(names, names.size()) +
        ", since " + reason + "; " + std::string(kStepRuns));
  }
}

// Compares how each attention projection of the plan shards its heads with how
// the attention cases shard heads. Sets Report::projections to the results.
// Adds a remark for each reason why projections could not be compared.
void AddProjections(const VerifyWork& work, verify::Report& report) {
  if (!work.has_rules) return;
  if (work.compiled == nullptr) {
    report.remarks.push_back(
        "attention runs the axis rules; without --manifest the specs of the "
        "projections' weights are not compared with them");
    return;
  }
  LintInputs inputs;
  inputs.compiled = work.compiled.get();
  if (work.model) inputs.model = &*work.model;
  const Facts facts(inputs);
  const verify::Sizes& sizes = work.request.sizes;
  const bool latent = sizes.latent_rank > 0 && sizes.latent_value_dim > 0;
  const auto compared = CompareProjections(
      facts,
      {.heads = sizes.heads,
       .kv_heads = sizes.key_heads,
       .head_dim = sizes.head_dim},
      latent ? sizes.latent_value_dim : sizes.ValueDim(), AxesByMode(work));
  for (const ComparedProjection& one : compared) {
    report.projections.push_back(
        {.parameter = GroupName(facts, *one.group),
         .count = one.group->count(),
         .role = std::string(RoleText(one.group->role.role)),
         .place = one.group->rule < 0 ? "" : RuleText(facts, one.group->rule),
         .status = StatusOf(one.status),
         .modes = one.modes,
         .reason = one.reason,
         .help = one.help});
  }
  if (report.projections.empty()) {
    report.remarks.push_back(
        "no parameter of the manifest has a name of a query, key, value or "
        "output projection, so that none was compared with the axis rules; " +
        std::string(kStepRuns));
  }
  AddRemarks(report);
}

Metrics MetricsOf(const VerifyFlags& flags) {
  return flags.metrics == "stacked" ? Metrics::kStacked : Metrics::kReduced;
}

// Returns whether the exit status is 1 because of the report. `asked` is true
// if the user named operations. A named operation must be supported, and is a
// failure otherwise.
bool Found(const verify::Report& report, bool asked) {
  if (report.Count(verify::Status::kFail) > 0 || report.NothingRan() ||
      std::any_of(report.projections.begin(), report.projections.end(),
                  [](const verify::Projection& one) {
                    return one.status == verify::Status::kFail;
                  })) {
    return true;
  }
  return asked && report.Count(verify::Status::kUnsupported) > 0;
}

// Returns false, and adds a finding, if a case's mesh has fewer devices than
// there are processes.
bool HasDevices(const VerifyWork& work, const Ranks& ranks,
                Findings& findings) {
  if (ranks.count() == 1) return true;
  for (const verify::Case& test : work.matrix.cases) {
    const int64_t devices = exec::SimMesh(test.mesh).devices();
    if (devices >= ranks.count()) continue;
    findings.Add(code::kUsage, {},
                 std::to_string(ranks.count()) + " processes for " +
                     Counted(devices, "device"),
                 "start at most one for each device of the mesh");
    return false;
  }
  return true;
}

MovedBytes MovedIn(const verify::Report& report) {
  MovedBytes out;
  for (const verify::CaseResult& result : report.results) {
    out.recorded += result.ledger.TotalSent();
    out.moved += result.ledger.moved().Total();
    out.crossed += result.ledger.crossed();
  }
  return out;
}

int Verify(const VerifyFlags& flags, const Common& common, const Ranks& ranks,
           Findings& findings) {
  if (flags.list) {
    if (!ranks.Leads()) return kDone;
    const auto write = [&](Sink& out) {
      if (common.format == "json") {
        WriteOperationsJson(out);
      } else {
        out.Append(OperationsText());
      }
    };
    return PutOut(write, findings) ? kDone : kFailed;
  }
  auto work = MakeVerifyWork(flags, ranks.count(), common, findings);
  bool begins = work && HasDevices(*work, ranks, findings);
  const bool dumps = !flags.dump.empty() && ranks.Leads();
  if (begins && dumps) begins = BeginCases(flags.dump, findings);
  if (!ranks.All(begins, findings)) return kFailed;
  verify::Keep keep;
  bool written = true;
  if (dumps) {
    keep = [&](size_t index, const verify::Case& test,
               const verify::CaseResult& result,
               const verify::CaseTensors& tensors) {
      FileSink file(CaseFile(flags.dump, index, ".json"));
      WriteDumpJson(test, result, tensors, MetricsOf(flags), file);
      written = file.Commit(findings) && written;
      if (tensors.reference.shape.empty() && tensors.trace.empty()) return;
      written = WriteToFile(CaseFile(flags.dump, index, ".safetensors"),
                            DumpTensors(tensors), findings) &&
                written;
    };
  }
  verify::Report report = verify::RunMatrix(
      work->request, std::move(work->matrix), ranks.Threads(common.threads),
      ranks.Leads() ? CountedProgress(common, "cases") : verify::Progress{},
      keep, ranks.transport());
  if (!ranks.Leads()) return kDone;
  AddProjections(*work, report);
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteVerifyJson(report, MetricsOf(flags), out);
    } else {
      out.Append(ReportText(report));
    }
  };
  if (dumps && written) written = EndCases(flags.dump, findings);
  if (!written || !PutOut(write, findings)) return kFailed;
  ReportMovedBytes(MovedIn(report), ranks, common);
  return Found(report, work->asked) ? kFound : kDone;
}

int RunVerify(const VerifyFlags& flags, const Common& common,
              Findings& findings) {
  return RunOverRanks(
      [&](const Ranks& ranks) {
        return Verify(flags, common, ranks, findings);
      },
      findings);
}

}  // namespace

Declared DeclareVerify() { return Declare(OptionsOf, RunVerify); }

}  // namespace shardc::cli
