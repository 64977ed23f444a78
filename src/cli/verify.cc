// `shardc verify`: sharded attention on a simulated mesh against the dense
// reference.
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "cli/commands.h"
#include "cli/dump_files.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verify_list.h"
#include "cli/verify_request.h"
#include "cli/verify_step.h"
#include "emit/verify/dump.h"
#include "emit/verify/report_text.h"
#include "emit/verify/verify_json.h"
#include "exec/machine/buffer.h"
#include "exec/machine/mesh_sim.h"
#include "source/file_sink.h"
#include "source/thread_pool.h"
#include "source/wording.h"
#include "verify/answers/known_answers.h"
#include "verify/report.h"
#include "verify/sharpness.h"

namespace shardc::cli {
namespace {

Metrics MetricsOf(const VerifyFlags& flags) {
  return flags.metrics == "stacked" ? Metrics::kStacked : Metrics::kReduced;
}

// Whether the run makes the exit status 1.
bool Found(const verify::Report& report, bool asked) {
  if (report.Count(verify::Status::kFail) > 0 || report.NothingRan()) {
    return true;
  }
  return asked && report.Count(verify::Status::kUnsupported) > 0;
}

// A line on the terminal that is written over; nothing elsewhere.
verify::Progress ProgressLine(const Common& common, std::string_view what) {
  if (common.quiet || isatty(STDERR_FILENO) != 1) return {};
  return [what](size_t done, size_t all, const std::string& within) {
    constexpr size_t kWidth = 30;
    const size_t filled = done * kWidth / all;
    std::string line = "\r[" + std::string(filled, '#') +
                       std::string(kWidth - filled, ' ') + "] " +
                       std::to_string(done) + "/" + std::to_string(all) + " " +
                       std::string(what);
    if (!within.empty()) line += ", " + within;
    line += "\x1b[K";
    if (done == all) line = "\r\x1b[K";
    WriteAll(STDERR_FILENO, line);
  };
}

int RunSelfTestCommand(bool of_steps, const Common& common,
                       Findings& findings) {
  std::function<void(size_t, size_t)> tell;
  if (const auto line = ProgressLine(common, "faults")) {
    tell = [line](size_t done, size_t all) { line(done, all, ""); };
  }
  if (of_steps) return RunStepSelfTestCommand(common, tell, findings);
  const verify::SelfTest result =
      verify::RunSelfTest({}, ThreadsOr(common.threads), tell);
  const verify::Sharpness sharpness =
      verify::OfferWrongOutputs(ThreadsOr(common.threads));
  const verify::KnownAnswers known = verify::AskKnownAnswers();
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteSelfTestJson(result, sharpness, known, out);
    } else {
      out.Append(SelfTestText(result) + SharpnessText(sharpness) +
                 KnownAnswersText(known));
    }
  };
  if (!PutOut(write, findings)) return kFailed;
  return result.Holds() && sharpness.Holds() && known.Hold() ? kDone : kFound;
}

// What is of one process: a finding, to start it so.
bool IsForOne(const VerifyFlags& flags, const Ranks& ranks,
              Findings& findings) {
  if (ranks.count() == 1 || !flags.self_test) return true;
  if (ranks.Leads()) {
    findings.Add(code::kUsage, {},
                 "`--self-test` runs in one process, and " +
                     std::to_string(ranks.count()) + " were started",
                 "start it without mpirun or srun");
  }
  return false;
}

// Every rank holds a device at least.
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

// What went from device to device, of all cases.
void TellMoved(const verify::Report& report, const Ranks& ranks,
               const Common& common) {
  int64_t recorded = 0, moved = 0, crossed = 0;
  for (const verify::CaseResult& result : report.results) {
    recorded += result.ledger.TotalSent();
    moved += result.ledger.moved().Total();
    crossed += result.ledger.crossed();
  }
  Tell(common, ranks.MovedText(recorded, moved, crossed));
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
  if (flags.steps_of.empty() && !SuitsNoStep(flags, findings)) return kFailed;
  if (!IsForOne(flags, ranks, findings)) return kFailed;
  if (flags.self_test) {
    return RunSelfTestCommand(!flags.steps_of.empty(), common, findings);
  }
  if (!flags.steps_of.empty()) {
    return RunVerifyStep(flags, common, ranks, findings);
  }
  auto work = MakeVerifyWork(flags, findings);
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
      if (tensors.reference.shape.empty()) return;
      written = WriteWhole(CaseFile(flags.dump, index, ".safetensors"),
                           DumpTensors(tensors), findings) &&
                written;
    };
  }
  const verify::Report report = verify::RunMatrix(
      work->request, std::move(work->matrix), ranks.Threads(common.threads),
      ranks.Leads() ? ProgressLine(common, "cases") : verify::Progress{}, keep,
      ranks.transport());
  if (!ranks.Leads()) return kDone;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteVerifyJson(report, MetricsOf(flags), out);
    } else {
      out.Append(ReportText(report));
    }
  };
  if (!written || !PutOut(write, findings)) return kFailed;
  if (ranks.count() > 1) TellMoved(report, ranks, common);
  return Found(report, work->asked) ? kFound : kDone;
}

