#include "parse/model_section.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "parse/rules.h"

namespace shardc {
namespace {

TEST_CASE("dimensions are factors of parts") {
  const auto dim = ParseDescribedDim("n (p+r)");
  REQUIRE(dim);
  CHECK(dim->factors ==
        std::vector<std::vector<std::string>>{{"n"}, {"p", "r"}});
  for (const std::string text :
       {"", " ", "(p", "p+", "(p+)", "p)", "2", "n 2", "(p r)", "n,h"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDescribedDim(text));
  }
}

TEST_CASE("an op is results, a name, arguments, a role and a condition") {
  const auto line = ParseDescribedLine(
      "kn, w = attention(qn + qr, k?, -2.5, head.bias) @attn_out if i > 2");
  REQUIRE(line);
  CHECK(line->results == std::vector<std::string>{"kn", "w"});
  CHECK(line->op == "attention");
  REQUIRE(line->arguments.size() == 4);
  CHECK(line->arguments[0].names == std::vector<std::string>{"qn", "qr"});
  CHECK(line->arguments[1].optional);
  CHECK(line->arguments[2].is_number);
  CHECK(line->arguments[2].number == -2.5);
  CHECK(line->arguments[3].names == std::vector<std::string>{"head.bias"});
  CHECK(line->constraint == "attn_out");
  CHECK(line->when.text == "i > 2");
  for (const std::string text :
       {"", "x", "x =", "x = rope", "x = rope(", "x = rope()", "x = rope(y",
        "x = rope(y) @", "x = rope(y) z", "= rope(y)", "x, = rope(y)",
        "x = rope(y,)", "x = (y)", "x = rope(y +)", "x = rope(1.2.3)"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDescribedLine(text));
  }
}

const std::string kHead = "version: 1\nmodel:\n";
const std::string kSmall =
    "  dims:\n    d: hidden_size\n  repeat: 2\n"
    "  params:\n    a: ['a$', [d]]\n";

// Returns the message of the first finding and the text that it points at.
std::string Refused(const std::string& text) {
  Findings findings;
  const auto file = ParseRuleFile(MakeSource("r.yaml", text), findings);
  CHECK((!file || file->model == nullptr));
  REQUIRE_FALSE(findings.all().empty());
  const Finding& finding = findings.all()[0];
  return finding.message + " @ " +
         std::string(finding.place.source->text().substr(
             finding.place.begin, finding.place.end - finding.place.begin));
}

TEST_CASE("a model's section is read with its places") {
  Findings findings;
  const auto file = ParseRuleFile(
      MakeSource("r.yaml", kHead + kSmall +
                               "    b?: ['b/c$', [d], {tied: a, when: x}]\n"
                               "  layer: [x = rope(y)]\n"
                               "  window: null\n  top_k: 2\n"
                               "  rope: {pairs: halves}\n"),
      findings);
  CHECK(findings.empty());
  REQUIRE(file);
  REQUIRE(file->model != nullptr);
  const ModelDescription& model = *file->model;
  CHECK(model.separator == '/');
  REQUIRE(model.roles.size() == 2);
  CHECK(model.roles[1].optional);
  CHECK(model.roles[1].name == "b");
  CHECK(model.roles[1].tied == "a");
  CHECK(model.roles[1].when.text == "x");
  REQUIRE(model.stacks.size() == 1);
  CHECK(model.stacks[0].layer.size() == 1);
  CHECK(model.Setting("top_k")->text == "2");
  CHECK(model.Setting("rope.pairs")->text == "halves");
  CHECK(model.Setting("window") == nullptr);
  CHECK(model.roles[0].pattern.place.source == file->source);
}

TEST_CASE("an encoder has layers and roles of its own") {
  Findings findings;
  const auto file = ParseRuleFile(
      MakeSource("r.yaml",
                 kHead + kSmall +
                     "  encoder:\n    repeat: 3\n    length: 1500\n"
                     "    params:\n      n?: ['n$', [d], {shared: true}]\n"
                     "    begin: [x = rope(y)]\n    end: [x = rope(y)]\n"),
      findings);
  CHECK(findings.empty());
  REQUIRE(file);
  REQUIRE(file->model != nullptr);
  const ModelDescription& model = *file->model;
  CHECK(model.HasEncoder());
  const DescribedStack& encoder = model.stacks[kEncoderStack];
  CHECK(encoder.repeat.text == "3");
  CHECK(encoder.begin.size() == 1);
  CHECK(encoder.layer.empty());
  CHECK(encoder.end.size() == 1);
  CHECK(model.Setting("encoder.length")->text == "1500");
  REQUIRE(model.roles.size() == 2);
  CHECK(model.roles[0].stack == 0);
  CHECK_FALSE(model.roles[0].shared);
  CHECK(model.roles[1].stack == kEncoderStack);
  CHECK(model.roles[1].shared);
}

TEST_CASE("errors of a model's section are reported at their place") {
  CHECK(Refused(kHead + "  dims: {}\n  repeat: 2\n").find("`params`") !=
        std::string::npos);
  CHECK(Refused(kHead + kSmall + "  colour: red\n")
            .starts_with("unknown key `colour`"));
  CHECK(Refused(kHead + kSmall + "  layer: [x = ]\n") ==
        "the string `x =` is not an op @ x =");
  CHECK(Refused(kHead + kSmall + "    b: ['b', [n]]\n") ==
        "`n` is not one of this model's `dims` @ n");
  CHECK(Refused(kHead + kSmall + "    b: ['b', [d, '(d']]\n") ==
        "the string `(d` is not a dimension @ '(d'");
  CHECK(Refused(kHead + kSmall + "    b: 'b'\n") ==
        "the role `b` is not a pattern with a list of dimensions @ 'b'");
  CHECK(Refused(kHead + kSmall + "  axes: {n: HEAD}\n") ==
        "`n` is not one of this model's `dims` @ n");
  CHECK(Refused(kHead + "  dims:\n    t: 2\n  repeat: 2\n  params: {}\n") ==
        "`t` cannot be the name of a dimension @ t");
  CHECK(Refused(kHead + kSmall + "  encoder: {repeat: 2}\n").find("`params`") !=
        std::string::npos);
  CHECK(Refused(kHead + kSmall + "  encoder: {colour: red}\n")
            .starts_with("unknown key `colour`"));
  CHECK(Refused(kHead + kSmall + "    b: ['b', [d], {shared: 2}]\n")
            .find("`shared`") != std::string::npos);
  CHECK(Refused(kHead + kSmall + "  window: [1]\n") ==
        "`window` is a list, not an expression @ [1]");
  CHECK(Refused(kHead + kSmall + "  router: {colour: red}\n")
            .starts_with("unknown key `colour`"));
  const std::pair<std::string, std::string> fused[] = {
      {"halves", "the string `halves`"},
      {"[by_part]", "a list"},
      {"true", "the boolean `true`"}};
  for (const auto& [text, described] : fused) {
    CHECK(Refused(kHead + kSmall + "  fused: " + text + "\n") ==
          "`fused` is " + described + ", not `by_part` or `contiguous` @ " +
              text);
  }
  CHECK(Refused(kHead + kSmall + "  loss: {kind: some}\n") ==
        "`kind` of `loss` is the string `some`, not `eager`, `compiled` or "
        "`fused` @ some");
}

// Reads the section `own`, which extends `base`, and merges both.
std::shared_ptr<const ModelDescription> Derived(const std::string& own,
                                                Findings& findings) {
  const auto base = ParseRuleFile(
      MakeSource("base.yaml",
                 kHead + "  dims: {d: hidden_size, f: 4 * d}\n  repeat: 2\n"
                         "  axes: {d: EMBED, f: MLP_INTERMEDIATE}\n"
                         "  rope: {base: 10, pairs: halves}\n  window: 8\n"
                         "  loss: {kind: compiled, chunk: 512}\n"
                         "  fused: by_part\n"
                         "  params:\n"
                         "    q: ['q\\.weight$', [f, d], {bias: [f]}]\n"
                         "    k?: ['k\\.weight$', [f, d]]\n"
                         "    o: ['o\\.weight$', [d, f]]\n"
                         "  blocks:\n    in: y = linear(x, q)\n"
                         "    out: ['y = linear(y, o)', 'x = add(x, y)']\n"
                         "  layer: [in, out]\n"),
      findings);
  REQUIRE(base);
  REQUIRE(base->model_section != nullptr);
  const auto file = ParseRuleFile(
      MakeSource("own.yaml", kHead + "  extends: base.yaml\n" + own), findings,
      [&](const std::string& name, const Place&) {
        CHECK(name == "base.yaml");
        return base->model_section;
      });
  REQUIRE(file);
  return file->model;
}

std::string RolesOf(const ModelDescription& model) {
  std::string out;
  for (const DescribedRole& role : model.roles) {
    out += role.name + (role.optional ? "? " : " ") + role.pattern.text + "; ";
  }
  return out;
}

std::string OpsOf(const std::vector<DescribedLine>& lines) {
  std::string out;
  for (const DescribedLine& line : lines) out += line.op + " ";
  return out;
}

TEST_CASE("a section that extends another changes the entries it writes") {
  Findings findings;
  const auto same = Derived("  dims: {}\n", findings);
  REQUIRE(same != nullptr);
  CHECK(RolesOf(*same) ==
        "q q\\.weight$; q.bias q\\.bias$; k? k\\.weight$; o o\\.weight$; ");
  CHECK(OpsOf(same->stacks[0].layer) == "linear linear add ");

  const auto model = Derived(
      "  dims: {f: 2 * d, g: 3}\n  axes: {f: null, g: HEAD}\n"
      "  rope: {base: null}\n  window: null\n  repeat: 5\n"
      "  params:\n    first: ['first$', [g]]\n"
      "    q: ['p\\.(kernel|scale)$', [d, f], {optional_bias: [f]}]\n"
      "    qnorm: ['n$', [d]]\n    k?: null\n    more: ['m$', [d]]\n"
      "  blocks: {in: [double, double], double: y = rope(y)}\n",
      findings);
  CHECK(findings.empty());
  REQUIRE(model != nullptr);
  CHECK(RolesOf(*model) ==
        "q p\\.(kernel|scale)$; q.bias? p\\.bias$; qnorm n$; more m$; "
        "o o\\.weight$; first first$; ");
  CHECK(OpsOf(model->stacks[0].layer) == "rope rope linear add ");
  REQUIRE(model->dims.size() == 3);
  CHECK(model->dims[1].second.text == "2 * d");
  CHECK(model->dims[2].first == "g");
  CHECK(model->axes.size() == 2);
  CHECK(model->Setting("rope.base") == nullptr);
  CHECK(model->Setting("rope.pairs")->text == "halves");
  CHECK(model->Setting("window") == nullptr);
  CHECK(model->stacks[0].repeat.text == "5");
  CHECK(model->roles[0].place.source->name() == "own.yaml");
  CHECK(model->roles[4].place.source->name() == "base.yaml");
}

TEST_CASE("settings are inherited, and null removes them") {
  struct Case {
    const char* own;
    const char* name;
    const char* text;  // null: not set
  };
  const Case cases[] = {{"", "fused", "by_part"},
                        {"  fused: by_part\n", "fused", "by_part"},
                        {"  fused: contiguous\n", "fused", "contiguous"},
                        {"  fused: null\n", "fused", nullptr},
                        {"  fused:\n", "fused", nullptr},
                        {"  window: null\n", "window", nullptr},
                        {"  rope: null\n", "rope.pairs", nullptr},
                        {"  rope: {base: null}\n", "rope.base", nullptr},
                        {"  rope: {base: null}\n", "rope.pairs", "halves"},
                        {"", "loss.kind", "compiled"},
                        {"  loss: {kind: fused}\n", "loss.kind", "fused"},
                        {"  loss: {kind: fused}\n", "loss.chunk", "512"},
                        {"  loss: null\n", "loss.kind", nullptr},
                        {"  loss: null\n", "loss.chunk", nullptr},
                        {"  loss: {kind: null}\n", "loss.kind", nullptr},
                        {"  loss: {kind: null}\n", "loss.chunk", "512"},
                        {"  loss: {chunk: null}\n", "loss.chunk", nullptr}};
  for (const Case& one : cases) {
    CAPTURE(one.own);
    CAPTURE(one.name);
    Findings findings;
    const auto model = Derived(one.own, findings);
    REQUIRE(model != nullptr);
    const DescribedText* const found = model->Setting(one.name);
    CHECK((found == nullptr ? "" : found->text) ==
          (one.text == nullptr ? "" : one.text));
    CHECK((found == nullptr) == (one.text == nullptr));
  }
  Findings findings;
  CHECK(Derived("", findings)->IsFusedByPart());
  CHECK_FALSE(Derived("  fused: null\n", findings)->IsFusedByPart());
}

// Returns the first finding of a section that extends the base of Derived.
std::string RefusedDerived(const std::string& own) {
  Findings findings;
  CHECK(Derived(own, findings) == nullptr);
  REQUIRE_FALSE(findings.all().empty());
  return findings.all()[0].message + " | " + findings.all()[0].help;
}

TEST_CASE("every unknown block of a list is reported") {
  Findings findings;
  CHECK(Derived("  layer: [outt, inn]\n", findings) == nullptr);
  REQUIRE(findings.all().size() == 2);
  CHECK(findings.all()[0].message == "there is no block `outt`");
  CHECK(findings.all()[1].message == "there is no block `inn`");
}

TEST_CASE("unknown names and circles of blocks are reported") {
  CHECK(RefusedDerived("  params: {qq: null}\n") ==
        "`qq` is null, but there is no inherited entry of that name to remove"
        " | remove this entry");
  CHECK(RefusedDerived("  layer: [in, outt]\n") ==
        "there is no block `outt` | did you mean `out`?");
  CHECK(RefusedDerived("  blocks: {in: [a], a: [in]}\n")
            .starts_with("a block contains itself: `in` -> `a` -> `in` |"));
  CHECK(RefusedDerived("  dims: {f: null}\n")
            .starts_with("`f` is not one of this model's `dims` |"));
  CHECK(RefusedDerived("  params: {q: ['q_proj$', [f, d], {bias: [f]}]}\n")
            .starts_with("the pattern of `q` does not end in a word and `$`"));
  CHECK(RefusedDerived("  params: {q: ['q.w$', [f, d],"
                       " {bias: [f], optional_bias: [f]}]}\n")
            .starts_with("`q` has both `bias` and `optional_bias` |"));
  CHECK(RefusedDerived("  encoder: {begin: x = rope(x)}\n")
            .starts_with("this stack of layers has no `repeat`"));
  // Each of ten blocks inserts the previous one twice, so the list would have
  // 1,024 ops.
  std::string blocks = "  blocks:\n    in: [b10]\n    b0: y = rope(y)\n";
  for (int i = 0; i < 10; ++i) {
    const std::string one = "b" + std::to_string(i);
    blocks +=
        "    b" + std::to_string(i + 1) + ": [" + one + ", " + one + "]\n";
  }
  CHECK(RefusedDerived(blocks).starts_with("a list has more than 1,000 ops"));
  // Empty blocks, each of which inserts the previous one twice, 30 times, and
  // then a chain of 1,900 blocks.
  std::string empty = "  blocks:\n    in: [b30]\n    b0: []\n";
  for (int i = 0; i < 30; ++i) {
    const std::string one = "b" + std::to_string(i);
    empty += "    b" + std::to_string(i + 1) + ": [" + one + ", " + one + "]\n";
  }
  CHECK(RefusedDerived(empty).starts_with("a list inserts more than 10,000"));
  std::string chain = "  blocks:\n    in: [b0]\n    b1900: []\n";
  for (int i = 0; i < 1900; ++i) {
    chain +=
        "    b" + std::to_string(i) + ": [b" + std::to_string(i + 1) + "]\n";
  }
  CHECK(RefusedDerived(chain).find("in more than 32 others") !=
        std::string::npos);
  for (int i = 0; i < 200; ++i) chain += "    c" + std::to_string(i) + ": []\n";
  CHECK(RefusedDerived(chain).starts_with("a mapping has more than 2,000"));
}

TEST_CASE("a file that is read alone cannot extend another's section") {
  CHECK(Refused(kHead + "  extends: builtin:llama/hf\n") ==
        "the section `builtin:llama/hf` cannot be read where a file is read"
        " alone @ builtin:llama/hf");
}

}  // namespace
}  // namespace shardc
