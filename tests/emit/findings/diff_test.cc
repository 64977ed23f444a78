#include "emit/findings/formats.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("equal texts have no diff") {
  CHECK(DiffText("f", "", "").empty());
  CHECK(DiffText("f", "a\nb\n", "a\nb\n").empty());
}

TEST_CASE("what stays is the longest common subsequence of lines") {
  CHECK(DiffText("f", "a\nb\nc\nd\n", "a\nc\nx\nd\n") ==
        "--- f\n+++ f\n@@ -1,4 +1,4 @@\n a\n-b\n c\n+x\n d\n");
  CHECK(DiffText("f", "", "a\n") == "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
  CHECK(DiffText("f", "a\n", "") == "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n");
}

TEST_CASE("three lines stand around a change, and near changes share a hunk") {
  const std::string before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  CHECK(DiffText("f", before, "1\n2\n3\n4\nx\n6\n7\n8\n9\n") ==
        "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
  const auto hunks = [](const std::string& text) {
    int count = 0;
    for (size_t at = text.find("@@ -"); at != text.npos;
         at = text.find("@@ -", at + 1)) {
      ++count;
    }
    return count;
  };
  CHECK(hunks(DiffText("f", before, "x\n2\n3\n4\n5\n6\ny\n8\n9\n")) == 1);
  CHECK(hunks(DiffText("f", before, "x\n2\n3\n4\n5\n6\n7\ny\n9\n")) == 2);
}

TEST_CASE("a last line without its break is marked") {
  CHECK(DiffText("f", "a", "a\n") ==
        "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n"
        "+a\n");
}

}  // namespace
}  // namespace shardc
