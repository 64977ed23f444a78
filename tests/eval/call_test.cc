#include "eval/call.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tables.h"

namespace shardc::eval {
namespace {

// Returns the JSON that a function writes, or its first finding.
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
  CHECK(Evaluated("rotate_half", R"([{"x": [1, 2]}, {"x": [1], "z": 0}])") ==
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

// Returns the text with six digits of each long number, because the last digits
// of exp depend on the processor.
std::string WithSixDigits(const std::string& text) {
  static const std::regex kLong(R"(-?\d+\.\d{6,}(e-?\d+)?)");
  std::string out;
  auto last = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), kLong), end; at != end;
       ++at) {
    std::ostringstream number;
    number << std::stod(at->str());
    out.append(last, (*at)[0].first).append(number.str());
    last = (*at)[0].second;
  }
  return out.append(last, text.end());
}

// Returns the result of a call, or its findings.
std::string Answer(const std::string& name, const std::string& input,
                   const Arrays* arrays, Returned* aside) {
  Findings findings;
  const auto document =
      JsonDocument::Parse(MakeSource("input", input), findings);
  const Function* function = FindFunction(name);
  REQUIRE_MESSAGE(document, input);
  REQUIRE_MESSAGE(function != nullptr, name);
  std::string out;
  const std::string text = JsonText([&](JsonWriter& json) {
    Evaluate(*function, document->root(), arrays, aside, json, findings);
  });
  if (findings.empty()) return WithSixDigits(text);
  for (const Finding& one : findings.all()) {
    std::string_view at =
        one.place.source == nullptr
            ? "nothing"
            : one.place.source->text().substr(one.place.begin,
                                              one.place.end - one.place.begin);
    if (at.size() > 24) at = at.substr(0, 24);
    out += (out.empty() ? "" : " | ") + std::string(at) + ": " + one.message +
           " (" + one.help + ")";
  }
  return out;
}

TEST_CASE("functions return what their table lists") {
  CheckTable("eval.txt", [](const TableCase& one) {
    std::string out;
    std::istringstream lines(one.Text("calls"));
    for (std::string line; std::getline(lines, line);) {
      const size_t space = line.find(' ');
      out += Answer(line.substr(0, space), line.substr(space + 1), nullptr,
                    nullptr) +
             "\n";
    }
    return out;
  });
}

// Returns a safetensors file with one tensor.
std::string TensorFile(const std::string& dtype, const std::string& shape,
                       const std::string& bytes) {
  std::string header = R"({"__metadata__": {}, "a": {"dtype": ")" + dtype +
                       R"(", "shape": )" + shape + R"(, "data_offsets": [0, )" +
                       std::to_string(bytes.size()) + "]}}";
  std::string out(8, '\0');
  out[0] = static_cast<char>(header.size());
  return out + header + bytes;
}

TEST_CASE("arrays of every dtype that a file may have are read") {
  const struct {
    const char* dtype;
    std::string bytes;
    double value;
  } cases[] = {
      {"F32", std::string("\0\0\0\xc0", 4), -2},
      {"F64", std::string("\0\0\0\0\0\0\x08\x40", 8), 3},
      {"I8", "\xff", -1},
      {"I32", std::string("\0\1\0\0", 4), 256},
      {"I64", std::string("\5\0\0\0\0\0\0\0", 8), 5},
  };
  for (const auto& one : cases) {
    CAPTURE(one.dtype);
    Findings findings;
    const auto arrays = ReadArrays(
        MakeSource("f", TensorFile(one.dtype, "[1, 1]", one.bytes)), findings);
    REQUIRE(arrays);
    const dense::Array& a = arrays->at("a");
    CHECK(a.shape == Shape{1, 1});
    CHECK(a.data == std::vector<double>{one.value});
  }
  for (const auto& row :
       std::vector<std::array<std::string, 3>>{{"BF16", "[1]", "ab"},
                                               {"X", "[1]", "ab"},
                                               {"I8", "[2]", "a"},
                                               {"I8", "[1]", "ab"},
                                               {"I8", "[1.5]", "a"},
                                               {"I8", "3", "abc"}}) {
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    Findings findings;
    CHECK_FALSE(ReadArrays(MakeSource("f", TensorFile(row[0], row[1], row[2])),
                           findings));
    CHECK(findings.all().size() == 1);
  }
}

