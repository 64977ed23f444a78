#include "parse/model_section.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "parse/rule_file.h"

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

TEST_CASE(
    "lines are results, an op, arguments, a sharding constraint and a "
    "condition") {
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
  CHECK(line->anchor == "attn_out");
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

// The first finding's message and the text it points at.
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

TEST_CASE("errors of a model section have a place") {
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
}

}  // namespace
}  // namespace shardc
