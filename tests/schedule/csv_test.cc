// Files of schedules: a written file can be read again, and each error in a
// file is reported at its cell.
#include "schedule/table.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "schedule/schedules.h"
#include "source/finding.h"

namespace shardc::schedule {
namespace {

TEST_CASE("a written table is read again, with its placement") {
  int tables = 0;
  for (const Schedule& schedule : Schedules()) {
    for (int32_t p = 1; p <= 6; ++p) {
      for (int32_t v = 1; v <= 3; ++v) {
        for (int32_t m = 1; m <= 3 * p; ++m) {
          const Extent extent{p, v, m};
          if (Refusal(schedule, extent)) continue;
          const Table table = MakeTable(schedule, extent);
          CAPTURE(table.name);
          Findings findings;
          const auto again =
              ReadCsv(MakeSource("a.csv", CsvText(table)), {p, m}, findings);
          REQUIRE(again);
          CHECK(findings.empty());
          CHECK(again->rows == table.rows);
          CHECK(again->owners == table.owners);
          if (p > 1) CHECK(again->placement == table.placement);
          ++tables;
        }
      }
    }
  }
  CHECK(tables > 500);
}

TEST_CASE("empty cells, blanks, quotes and the other line ends are read") {
  Findings findings;
  const auto table =
      ReadCsv(MakeSource("a.csv",
                         "\xEF\xBB\xBF 0F0 ,,\"0F1\",0B0, 0B1 \r\n"
                         ",1F0,1B0,1F1,1B1,\r\n\r\n"),
              {}, findings);
  REQUIRE(table);
  CHECK(CsvText(*table) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE("a last rank without tasks is written so that it is read again") {
  Findings findings;
  const std::string text = "0F0,0B0\n,\n";
  const auto table = ReadCsv(MakeSource("a.csv", text), {}, findings);
  REQUIRE(table);
  CHECK(table->rows.size() == 2);
  CHECK(CsvText(*table) == text);
}

TEST_CASE("stages that each have one rank are not placed on both") {
  Findings findings;
  for (const char* text : {"1F0,1B0\n0F0,0B0\n", "\n0F0,0B0\n"}) {
    const auto table = ReadCsv(MakeSource("a.csv", text), {}, findings);
    REQUIRE(table);
    CHECK(table->placement == Placement::kListed);
  }
}

// Returns `place message` for each finding.
std::vector<std::string> Refused(const std::string& text,
                                 const Expected& expected = {}) {
  Findings findings;
  CHECK_FALSE(ReadCsv(MakeSource("a.csv", text), expected, findings));
  std::vector<std::string> out;
  for (const Finding& finding : findings.all()) {
    CHECK(finding.code == (finding.message.ends_with("no task of a schedule")
                               ? &code::kForeignSyntax
                           : finding.message.starts_with("the file has no ")
                               ? &code::kEmpty
                               : &code::kScheduleUnsafe));
    out.push_back(finding.place.ToString() + " " + finding.message);
  }
  return out;
}

using Words = std::vector<std::string>;

TEST_CASE("what is wrong in a file is reported with line and column") {
  CHECK(Refused("") == Words{"a.csv the file has no rank: it is empty"});
  CHECK(Refused("\r\n \n") == Refused(""));
  CHECK(Refused(",,\n,") == Words{"a.csv the file has no task"});
  CHECK(Refused("0F0,0B0,0X1") ==
        Words{"a.csv:1:9 `0X1` is no task of a schedule"});
  for (const char* cell :
       {"F0", "0F", "0f0", "-1F0", "0F-1", "0F0B0", "99999999999F0", "0SEND_F0",
        "(0F0;0B0)", "(0F0)OVERLAP_F_B", "(0B0;0F0)OVERLAP_F_B",
        "(0F0;0W0)OVERLAP_F_B", "0F1.5", "0 F0"}) {
    CAPTURE(cell);
    CHECK(Refused(std::string("0F0,0B0,") + cell).size() == 1);
  }
  CHECK(Refused("0F0,0B0\n", {2, 1}) ==
        Words{"a.csv the file has 1 row, not one for each of 2 ranks"});
  CHECK(Refused("0F0,0B0\n2F0,2B0\n") ==
        Words{"a.csv:2:1 no row has a task of stage 1, but this row has one "
              "of stage 2"});
  CHECK(Refused("0F0,0F1,0B0,0B1\n", {1, 1}) ==
        Words{"a.csv:1:5 micro-batch 1 is not one of the 1, which start at 0"});
  CHECK(Refused("0F0,0B0\n", {1, 2}) ==
        Words{"a.csv:1:1 `0F1` is missing",
              "a.csv:1:1 `0B1` or `0I1` is missing"});
  CHECK(Refused("0F0,0B0,0W0\n") ==
        Words{"a.csv:1:9 `0W0` computes the gradients of the weights that "
              "`0B0` computed before"});
  CHECK(Refused("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n") ==
        Words{"a.csv:1:1 `0B1` or `0I1` is missing"});
  CHECK(Refused("0F0,0B0\n(1F0;1B0)OVERLAP_F_B\n") ==
        Words{"a.csv:2:1 `1B0` is overlapped with `1F0`, whose result it "
              "reads"});
  CHECK(Refused("(0F0;0I0)OVERLAP_F_B,0W0\n") ==
        Words{"a.csv:1:1 `0I0` is overlapped with `0F0`, whose result it "
              "reads"});
}

TEST_CASE("a file of too many tasks is refused before it is complete") {
  std::string text;
  for (int64_t i = 0; i <= kMostTasks; ++i) text += "0F0,";
  Findings findings;
  CHECK_FALSE(ReadCsv(MakeSource("a.csv", text), {}, findings));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.all().front().message ==
        "a schedule has more than 4,194,304 tasks");
}

TEST_CASE("huge numbers in a cell take no memory") {
  CHECK(Refused("2147483647F0,2147483647B0\n").size() == 1);
  CHECK(Refused("0F0,0B0,0F4096,0B4096\n") ==
        Words{"a.csv:1:9 the file has 4 tasks, fewer than the 8,194 that 4,097 "
              "micro-batches need forward and back through 1 stage"});
  CHECK(Refused("0F2147483647,0B2147483646\n") ==
        Words{"a.csv:1:1 the file has 2 tasks, fewer than the 4,294,967,294 "
              "that 2,147,483,647 micro-batches need forward and back through "
              "1 stage"});
}

}  // namespace
}  // namespace shardc::schedule