TEST_CASE("arrays come from a file and go to one") {
  Arrays arrays;
  arrays["a"] = {{1, 2}, {1, -2}};
  Returned aside;
  CHECK(Answer("quantize_int8", R"([{"x": {"tensor": "a"}}, {"x": "no"}])",
               &arrays, &aside)
            .starts_with("[\n  {\"result\": {\"q\": {\"tensor\": \"0/q\"}"));
  REQUIRE(aside.size() == 3);
  CHECK(aside[0].first == "0/q");
  CHECK(aside[0].second.integers == std::vector<int32_t>{64, -128});
  CHECK(aside[1].first == "0/scale");
  CHECK(aside[1].second.shape == Shape{1, 1});
  CHECK(aside[2].second.real.size() == 2);
  CHECK(Answer("rotate_half", R"({"x": {"tensor": "b"}})", &arrays, &aside) ==
        "{\"tensor\": \"b\"}: `x` names tensor `b`, which no safetensors file "
        "has ()");
  CHECK(Answer("rotate_half", R"({"x": {"tensor": 3}})", &arrays, &aside) ==
        "{\"tensor\": 3}: `x` is no array ()");
  Answer("attention",
         R"({"query": [[[[1]]]], "key": [[[[1]]]], "value": [[[[5]]]]})",
         nullptr, &aside);
  REQUIRE(aside.size() == 5);
  CHECK(aside[3].first == "output");
  CHECK(aside[3].second.wide == std::vector<double>{5});
}

TEST_CASE("arrays of any shape are read or refused") {
  // The members of each function that are arrays; `#` stands for an array.
  const std::pair<const char*, const char*> calls[] = {
      {"rotate_half", R"({"x": #})"},
      {"quantize_int8", R"({"x": #})"},
      {"repeat_kv", R"({"x": #, "n_rep": 2})"},
      {"apply_rotary_pos_emb", R"({"tensor": #, "sin": #, "cos": #})"},
      {"precompute_freq_cis",
       R"({"dim": 2, "max_position_embeddings": 1, "base": 10,
           "rope_type": "su", "short_factor": #, "long_factor": #,
           "original_max_position_embeddings": 4})"},
      {"attention", R"({"query": #, "key": #, "value": #})"},
      {"attention", R"({"query": [[[[1]]]], "key": [[[[1]]]],
                        "value": [[[[1]]]], "mask": #})"},
      {"attention", R"({"query": [[[[1]]]], "key": [[[[1]]]],
                        "value": [[[[1]]]], "bias": #})"},
      {"attention", R"({"query": [[[[1]]]], "key": [[[[1]]]],
                        "value": [[[[1]]]], "softmax_aux": #})"},
      {"attention", R"({"query": [[[[1]]]], "key": [[[[1]]]],
                        "value": [[[[1]]]], "q_segment_ids": #,
                        "kv_segment_ids": #})"},
      {"concatenate_to_cache",
       R"({"batch": 1, "max_length": 2, "num_heads": 1, "head_dim": 2,
           "quantize": true, "steps": [{"key": #, "value": #, "mask": #}]})"},
  };
  Arrays arrays;
  const int64_t huge = int64_t{1} << 40;
  for (const Shape& shape :
       {Shape{}, Shape{0}, Shape{1, 0}, Shape{0, huge}, Shape{huge, huge, 0},
        Shape{0, 0}, Shape{1, 1, 0}, Shape{1, 0, 1, 1}, Shape{1, 1, 1, 0},
        Shape{0, 1, 1, 2}, Shape{1, 1, 1, 1}, Shape{1, 1, 0, 2},
        Shape(65, 1)}) {
    const bool is_empty = std::count(shape.begin(), shape.end(), 0) > 0;
    const int64_t count = is_empty ? 0 : 1;
    arrays["a"] = {shape, std::vector<double>(static_cast<size_t>(count), 1)};
    for (const auto& [name, input] : calls) {
      const auto& given_name = name;
      CAPTURE(given_name);
      CAPTURE(ShapeText(arrays["a"]));
      const std::string text = std::regex_replace(
          std::string(input), std::regex("#"), R"({"tensor": "a"})");
      CHECK_FALSE(Answer(name, text, &arrays, nullptr).empty());
    }
  }
}

}  // namespace
}  // namespace shardc::eval
