// The texts that `shardc explain CODE` prints for mistakes in compiled
// programs, which `shardc audit` and `shardc check` report. The programs of the
// examples are in the text form of XLA, reduced to the instructions that
// matter. Programs of JAX with the same mistakes are in
// testdata/audit/findings. For example, SHD601 is reported for this mistake:
//
//   an all-gather of `negate(x)` over dp, the axis that shards x
#include <array>

#include "emit/findings/pages/page.h"
#include "source/audit_code.h"

namespace shardc {

std::span<const CodePage> ProgramPages() {
  static constexpr std::array kPages = {
      CodePage{.code = &code::kActivationGathered,
               .what =
                   "Finds an all-gather of a floating-point activation over "
                   "an axis that shards the first dimension of an input. "
                   "Gathers that the author wrote inside of `shard_map` are "
                   "left out.",
               .why = "Every device then holds and computes the activations of "
                      "the other devices' examples too: the axis adds traffic "
                      "and saves nothing from there on.",
               .fix = "Look at the sharding constraint at or after the line: "
                      "`with_sharding_constraint(h, P(None, None, 'tp'))` "
                      "gathers the batch, because None means unsharded. Write "
                      "the axes of the batch in its place.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %n = f32[2,8]{1,0} negate(%x)
  ROOT %g = f32[8,8]{1,0} all-gather(%n), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  ROOT %n = f32[2,8]{1,0} negate(%x)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kGatheredThenSliced,
               .what = "Finds an all-gather whose result every use slices "
                       "again, so that each device keeps a part. XLA's log "
                       "calls it an involuntary full rematerialization.",
               .why = "Each device receives the entire tensor, and needs "
                      "memory for it, to keep a part that an all-to-all would "
                      "have sent directly.",
               .fix = "Change one of the two sharding constraints around the "
                      "line so that both agree, or go from one to the other in "
                      "steps that move one mesh axis each.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %n = f32[2,8]{1,0} negate(%x)
  %g = f32[8,8]{1,0} all-gather(%n), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=3}
  %c = s32[] constant(0)
  ROOT %d = f32[8,2]{1,0} dynamic-slice(%g, %c, %c), dynamic_slice_sizes={8,2}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %n = f32[2,8]{1,0} negate(%x)
  ROOT %e = f32[2,8]{1,0} all-to-all(%n), replica_groups={{0,1,2,3}}, dimensions={1}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kWeightGatheredTwice,
               .what = "Finds two all-gathers of the same part of a parameter "
                       "over the same devices, in one computation and one pass "
                       "of the step.",
               .why = "The second gather sends the same bytes again. It is "
                      "needed only where the first result was freed in "
                      "between, as for a recomputed forward pass, which is not "
                      "reported.",
               .fix = "Constrain the parameter to its gathered sharding once, "
                      "and use that value at both places.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %a = f32[8,8]{1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=5}
  %b = f32[8,8]{1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=7}
  ROOT %r = f32[8,8]{1,0} add(%a, %b)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %a = f32[8,8]{1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=5}
  ROOT %r = f32[8,8]{1,0} add(%a, %a)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kWeightHoisted,
               .what = "Finds an all-gather of a stacked parameter, outside of "
                       "loops, that keeps the dimension of the layers, in a "
                       "program with a loop of as many steps.",
               .why = "Each device then holds the gathered weights of all "
                      "layers at once. Gathered inside the loop, the weights "
                      "of one layer at a time need memory.",
               .fix = "Move the sharding constraint of the parameter into the "
                      "loop's body. If the compiler moved the gather itself, "
                      "put `jax.lax.optimization_barrier` around the parameter "
                      "inside the body.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

%cond {
  %s = (s32[], f32[4,8,8]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(4)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

%body {
  %s.1 = (s32[], f32[4,8,8]) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %w.1 = f32[4,8,8]{2,1,0} get-tuple-element(%s.1), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i.1, %one)
  ROOT %t.1 = (s32[], f32[4,8,8]) tuple(%next, %w.1)
}

ENTRY %main {
  %w = f32[4,2,8]{2,1,0} parameter(0), sharding={devices=[1,4,1]<=[4]}, metadata={op_name="p['w']"}
  %g = f32[4,8,8]{2,1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={1}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=9}
  %zero = s32[] constant(0)
  %t = (s32[], f32[4,8,8]) tuple(%zero, %g)
  ROOT %l = (s32[], f32[4,8,8]) while(%t), condition=%cond, body=%body
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

%cond {
  %s = (s32[], f32[4,8,8]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(4)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

%body {
  %s.1 = (s32[], f32[4,8,8]) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %w.1 = f32[4,8,8]{2,1,0} get-tuple-element(%s.1), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i.1, %one)
  ROOT %t.1 = (s32[], f32[4,8,8]) tuple(%next, %w.1)
}

ENTRY %main {
  %w = f32[4,8,8]{2,1,0} parameter(0), sharding={devices=[1,1,1,4]<=[4] last_tile_dim_replicate}, metadata={op_name="p['w']"}
  %x = f32[2,8]{1,0} parameter(1), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %zero = s32[] constant(0)
  %t = (s32[], f32[4,8,8]) tuple(%zero, %w)
  ROOT %l = (s32[], f32[4,8,8]) while(%t), condition=%cond, body=%body
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kGradientNotScattered,
               .what =
                   "Finds an all-reduce in the backward pass with the shape "
                   "of a parameter before it is sharded, of which no device "
                   "takes only its slice.",
               .why = "Every device receives the entire gradient, twice the "
                      "bytes of a reduce-scatter, and needs memory for it, "
                      "although it holds and updates a part of the parameter.",
               .fix = "Give the gradients the shardings of the parameters: "
                      "with `out_shardings` of the step, or with a sharding "
                      "constraint on the gradients before the optimizer.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %d = f32[8,8]{1,0} broadcast(%w)
  ROOT %r = f32[8,8]{1,0} all-reduce(%d), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/transpose(jvp(f))/dot_general" source_file="model.py" source_line=6}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %d = f32[8,8]{1,0} broadcast(%w)
  ROOT %r = f32[2,8]{1,0} reduce-scatter(%d), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/transpose(jvp(f))/dot_general" source_file="model.py" source_line=6}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kOutputGathered,
               .what = "Finds an all-gather without a source line whose result "
                       "is an output of the program. XLA makes it where an "
                       "output's declared sharding differs from what the "
                       "program computes.",
               .why = "The output is sent to all devices in every step, and "
                      "each needs memory for all of it.",
               .fix = "Declare the output's sharding in `out_shardings` as the "
                      "program computes it, or leave it out.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %n = f32[2,8]{1,0} negate(%x)
  ROOT %g = f32[8,8]{1,0} all-gather(%n), replica_groups={{0,1,2,3}}, dimensions={0}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  ROOT %n = f32[2,8]{1,0} negate(%x)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kSentInWiderDtype,
               .what =
                   "Finds a gather, all-to-all or permute of a value that "
                   "was just cast to a wider floating-point type, and, as a "
                   "note, a reduction whose result is rounded to a narrower "
                   "one. Programs are read right after partitioning, and "
                   "those of TPUs also as they are optimised.",
               .why = "The collective sends two or four times the bytes. For a "
                      "gather the result is the same if the cast comes after "
                      "it.",
               .fix = "Constrain the narrow value to the sharding that the "
                      "computation needs, then cast it.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = bf16[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %f = f32[2,8]{1,0} convert(%w)
  ROOT %g = f32[8,8]{1,0} all-gather(%f), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=8}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = bf16[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  %g = bf16[8,8]{1,0} all-gather(%w), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=8}
  ROOT %f = f32[8,8]{1,0} convert(%g)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kManySmallCollectives,
               .what = "Finds eight or more collectives of one kind over the "
                       "same devices in one computation of an optimised "
                       "program, from few operations of the source, each "
                       "sending less than 4 KiB.",
               .why = "The time of so small a collective is its latency. The "
                      "compiler combines independent ones, so those that are "
                      "left wait for each other.",
               .fix = "Stack the values and reduce them once, or reduce after "
                      "the loop instead of in every step of it.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4, is_scheduled=true

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %a0 = f32[2,8]{1,0} negate(%x)
  %a1 = f32[2,8]{1,0} all-reduce(%a0), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a2 = f32[2,8]{1,0} all-reduce(%a1), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a3 = f32[2,8]{1,0} all-reduce(%a2), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a4 = f32[2,8]{1,0} all-reduce(%a3), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a5 = f32[2,8]{1,0} all-reduce(%a4), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a6 = f32[2,8]{1,0} all-reduce(%a5), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  %a7 = f32[2,8]{1,0} all-reduce(%a6), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
  ROOT %a8 = f32[2,8]{1,0} all-reduce(%a7), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4, is_scheduled=true

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %a0 = f32[2,8]{1,0} negate(%x)
  ROOT %a1 = f32[2,8]{1,0} all-reduce(%a0), replica_groups={{0,1,2,3}}, metadata={op_name="jit(step)/mul" source_file="model.py" source_line=4}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kAxisUnusedInProgram,
               .what = "Finds an axis of the mesh that shards no argument and "
                       "over which no collective runs.",
               .why = "The groups of devices along the axis hold the same data "
                      "and compute the same results, so its devices add "
                      "nothing.",
               .fix = "Shard the batch or the weights over the axis, or give "
                      "its devices to another axis.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, metadata={op_name="x"}
  ROOT %n = f32[4,8]{1,0} negate(%x)
}
$ shardc audit step.hlo.txt --mesh dp:2,tp:2 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  ROOT %n = f32[2,8]{1,0} negate(%x)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kHostTransfer,
               .what = "Finds transfers to and from the host inside the "
                       "program: callbacks such as `jax.debug.print`, infeeds "
                       "and outfeeds, and host sends and receives.",
               .why = "The devices wait for the host in every step, and the "
                      "host's Python runs on the path of the step.",
               .fix = "Remove callbacks from the compiled step, or run a "
                      "second compiled step with them every so many steps. "
                      "Offloading of activations is reported too; leave it out "
                      "with `--ignore SHD610` where it is intended.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  ROOT %c = f32[2,8]{1,0} custom-call(%x), custom_call_target="xla_ffi_python_cpu_callback", metadata={op_name="jit(step)/debug_callback" source_file="model.py" source_line=2}
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %x = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  ROOT %n = f32[2,8]{1,0} negate(%x)
}
$ shardc audit step.hlo.txt --mesh dp:4 --fail-on warning
)"},
      CodePage{.code = &code::kOverAuditBudget,
               .what = "Compares the text of the target's compiled program "
                       "with its budget in shardc.yaml. An entry over axes "
                       "limits the collectives over exactly these axes, "
                       "whatever their order; one without axes limits all of "
                       "its kind.",
               .why = "A budget holds what a team has decided, such as that "
                      "no activation is gathered over tp. A change of a model "
                      "or of a compiler that breaks it would be found on "
                      "hardware only, as a slower step.",
               .fix = "List what is sent with `shardc audit`, and mend the "
                      "sharding constraint at the line that sends most. If "
                      "the traffic is intended, raise the budget.",
               .bad = R"(--- shardc.yaml
version: 1
targets:
  small:
    mesh: fsdp:2,tp:4
    rules: rules.yaml
    manifest: manifest.json
    audit:
      program: step.hlo.txt
      budget: {all_gather: {fsdp: 0}}
--- rules.yaml
version: 1
rules:
  - match: up/kernel
    spec: ColumnWise
--- manifest.json
{"schema": "shardc.manifest/v1", "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
--- step.hlo.txt
HloModule jit_step, num_partitions=8

ENTRY %main {
  %w = bf16[512,1024]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}, metadata={op_name="p['up']['kernel']"}
  ROOT %g = bf16[1024,1024]{1,0} all-gather(%w), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}, metadata={op_name="jit(step)/jvp(layer)/dot_general" source_file="model.py" source_line=3}
}
$ shardc check
)",
               .good = R"(--- shardc.yaml
version: 1
targets:
  small:
    mesh: fsdp:2,tp:4
    rules: rules.yaml
    manifest: manifest.json
    audit:
      program: step.hlo.txt
      budget: {all_gather: {fsdp: 2MiB}}
--- rules.yaml
version: 1
rules:
  - match: up/kernel
    spec: ColumnWise
--- manifest.json
{"schema": "shardc.manifest/v1", "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
--- step.hlo.txt
HloModule jit_step, num_partitions=8

ENTRY %main {
  %w = bf16[512,1024]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}, metadata={op_name="p['up']['kernel']"}
  ROOT %g = bf16[1024,1024]{1,0} all-gather(%w), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}, metadata={op_name="jit(step)/jvp(layer)/dot_general" source_file="model.py" source_line=3}
}
$ shardc check
)"},
      CodePage{.code = &code::kTrafficGrew,
               .what = "With `--locked`, compares the bytes that the target's "
                       "compiled program sends, by kind of collective and "
                       "axes, with the committed summary. Up to 1 % and 4 KiB "
                       "more do not count, unless nothing was sent before. "
                       "Numbers of collectives and source lines are not "
                       "compared: compilers and edits of other code change "
                       "them.",
               .why = "The summary shows in review what a change makes the "
                      "program send. Without it, traffic grows unseen.",
               .fix = "Look at the line of the finding. If the growth is "
                      "intended, write the summary again with `shardc plan "
                      "--write-locked`.",
               .bad = R"(--- shardc.yaml
version: 1
targets:
  small:
    mesh: fsdp:2,tp:4
    rules: rules.yaml
    manifest: manifest.json
    audit:
      program: step.hlo.txt
      locked: step.audit.json
--- rules.yaml
version: 1
rules:
  - match: up/kernel
    spec: ColumnWise
--- manifest.json
{"schema": "shardc.manifest/v1", "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
--- step.hlo.txt
HloModule jit_step, num_partitions=8

ENTRY %main {
  %w = bf16[512,1024]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}, metadata={op_name="p['up']['kernel']"}
  ROOT %g = bf16[1024,1024]{1,0} all-gather(%w), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}, metadata={op_name="jit(step)/jvp(layer)/dot_general" source_file="model.py" source_line=3}
}
--- step.audit.json
{"schema": "shardc.audit-lock/v1", "program": "jit_step", "devices": 8, "stage": "partitioned", "collectives": [], "findings": []}
$ shardc check --locked
)",
               .good = R"(--- shardc.yaml
