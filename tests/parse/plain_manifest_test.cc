#include "parse/manifest.h"

#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "draws.h"
#include "same_manifest.h"
#include "source/plain_json.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

constexpr std::string_view kPlain[] = {
    R"({"schema": "shardc.manifest/v1", "params": [
        {"name": "b/w", "shape": [4, 8], "dtype": "BF16"},
        {"dtype": "float32", "shape": [], "name": "a/w"},
        {"name": "c/w", "shape": null, "dtype": null}]})",
    R"({"params":[{"name":"w","shape":[0],"dtype":"I8"}],"naming":"hf",
        "model":"m","separator":".","schema":"shardc.manifest/v1"} )",
    R"({"schema": "shardc.manifest/v1", "params": {
        "b.w": {"shape": [4], "dtype": "F8_E4M3"},
        "a.w": {"dtype": "F32", "shape": [1, 2, 3]}}})",
    R"({"params": [{"name": "w", "shape": [12], "dtype": "BF16"},
                   {"name": "v", "shape": [12], "dtype": "BF16"}]})",
    R"({"schema": "shardc.manifest/v1", "params": []})",
    R"({"b.w": {"shape": [2], "dtype": "F32"},
        "a.w": {"dtype": null, "shape": [4, 2]}})",
    R"({"params": {"w": {"shape": [2], "dtype": "F32"}, "v": {"b":
        {"dtype": "BF16", "shape": null}, "a": {"shape": [3], "dtype": "I8"}}},
        "a": {"shape": [2], "dtype": "F32"}, "none": {},
        "shape": {"dtype": {"shape": [1], "dtype": "F32"}}})",
    R"({"a/b": {"shape": [2], "dtype": "F32"},
        "b": {"a": {"shape": [2], "dtype": "F32"}}})",
};

// Texts, valid or not, that the plain reader leaves to the full reader.
constexpr std::string_view kOther[] = {
    "",
    "[]",
    R"({"params": []})",
    "{}",
    R"({"a": {}, "b": {}})",
    R"({"a": {"w": {"shape": [2], "dtype": "F32"}}, "a": {}})",
    R"({"a/b": {"shape": [2], "dtype": "F32"}, "a/b": {}})",
    R"({"a": {"shape": [2], "dtype": "F32"}, "a": {"b": {"shape": [2],
        "dtype": "F32"}}})",
    R"({"a/b": {"shape": [2], "dtype": "F32"}, "a": {"b": {"shape": [2],
        "dtype": "F32"}}})",
    R"({"a": {"shape": [2], "dtype": "F32", "more": 1}})",
    R"({"a": {"shape": [2]}})",
    R"({"a": {"w": {"shape": [2], "dtype": "F32"}, "shape": [2]}})",
    R"({"a": [{"shape": [2], "dtype": "F32"}]})",
    R"({"model_type": "x", "a": {"shape": [2], "dtype": "F32"}})",
    R"({"a": {"": {"shape": [2], "dtype": "F32"}}})",
    R"({"schema": "other", "params": []})",
    R"({"schema": "shardc.manifest/v1", "params": [], "params": []})",
    R"({"schema": "shardc.manifest/v1", "params": [], "other": 1})",
    R"({"schema": "shardc.manifest/v1", "params": []} x)",
    R"({"schema": "shardc.manifest/v1", "params": [], })",
    R"({"params": [{"name": "w", "shape": [1]}]})",
    R"({"params": [{"name": "w", "shape": [1], "dtype": ""}]})",
    R"({"params": [{"name": "w", "shape": [-1], "dtype": "F32"}]})",
    R"({"params": [{"name": "w", "shape": [01], "dtype": "F32"}]})",
    R"({"params": [{"name": "w", "shape": [1.0], "dtype": "F32"}]})",
    R"({"params": [{"name": "", "shape": [1], "dtype": "F32"}]})",
    R"({"params": [{"name": "\u0061", "shape": [1], "dtype": "F32"}]})",
    R"({"params": [{"name": "é", "shape": [1], "dtype": "F32"}]})",
    R"({"params": [{"name": "w", "shape": [1], "dtype": "F33"}]})",
    R"({"params": [{"name": "w", "shape": [999999999999999999, 99],
        "dtype": "F32"}]})",
    R"({"params": [{"name": "w", "shape": [1], "dtype": "F32"},
                   {"name": "w", "shape": [1], "dtype": "F32"}]})",
    R"({"params": [{"name": "w", "shape": [1], "shape": [1], "dtype": "F32"}]})",
    "\xEF\xBB\xBF{\"schema\": \"shardc.manifest/v1\", \"params\": []}",
};

// Reads the text from a file, through a window of `bytes`.
std::optional<Manifest> ReadThrough(const TemporaryFolder& folder,
                                    std::string_view text, size_t bytes) {
  Findings findings;
  const auto file = InputFile::Open(folder.Write("m.json", text), findings);
  REQUIRE(file.has_value());
  return StreamPlainManifest(*file, bytes);
}

// Returns whether the plain reader accepts the text. If it does, checks that
// the full reader reads the same manifest without a finding.
bool ReadsTheSame(std::string_view text) {
  const SourceRef source = MakeSource("m.json", std::string(text));
  const auto plain = ReadPlainManifest(source);
  if (!plain) return false;
  CAPTURE(text);
  Findings findings;
  const auto document = JsonDocument::Parse(source, findings);
  REQUIRE(document != nullptr);
  const auto full = ParseManifest(*document, findings);
  REQUIRE(full.has_value());
  CHECK(findings.all().empty());
  CHECK(SameManifest(*plain, *full));
  CHECK(plain->plain_names);
  for (const Tensor& tensor : plain->tensors) {
    CHECK(EndOfPlain(tensor.name) == tensor.name.size());
  }
  return true;
}

