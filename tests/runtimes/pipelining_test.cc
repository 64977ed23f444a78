// Compares schedules with those of torch.distributed.pipelining: the order of
// each rank's tasks, sends and receives, the ticks of a step in torch's
// visualizer, and its activation slots.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtimes/records.h"
#include "schedule/channels.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "source/digest.h"

namespace shardc {
namespace {

using schedule::Extent;
using schedule::Table;

// Computes the first 16 digits of the digest of a row's cells, joined by
// commas.
class RowDigest {
 public:
  void Add(const std::string& cell) {
    if (!text_.empty()) text_ += ',';
    text_ += cell;
  }
  std::string Text() const { return HexDigest("sha256", text_)->substr(0, 16); }

 private:
  std::string text_;
};

std::vector<std::string> OrderOf(const Table& table) {
  std::vector<std::string> out;
  for (const auto& row : table.rows) {
    RowDigest digest;
    for (const auto& cell : row) digest.Add(schedule::CellText(cell));
    out.push_back(digest.Text());
  }
  return out;
}

std::vector<std::string> LoweredOf(const Table& table) {
  std::vector<std::string> out;
  const auto programs =
      schedule::Lower(table, schedule::Receives::kInSendOrder);
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    RowDigest digest;
    for (const auto& operation : programs[rank]) {
      digest.Add(schedule::OperationText(table, static_cast<int32_t>(rank),
                                         operation));
    }
    out.push_back(digest.Text());
  }
  return out;
}

std::vector<std::string> Texts(JsonValue list) {
  std::vector<std::string> out;
  for (const JsonValue& item : list.items()) {
    out.emplace_back(item.string());
  }
  return out;
}

TEST_CASE("schedules are those of torch.distributed.pipelining") {
  const auto record = LoadRecord("pipelining/torch");
  int refused = 0, equal = 0, last_rank = 0, lowered = 0, steps = 0, slots = 0;
  for (const JsonValue& one : Member(record->root(), "cases").items()) {
    const std::string name(Member(one, "schedule").string());
    const auto size = [&](const char* key) {
      return static_cast<int32_t>(Member(one, key).integer());
    };
    const Extent extent{size("ranks"), size("virtual"), size("microbatches")};
    CAPTURE(name);
    CAPTURE(extent.ranks);
    CAPTURE(extent.virtual_stages);
    CAPTURE(extent.microbatches);
    const schedule::Schedule* schedule = schedule::FindSchedule(name);
    REQUIRE(schedule != nullptr);
    const bool torch_refuses = one.Find("refused").has_value();
    CHECK(schedule::Refusal(*schedule, extent).has_value() == torch_refuses);
    if (torch_refuses) {
      ++refused;
      continue;
    }
    const Table table = schedule::MakeTable(*schedule, extent);
    auto order = OrderOf(table), theirs = Texts(Member(one, "order"));
    if (one.Find("invalid")) {
      // torch's own check refuses the last rank of its 1F1B, in which a
      // backward task precedes its forward task.
      CHECK(name == "1f1b");
      CHECK(order.back() != theirs.back());
      order.pop_back();
      theirs.pop_back();
      ++last_rank;
    } else {
      ++equal;
    }
    CHECK(order == theirs);
    CHECK(LoweredOf(table) == Texts(Member(one, "lowered")));
    ++lowered;
    schedule::Times times;
    times.stages.resize(static_cast<size_t>(table.stages));
    CHECK(schedule::Simulate(table, times).step ==
          static_cast<double>(size("steps")));
    ++steps;
    if (const auto theirs_held = one.Find("slots")) {
      CHECK(schedule::HeldByRank(table) == Integers(*theirs_held));
      ++slots;
    }
  }
  CHECK(refused == 119);
  CHECK(equal == 466);
  CHECK(last_rank == 45);
  CHECK(lowered == 511);
  CHECK(steps == 511);
  CHECK(slots == 421);
}

}  // namespace
}  // namespace shardc
