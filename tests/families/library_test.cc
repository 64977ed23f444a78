#include "families/description.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "families/configs.h"
#include "families/families.h"
#include "temporary_folder.h"

namespace shardc::families {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

// Builds the tree of a config with descriptions of these names and texts.
std::optional<Manifest> Built(const Files& files, const std::string& config,
                              Findings& findings) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : files) folder.Write(name, text);
  return BuildTree(*Config(config), "hf", findings, folder.path().string());
}

std::vector<std::string> NamesOf(const Manifest& tree) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tree.tensors) names.emplace_back(tensor.name);
  return names;
}

// Returns the name of the file, the message and the help of the first finding.
std::string RefusedWith(const Files& files, const std::string& config) {
  Findings findings;
  CHECK_FALSE(Built(files, config, findings));
  REQUIRE_FALSE(findings.empty());
  const Finding& finding = findings.all()[0];
  std::string place = finding.place.ToString();
  place.erase(0, place.rfind('/') + 1);
  return place + ": " + finding.message + " -> " + finding.help;
}

TEST_CASE("a family of a folder is built, and wins over a bundled one") {
  const Files files(
      {{"acme.yaml", "tree: {wide: 'linear(size, 3)'}\n"},
       {"llama.yaml", "like: llama\nblocks: {final_norm(): {last: norm(7)}}\n"},
       {"notes.txt", "not a description"}});
  Findings findings;
  const auto acme =
      Built(files, R"({"model_type": "acme", "size": 2})", findings);
  REQUIRE(acme);
  CHECK(NamesOf(*acme) == std::vector<std::string>{"wide.weight"});
  CHECK(acme->notes.size() == 1);  // the dtype is assumed
  const auto llama = Built(files, "{" + kSmall + "}", findings);
  REQUIRE(llama);
  CHECK(NamesOf(*llama)[19] == "model.last.weight");
  REQUIRE(llama->notes.size() == 2);
  CHECK(llama->notes[1].find("llama.yaml`, in place of the bundled") !=
        std::string::npos);
  // A bundled family that is like Llama is like the bundled one.
  const auto mistral =
      Built(files, With("model_type", "\"mistral\""), findings);
  REQUIRE(mistral);
  CHECK(NamesOf(*mistral)[19] == "model.norm.weight");
  CHECK(findings.empty());
}

TEST_CASE("errors of a folder's descriptions are reported at their place") {
  struct Wrong {
    std::string_view text;
    std::string_view message;
  };
  static constexpr std::array<Wrong, 14> kWrong = {{
      {"tree: {a: 'norm(1'}", "wrong.yaml:1:11: `norm(1` cannot be read"},
      {"tree: {a: nrom(1)}",
       "wrong.yaml:1:8: there is no module or block `nrom` -> did you mean "
       "`norm`?"},
      {"tree: {a: 'linear(1)'}",
       "wrong.yaml:1:8: `linear` is called with 1 argument -> it has 2 to 3"},
      {"blocks: {b(x): {c: norm(x)}}\ntree: {a: b()}",
       "wrong.yaml:2:8: `b` is called with 0 arguments -> it has 1"},
      {"tree: {a: norm(size(1))}",
       "wrong.yaml:1:8: there is no function `size`"},
      {"let: {n: 'len(1, 2)'}\ntree: {a: norm(n)}",
       "wrong.yaml:1:10: `len` is called with 2 arguments -> it has 1"},
      {"tree: {a: float32(1)}",
       "wrong.yaml:1:8: the argument of `float32` is not a module"},
      {"tree: {'a[3': norm(1)}",
       "wrong.yaml:1:8: the count of a repetition does not end in `]`"},
      {"tree: {'': norm(1)}", "wrong.yaml:1:8: a key of a tree has no name"},
      {"like: lama",
       "wrong.yaml:1:7: there is no description of a family `lama` -> did you "
       "mean `llama`?"},
      {"like: wrong",
       "wrong.yaml:1:7: there is no description of a family `wrong`"},
      {"version: 1", "wrong.yaml: the description has no `tree`"},
      {"tree: {a: norm(1)}\ntrees: 1", "wrong.yaml:2:1: "},
      {"tree: 7", "wrong.yaml:1:7: a tree is "},
  }};
  for (const auto& wrong : kWrong) {
    const std::string_view text = wrong.text, message = wrong.message;
    CAPTURE(text);
    const std::string refused =
        RefusedWith({{"wrong.yaml", std::string(text)}}, "{" + kSmall + "}");
    CAPTURE(refused);
    CHECK(refused.find(message) == 0);
  }
}

