// Compares the messages of lints about their own bad examples with the expected
// texts. If a row fails, it has the name of the lint.
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns the messages of the lint of this name, one on each line.
std::string MessagesOf(std::string_view name) {
  std::string out;
  for (const Finding& finding : FindingsOf(ExamplesOf(name).bad)) {
    if (finding.code->name != name) continue;
    out += (out.empty() ? "" : "\n") + finding.message;
  }
  return out;
}

TEST_CASE("what a lint reports of its bad example") {
  struct Row {
    std::string_view lint;
    std::string expected;
  };
  const Row kRows[] = {
      {"unescaped-dot",
       R"(a dot in `mlp.up.weight$` stands for any character, not for a dot: it also matches `layers.0.mlp_up.weight`)"},
      {"unused-definition", R"(bundle `QKV` is used by no spec)"},
      {"anchored-misses-states",
       R"(pattern `^params/layers/\d+/up/kernel$` begins with `^` and does not match 2 copies of its parameters in the training state, such as `opt_state/0/mu/layers/0/up/kernel`)"},
      {"scalar-spec",
       R"(`logit_scale` is a scalar, and the first rule that matches it has the spec ["tp"])"},
      {"gate-up-differ",
       R"(`layers/0/mlp/gate_proj/kernel` is ["fsdp", "tp"] and `layers/0/mlp/up_proj/kernel` is ["tp", "fsdp"]; their results are multiplied element by element, so that one is resharded)"},
      {"parameter-without-role",
       R"(`router.scale` has no role in the model's section)"},
      {"parameter-with-two-roles",
       R"(`unembed.head` is both `embed` and `head`)"},
      {"shape-is-not-the-roles",
       R"(`head` is [1024, 256], but [d, v] is [256, 1024])"},
      {"role-never-used",
       R"(the `model:` section does not fit this tree: the tree has no `head`)"},
      {"decode-gathers-weights",
       R"(decoding gathers `layers.0.down` over "fsdp", `embed` over "fsdp" and `layers.0.up` over "fsdp": 3 MiB of the 3 MiB that a device sends for each token of 8,192 rows, 0 B without these axes)"},
      {"gradient-all-reduced",
       R"(the gradient of `embed` is all_reduced over `fsdp`, 256 KiB a device and step of 8 rows, twice what a reduce_scatter sends. Other parameters are split over this axis; a device holds 256 KiB of this one, 128 KiB if it were split, and as much again of its gradient and of each moment)"},
      {"chatty-axis-across-hosts",
       R"(a group along tensor parallel axis `tp` spans 16 device numbers, and a host has 4: its collectives, several in each layer, cross hosts)"},
      {"uneven-hosts",
       R"(a model replica takes 6 devices (tensor times sequence parallel) and a host has 8: replicas straddle hosts unevenly)"},
      {"tensor-axis-over-slices",
       R"(tensor parallel axis `tp` spans 2 slices: every layer waits for the network between them)"},
      {"cache-reshard",
       R"(the KV cache is ["dp", "sp", "tp", null] in prefill and ["dp", null, "tp", null] in decode: it is resharded between the two)"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.lint);
    CHECK(MessagesOf(row.lint) == row.expected);
  }
}

}  // namespace
}  // namespace shardc
