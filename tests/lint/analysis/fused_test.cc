// Matrices with several parts, and mixers, under names that do not show what
// they are: each row has the parameters of a block, and the part of a finding
// that states the parts. Blocks whose matrices hold one part each give none.
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"
#include "source/finding.h"

namespace shardc {
namespace {

struct Param {
  std::string name, shape;
  std::string spec = "[tp]";
};

struct Row {
  std::string_view what;
  std::vector<Param> params;
  // The findings about parts, one a line, up to how the matrix is split.
  std::string expected = {};
  std::string_view model = {};
};

bool IsAboutParts(const Finding& finding) {
  const std::string id = finding.code->Id();
  return id == "SHD221" || id == "SHD227" || id == "SHD230" || id == "SHD231" ||
         id == "SHD232";
}

std::string PartsFound(const Row& row) {
  std::string rules = "version: 1\nseparator: '.'\nrules:\n", manifest;
  for (const Param& param : row.params) {
    rules += "  - {match: '^" + param.name + "$', spec: " + param.spec + "}\n";
    manifest += (manifest.empty() ? "" : ", ") + ("\"" + param.name) +
                "\": {\"shape\": " + param.shape + ", \"dtype\": \"BF16\"}";
  }
  manifest =
      R"({"schema": "shardc.manifest/v1", "separator": ".", "params": {)" +
      manifest + "}}";
  std::string errors, out;
  const LintResult result = LintExampleText({.mesh = "tp:4",
                                             .rules = rules,
                                             .manifest = manifest,
                                             .model = row.model},
                                            &errors);
  if (!errors.empty()) return errors;
  for (const Finding& finding : result.findings) {
    if (!IsAboutParts(finding)) continue;
    const size_t end = finding.message.find(" and is ");
    out += (out.empty() ? "" : "\n") + finding.message.substr(0, end);
  }
  return out;
}

void CheckRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(PartsFound(row) == row.expected);
  }
}

const std::string kIn = "[null, tp]";

