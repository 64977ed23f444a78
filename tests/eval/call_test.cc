#include "eval/call.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc::eval {
namespace {

// What a function writes, or its first finding.
std::string Evaluated(std::string_view name, const std::string& input) {
  Findings findings;
  const auto document =
      JsonDocument::Parse(MakeSource("input", input), findings);
  REQUIRE(document);
  const Function* function = FindFunction(name);
  REQUIRE(function != nullptr);
  const std::string text = JsonText([&](JsonWriter& json) {
    Evaluate(*function, document->root(), nullptr, nullptr, json, findings);
  });
  return findings.empty() ? text : findings.all()[0].message;
}

TEST_CASE("functions are listed by name, each once") {
  const auto functions = Functions();
  for (size_t i = 1; i < functions.size(); ++i) {
    CHECK(functions[i - 1]->name < functions[i]->name);
  }
  CHECK(FindFunction("resolve") != nullptr);
  CHECK(FindFunction("no such function") == nullptr);
}

TEST_CASE("a registration in decode is resolved as the reference resolves it") {
  const auto spec = [](const std::string& registered, const std::string& axes) {
    return Evaluated(
        "resolve", R"({"axes": ["X"], "mode": "decode", "rules": {"axes": {)" +
                       axes + R"(}, "register": {)" + registered + "}}}");
  };
  const std::string tp = R"({"mode": "decode", "spec": ["tp"]})";
  CHECK(spec(R"("X": {"rule": ["kv_head"]})", R"("decode_kv_head": "ep")") ==
        tp);
  CHECK(spec(R"("X": {"rule": "HEAD"})", R"("decode_head": ["tp", "ep"])") ==
        tp);
  CHECK(spec(R"("X": {"rule": "head"})", R"("decode_head": ["tp", "ep"])") ==
        R"({"mode": "decode", "spec": [["tp", "ep"]]})");
  CHECK(spec(R"("X": {"rule": "Y"}, "Y": {"rule": "head"})",
             R"("decode_head": "ep")") == tp);
}

TEST_CASE("an input that cannot be used is reported at its place") {
  CHECK(Evaluated("rotate_half", "{}") == "member `x` is missing");
  CHECK(Evaluated("rotate_half", R"({"x": [[1], [2, 3]]})") ==
        "`x` is no array of numbers, or a ragged one");
  CHECK(Evaluated("rotate_half", R"({"x": [1, 2], "y": 3})") ==
        "unknown member `y`");
  CHECK(Evaluated("rotate_half", "3") == "member `x` is missing");
  CHECK(Evaluated("rotate_half", R"({"x": {"tensor": "a"}})") ==
        "`x` names tensor `a`, which no safetensors file has");
}

TEST_CASE("a list is evaluated element by element") {
  CHECK(Evaluated("rotate_half", R"([{"x": [1, 2]}, {"x": 1, "z": 0}])") ==
        "[\n  {\"result\": {\"y\": [-2, 1]}},\n  {\"error\": {\"code\": "
        "\"SHD022\", \"name\": \"schema\", \"message\": \"unknown member "
        "`z`\"}}\n]");
}

TEST_CASE("arrays without elements have no rows") {
  CHECK(Evaluated("rotate_half", R"({"x": [[], []]})") == R"({"y": [[], []]})");
  CHECK(Evaluated("quantize_int8", R"({"x": [[0, 0]]})") ==
        R"({"q": [[0, 0]], "scale": [[0]], "dequantized": [[0, 0]]})");
}

TEST_CASE("a safetensors file that does not fit is reported") {
  const auto message = [](const std::string& bytes) {
    Findings findings;
    CHECK_FALSE(ReadArrays(MakeSource("file", bytes), findings));
    REQUIRE_FALSE(findings.empty());
    return findings.all()[0].message;
  };
  CHECK(message("abc") == "this is no safetensors file: it has 3 bytes");
  CHECK(message(std::string(8, '\x7f')).starts_with("the header is "));
  const std::string header =
      R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  CHECK(message(bytes + header + std::string(4, '\0')) ==
        "tensor `a` has another dtype, or bytes that do not fit its shape");
}

}  // namespace
}  // namespace shardc::eval
