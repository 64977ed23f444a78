#include "lint/rules/all.h"

namespace shardc {

// Found by locked.cc, which reads the committed plan.
constinit const Lint kPlanOutOfDate{
    .code = {195, "plan-out-of-date", Level::kError,
             "the committed plan is not what the inputs give"},
    .what =
        "With `--locked`, compares the committed plan with the one that "
        "the inputs give now, and lists what differs.",
    .why =
        "A change of rules, mesh or parameters moves shards. In a plan "
        "under review it is seen; in a stale one it is not.",
    .instead =
        "Look at the difference, then write the plan anew with `shardc "
        "plan --write-locked`.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)",
            .locked = R"({"schema": "shardc.plan/v1", "fingerprint": "sha256:0",
 "mesh": {"axes": [{"name": "fsdp", "size": 2, "type": "auto"},
                   {"name": "tp", "size": 4, "type": "auto"}], "devices": 8},
 "modes": ["train", "prefill", "decode", "insert"],
 "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16",
                          "spec": ["tp", "fsdp"]}}}
)"},
    .good = {.locked =
                 R"({"schema": "shardc.plan/v1", "fingerprint": "sha256:0",
 "mesh": {"axes": [{"name": "fsdp", "size": 2, "type": "auto"},
                   {"name": "tp", "size": 4, "type": "auto"}], "devices": 8},
 "modes": ["train", "prefill", "decode", "insert"],
 "params": {"up/kernel": {"shape": [1024, 4096], "dtype": "BF16",
                          "spec": ["fsdp", "tp"]}}}
)"}};

}  // namespace shardc
