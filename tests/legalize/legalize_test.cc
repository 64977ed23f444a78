#include "legalize/legalize.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "model/manifest.h"

namespace shardc {
namespace {

Mesh Small() {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"fsdp", 4}, {"tp", 8}, {"one", 1}};
  mesh.devices = 64;
  return mesh;
}

std::string Text(const std::vector<Edit>& edits) {
  std::string out;
  for (const Edit& edit : edits) {
    if (!out.empty()) out += "; ";
    out += edit.dim ? std::to_string(*edit.dim) : "-";
    out += " " + GroupText(edit.from) + " -> " + GroupText(edit.to) + " " +
           std::string(ReasonName(edit.reason));
    if (!edit.axis.empty()) out += " " + edit.axis;
  }
  return out;
}

struct Case {
  Spec spec;
  std::optional<Shape> shape;
  IllegalPolicy policy;
  std::string expected;  // the spec's text
  std::string edits;
  std::string problems;
  Compat compat = Compat::kNone;
  int64_t min_size = 0;
};

constexpr auto kError = IllegalPolicy::kError;
constexpr auto kDrop = IllegalPolicy::kDrop;
constexpr auto kShrink = IllegalPolicy::kShrink;
constexpr auto kPad = IllegalPolicy::kPad;

void Check(const Case& c) {
  CAPTURE(SpecText(c.spec));
  CAPTURE(c.expected);
  const Legal legal =
      Legalize(c.spec, c.shape, Small(), {c.policy, c.compat, c.min_size});
  CHECK(SpecText(legal.spec) == c.expected);
  CHECK(Text(legal.edits) == c.edits);
  CHECK(Text(legal.problems) == c.problems);
}

TEST_CASE("a legal spec is unchanged") {
  for (auto policy : {kError, kDrop, kShrink}) {
    Check({{{"tp"}, {}, {"fsdp", "dp"}},
           Shape{8, 3, 16},
           policy,
           R"(["tp", null, ["fsdp", "dp"]])",
           "",
           ""});
    Check({{{"tp"}}, Shape{8, 3}, policy, R"(["tp"])", "", ""});
    Check({{{"one"}}, Shape{7}, policy, R"(["one"])", "", ""});
    Check({{{"tp", "fsdp"}}, Shape{0}, policy, R"([["tp", "fsdp"]])", "", ""});
    Check({{{}, {}}, Shape{3, 3}, policy, "[null, null]", "", ""});
    Check({{}, Shape{3, 3}, policy, "[]", "", ""});
  }
}

TEST_CASE("under error the spec is unchanged and the problems are returned") {
  Check({{{"tp"}, {"fsdp"}},
         Shape{12, 4},
         kError,
         R"(["tp", "fsdp"])",
         "",
         R"(0 "tp" -> null indivisible)"});
  Check({{{"nope", "tp"}},
         Shape{3},
         kError,
         R"([["nope", "tp"]])",
         "",
         R"(0 ["nope", "tp"] -> null missing_axis nope)"});
  Check({{{"tp"}, {"dp", "tp"}},
         Shape{12, 12},
         kError,
         R"(["tp", ["dp", "tp"]])",
         "",
         R"(0 "tp" -> null indivisible; )"
         R"(1 ["dp", "tp"] -> null repeated_axis tp)"});
  Check({{{}, {"dp"}, {}},
         Shape{4},
         kError,
         R"([null, "dp", null])",
         "",
         R"(1 "dp" -> null too_long; 2 null -> null too_long)"});
}

TEST_CASE("drop removes all axes of a dimension") {
  Check({{{"fsdp", "nope"}, {"tp"}},
         Shape{4, 8},
         kDrop,
         R"([null, "tp"])",
         R"(0 ["fsdp", "nope"] -> null missing_axis nope)",
         ""});
  Check({{{"fsdp", "dp"}, {"tp"}},
         Shape{4, 9},
         kDrop,
         "[null, null]",
         R"(0 ["fsdp", "dp"] -> null indivisible; )"
         R"(1 "tp" -> null indivisible)",
         ""});
  Check({{{"tp"}, {}, {"dp"}},
         Shape{8, 4},
         kDrop,
         R"(["tp", null])",
         R"(2 "dp" -> null too_long)",
         ""});
  // A repeated axis stays an error, unless its first use was dropped.
  Check({{{"tp"}, {"tp"}},
         Shape{8, 8},
         kDrop,
         R"(["tp", "tp"])",
         "",
         R"(1 "tp" -> null repeated_axis tp)"});
  Check({{{"tp"}, {"tp"}},
         Shape{9, 8},
         kDrop,
         R"([null, "tp"])",
         R"(0 "tp" -> null indivisible)",
         ""});
  Check({{{"tp"}, {"tp"}},
         Shape{8, 9},
         kDrop,
         R"(["tp", "tp"])",
         "",
         R"(1 "tp" -> null repeated_axis tp)"});
}

