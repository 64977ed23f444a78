// `shardc verify`: compares sharded attention on a simulated mesh with the
// dense reference.
#include <algorithm>

#include "cli/commands.h"
#include "cli/dump_files.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verify_list.h"
#include "cli/verify_process.h"
#include "cli/verify_projections.h"
#include "cli/verify_request.h"
#include "emit/verify/dump.h"
#include "emit/verify/report_text.h"
#include "emit/verify/verify_json.h"
#include "exec/machine/mesh_sim.h"
#include "source/file_sink.h"
#include "source/thread_pool.h"
#include "source/wording.h"
#include "verify/report.h"

namespace shardc::cli {
namespace {

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
  if (begins && dumps) begins = MakeFolder(flags.dump, findings);
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
      ranks.Leads() ? ProgressLine(common, "cases") : verify::Progress{}, keep,
      ranks.transport());
  if (!ranks.Leads()) return kDone;
  AddProjections(*work, report);
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteVerifyJson(report, MetricsOf(flags), out);
    } else {
      out.Append(ReportText(report));
    }
  };
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

const Command kVerify = {
    .name = "verify",
    .summary = "run sharded attention and KV caches on a simulated mesh",
    .about = R"(
Runs attention operations, and decoding over a KV cache, on a simulated mesh
as the specs shard them, and compares the results with a dense float64
reference. `shardc verify step` does so for the whole step of a model. The cases
are operations by modes by layouts by dtypes; each case passes, fails with its
error and the axis at fault, or is unsupported with the reason, and shows the
bytes that the busiest device sends.

An element of the output passes if its error is at most twice that of the same
operation on one device plus *16 u32 max|reference|*, below an absolute cap,
plus its own rounding, *1.3 u |reference|*, in 16 bits. Quantised products and
softmax in 16 bits are compared with a reference that rounds in the same way.
Where no collective adds values, the bits must equal those of the unsharded
run. Layouts are proven first with unique ids, and the bytes that each device
sends by each kind of collective must equal closed formulas.

Sizes are reduced to the smallest that keep which axes divide heads, lengths,
batch and packed tokens, and how heads nest in devices. The longest axes of a
mesh of more than 8 devices are shortened as well, where sizes exist that the
shorter axes divide in the same way. `--full` runs the sizes and the mesh given.
A case that cannot run at the sizes given is reported with those sizes,
and the last column is what the given sizes would send, by formula. One long
case in bfloat16 always runs; a note reports it where `--dtype` names other dtypes.

With `--manifest`, or a target that has one, the specs of the query, key, value
and output projections are compared with the axis rules: a projection that
shards heads over other axes than attention does, or inside a head, fails. Notes
name the parameters that could not be compared, and why.

Settings of operations come from flags, from `--settings` (see
shardc-operations(5)), and from the model's `config.json`: the scale of its
products (`query_pre_attn_scalar`, `attention_multiplier`), its soft cap
(`attn_logit_softcapping`) and its attention sinks; the rotary base and scaling
of keys in a cache (`rope_theta`, `rope_scaling`: linear, dynamic, yarn,
llama3); and the sizes of a latent row (`kv_lora_rank`, `qk_rope_head_dim`,
`v_head_dim`; `--attention latent=N,rope_dim=N` without a model). Notes below
the table list what the model changed. `--dump` writes inputs, result and
reference of each case as safetensors with its settings as JSON. `--list` prints
for each operation what it does with a split dimension.

A target of the project selects with `operations` (a list, or lists by mode),
`layout`, `dtype`, `kv_dtype` and `settings` what runs where flags do not.

With a build that has MPI, `mpirun -n N shardc verify` (or `srun`) spreads the
devices over N processes, at most one a device: each holds the arrays of its
own devices, collectives are MPI's, and the first process checks and prints,
with the verdicts, errors and bytes of a run in one process. Every machine reads
the inputs.

Exits with 1 when an operation named by a flag or by the target fails or is
unsupported; otherwise when one fails, a projection among them, or none could
run.)",
    .example =
        "shardc verify --mesh dp:2,sp:2,tp:2 --attention "
        "heads=32,kv_heads=8,head_dim=128,batch=4,q_len=128,kv_len=4096",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunVerify); },
};

}  // namespace shardc::cli
