#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kPlanOutOfDate;

// The example is a complete plan, because all members are compared. Each line
// of the macro is a line of the file.
// clang-format off
#define SHARDC_EXAMPLE_PLAN(spec) \
  "{\n" \
  "  \"schema\": \"shardc.plan/v1\",\n" \
  "  \"fingerprint\": \"sha256:7405e6036520ef51eaa0c2e51be70c6ed1b32816c3219681690c4c478763f000\",\n" \
  "  \"mesh\": {\"axes\": [{\"name\": \"fsdp\", \"size\": 2, \"type\": \"auto\"}, {\"name\": \"tp\", \"size\": 4, \"type\": \"auto\"}], \"devices\": 8},\n" \
  "  \"modes\": [\"train\", \"prefill\", \"decode\", \"insert\"],\n" \
  "  \"rules\": [\n" \
  "    {\"match\": \"up/kernel\", \"source\": \"rules.yaml:3\", \"params\": 1, \"matched\": 1}\n" \
  "  ],\n" \
  "  \"params\": {\n" \
  "    \"up/kernel\": {\"shape\": [1024, 4096], \"dtype\": \"BF16\", \"spec\": " spec ", \"rule\": 0, \"shard_shape\": [512, 1024], \"bytes_per_device\": 1048576}\n" \
  "  },\n" \
  "  \"attention\": {\n" \
  "    \"train\": {\"query3d\": [\"fsdp\", \"tp\", null], \"query\": [\"fsdp\", null, \"tp\", null], \"key\": [\"fsdp\", null, \"tp\", null], \"value\": [\"fsdp\", null, \"tp\", null], \"bias\": [\"fsdp\", null, null, null], \"mask\": [\"fsdp\", null, null, null], \"output\": [\"fsdp\", null, \"tp\", null], \"q_segment_ids\": [\"fsdp\", null], \"kv_segment_ids\": [\"fsdp\", null]},\n" \
  "    \"prefill\": {\"query3d\": [\"fsdp\", \"tp\", null], \"query\": [\"fsdp\", null, \"tp\", null], \"key\": [\"fsdp\", null, \"tp\", null], \"value\": [\"fsdp\", null, \"tp\", null], \"bias\": [\"fsdp\", null, null, null], \"mask\": [\"fsdp\", null, null, null], \"output\": [\"fsdp\", null, \"tp\", null], \"q_segment_ids\": [\"fsdp\", null], \"kv_segment_ids\": [\"fsdp\", null]},\n" \
  "    \"decode\": {\"query3d\": [\"fsdp\", \"tp\", null], \"query\": [\"fsdp\", null, \"tp\", null], \"key\": [\"fsdp\", null, \"tp\", null], \"value\": [\"fsdp\", null, \"tp\", null], \"bias\": [\"fsdp\", null, null, null], \"mask\": [\"fsdp\", null, null, null], \"output\": [\"fsdp\", null, \"tp\", null], \"q_segment_ids\": [\"fsdp\", null], \"kv_segment_ids\": [\"fsdp\", null]},\n" \
  "    \"insert\": {\"query3d\": [\"fsdp\", \"tp\", null], \"query\": [\"fsdp\", null, \"tp\", null], \"key\": [\"fsdp\", null, \"tp\", null], \"value\": [\"fsdp\", null, \"tp\", null], \"bias\": [\"fsdp\", null, null, null], \"mask\": [\"fsdp\", null, null, null], \"output\": [\"fsdp\", null, \"tp\", null], \"q_segment_ids\": [\"fsdp\", null], \"kv_segment_ids\": [\"fsdp\", null]}\n" \
  "  },\n" \
  "  \"summary\": {\"params\": 1, \"elements\": 4194304, \"bytes\": 8388608, \"bytes_per_device\": 1048576, \"unmatched\": 0, \"corrected\": 0}\n" \
  "}\n"
// clang-format on

// lint/locked.cc reports this lint, because it reads the committed plan. Here
// it has no check.
constinit const Lint kPlanOutOfDate{
    .code = {195, "plan-out-of-date", Level::kError,
             "the committed plan is not the plan of the inputs"},
    .what =
        "With `--locked`, compares the committed plan field by field with the "
        "plan of the present inputs, and lists the differences. A file with "
        "the same content in another order is a note. A committed step program "
        "(`step:` in a target) is compared collective by collective, equal "
        "layers together.",
    .why =
        "A change of rules, mesh or parameters changes shards. A committed "
        "plan shows it in review; a stale one does not.",
    .instead =
        "Review the difference, then write the plan with `shardc plan "
        "--write-locked`.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)",
            .locked = SHARDC_EXAMPLE_PLAN("[\"tp\", \"fsdp\"]")},
    .good = {.locked = SHARDC_EXAMPLE_PLAN("[\"fsdp\", \"tp\"]")}};

}  // namespace shardc