TEST_CASE("shrink keeps the longest legal prefix of the axes") {
  Check({{{"fsdp", "dp"}},
         Shape{4},
         kShrink,
         R"(["fsdp"])",
         R"(0 ["fsdp", "dp"] -> "fsdp" indivisible)",
         ""});
  // Shrinking keeps the longest prefix that divides the size, not the first
  // one.
  Check({{{"dp", "fsdp", "tp"}},
         Shape{24},
         kShrink,
         R"([["dp", "fsdp"]])",
         R"(0 ["dp", "fsdp", "tp"] -> ["dp", "fsdp"] indivisible)",
         ""});
  Check({{{"fsdp", "nope", "dp"}},
         Shape{8},
         kShrink,
         R"(["fsdp"])",
         R"(0 ["fsdp", "nope", "dp"] -> "fsdp" missing_axis nope)",
         ""});
  Check({{{"nope", "dp"}},
         Shape{8},
         kShrink,
         "[null]",
         R"(0 ["nope", "dp"] -> null missing_axis nope)",
         ""});
  Check({{{"fsdp"}, {"fsdp", "dp"}},
         Shape{4, 2},
         kShrink,
         R"(["fsdp", "dp"])",
         R"(1 ["fsdp", "dp"] -> "dp" repeated_axis fsdp)",
         ""});
  // Axes that were removed from earlier dimensions do not count as used.
  Check({{{"dp", "fsdp"}, {"fsdp"}},
         Shape{2, 4},
         kShrink,
         R"(["dp", "fsdp"])",
         R"(0 ["dp", "fsdp"] -> "dp" indivisible)",
         ""});
  // Every reason for which a dimension changes is reported, in order.
  Check({{{"dp"}, {"fsdp", "dp", "tp", "nope"}},
         Shape{2, 8},
         kShrink,
         R"(["dp", "fsdp"])",
         R"(1 ["fsdp", "dp", "tp", "nope"] -> ["fsdp", "dp", "tp"])"
         R"( missing_axis nope; )"
         R"(1 ["fsdp", "dp", "tp"] -> ["fsdp", "tp"] repeated_axis dp; )"
         R"(1 ["fsdp", "tp"] -> "fsdp" indivisible)",
         ""});
  Check({{{"tp"}, {}},
         Shape{8},
         kShrink,
         R"(["tp"])",
         "1 null -> null too_long",
         ""});
}

TEST_CASE("scalars and tensors below min_size become replicated") {
  Check({{{"tp"}}, Shape{}, kError, "[]", "", ""});
  for (auto compat : {Compat::kEformer, Compat::kFjformer}) {
    Check({{}, Shape{}, kError, "[]", "- null -> null scalar", "", compat});
  }
  Check({{{"tp"}},
         Shape{1, 1},
         kError,
         "[]",
         "- null -> null scalar",
         "",
         Compat::kFjformer});
  Check({{{"one"}}, Shape{1}, kError, R"(["one"])", "", "", Compat::kEformer});
  // A tensor below min_size gets the spec [] before legality is checked, under
  // every policy.
  for (auto policy : {kError, kDrop, kShrink}) {
    Check({{{"nope"}, {"tp"}},
           Shape{3, 3},
           policy,
           "[]",
           "- null -> null min_size",
           "",
           Compat::kNone,
           10});
    // Without an axis there is nothing to correct.
    Check({{}, Shape{3, 3}, policy, "[]", "", "", Compat::kNone, 10});
    Check(
        {{AxisGroup()}, Shape{3, 3}, policy, "[]", "", "", Compat::kNone, 10});
    Check({{{}, {}}, Shape{3, 3}, policy, "[]", "", "", Compat::kNone, 10});
  }
  Check(
      {{{"one"}}, Shape{10}, kError, R"(["one"])", "", "", Compat::kNone, 10});
}