TEST_CASE("the parts of a matrix follow from the shapes of its block") {
  CheckRows({
      {"twice what is read: keys and values, or a gate",
       {{"a.0.b", "[12288, 2048]"}, {"a.0.c", "[2048, 6144]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (of unknown sizes; `a.0.c` "
       "reads 6144)"},
      {"the same, transposed",
       {{"a.0.b", "[2048, 12288]", kIn}, {"a.0.c", "[6144, 2048]"}},
       "dimension 1 of `a.0.b` holds several parts (of unknown sizes; `a.0.c` "
       "reads 6144)"},
      {"a name of the block is an MLP's",
       {{"a.0.mlp.b", "[12288, 2048]"}, {"a.0.mlp.c", "[2048, 6144]", kIn}},
       "dimension 0 of `a.0.mlp.b` holds several parts (gate and up each 6144; "
       "`a.0.mlp.c` reads 6144)"},
      {"the configuration has this intermediate size",
       {{"a.0.b", "[12288, 2048]"}, {"a.0.c", "[2048, 6144]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (gate and up each 6144; "
       "`a.0.c` reads 6144)",
       R"({"hidden_size": 2048, "intermediate_size": 6144})"},
      {"stacked experts",
       {{"a.0.b", "[8, 1536, 512]", "[null, tp]"},
        {"a.0.c", "[8, 512, 768]", "[null, null, tp]"}},
       "dimension 1 of `a.0.b` holds several parts (of unknown sizes; `a.0.c` "
       "reads 768)"},
      {"square gate and up of experts, oriented as their down projection",
       {{"a.0.bank.wi", "[8, 2048, 2048]", "[null, null, tp]"},
        {"a.0.bank.wo", "[8, 1024, 2048]", "[null, tp]"}},
       "dimension 2 of `a.0.bank.wi` holds several parts (gate and up each "
       "1024; `a.0.bank.wo` reads 1024)"},
      {"square gate and up of experts, [out, in]",
       {{"a.0.b", "[8, 2048, 2048]", "[null, tp]"},
        {"a.0.c", "[8, 2048, 1024]", "[null, null, tp]"}},
       "dimension 1 of `a.0.b` holds several parts (of unknown sizes; `a.0.c` "
       "reads 1024)"},
      {"gate and up in one matrix, before one whose name is that of an up "
       "projection elsewhere",
       {{"a.0.mlp.w12.weight", "[11264, 2048]"},
        {"a.0.mlp.w3.weight", "[2048, 5632]", kIn}},
       "dimension 0 of `a.0.mlp.w12.weight` holds several parts (gate and up "
       "each 5632; `a.0.mlp.w3.weight` reads 5632)"},
      {"the same, and the name of the fused matrix is an up projection's too",
       {{"a.0.mlp.wi.weight", "[11264, 2048]"},
        {"a.0.mlp.w3.weight", "[2048, 5632]", kIn}},
       "dimension 0 of `a.0.mlp.wi.weight` holds several parts (gate and up "
       "each 5632; `a.0.mlp.w3.weight` reads 5632)"},
      {"grouped queries, next to an MLP of one part",
       {{"a.0.b", "[6144, 4096]"},
        {"a.0.c", "[4096, 4096]", kIn},
        {"a.0.d", "[14336, 4096]"},
        {"a.0.e", "[4096, 14336]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (queries 4096, keys 1024 "
       "and values 1024; `a.0.c` reads 4096)"},
      {"heads that are wider than the model",
       {{"a.0.b", "[6144, 2560]"}, {"a.0.c", "[2560, 4096]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (queries 4096, keys 1024 "
       "and values 1024; `a.0.c` reads 4096)"},
      {"three parts",
       {{"a.0.b", "[2304, 768]"}, {"a.0.c", "[768, 768]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (3 equal parts, each 768; "
       "`a.0.c` reads 768)"},
      {"attention next to a gated MLP",
       {{"a.0.b", "[27648, 3072]"}, {"a.0.c", "[3072, 12288]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (queries, keys and values "
       "each 3072 and gate and up each 9216; `a.0.c` reads 12288)"},
      {"queries, keys and values, or attention next to an MLP",
       {{"a.0.b", "[21504, 3072]"}, {"a.0.c", "[3072, 15360]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (of unknown sizes; `a.0.c` "
       "reads 15360)"},
      {"a part that 4 does not divide",
       {{"a.0.mlp.b", "[12, 512]"}, {"a.0.mlp.c", "[512, 6]"}},
       "dimension 0 of `a.0.mlp.b` is 12 wide and holds several parts, gate "
       "and "
       "up each 6, axis `tp` has 4: 6 % 4 = 2"},
      {"modulations",
       {{"a.0.b.weight", "[18432, 3072]"},
        {"a.0.b.bias", "[18432]"},
        {"a.0.c.weight", "[12288, 3072]"},
        {"a.0.d.weight", "[3072, 12288]", kIn}},
       "dimension 0 of `a.0.b.weight` holds several parts (6 equal parts, each "
       "3072; its input is 3072)"},
      {"modulations of a norm, which are no norm's scale",
       {{"a.0.norm1.linear.weight", "[6144, 3072]"},
        {"a.0.norm1.linear.bias", "[6144]"}},
       "dimension 0 of `a.0.norm1.linear.weight` holds several parts (2 equal "
       "parts, each 3072; its input is 3072)"},
  });
}

TEST_CASE("matrices that hold one part are not reported") {
  CheckRows({
      {"an MLP without a gate",
       {{"a.0.b", "[8192, 2048]"}, {"a.0.c", "[2048, 8192]", kIn}}},
      {"an MLP with a gate of its own",
       {{"a.0.b", "[8192, 2048]"},
        {"a.0.c", "[8192, 2048]"},
        {"a.0.d", "[2048, 8192]", kIn}}},
      {"separate queries, keys and values, heads wider than the model",
       {{"a.0.q", "[4096, 2560]"},
        {"a.0.k", "[1024, 2560]"},
        {"a.0.v", "[1024, 2560]"},
        {"a.0.o", "[2560, 4096]", kIn}}},
      {"queries with a gate next to keys and values",
       {{"a.0.q", "[8192, 2048]"},
        {"a.0.k", "[512, 2048]"},
        {"a.0.v", "[512, 2048]"},
        {"a.0.o", "[2048, 4096]", kIn}}},
      {"an up projection that is as wide as the model",
       {{"a.0.bank.wi", "[8, 2048, 2048]", "[null, null, tp]"},
        {"a.0.bank.wo", "[8, 2048, 2048]", "[null, tp]"},
        {"a.0.norm.scale", "[2048]", "[]"}}},
      {"square matrices of experts next to two others",
       {{"a.0.bank.b", "[8, 2048, 2048]", "[null, null, tp]"},
        {"a.0.bank.c", "[8, 1024, 2048]", "[null, tp]"},
        {"a.0.bank.d", "[8, 1024, 2048]", "[null, tp]"}}},
      {"a gate, an up and a down projection of Meta's names",
       {{"a.0.mlp.w1.weight", "[2048, 1024]"},
        {"a.0.mlp.w3.weight", "[2048, 1024]"},
        {"a.0.mlp.w2.weight", "[1024, 2048]", kIn}}},
      {"square matrices",
       {{"a.0.q", "[1024, 1024]"},
        {"a.0.k", "[1024, 1024]"},
        {"a.0.v", "[1024, 1024]"},
        {"a.0.o", "[1024, 1024]", kIn}}},
      {"latent attention",
       {{"a.0.q", "[3072, 2048]"},
        {"a.0.ka", "[576, 2048]"},
        {"a.0.kb", "[4096, 512]"},
        {"a.0.o", "[2048, 2048]", kIn}}},
      {"latent attention with latent queries",
       {{"a.0.qa", "[1536, 7168]"},
        {"a.0.qb", "[24576, 1536]"},
        {"a.0.ka", "[576, 7168]"},
        {"a.0.kb", "[32768, 512]"},
        {"a.0.o", "[7168, 16384]", kIn}}},
      {"a matrix that writes what another reads, of unknown orientation",
       {{"a.0.b", "[17920, 5120]"},
        {"a.0.c", "[5120, 35840]", "[]"},
        {"a.0.d", "[5120, 7680]", "[]"},
        {"a.0.e", "[5120, 5120]", "[]"}}},
      {"matrices of other layers",
       {{"a.0.b", "[12288, 2048]"}, {"a.1.c", "[2048, 6144]", kIn}}},
      {"a projection of another model's width",
       {{"a.0.b.weight", "[4096, 2048]"},
        {"a.0.c.weight", "[512, 4096]", kIn}}},
      {"Megatron's interleaved heads",
       {{"a.0.attention.linear_qkv.weight", "[6144, 4096]"},
        {"a.0.attention.linear_proj.weight", "[4096, 4096]", kIn}}},
  });
}

TEST_CASE("a mixer's parts follow from its convolution") {
  const auto net = [](std::vector<Param> params, std::string expected) {
    params.push_back({"a.0.conv", "[8192, 1, 4]"});
    params.push_back({"a.0.x", "[32]"});
    params.push_back({"a.0.y", "[32]"});
    params.push_back({"a.0.norm", "[128]", "[]"});
    params.push_back({"a.0.out", "[2048, 4096]", kIn});
    return Row{"delta net", std::move(params), std::move(expected)};
  };
  const std::string channels =
      "dimension 0 of `a.0.conv` holds queries 2048, keys 2048 and values 4096 "
      "one after the other";
  CheckRows({
      net({{"a.0.b", "[8192, 2048]"},
           {"a.0.c", "[4096, 2048]"},
           {"a.0.d", "[32, 2048]"},
           {"a.0.e", "[32, 2048]"}},
          "dimension 0 of `a.0.b` stores several parts one after the other "
          "(queries 2048, keys 2048 and values 4096)\n" +
              channels),
      net({{"a.0.b", "[12352, 2048]"}},
          "dimension 0 of `a.0.b` holds queries 2048, keys 2048, values 4096, "
          "gate 4096, beta 32 and decay 32 one after the other\n" +
              channels),
      net({{"a.0.b", "[12288, 2048]"}, {"a.0.c", "[64, 2048]"}},
          "dimension 0 of `a.0.b` holds several parts (queries 2048, keys "
          "2048, "
          "values 4096 and gate 4096; `a.0.out` reads 4096)\n" +
              channels),
      {"Mamba-2",
       {{"a.0.b", "[8512, 2048]"},
        {"a.0.conv", "[4352, 1, 4]"},
        {"a.0.x", "[64]"},
        {"a.0.y", "[64]"},
        {"a.0.z", "[64]"},
        {"a.0.norm", "[4096]", "[]"},
        {"a.0.out", "[2048, 4096]", kIn}},
       "dimension 0 of `a.0.b` holds gate 4096, input 4096, B 128, C 128 and "
       "time step 64 one after the other\n"
       "dimension 0 of `a.0.conv` holds input 4096, B 128 and C 128 one after "
       "the other"},
      {"a gated convolution",
       {{"a.0.b", "[6144, 2048]"},
        {"a.0.conv", "[2048, 1, 3]"},
        {"a.0.out", "[2048, 2048]", kIn}},
       "dimension 0 of `a.0.b` holds several parts (3 equal parts, each 2048; "
       "`a.0.out` reads 2048)"},
      {"a mixer without B and C, whose parts may be interleaved by head",
       {{"a.0.mixer.in_proj", "[8192, 2048]"},
        {"a.0.mixer.conv1d", "[4096, 1, 4]"},
        {"a.0.mixer.out_proj", "[2048, 4096]", kIn}},
       "dimension 0 of `a.0.mixer.in_proj` holds several parts (2 equal parts, "
       "each 4096; `a.0.mixer.out_proj` reads 4096)"},
      {"PLaMo 2 interleaves them",
       {{"a.0.mixer.in_proj", "[8192, 2048]"},
        {"a.0.mixer.conv1d", "[4096, 1, 4]"},
        {"a.0.mixer.out_proj", "[2048, 4096]", kIn}},
       "",
       R"({"model_type": "plamo2"})"},
  });
}

TEST_CASE("a mixer's vectors and convolution are split with its projections") {
  const auto row = [](std::string_view what, const std::string& vectors,
                      const std::string& output, std::string expected) {
    return Row{what,
               {{"a.0.b", "[8192, 2048]"},
                {"a.0.c", "[4096, 2048]"},
                {"a.0.d", "[32, 2048]"},
                {"a.0.e", "[32, 2048]"},
                {"a.0.conv", "[8192, 1, 4]", vectors},
                {"a.0.x", "[32]", vectors},
                {"a.0.y", "[32]", vectors},
                {"a.0.out", "[2048, 4096]", output}},
               std::move(expected)};
  };
  const std::string fused =
      "dimension 0 of `a.0.b` stores several parts one after the other "
      "(queries 2048, keys 2048 and values 4096)\n";
  CheckRows({
      row("replicated next to split projections", "[]", kIn,
          fused + "`a.0.x` holds a number for each of 32 heads\n"
                  "`a.0.y` holds a number for each of 32 heads\n"
                  "`a.0.conv` holds a kernel for each of 8192 channels"),
      row("split", "[tp]", kIn,
          fused + "dimension 0 of `a.0.conv` holds queries 2048, keys 2048 and "
                  "values 4096 one after the other"),
      {"separate projections with one convolution, a decay for each channel, "
       "and a vector of heads that is stored for broadcasting",
       {{"a.0.q", "[4096, 2304]"},
        {"a.0.k", "[4096, 2304]"},
        {"a.0.v", "[4096, 2304]"},
        {"a.0.b", "[32, 2304]"},
        {"a.0.conv", "[12288, 1, 4]", "[]"},
        {"a.0.A_log", "[1, 1, 32, 1]", "[]"},
        {"a.0.dt_bias", "[4096]", "[]"},
        {"a.0.norm", "[128]", "[]"},
        {"a.0.out", "[2304, 4096]", kIn}},
       "`a.0.A_log` holds a number for each of 32 heads\n"
       "`a.0.conv` holds a kernel for each of 12288 channels\n"
       "`a.0.dt_bias` holds a number for each of 4096 channels"},
      {"the convolution is split as one",
       {{"a.0.q", "[4096, 2304]"},
        {"a.0.k", "[4096, 2304]"},
        {"a.0.v", "[4096, 2304]"},
        {"a.0.b", "[32, 2304]"},
        {"a.0.conv", "[12288, 1, 4]"},
        {"a.0.out", "[2304, 4096]", kIn}},
       "dimension 0 of `a.0.conv` holds 3 equal parts, each 4096 one after "
       "the other"},
      row("the outputs of the projections are gathered", "[]", "[tp]", ""),
      row("only the projections are split", "[]", "[]", ""),
  });
}

}  // namespace
}  // namespace shardc
