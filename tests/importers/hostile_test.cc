// Reads the hostile files of binary formats, and compares the result and, for a
// refusal, the code with EXPECT.json.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "importers/manifest.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

std::string Folder() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/testdata/hostile/";
}

std::unique_ptr<const JsonDocument> Load(const std::string& path) {
  Findings findings;
  const SourceRef source = ReadSource(path, findings);
  REQUIRE(source != nullptr);
  auto document = JsonDocument::Parse(source, findings);
  REQUIRE(document != nullptr);
  return document;
}

std::string Text(const JsonValue& object, std::string_view key) {
  const auto value = object.Find(key);
  return value ? std::string(value->string()) : std::string();
}

// A copy of the hostile files, with the symbolic links that LINKS.json lists.
class Copy {
 public:
  Copy() {
    std::string name =
        (fs::temp_directory_path() / "shardc_hostile_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    fs::copy(Folder(), path_, fs::copy_options::recursive);
    const auto links = Load(Folder() + "LINKS.json");
    for (const JsonValue link : links->root().items()) {
      std::error_code error;  // present already where links were kept
      fs::create_symlink(Text(link, "target"), path_ / Text(link, "path"),
                         error);
    }
  }
  ~Copy() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

TEST_CASE("importers: every hostile file gets its verdict and code") {
  const Copy copy;
  const auto expect = Load(Folder() + "EXPECT.json");
  int seen = 0;
  for (const JsonValue entry : expect->root().items()) {
    const std::string kind = Text(entry, "kind");
    if (kind != "safetensors" && kind != "hf-index" && kind != "gguf") continue;
    ++seen;
    const std::string file = Text(entry, "file");
    CAPTURE(file);
    CAPTURE(Text(entry, "why"));
    Findings findings;
    const auto no_json = [](const JsonDocument&, Findings& out) {
      out.Add(code::kUsage, {}, "taken for a JSON manifest");
      return std::optional<Manifest>();
    };
    const auto manifest = ReadManifest(copy / file, no_json, {}, findings);
    CHECK(manifest.has_value() == (Text(entry, "expect") == "accept"));
    if (manifest) {
      CHECK_FALSE(findings.HasErrors());
      continue;
    }
    findings.Sort();
    REQUIRE(findings.HasErrors());
    const Finding& first = findings.all()[0];
    CAPTURE(first.message);
    CHECK(first.code->name == Text(entry, "class"));
    CHECK(first.message.size() < 1000);
    CHECK(first.place.source != nullptr);
  }
  CHECK(seen == 122);
}

}  // namespace
}  // namespace shardc
