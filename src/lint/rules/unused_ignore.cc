#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kUnusedIgnore;

// lint/suppress.cc reports this lint, because it records which ignores
// suppressed a finding. Here it has no check.
constinit const Lint kUnusedIgnore{
    .code = {190, "unused-ignore", Level::kWarning,
             "a comment ignores a finding that does not exist"},
    .what =
        "Finds `# shardc: ignore[...]` comments that suppress nothing, that "
        "name no diagnostic, or that are misspelled and therefore ignore "
        "nothing. Codes whose lint did not run are not reported.",
    .why = "A stale ignore hides the next finding with its code.",
    .instead = "Remove it.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  # shardc: ignore[SHD105] for the next model
  - match: 'up/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: ColumnWise
  # shardc: ignore[SHD105] for the next model
  - match: 'w_qkv/kernel'
    spec: ColumnWise
)"}};

}  // namespace shardc
