// Checks the findings about broken YAML and about keys, with the bytes that a
// finding points at.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/yaml.h"

namespace shardc {
namespace {

// Returns each finding as "code: message @3 text", with the byte offset and the
// text of its place.
std::string Texts(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) {
    const Place& place = finding.place;
    const std::string_view text = place.source->text();
    out += std::string(finding.code->name) + ": " + finding.message + " @" +
           std::to_string(place.begin) + " " +
           Printable(text.substr(place.begin, place.end - place.begin)) + "\n";
  }
  return out;
}

std::optional<YamlDocument> Parse(std::string text, Findings& findings) {
  return YamlDocument::Parse(MakeSource("t.yaml", std::move(text)), findings);
}

TEST_CASE("broken YAML is reported where it is broken") {
  const auto reported = [](std::string text) {
    Findings findings;
    Parse(std::move(text), findings);
    CHECK(findings.errors() == 1);
    return Texts(findings);
  };
  CHECK(reported("a: 1\nb: 2\na: 3\n") ==
        "duplicate-key: key `a` is given twice @10 a\n");
  CHECK(reported("{a: 1, b: {c: 1, c: 2}}") ==
        "duplicate-key: key `c` is given twice @17 c\n");
  CHECK(reported("a: 1\n---\nb: 2\n") ==
        "multi-document: a second document begins here @5 ---\n");
  CHECK(reported("a: 1\n...\n- 2\n") ==
        "multi-document: text after the end of the document @9 -\n");
  const std::string tab = "yaml-syntax: a tab is used as indentation @";
  CHECK(reported("a:\n  b: 1\n\tc: 2\n") == tab + "10 \\x09\n");
  // The finding is at the tab, although the parser fails on the next line.
  CHECK(reported("a:\n\tb: 1\n  c: [1\n") == tab + "3 \\x09\n");
  CHECK(reported("\ta: 1\n") == tab + "0 \\x09\n");
  CHECK(reported("a: [1, 2\n") ==
        "yaml-syntax: the bracket `[` is never closed @3 [\n");
  CHECK(reported("a: 'b\n") ==
        "yaml-syntax: the quote `'` is never closed @3 '\n");
  CHECK(reported("a:\n  - b: [c, \"d\"\n  - e\n") ==
        "yaml-syntax: the bracket `[` is not closed before the next item @10 "
        "[\n");
  CHECK(reported("a:\n- b: {c: \"d\"\n- e\n") ==
        "yaml-syntax: the bracket `{` is not closed before the next item @8 "
        "{\n");
  for (const char* dashes : {"a: [- b]\n", "a: [\n- b\n- c]\n"}) {
    CAPTURE(dashes);
    CHECK(reported(dashes).starts_with("yaml-syntax: no list item can stand"));
  }
  CHECK(
      reported("a: *b\n").starts_with("yaml-syntax: this alias refers to no "));
  CHECK(reported("a: *b\n").ends_with(" before it @3 *\n"));
  CHECK(reported("<<: {a: 1}\n") == "merge-key: merge key `<<` @0 <<\n");
  const size_t levels = YamlDocument::kDepthLimit + 1;
  CHECK(reported(std::string(levels, '[') + std::string(levels, ']')) ==
        "yaml-depth: nested more than 64 levels deep @64 [\n");
  CHECK(reported("@a") == "yaml-syntax: no value can begin with `@` @0 @\n");
  const std::string key(1100, 'k');
  for (const std::string& text :
       {"{" + key + ": 1}", "{a: 1, \"" + key + "\": 1}", key + ": 1\n",
        "a:\n  '" + key + "': 1\n"}) {
    CAPTURE(text);
    CHECK(reported(text).starts_with(
        "yaml-syntax: a key of more than 1,024 characters @"));
  }
  // Other mistakes in texts that are as long.
  for (const std::string& text :
       {"a: " + key + " b: c\n", "a: {? }\n# " + key + "\nb: 1\n"}) {
    CAPTURE(text);
    CHECK(!reported(text).empty());
    CHECK(reported(text).find("a key of more than") == std::string::npos);
  }
  CHECK(reported("a: 1\n<<<<<<< HEAD\nb: []\n=======\nb: 2\n>>>>>>> c\n") ==
        "yaml-syntax: a merge conflict of Git is not resolved here @5 <<<<<<< "
        "HEAD\n");
  // The whole text is one scalar.
  CHECK(reported("version https://git-lfs.github.com/spec/v1\nsize 1\n") ==
        "yaml-syntax: this is a Git LFS pointer, not the file @0 version "
        "https://git-lfs\n");
}

constexpr std::array<std::string_view, 2> kNames = {"axes", "devices"};

TEST_CASE("keys that are unknown, missing or no text are reported once") {
  const auto reported = [](std::string text) {
    Findings findings;
    const auto document = Parse(std::move(text), findings);
    REQUIRE(document);
    const YamlContext context{*document, findings};
    const KeyTable table{"mesh", "a mesh", kNames};
    const auto fields = Fields::Read(context, document->root(), table);
    if (fields) fields->Require(context, document->root(), "axes");
    return Texts(findings);
  };
  CHECK(reported("axes: 1") == "");
  CHECK(reported("devices: 1") ==
        "schema: a mesh has no `axes` @0 devices: 1\n");
  // If a key is misspelt, it is not reported as missing as well.
  CHECK(reported("axis: 1") ==
        "unknown-key: unknown key `axis` in a mesh @0 axis\n");
  CHECK(reported("other: 1") ==
        "unknown-key: unknown key `other` in a mesh @0 other\n"
        "schema: a mesh has no `axes` @0 other: 1\n");
  CHECK(reported("axes: 1\ndevices:\xc2\xa0[]\n")
            .starts_with("yaml-syntax: the key `devices:\xc2\xa0[]` contains a "
                         "blank that is not a space @8 "));
  // Only the first key that is no text is reported.
  CHECK(reported("axes: 1\n? [a]\n: 1\n? {b: 1}\n: 2\n") ==
        "schema: a key is a list @10 [a]\n");
  CHECK(reported("[1]") == "schema: a mesh is a list, not a mapping @0 [1]\n");
}

TEST_CASE("the tag of a mapping's first key is reported once") {
  for (const std::string text :
       {"!x a: 1", "- !x a: 1", "b:\n  !x a: 1", "b: {!x a: 1}"}) {
    CAPTURE(text);
    Findings findings;
    Parse(text, findings);
    CHECK(Texts(findings) == "yaml-tag: a tag: `!x` @" +
                                 std::to_string(text.find('!')) + " !x \n");
  }
}

TEST_CASE("a value with a tag is refused") {
  for (const std::string tag : {"int", "str"}) {
    Findings findings;
    const auto document = Parse("!!" + tag + " 5", findings);
    REQUIRE(document);
    const YamlContext context{*document, findings};
    CHECK_FALSE(ReadInteger(context, document->root(), "`a`", {}));
    CHECK_FALSE(ReadText(context, document->root(), "`a`"));
    const std::string refused = "yaml-tag: a tag: `!!" + tag + "` @";
    CHECK(Texts(findings).starts_with("number: `a` is tagged `!!" + tag));
    CHECK(Texts(findings).find(refused) != std::string::npos);
    CHECK(RefuseTag(context, document->root()));
  }
  Findings findings;
  const auto document = Parse("5", findings);
  REQUIRE(document);
  CHECK_FALSE(RefuseTag({*document, findings}, document->root()));
  CHECK(findings.empty());
}

TEST_CASE("a node is found by its place") {
  Findings findings;
  const auto document = Parse("a: [1, {b: 2}]\nc: 3\n", findings);
  REQUIRE(document);
  const YamlNode& root = document->root();
  const YamlNode& inner = root.members[0].value.items[1].members[0].value;
  const YamlNode& last = root.members[1].value;
  for (const YamlNode* node : {&root, &inner, &last}) {
    CAPTURE(node->begin);
    const YamlNode* found = FindNode(root, document->PlaceOf(*node));
    REQUIRE(found != nullptr);
    CHECK(found->begin == node->begin);
    CHECK(found->end == node->end);
    const bool same = found == node;
    CHECK(same);
  }
  const bool none = FindNode(root, {document->source(), 1, 2}) == nullptr;
  CHECK(none);
}

}  // namespace
}  // namespace shardc
