// Malformed programs are refused with one finding, and no input is a crash.
#include "program/read.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "program/facts.h"
#include "program/programs.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

// A program with a loop and with most forms of attributes.
std::string Example() {
  ProgramText text;
  const ValueId weights = text.Input("param", "w", {3, 4, 8});
  const ValueId x = text.Input("data", "x", {2, 4});
  const auto in = text.Begin({{2, 4}, {4, 8}});
  const ValueId y = text.MatMul(in[0], in[1]);
  const ValueId half =
      text.Op("slice", {y}, {2, 4}, R"("start":[0,4],"limit":[2,8])");
  const std::string body = text.End({half});
  const ValueId out =
      text.Op("scan", {x, weights}, {2, 4},
              R"("consts":0,"carry":1,"length":3,"body":)" + body);
  const ValueId sum = text.Op("reduce", {out}, {2}, R"("fn":"sum","axes":[1])");
  return text.Json({sum});
}

std::string Replaced(std::string text, std::string_view from,
                     std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a malformed program is refused with one finding that names it") {
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"program/v1", "program/v2", "not a traced program"},
      {R"("files")", R"("filez")", "a program has no key `filez`"},
      {R"(["m.py"])", "[7]", "an entry of `files` must be a text"},
      {R"("shape":[3, 4, 8])", R"("shape":[3, -4, 8])", "a size must be"},
      {R"("shape":[3, 4, 8])", R"("shape":[9223372036854775807, 4, 8])",
       "does not fit in 64 bits"},
      {R"("kind":"param")", R"("kind":"weight")",
       "the kind of an input is `param`, `data` or `state`"},
      {R"("name":"w")", R"("name":"")", "a parameter needs a name"},
      {R"({"value":1,)", R"({"value":0,)", "value 0 is defined twice"},
      {R"({"value":1,)", R"({"value":99,)", "the number of a value must be"},
      {R"("op":"reduce","in":[6])", R"("op":"reduce","in":[7])",
       "value 7 is used before any op defines it"},
      {R"("op":"dot","in":[2,3])", R"("op":"dot","in":[1,3])",
       "value 1 is defined in another body"},
      {R"("op":"dot","in":[2,3])", R"("op":"dot","in":[2])", "1 operand"},
      {R"("op":"reduce")", R"("op":"redduce")", "is no class of ops"},
      {R"("axes":[1])", R"("axes":[2])", "an entry of `axes`"},
      {R"("axes":[1])", R"("axes":[1,1])", "has dimension 1 twice"},
      {R"("axes":[1])", R"("axes":[0])", "not [4]"},
      {R"("axes":[1])", R"("axis":[1])", "needs `axes`"},
      {R"("axes":[1])", R"("axes":[1],"why":0)", "no key `why`"},
      {R"("fn":"sum")", R"("fn":1)", "`fn` must be a text"},
      {R"("at":[0,1])", R"("at":[1,1])", "the file of `at`"},
      {R"("at":[0,1])", R"("at":[0])",
       "`at` must be the index of a file and a line"},
      {R"("start":[0,4])", R"("start":[0])", "must have 2 entries"},
      {R"("limit":[2,8])", R"("limit":[2,9])",
       "is malformed: the slice of dimension 1 is outside"},
      {R"("length":3)", R"("length":4)", "its body do not agree"},
      {R"("length":3)", R"("length":3,"phase":"later")",
       "a phase is `forward`, `backward` or `optimizer`"},
      {R"("unknown":[])", R"("unknown":{})", "`unknown` must be a list"},
      {R"("files":["m.py"])", R"("files":[])",
       "the file of `at` refers to nothing: there is none"},
      {R"("shape":[2],)", R"("shape":[2],"integers":[1],)",
       "`integers` must have the 2 elements of the value"},
      {R"("axes":[1])", R"("axes":1)", "`axes` must be a list"},
      {R"("shape":[2],)",
       R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,)"
       R"(1,1,1,1,1],)",
       "a value has at most 32 dimensions"},
      {R"("outputs":[7])", R"("outputs":[8])", "the number of a value"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.to);
    Findings findings;
    const auto program = ReadProgram(
        MakeSource("p.json", Replaced(Example(), one.from, one.to)), findings);
    CHECK_FALSE(program);
    REQUIRE(findings.all().size() == 1);
    CAPTURE(findings.all()[0].message);
    CHECK(findings.all()[0].message.find(one.message) != std::string::npos);
    CHECK(findings.all()[0].place.HasPosition());
  }
}

TEST_CASE("forms that only some ops have are checked as well") {
  const auto message = [](std::string_view op, const Shape& shape,
                          std::string_view rest) {
    ProgramText text;
    const ValueId x = text.Input("data", "x", shape);
    text.Op(op, {x, x}, shape, rest);
    Findings findings;
    CHECK_FALSE(ReadProgram(MakeSource("p.json", text.Json()), findings));
    REQUIRE(findings.all().size() == 1);
    return findings.all()[0].message;
  };
  CHECK(message("solve", {2, 2}, R"("left_side":1)") ==
        "`left_side` must be true or false");
  CHECK(message("cond", {}, R"("branches":[3])") == "a body must be an object");
}

TEST_CASE("bodies are nested only so deep") {
  const auto nested = [](int depth) {
    ProgramText text;
    const ValueId x = text.Input("data", "x", {});
    std::vector<std::vector<ValueId>> in;
    for (int i = 0; i < depth; ++i) in.push_back(text.Begin({{}}));
    std::string body = text.End({in.back()[0]});
    for (int i = depth - 2; i >= -1; --i) {
      const ValueId from = i < 0 ? x : in[static_cast<size_t>(i)][0];
      const ValueId out =
          text.Op("cond", {from, from}, {}, R"("branches":[)" + body + "]");
      if (i >= 0) body = text.End({out});
    }
    Findings findings;
    const auto program =
        ReadProgram(MakeSource("p.json", text.Json()), findings);
    if (program) FindFacts(*program);
    if (!program) {
      CHECK(findings.all()[0].message == "bodies are nested more than 32 deep");
    }
    return program.has_value();
  };
  CHECK(nested(1));
  CHECK(nested(32));
  CHECK_FALSE(nested(33));
}

TEST_CASE("a text with one changed byte is read or refused") {
  const std::string text = Example();
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char c : std::string_view("079-[]{},\"")) {
      std::string changed = text;
      changed[at] = c;
      Findings findings;
      const auto program = ReadProgram(MakeSource("p.json", changed), findings);
      CHECK(program.has_value() != findings.HasErrors());
      if (program) FindFacts(*program);
    }
  }
}

TEST_CASE("a traced program is recognised by its schema") {
  CHECK(IsProgram(MakeSource("p", Example())));
  CHECK(IsProgram(MakeSource("p", "\n { \"schema\": \"shardc.program/v9\"}")));
  CHECK_FALSE(IsProgram(MakeSource("p", "HloModule jit_f")));
  CHECK_FALSE(IsProgram(MakeSource("p", R"({"schema": "shardc.plan/v1"})")));
}

}  // namespace
}  // namespace shardc::program
