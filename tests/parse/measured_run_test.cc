// Reads files of measured runs, which `calibrate` reads: files with all keys,
// and files that are refused.
#include "parse/operations.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace shardc {
namespace {

// Returns the run as text, one line per member, or the findings.
std::string Read(const std::string& text) {
  Findings findings;
  const auto run = ParseMeasuredRun(MakeSource("runs/a.yaml", text), findings);
  std::ostringstream out;
  if (!run) {
    for (const Finding& one : findings.all()) {
      out << one.place.ToString() << " " << one.message << "\n";
    }
    return out.str();
  }
  CHECK(findings.empty());
  out << "name " << run->name << "\nmesh " << run->mesh << "\nmanifest "
      << run->manifest << "\nmodel " << run->model << "\nrules";
  for (const std::string& rule : run->rules) out << " " << rule;
  out << "\noptions";
  for (const auto& option : run->options) {
    out << " " << option.first << "=" << option.second;
  }
  for (const std::string& flag : run->flags) out << " " << flag;
  out << "\n";
  if (run->step_s) out << "step_s " << *run->step_s;
  if (run->tokens_per_second_per_device) {
    out << "rate " << *run->tokens_per_second_per_device;
  }
  out << " at " << run->place.ToString() << "\n";
  return out.str();
}

TEST_CASE("measured run: every key is read, and paths are relative to it") {
  CHECK(Read("schema: shardc.run/v1\n"
             "name: small\n"
             "mesh: 'fsdp:8'\n"
             "rules: [auto, r.yaml, 'builtin:llama']\n"
             "manifest: m.json\n"
             "model: ../config.json\n"
             "remat: nothing\noperation: vanilla\noptimizer: adamw\n"
             "grad_dtype: float32\nmaster_dtype: bfloat16\ndtype: bfloat16\n"
             "logits_dtype: float32\nmatmul_dtype: bfloat16\n"
             "moments_dtype: float32\nstack: scan\nillegal: drop\n"
             "stages: pp\nschedule: own.csv\nassign: '4,4'\np2p: exposed\n"
             "batch: 8\nseq: 4096\nmicrobatches: 2\nzero: 1\nvirtual: 2\n"
             "overlap_tp: true\n"
             "step_s: 0.5\n") ==
        "name small\n"
        "mesh fsdp:8\n"
        "manifest runs/m.json\n"
        "model runs/../config.json\n"
        "rules auto runs/r.yaml builtin:llama\n"
        "options --stages=pp --schedule=runs/own.csv --assign=4,4 "
        "--p2p=exposed --remat=nothing --operation=vanilla --optimizer=adamw "
        "--grad-dtype=float32 --master-dtype=bfloat16 --moments-dtype=float32 "
        "--dtype=bfloat16 --logits-dtype=float32 --matmul-dtype=bfloat16 "
        "--stack=scan --illegal=drop --batch=8 --seq=4096 --microbatches=2 "
        "--zero=1 --virtual=2 --overlap-tp\n"
        "step_s 0.5 at runs/a.yaml:28:9\n");
}

TEST_CASE("measured run: a run without a name has the file's") {
  CHECK(Read("schema: shardc.run/v1\nmesh: mesh.yaml\noverlap_tp: false\n"
             "tokens_per_second_per_device: 1500\n") ==
        "name runs/a.yaml\nmesh runs/mesh.yaml\nmanifest \nmodel \nrules\n"
        "options\nrate 1500 at runs/a.yaml:4:31\n");
}

TEST_CASE("measured run: what is wrong is reported at its place") {
  CHECK(Read("schema: shardc.run/v2\nstep_s: 1\n") ==
        "runs/a.yaml:1:9 `schema` is `shardc.run/v2`, not `shardc.run/v1`\n");
  CHECK(Read("mesh: 'tp:2'\nstep_s: 1\n").find("`schema`") !=
        std::string::npos);
  CHECK(Read("schema: shardc.run/v1\n").find(" the run has no time\n") !=
        std::string::npos);
  CHECK(Read("schema: shardc.run/v1\nstep_s: 1\n"
             "tokens_per_second_per_device: 2\n") ==
        "runs/a.yaml:3:31 the run has both `step_s` and "
        "`tokens_per_second_per_device`\n");
  for (const std::string line :
       {"batch: many", "seq: 1.5", "overlap_tp: 3", "name: [a]", "step: 1"}) {
    CAPTURE(line);
    const std::string found =
        Read("schema: shardc.run/v1\n" + line + "\nstep_s: 1\n");
    CHECK(found.starts_with("runs/a.yaml:2:"));
  }
  CHECK(Read("schema: shardc.run/v1\nstep_s: 0\n")
            .starts_with("runs/a.yaml:2:9 "));
  CHECK(Read("schema: shardc.run/v1\nstep_s: -1\n")
            .starts_with("runs/a.yaml:2:9 "));
}

}  // namespace
}  // namespace shardc
