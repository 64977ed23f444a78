// Checks which schedules can run if channels have room for a limited number of
// messages, by counts over all tables of the sizes that papers use.
#include "schedule/channels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedules.h"

namespace shardc::schedule {
namespace {

template <class Visit>
void ForEachTable(const std::string& name, const Visit& visit) {
  const Schedule& schedule = *FindSchedule(name);
  for (int32_t p = 2; p <= 8; ++p) {
    for (int32_t v = 1; v <= 3; ++v) {
      for (int32_t m = 1; m <= 3 * p; ++m) {
        const Extent extent{p, v, m};
        if (!Refusal(schedule, extent)) visit(MakeTable(schedule, extent));
      }
    }
  }
}

struct Passes {
  int tables = 0, rendezvous = 0, one = 0, two = 0, any = 0;
};

Passes CountOf(const std::string& name, Receives receives, ChannelScope scope) {
  Passes out;
  ForEachTable(name, [&](const Table& table) {
    const auto least = LeastCapacity(Lower(table, receives), scope);
    ++out.tables;
    out.rendezvous += least && *least == 0 ? 1 : 0;
    out.one += least && *least <= 1 ? 1 : 0;
    out.two += least && *least <= 2 ? 1 : 0;
    out.any += least ? 1 : 0;
  });
  return out;
}

TEST_CASE("receives in the sender's turn run without room in the channels") {
  int tables = 0;
  for (const Schedule& schedule : Schedules()) {
    CAPTURE(schedule.name);
    const Passes passes = CountOf(std::string(schedule.name),
                                  Receives::kInSendOrder, ChannelScope::kPair);
    CHECK(passes.rendezvous == passes.tables);
    tables += passes.tables;
  }
  MESSAGE(tables << " tables");
  CHECK(tables > 700);
}

// Each receive comes right before the task that reads its value, one at a time.
TEST_CASE("a schedule of one chunk a rank runs with one message in a channel") {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    CAPTURE(name);
    const Passes passes = CountOf(name, Receives::kAtUse, ChannelScope::kPair);
    CHECK(passes.one == passes.tables);
    CHECK((passes.rendezvous == passes.tables) == (name[0] == 'g'));
  }
}

TEST_CASE("interleaved schedules need more room the more virtual stages") {
  for (const char* name : {"interleaved", "interleaved-zb", "looped-bfs"}) {
    CAPTURE(name);
    const Passes passes =
        CountOf(name, Receives::kAtUse, ChannelScope::kPairAndKind);
    CHECK(passes.one < passes.tables);
    CHECK(passes.two > passes.one);
    CHECK(passes.any == passes.tables);
  }
}

TEST_CASE("schedules of two chunks need a channel for each direction of work") {
  for (const char* name : {"zbv", "dualpipe", "dualpipev"}) {
    CAPTURE(name);
    const Passes apart =
        CountOf(name, Receives::kAtUse, ChannelScope::kPairAndKind);
    CHECK(apart.one == apart.tables);
    const Passes joint = CountOf(name, Receives::kAtUse, ChannelScope::kPair);
    CHECK(joint.any < joint.tables / 2);
  }
}

TEST_CASE("a batch of send and receive needs no room in 1f1b and zb-h1") {
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    CAPTURE(name);
    const Passes passes =
        CountOf(name, Receives::kAtUseBatched, ChannelScope::kPair);
    CHECK(passes.rendezvous == passes.tables);
  }
  ForEachTable("zb-h2", [&](const Table& table) {
    const Programs programs = Lower(table, Receives::kAtUseBatched);
    CHECK(RunChannels(programs, 0, ChannelScope::kPair).passes ==
          (table.microbatches < 2 * table.ranks()));
  });
}

// Applies `change` to a lowered table, and runs it over channels with room for
// four messages.
template <class Change>
ChannelRun RunChanged(const Change& change) {
  const Table table = MakeTable(*FindSchedule("1f1b"), {3, 1, 4});
  Programs programs = Lower(table, Receives::kInSendOrder);
  change(programs);
  return RunChannels(programs, 4, ChannelScope::kPair);
}