int RunVerify(const VerifyFlags& flags, const Common& common,
              Findings& findings) {
  const auto ranks = Ranks::Join(findings);
  if (!ranks) return kFailed;
  return ranks->End(Verify(flags, common, *ranks, findings), findings);
}

}  // namespace

const Command kVerify = {
    .name = "verify",
    .summary = "run sharded attention, or a whole step, on a simulated mesh",
    .about = R"(
Runs attention operations, and decoding over a KV cache, on a simulated mesh
exactly as the specs say, and compares with a dense float64 reference. The
matrix is operations by modes by layouts by dtypes; each case passes, fails
with its error and the axis at fault, or is unsupported with the reason, and
shows the bytes that the busiest device sends.

An element of the output passes if its error is at most twice that of the same
operation on one device plus *16 u32 max|reference|*, below an absolute cap,
and its own rounding, *1.3 u |reference|*, in 16 bits. Quantised products and
softmax in 16 bits are compared with a reference that rounds as they were asked
to. Where no reduction crosses devices the bits must be those of the unsharded
run. Layouts are proven first with unique ids, and the bytes that each device
sends by each kind of collective must equal closed formulas.

Sizes are the smallest that keep which axes divide heads, lengths, batch and
packed tokens, and how heads nest in devices; `--full` runs those given. What
cannot run is told in the sizes given, and the last column is what these would
send, by formula. One long case in bfloat16 always runs.

Settings of operations come from flags, from `--settings` (see
shardc-operations(5)), and from the model's `config.json`: the scale of its
products (`query_pre_attn_scalar`, `attention_multiplier`), its soft cap
(`attn_logit_softcapping`) and its attention sinks; the rotary base and scaling
of keys in a cache (`rope_theta`, `rope_scaling`: linear, dynamic, yarn,
llama3); and the sizes of a latent row (`kv_lora_rank`, `qk_rope_head_dim`,
`v_head_dim`; `--attention latent=N,rope_dim=N` without a model). Notes below
the table say what the model changed. `--dump` writes inputs, result and reference of each
case as safetensors with its settings as JSON. `--list` says of each operation
what it does with a split dimension. `--self-test` injects every fault of a
catalogue and counts those that are caught; it also offers zeros, outputs that
are turned by one place and outputs that lack a key in every case of a matrix
of all operations, dtypes and roundings, all of which must be refused.

A target of the project says with `operations` (a list, or lists by mode),
`layout`, `dtype`, `kv_dtype` and `settings` what is run where flags do not.

With `--step` it runs the whole step of the model instead, from the embedding to
the optimizer, as the `model:` section of the rules describes it: every op on
shards, with the collectives that the plan's specs and the semantic axes of the
mode make necessary. It lists these with what the busiest device sends at real
sizes (`--batch`, `--seq`), layers that are alike on one line, and the ops in
which an axis could serve several dimensions, where a compiler may choose
otherwise. By `--policy published` weights move over the axes of batch, sequence
and fully sharded data, activations over the others, and where that does not
decide, or by `--policy cost`, what sends least; of equal choices the one with
fewer collectives, then with less work on a device, then the first in the order
of the mesh's axes and the op's dimensions. Then the same program is run at small
sizes: every value, gradient, new parameter and cache must be the dense model's,
to 1e-12 in float64, in narrower dtypes within four times what one device was
off by up to there and 18 roundings of float32 (in 16 bits experts are chosen as
the reference chooses them); replicas must agree in bits, gradients lie as their parameters, each
pending sum be reduced once, and the bytes sent be those of the formulas. With
`--operation` attention is run by the operation named, forward and backward: it
brings queries and keys to where it runs, exchanges lengths for heads, or passes
keys round a ring, and with them their gradients; what it cannot run with the
plan's specs makes the step unsupported. Paged operations have no step. `--part 'layer 3'`
(or `encoder 3`, `model`, `optimizer`) limits lines, clashes and totals to that part; a layer
is then proved alone, between the model's begin and end. `--full` runs the proof
at the real sizes on the whole mesh, of up to 64 devices, and refuses with 2
where memory does not hold it; `--dump` writes every input, and every value that
was compared with its reference, numbered in the order of the ops, and with
settings what each number stands for. With
`--self-test` faults are injected into ten small steps of its own: into
collectives, ops, programs and inputs; each must change what the devices hold or
send, and be noticed by the check that its row names.

With `--remat` what a layer does not keep is computed anew in the backward phase
of a training step, and proved like the rest. What a device holds when it holds
most, at real sizes, stands below the totals. With `--microbatches` the batch is
run in parts, one forward and back after the other, whose losses are divided by
the tokens of all of them; their gradients are added and reduced once, or each
by itself (`--reduce-each`).

Of a build with MPI, `mpirun -n N shardc verify` (or `srun`) spreads the
devices over N processes, at most one a device: each holds the arrays of its
own, collectives are MPI's, and the first one judges and prints, with the
verdicts, errors and bytes of one process. Inputs are read on all machines.
`--self-test` runs in one process.

Exits with 1 when an operation that was asked for, or that the target lists,
fails or is unsupported; otherwise when one fails or none could run.)",
    .example =
        "shardc verify --mesh dp:2,sp:2,tp:2 --attention "
        "heads=32,kv_heads=8,head_dim=128,batch=4,q_len=128,kv_len=4096",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunVerify); },
};

}  // namespace shardc::cli