TEST_CASE("eformer corrects specs whatever the policy") {
  Check({{{"fsdp", "nope"}, {}, {"dp"}},
         Shape{4, 3},
         kError,
         "[]",
         R"(0 ["fsdp", "nope"] -> null missing_axis nope; )"
         R"(2 "dp" -> null too_long)",
         "",
         Compat::kEformer});
  Check({{{"tp"}, {"tp"}},
         Shape{8, 9},
         kError,
         R"(["tp", null])",
         R"(1 "tp" -> null indivisible)",
         "",
         Compat::kEformer});
  Check({{{"tp"}, {"tp"}},
         Shape{8, 8},
         kError,
         R"(["tp", "tp"])",
         "",
         R"(1 "tp" -> null repeated_axis tp)",
         Compat::kEformer});
  // eformer pads a spec to the rank, and replaces a spec of nulls by [].
  Check({{{"tp"}},
         Shape{8, 8, 8},
         kError,
         R"(["tp", null, null])",
         "",
         "",
         Compat::kEformer});
  Check({{{}}, Shape{8, 8}, kError, "[]", "", "", Compat::kEformer});
}

TEST_CASE("without a shape only the axes are judged") {
  Check({{{"tp"}, {"nope"}, {"tp"}},
         std::nullopt,
         kError,
         R"(["tp", "nope", "tp"])",
         "",
         R"(1 "nope" -> null missing_axis nope; )"
         R"(2 "tp" -> null repeated_axis tp)"});
  Check({{{"tp"}, {"nope"}, {"tp"}},
         std::nullopt,
         kShrink,
         R"(["tp", null, null])",
         R"(1 "nope" -> null missing_axis nope; )"
         R"(2 "tp" -> null repeated_axis tp)",
         "",
         Compat::kNone,
         100});
}

TEST_CASE("eformer pads a spec to the rank, and others leave it as it is") {
  struct Row {
    Spec spec;
    std::string eformer, other;
  };
  const Row kRows[] = {
      {{}, "[]", "[]"},
      {{{"tp"}}, R"(["tp", null, null])", R"(["tp"])"},
      {{{}, {"tp"}}, R"([null, "tp", null])", R"([null, "tp"])"},
      {{{}}, "[]", "[null]"},
      {{{}, {}, {}}, "[]", "[null, null, null]"},
  };
  for (const Row& row : kRows) {
    for (const IllegalPolicy policy : {kError, kDrop, kShrink}) {
      Check({row.spec, Shape{8, 8, 8}, policy, row.eformer, "", "",
             Compat::kEformer});
      for (const Compat compat : {Compat::kNone, Compat::kFjformer}) {
        Check({row.spec, Shape{8, 8, 8}, policy, row.other, "", "", compat});
      }
    }
  }
  // A spec with a problem stays as it was written.
  Check({{{"tp"}, {"tp"}},
         Shape{8, 8, 8},
         kError,
         R"(["tp", "tp"])",
         "",
         R"(1 "tp" -> null repeated_axis tp)",
         Compat::kEformer});
}

TEST_CASE("an edit has the numbers of its message") {
  const Legal legal = Legalize({{"fsdp", "dp"}}, Shape{12}, Small(), {});
  REQUIRE(legal.problems.size() == 1);
  CHECK(legal.problems[0].size == 12);
  CHECK(legal.problems[0].parts == 8);
}

TEST_CASE("axes divide each part of stated size, under pad too") {
  struct Row {
    std::vector<int64_t> sizes;
    int64_t size;
    const char* problem;
  };
  const Row kRows[] = {
      {{16, 8, 8}, 32, ""},
      {{16, 12, 4},
       32,
       "parts of 16, 12 and 4, of which part 2 is 12, 12 % 8 = 4"},
      {{16, 8}, 32, "parts of 16 and 8, which sum to 24 and not to 32"},
      {{16, 8, 16},
       32,
       "parts of 16, 8 and 16, which sum to 40 and not to 32"}};
  for (const Row& row : kRows) {
    for (const IllegalPolicy policy : {kError, IllegalPolicy::kPad}) {
      const PartsOfDim of{.count = static_cast<int64_t>(row.sizes.size()),
                          .sizes = row.sizes};
      const Legal legal = Legalize({{"fsdp", "dp"}}, Shape{row.size}, Small(),
                                   {.illegal = policy, .parts = {of}});
      CHECK(legal.problems.size() == (row.problem[0] == '\0' ? 0 : 1));
      if (legal.problems.empty()) continue;
      CHECK(PartsProblemText(legal.problems[0]) == row.problem);
    }
  }
}

