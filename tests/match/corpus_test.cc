// Compares the first rule that matches each parameter, over pairs of public
// rule sets and parameter trees, with what Python's `re.search` gives.
// SHARDC_CORPUS names another folder of the same layout.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "match/match.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc {
namespace {

std::string CorpusFolder() {
  if (const char* set = std::getenv("SHARDC_CORPUS"); set && *set) {
    const std::string whole = std::string(set) + "/public";
    return std::filesystem::exists(whole) ? whole : set;
  }
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/testdata/corpus";
}

// Reads a JSON file of the corpus, which may be stored gzipped or not.
std::unique_ptr<const JsonDocument> Load(std::string path) {
  Findings findings;
  if (!std::filesystem::exists(path)) {
    path =
        path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path + ".gz";
  }
  const SourceRef source = ReadSource(path, findings);
  REQUIRE_MESSAGE(source, path, ": unreadable");
  auto document = JsonDocument::Parse(source, findings);
  REQUIRE_MESSAGE(document, path, ": not JSON");
  return document;
}

JsonValue Member(JsonValue object, std::string_view key) {
  const auto value = object.Find(key);
  REQUIRE_MESSAGE(value, "no member ", std::string(key));
  return *value;
}

// Returns the member `key`, a string, of each object in a list.
std::vector<std::string_view> Column(JsonValue list, std::string_view key) {
  std::vector<std::string_view> column;
  for (JsonValue row : list.items()) {
    column.push_back(Member(row, key).string());
  }
  return column;
}

std::vector<int64_t> Integers(JsonValue list) {
  std::vector<int64_t> integers;
  for (JsonValue number : list.items()) integers.push_back(number.integer());
  return integers;
}

std::vector<int32_t> Expand(JsonValue runs) {
  std::vector<int32_t> all;
  for (JsonValue run : runs.items()) {
    const auto pair = Integers(run);  // rule, count
    REQUIRE(pair.size() == 2);
    all.insert(all.end(), static_cast<size_t>(pair[1]),
               static_cast<int32_t>(pair[0]));
  }
  return all;
}

Matches MatchAll(const std::vector<std::string_view>& texts,
                 const std::vector<std::string_view>& names, int threads) {
  std::vector<Pattern> patterns;
  for (std::string_view text : texts) patterns.push_back({text, {}, '/'});
  Findings findings;
  const auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  CHECK(findings.empty());
  return matcher->Match(names, '/', {.threads = threads});
}

bool CheckPair(const std::string& folder, JsonValue pair) {
  const auto path = [&](std::string_view key) {
    return folder + "/" + std::string(Member(pair, key).string());
  };
  const auto rules = Load(path("ruleset"));
  const auto manifest = Load(path("manifest"));
  const auto expected = Load(path("expect"));
  const auto patterns = Column(Member(rules->root(), "rules"), "pattern");
  const auto names = Column(Member(manifest->root(), "params"), "name");

  const Matches matches = MatchAll(patterns, names, 1);
  const bool first =
      matches.first == Expand(Member(expected->root(), "first_match_rle"));
  CHECK(first);

  std::vector<int64_t> counts(patterns.size());
  for (size_t i = 0; i < names.size(); ++i) {
    for (const uint32_t rule : matches.Of(i)) ++counts[rule];
  }
  const bool any = counts == Integers(Member(expected->root(), "matches_any"));
  CHECK(any);

  const Matches threaded = MatchAll(patterns, names, 3);
  CHECK(threaded.first == matches.first);
  CHECK(threaded.set == matches.set);
  CHECK(threaded.rules == matches.rules);
  return first && any;
}

TEST_CASE("public rule sets match as Python's re.search does") {
  const std::string folder = CorpusFolder();
  const auto pairs = Load(folder + "/PAIRS.json");
  int passed = 0;
  int failed = 0;
  for (JsonValue pair : Member(pairs->root(), "pairs").items()) {
    const std::string name(Member(pair, "pair").string());
    CAPTURE(name);
    ++(CheckPair(folder, pair) ? passed : failed);
  }
  MESSAGE("counted: ", passed, " passed, ", failed, " failed");
  CHECK(passed > 0);
}

}  // namespace
}  // namespace shardc