TEST_CASE("descriptions without an end are refused") {
  const std::string config = R"({"model_type": "a"})";
  CHECK(RefusedWith({{"a.yaml", "like: b"}, {"b.yaml", "like: a"}}, config)
            .find("the keys `like` and `uses` lead through more than 8") !=
        std::string::npos);
  CHECK(RefusedWith({{"a.yaml",
                      "blocks: {b(): {x: b(), y: b()}}\n"
                      "tree: {a: b()}"}},
                    config)
            .find("called wrongly") != std::string::npos);
  std::string deep = "let:\n";
  for (int i = 0; i < 1000; ++i) {
    deep += "  v" + std::to_string(i) + ": v" + std::to_string(i + 1) + "\n";
  }
  CHECK(RefusedWith({{"a.yaml", deep + "tree: {a: norm(v0)}"}}, config)
            .find("the values of `let` use one another more than 64") !=
        std::string::npos);
  CHECK(RefusedWith(
            {{"a.yaml", "tree: {'a[i < 9999]': 'norm(1 + count(z, i))'}"}},
            R"({"model_type": "a", "z": ")" + std::string(10000, 'z') + "\"}")
            .find("takes more than 20 million steps") != std::string::npos);
}

TEST_CASE("a folder that has no descriptions is refused") {
  const std::string config = "{" + kSmall + "}";
  CHECK(RefusedWith({{"notes.txt", ""}}, config)
            .find("the folder has no description of a family") !=
        std::string::npos);
  CHECK(RefusedWith({{"acme.yml", "tree: {a: norm(1)}"}}, config)
            .find("the name of a family's description ends in `.yaml` -> "
                  "rename the file to `acme.yaml`") != std::string::npos);
  const auto document = Config(config);
  Findings findings;
  CHECK_FALSE(BuildTree(*document, "hf", findings, "/nonexistent/folder"));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message.starts_with(
      "the folder of families cannot be read: "));
}

TEST_CASE("texts are lists of characters, and entries are counted") {
  Findings findings;
  const auto tree = Built({{"a.yaml", R"(
tree:
  layers[i < len(kinds)]:
    conv if kinds[i] == 'M': norm(1 + count(kinds, 'M', i))
    other if not kinds[i] in 'M': float32(tensor(count(list, 3)))
)"}},
                          R"({"model_type": "a", "kinds": "M-M",
                              "list": [3, 1, 3], "dtype": "bfloat16"})",
                          findings);
  REQUIRE(tree);
  CHECK(NamesOf(*tree) == std::vector<std::string>{"layers.0.conv.weight",
                                                   "layers.1.other",
                                                   "layers.2.conv.weight"});
  CHECK(tree->TypeOf(tree->tensors[0]) == TensorType{{{1}}, Dtype::kBF16});
  CHECK(tree->TypeOf(tree->tensors[1]) == TensorType{{{2}}, Dtype::kF32});
  CHECK(tree->TypeOf(tree->tensors[2]) == TensorType{{{2}}, Dtype::kBF16});
  CHECK(findings.empty());
}

TEST_CASE("roots are rounded down, and a description can refuse a config") {
  const std::string family = R"(
let:
  size: isqrt(square) if not has(odd) else refuse('odd models are unknown')
tree: {a: norm(size)}
)";
  Findings findings;
  const auto tree = Built({{"a.yaml", family}},
                          R"({"model_type": "a", "square": 99})", findings);
  REQUIRE(tree);
  CHECK(tree->TypeOf(tree->tensors[0]) == TensorType{{{9}}, Dtype::kF32});
  CHECK(
      RefusedWith({{"a.yaml", family}},
                  R"({"model_type": "a", "square": 9, "odd": 1})")
          .find("odd models are unknown -> give a manifest of its checkpoint, "
                "or a folder with a description: `--families DIR`") !=
      std::string::npos);
}

}  // namespace
}  // namespace shardc::families