TEST_CASE("ordinary manifests are read without a document") {
  for (const std::string_view text : kPlain) CHECK(ReadsTheSame(text));
}

TEST_CASE("others are left to the full reader") {
  for (const std::string_view text : kOther) {
    CAPTURE(text);
    CHECK_FALSE(ReadsTheSame(text));
  }
}

TEST_CASE("names are views into the text, and sorted") {
  const SourceRef source = MakeSource("m.json", std::string(kPlain[0]));
  const auto manifest = ReadPlainManifest(source);
  REQUIRE(manifest.has_value());
  const std::string_view name = manifest->tensors[0].name;
  CHECK(name.data() >= source->text().data());
  CHECK(name.data() + name.size() <=
        source->text().data() + source->text().size());
  CHECK(manifest->by_name == std::vector<uint32_t>{1, 0, 2});
}

TEST_CASE("changed manifests are read as the full reader reads them") {
  std::mt19937_64 random(5);
  constexpr std::string_view kBytes = "{}[]\",:\\0129abn-. \n\x7f\xc3";
  int read = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text(kPlain[random() % std::size(kPlain)]);
    text = Changed(std::move(text), random() % 3, kBytes, 24, random);
    read += ReadsTheSame(text) ? 1 : 0;
  }
  CHECK(read > 5000);
}

// A list or an object of parameters of a few types in layers, with the white
// space that `space` makes.
std::string Layers(bool list, int layers, std::mt19937_64& random) {
  const auto space = [&] { return std::string(random() % 3, ' '); };
  const bool uneven = random() % 2 == 0;
  std::string out = list ? R"({"params": [)"
                         : R"({"schema": "shardc.manifest/v1", "params": {)";
  for (int i = 0; i < layers * 3; ++i) {
    const std::string name = "block/" + std::to_string(i / 3) + "/" +
                             std::string(1, static_cast<char>('a' + i % 3));
    const std::string type = R"("shape": [)" + std::to_string(i % 3 + 1) +
                             "]," + (uneven ? space() : " ") +
                             R"("dtype": "BF16")";
    if (i > 0) out += uneven ? "," + space() : ", ";
    if (!list) {
      out += '"' + name + R"(": {)" + type + "}";
    } else if (uneven && random() % 4 == 0) {
      out += "{" + type + R"(, "name": ")" + name + "\"}";
    } else {
      out += R"({"name": ")" + name + "\", " + type + "}";
    }
  }
  return out + (list ? "]" : "}") + R"(, "model": "m", "naming": "hf"})" +
         space();
}

TEST_CASE("a file read through a window gives the same manifest") {
  const TemporaryFolder folder;
  std::mt19937_64 random(7);
  int read = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text =
        Layers(random() % 2 == 0, 1 + static_cast<int>(random() % 12), random);
    CAPTURE(text);
    const auto whole = ReadPlainManifest(MakeSource("m.json", text));
    REQUIRE(whole.has_value());
    CHECK(ReadsTheSame(text));
    const size_t bytes = 40 + random() % 200;
    CAPTURE(bytes);
    // A parameter that is longer than the window is left to the full reader.
    const auto streamed = ReadThrough(folder, text, bytes);
    if (!streamed) {
      CHECK(bytes < 160);
      continue;
    }
    ++read;
    CHECK(SameManifest(*streamed, *whole));
    CHECK(streamed->by_name == whole->by_name);
    CHECK(streamed->plain_names);
    CHECK(streamed->source->name() == folder / "m.json");
    CHECK(streamed->source->text().empty());
  }
  CHECK(read > 200);
}

TEST_CASE("a window accepts no text that the reader of whole texts refuses") {
  const TemporaryFolder folder;
  std::mt19937_64 random(11);
  constexpr std::string_view kBytes = "{}[]\",:\\01an \n\x7f\xc3";
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = Layers(random() % 2 == 0, 4, random);
    const size_t at = random() % text.size();
    if (random() % 2 == 0) {
      text[at] = kBytes[random() % kBytes.size()];
    } else {
      text.erase(at, 1 + random() % 40);
    }
    CAPTURE(text);
    const auto streamed = ReadThrough(folder, text, 160 + random() % 80);
    refused += streamed ? 0 : 1;
    if (!streamed) continue;
    const auto whole = ReadPlainManifest(MakeSource("m.json", text));
    REQUIRE(whole.has_value());
    CHECK(SameManifest(*streamed, *whole));
  }
  CHECK(refused > 500);
}

TEST_CASE("other texts are not read through a window") {
  const TemporaryFolder folder;
  for (const std::string_view text : kOther) {
    CAPTURE(text);
    CHECK_FALSE(ReadThrough(folder, text, 4096).has_value());
  }
}

TEST_CASE("the size of a window does not limit white space at the end") {
  const TemporaryFolder folder;
  std::string text(kPlain[0]);
  text += std::string(5000, '\n');
  CHECK(ReadThrough(folder, text, 256).has_value());
  CHECK_FALSE(ReadThrough(folder, text + "x", 256).has_value());
}

}  // namespace
}  // namespace shardc