version: 1
targets:
  small:
    mesh: fsdp:2,tp:4
    rules: rules.yaml
    manifest: manifest.json
    audit:
      program: step.hlo.txt
      locked: step.audit.json
--- rules.yaml
version: 1
rules:
  - match: up/kernel
    spec: ColumnWise
--- manifest.json
{"schema": "shardc.manifest/v1", "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
--- step.hlo.txt
HloModule jit_step, num_partitions=8

ENTRY %main {
  %w = bf16[512,1024]{1,0} parameter(0), sharding={devices=[2,4]<=[8]}, metadata={op_name="p['up']['kernel']"}
  ROOT %g = bf16[1024,1024]{1,0} all-gather(%w), replica_groups={{0,4},{1,5},{2,6},{3,7}}, dimensions={0}, metadata={op_name="jit(step)/jvp(layer)/dot_general" source_file="model.py" source_line=3}
}
--- step.audit.json
{"schema": "shardc.audit-lock/v1", "program": "jit_step", "devices": 8, "stage": "partitioned", "collectives": [{"collective": "all_gather", "axes": ["fsdp"], "group_size": 2, "bytes_per_device": 1048576, "what": "parameter", "parameter": "up/kernel", "shape": "bf16[512,1024]", "line": {"function": null}}], "findings": []}
$ shardc check --locked
)"},
      CodePage{.code = &code::kWeightResharded,
               .what = "Finds parameters that a collective-permute or an "
                       "all-to-all moves outside of `shard_map`, and "
                       "parameters that are gathered over an axis for a "
                       "matrix product whose other operand is gathered over "
                       "the same axis.",
               .why = "The spec of the parameter shards other dimensions than "
                      "the computation needs, as [tp, fsdp] does where [fsdp, "
                      "tp] fits the constraints of the activations. The weight "
                      "is then moved at each use, or every device of the axis "
                      "computes the entire product.",
               .fix = "Exchange the axes in the spec of the parameter, or "
                      "change the constraint of the activations so that both "
                      "agree.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="p['w']"}
  ROOT %e = f32[2,8]{1,0} all-to-all(%w), replica_groups={{0,1,2,3}}, dimensions={1}, metadata={op_name="jit(step)/dot_general" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh tp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %w = f32[8,2]{1,0} parameter(0), sharding={devices=[1,4]<=[4]}, metadata={op_name="p['w']"}
  ROOT %n = f32[8,2]{1,0} negate(%w)
}
$ shardc audit step.hlo.txt --mesh tp:4 --fail-on warning
)"},
      CodePage{.code = &code::kLookupOfBatch,
               .what = "Finds all-gathers of the indices of a lookup over axes "
                       "of the batch. XLA makes them if the same axes shard "
                       "the table.",
               .why = "Each device looks up the tokens of the other devices in "
                      "its part of the table, and the rows are exchanged in "
                      "the forward and in the backward pass. They are often "
                      "larger than the table.",
               .fix = "Shard the table over axes that do not shard the batch, "
                      "such as the rows over `tp`, or constrain it to that "
                      "sharding before the lookup, so that the table itself is "
                      "gathered once.",
               .bad = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %t = s32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="tokens"}
  %w = f32[64,2]{1,0} parameter(1), sharding={devices=[1,4]<=[4]}, metadata={op_name="p['table']"}
  %i = s32[8,8]{1,0} all-gather(%t), replica_groups={{0,1,2,3}}, dimensions={0}, metadata={op_name="jit(step)/gather" source_file="model.py" source_line=3}
  ROOT %r = f32[8,8,2]{2,1,0} gather(%w, %i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,2}, metadata={op_name="jit(step)/gather" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh fsdp:4 --fail-on warning
)",
               .good = R"(--- step.hlo.txt
HloModule jit_step, num_partitions=4

ENTRY %main {
  %t = s32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="tokens"}
  %w = f32[64,8]{1,0} parameter(1), sharding={replicated}, metadata={op_name="p['table']"}
  ROOT %r = f32[2,8,8]{2,1,0} gather(%w, %t), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,8}, metadata={op_name="jit(step)/gather" source_file="model.py" source_line=3}
}
$ shardc audit step.hlo.txt --mesh fsdp:4 --fail-on warning
)"},
  };
  return kPages;
}

}  // namespace shardc