std::vector<size_t> Of(const std::vector<Operation>& program,
                       OperationKind kind) {
  std::vector<size_t> out;
  for (size_t i = 0; i < program.size(); ++i) {
    if (program[i].kind == kind) out.push_back(i);
  }
  return out;
}

TEST_CASE("a message that is swapped, missing or misdirected is reported") {
  const ChannelRun swapped = RunChanged([](Programs& programs) {
    auto& program = programs[1];
    const auto at = Of(program, OperationKind::kReceive);
    std::swap(program[at[0]].message.micro, program[at[1]].message.micro);
  });
  CHECK(swapped.mismatch);
  CHECK(swapped.text ==
        "rank 1 receives the activation of micro-batch 0 from stage 0 from "
        "rank 0 where it expects the activation of micro-batch 1 from stage 0");
  const ChannelRun order = RunChanged([](Programs& programs) {
    auto& program = programs[0];
    const auto at = Of(program, OperationKind::kSend);
    std::swap(program[at[0]].message, program[at[1]].message);
  });
  CHECK(order.mismatch);
  const ChannelRun no_receive = RunChanged([](Programs& programs) {
    auto& program = programs[2];
    program.erase(
        program.begin() +
        static_cast<ptrdiff_t>(Of(program, OperationKind::kReceive).back()));
  });
  CHECK_FALSE(no_receive.passes);
  CHECK(no_receive.text ==
        "the activation of micro-batch 3 from stage 1, which rank 1 sends to "
        "rank 2, is never received");
  const ChannelRun no_send = RunChanged([](Programs& programs) {
    auto& program = programs[1];
    program.erase(
        program.begin() +
        static_cast<ptrdiff_t>(Of(program, OperationKind::kSend).back()));
  });
  CHECK_FALSE(no_send.passes);
  CHECK(no_send.text ==
        "rank 0 waits for ever to receive the gradient of micro-batch 3 from "
        "stage 1 from rank 1");
  const ChannelRun elsewhere = RunChanged([](Programs& programs) {
    programs[0][Of(programs[0], OperationKind::kSend)[0]].peer = 2;
  });
  CHECK_FALSE(elsewhere.passes);
}

TEST_CASE("1f1b with blocking sends one by one waits for ever") {
  const Table table = MakeTable(*FindSchedule("1f1b"), {2, 1, 2});
  const ChannelRun run =
      RunChannels(Lower(table, Receives::kAtUse), 0, ChannelScope::kPair);
  CHECK_FALSE(run.passes);
  CHECK(run.text ==
        "rank 0 waits for ever to send the activation of micro-batch 1 from "
        "stage 0 to rank 1");
}

TEST_CASE("a rank that waits in a batch is reported with what it waits for") {
  const Message activation = {true, 0, 0}, gradient = {false, 1, 0};
  // Rank 0 receives the gradient, and no rank receives its activation.
  const Programs programs = {
      {{.kind = OperationKind::kSend, .message = activation, .peer = 1},
       {.kind = OperationKind::kReceive,
        .batched = true,
        .message = gradient,
        .peer = 1}},
      {{.kind = OperationKind::kSend, .message = gradient, .peer = 0}}};
  const ChannelRun run = RunChannels(programs, 0, ChannelScope::kPair);
  CHECK_FALSE(run.passes);
  CHECK(run.rank == 0);
  CHECK(run.text ==
        "rank 0 waits for ever to send the activation of micro-batch 0 from "
        "stage 0 to rank 1");
}

TEST_CASE("zbv over one channel for both kinds delivers the wrong message") {
  const Table table = MakeTable(*FindSchedule("zbv"), {2, 2, 4});
  const Programs programs = Lower(table, Receives::kAtUse);
  CHECK(RunChannels(programs, 4, ChannelScope::kPair).mismatch);
  CHECK(RunChannels(programs, 1, ChannelScope::kPairAndKind).passes);
}

}  // namespace
}  // namespace shardc::schedule