TEST_CASE("sizes near 2^63 do not overflow") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Mesh mesh;
  mesh.axes = {{"big", int64_t{1} << 40}};
  Check({{{"tp"}},
         Shape{kMax},
         kError,
         R"(["tp"])",
         "",
         R"(0 "tp" -> null indivisible)"});
  // A product of axis sizes that does not fit in 64 bits divides no size, and
  // never causes a crash.
  const Legal legal =
      Legalize({{"big"}, {"big"}, {"big"}}, Shape{kMax, kMax, kMax}, mesh, {});
  CHECK(legal.problems.size() == 3);
}

TEST_CASE("pad keeps axes that do not divide a dimension") {
  for (const Spec& spec : {Spec{{"tp"}}, Spec{{"fsdp", "tp"}, {"dp"}},
                           Spec{{}, {"dp", "fsdp", "tp"}}}) {
    CAPTURE(SpecText(spec));
    const Legal legal = Legalize(spec, Shape{7, 5}, Small(), {kPad});
    CHECK(legal.spec == spec);
    CHECK(legal.edits.empty());
    CHECK(legal.problems.empty());
  }
}

// Other faults stay, whether the axes divide the dimension or not.
TEST_CASE("pad corrects nothing") {
  const auto reason = [](const Spec& spec, const TensorType& type) {
    const Legal legal = LegalizeStored(spec, type, Small(), {kPad});
    CHECK(legal.spec == spec);
    CHECK(legal.edits.empty());
    REQUIRE(legal.problems.size() == 1);
    return legal.problems[0].reason;
  };
  const TensorType plain = {Shape{7, 8}, Dtype::kF32};
  CHECK(reason({{"pp"}}, plain) == Reason::kMissingAxis);
  CHECK(reason({{"tp"}, {"tp"}}, plain) == Reason::kRepeatedAxis);
  CHECK(reason({{"tp"}, {}, {}}, plain) == Reason::kTooLong);
  // Elements that are stored in blocks are split only between blocks, and a
  // shard has as many blocks as another.
  const TensorType blocks = {Shape{7, 96}, block::kQ8_0};
  CHECK(reason({{"tp"}, {"fsdp", "tp"}}, {Shape{7, 96}, Dtype::kF32}) ==
        Reason::kRepeatedAxis);
  CHECK(reason({{}, {"tp"}}, blocks) == Reason::kIndivisible);
  CHECK(LegalizeStored({{"tp"}}, blocks, Small(), {kPad}).problems.empty());
}

TEST_CASE("the last dimension of a block dtype is split between blocks") {
  const auto legal = [](const Spec& spec, const Shape& shape,
                        IllegalPolicy policy) {
    return LegalizeStored(spec, {shape, block::kQ4_0}, Small(),
                          {policy, Compat::kNone, 0});
  };
  // Rows of 256 elements are 8 blocks, rows of 288 are 9.
  CHECK(legal({{}, {"tp"}}, {4, 256}, kError).problems.empty());
  CHECK(legal({{"fsdp"}, {}}, {4, 256}, kError).problems.empty());
  const Legal wrong = legal({{"fsdp"}, {"tp"}}, {4, 288}, kError);
  CHECK(Text(wrong.problems) == R"(1 "tp" -> null indivisible)");
  CHECK(SpecText(legal({{}, {"fsdp", "tp"}}, {4, 256}, kShrink).spec) ==
        R"([null, "fsdp"])");
  CHECK(SpecText(legal({{}, {"tp"}}, {4, 288}, kDrop).spec) == "[null, null]");
  // Axes of size 1 divide nothing, so any size is legal.
  CHECK(legal({{}, {"one"}}, {4, 7}, kError).problems.empty());
  CHECK(legal({{"tp"}}, {0}, kError).problems.empty());
}

}  // namespace
}  // namespace shardc
