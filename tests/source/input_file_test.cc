#include "source/input_file.h"

#include <doctest/doctest.h>

#include <string>

#include "temporary_folder.h"

namespace shardc {
namespace {

TEST_CASE("a file is read at any place, and its head") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("f", "0123456789");
  Findings findings;
  auto opened = InputFile::Open(path, findings);
  REQUIRE(opened);
  const InputFile file = std::move(*opened);
  CHECK(file.path() == path);
  CHECK(file.size() == 10);
  std::string part(4, '.');
  CHECK(file.ReadAt(3, part.data(), 4, findings));
  CHECK(part == "3456");
  CHECK(file.ReadAt(10, part.data(), 0, findings));
  CHECK(file.Head(3, findings) == "012");
  CHECK(file.Head(11, findings) == "0123456789");
  CHECK(findings.empty());
  CHECK_FALSE(file.ReadAt(8, part.data(), 3, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "cannot read `" + path +
            "`: it ends at byte 10, so it was truncated after it was opened");
  CHECK(findings.all()[0].place.source->name() == path);
}

TEST_CASE("an error of the system while a file is read is stated") {
  // Nothing is mapped at address 0.
  Findings findings;
  const auto file = InputFile::Open("/proc/self/mem", findings);
  REQUIRE(file);
  char byte = 0;
  CHECK_FALSE(file->ReadAt(0, &byte, 1, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "cannot read `/proc/self/mem`: Input/output error");
}

TEST_CASE("what is no regular file is refused") {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& path) {
    Findings findings;
    CHECK_FALSE(InputFile::Open(path, findings));
    REQUIRE(findings.errors() == 1);
    return findings.all()[0].code->name;
  };
  CHECK(refused(folder / "none") == "missing");
  CHECK(refused(folder / "") == "not-regular");
  CHECK(refused("/dev/zero") == "not-regular");
}

TEST_CASE("the help for a missing file has a name that it could be") {
  const TemporaryFolder folder;
  folder.Write("llama.json.gz", "");
  folder.Write("rules.yaml", "");
  const auto help = [](const std::string& path) {
    Findings findings;
    CHECK_FALSE(InputFile::Open(path, findings));
    REQUIRE(findings.errors() == 1);
    return findings.all()[0].help;
  };
  CHECK(help(folder / "llama.json") ==
        "did you mean `" + (folder / "llama.json.gz") + "`?");
  CHECK(help(folder / "rulse.yaml") ==
        "did you mean `" + (folder / "rules.yaml") + "`?");
  CHECK(help(folder / "mesh.yaml") ==
        "the folder has `" + (folder / "rules.yaml") + "`");
  CHECK(help(folder / "rulse.yml") == "");
  // Another part of the same set.
  folder.Write("device-0.safetensors", "");
  CHECK(help(folder / "device-1.safetensors") ==
        "the folder has `" + (folder / "device-0.safetensors") + "`");
  CHECK(help(folder / "none/m.json") ==
        "there is no folder `" + (folder / "none") + "`");
  // The parent of the path is a file.
  CHECK(help(folder / "rules.yaml/m.json") == "");
  CHECK(help("no-such-file") == "");
}

}  // namespace
}  // namespace shardc
