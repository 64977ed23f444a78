// Runs every recorded case in the folder SHARDC_VECTORS through the reference
// systems that tests/reference reimplements, and the family numeric through the
// library. Prints counts by family. product_test.py runs the same cases through
// the program. Fails if a case fails, if a family is unknown, or if more than
// 3% of the cases are deliberate differences.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "numeric.h"
#include "source/file.h"
#include "vectors.h"

namespace shardc::vectors {
namespace {

struct Family {
  std::string_view name;
  MakeRunner make;
};
constexpr Family kFamilies[] = {
    {"resolve", ResolveFamily},
    {"register", RegisterFamily},
    {"bundles", BundlesFamily},
    {"attn_rules", AttentionFamily},
    {"match", MatchFamily},
    {"correct", CorrectFamily},
    {"mesh", MeshFamily},
    {"names", NamesFamily},
    {"logical_rules", LogicalFamily},
    {"numeric", NumericFamily},
};

// The maximum percentage of cases that may be deliberate differences.
constexpr int64_t kDifferPercent = 3;
constexpr int kShownFailures = 10;

struct Counts {
  int64_t cases = 0;
  int64_t passed = 0;
  int64_t failed = 0;
  int64_t differ = 0;
  int64_t python_only = 0;
};

void Add(Counts& counts, const Verdict& verdict, const std::string& id) {
  switch (verdict.outcome) {
    case Outcome::kPassed:
      ++counts.passed;
      return;
    case Outcome::kDiffers:
      ++counts.differ;
      return;
    case Outcome::kPythonOnly:
      ++counts.python_only;
      return;
    case Outcome::kFailed:
      break;
  }
  if (counts.failed++ < kShownFailures) {
    std::printf("  %s: %s\n", id.c_str(), verdict.why.c_str());
  }
}

Verdict RunNumeric(JsonValue test) {
  std::string fault = CheckNumeric(test);
  if (!fault.empty()) return Fail(std::move(fault));
  const std::string_view difference = NumericDifferenceOf(test);
  return difference.empty() ? Pass() : Differs(difference);
}

Verdict RunOne(const Runner& run, JsonValue test) {
  try {
    return run(test);
  } catch (const Malformed& malformed) {
    return Fail("the case cannot be read: " + malformed.what);
  }
}

std::string IdOf(JsonValue test) {
  const auto id = test.Find("id");
  return id && id->IsString() ? std::string(id->string()) : "without an id";
}

void Print(std::string_view family, const Counts& counts) {
  std::string line = std::string(family) + ": ";
  line += std::to_string(counts.passed) + " passed, ";
  line += std::to_string(counts.failed) + " failed, ";
  line += std::to_string(counts.differ) + " differ by design";
  if (counts.python_only > 0) {
    line += ", " + std::to_string(counts.python_only) + " beyond RE2";
  }
  std::printf("%s\n", line.c_str());
}

// Runs the cases of a file. Returns false if the file cannot be run at all.
bool RunFile(const std::string& path, Counts& total) {
  Findings findings;
  SourceRef source = ReadSource(path, findings);
  auto document = source ? JsonDocument::Parse(source, findings) : nullptr;
  if (!document) {
    std::printf("%s: %s\n", path.c_str(), findings.all()[0].message.c_str());
    return false;
  }
  const std::string family(At(document->root(), "family").string());
  const auto* entry =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const Family& f) { return f.name == family; });
  if (entry == std::end(kFamilies)) {
    std::printf("%s: family `%s` is not known\n", path.c_str(), family.c_str());
    return false;
  }
  Counts counts;
  const Runner run = entry->make();
  for (JsonValue test : At(document->root(), "cases").items()) {
    ++counts.cases;
    Add(counts, RunOne(run, test), IdOf(test));
  }
  Print(family, counts);
  total.cases += counts.cases;
  total.failed += counts.failed;
  total.differ += counts.differ;
  return true;
}

std::string Folder() {
  if (const char* folder = std::getenv("SHARDC_VECTORS")) return folder;
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/testdata/vectors";
}

// Like RunFile, but a file that lacks required members is also reported as one
// that cannot be run.
bool RunReadable(const std::string& path, Counts& total) {
  try {
    return RunFile(path, total);
  } catch (const Malformed& malformed) {
    std::printf("%s: %s\n", path.c_str(), malformed.what.c_str());
    return false;
  }
}

int Main() {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(Folder(), error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) {
    std::printf("no vectors in %s\n", Folder().c_str());
    return 1;
  }
  Counts total;
  bool fine = true;
  for (const std::string& path : paths) fine = RunReadable(path, total) && fine;
  for (const Quirk& quirk : Quirks()) {
    std::printf(
        "differs by design (%s): %s; %s\n", std::string(quirk.name).c_str(),
        std::string(quirk.reason).c_str(), std::string(quirk.ours).c_str());
  }
  for (const Difference& difference : NumericDifferences()) {
    std::printf("differs by design (%s): %s\n",
                std::string(difference.name).c_str(),
                std::string(difference.reason).c_str());
  }
  if (total.differ * 100 > total.cases * kDifferPercent) {
    std::printf("too many deliberate differences: %lld of %lld\n",
                static_cast<long long>(total.differ),
                static_cast<long long>(total.cases));
    fine = false;
  }
  return fine && total.failed == 0 ? 0 : 1;
}

}  // namespace

Runner NumericFamily() { return RunNumeric; }

}  // namespace shardc::vectors

int main() { return shardc::vectors::Main(); }
