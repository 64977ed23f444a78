#include "checkpoint/transfer.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>

#include "temporary_folder.h"

namespace shardc {
namespace {

// Two outputs, and one tensor that is stored in one piece.
Transfer Small() {
  Transfer out;
  out.sources.push_back({"in", 100, 5, 6, 10, 7});
  TransferTensor tensor;
  tensor.name = "w";
  tensor.shape = {4, 2};
  tensor.sources.push_back({0, 16, {{0, 0}, {4, 2}}, {}});
  tensor.parts = {{{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}};
  tensor.places = "p";
  out.tensors.push_back(tensor);
  out.outputs.push_back({"a", "header", 40, {{0, 0, 8, 16}}});
  out.outputs.push_back({"b", "header", 40, {{0, 1, 8, 16}, {0, 0, 24, 16}}});
  return out;
}

TEST_CASE(
    "a transfer's key changes with everything that its pieces depend on") {
  const std::function<void(Transfer&)> changes[] = {
      [](Transfer& t) { t.sources[0].size = 101; },
      [](Transfer& t) { t.sources[0].modified_ns = 6; },
      [](Transfer& t) { t.sources[0].header_crc = 8; },
      [](Transfer& t) { t.sources.push_back(t.sources[0]); },
      [](Transfer& t) { t.tensors[0].name = "v"; },
      [](Transfer& t) {
        t.tensors[0].shape = {2, 4};
      },
      [](Transfer& t) { t.tensors[0].from = Dtype::kBF16; },
      [](Transfer& t) { t.tensors[0].to = Dtype::kBF16; },
      [](Transfer& t) { t.tensors[0].places = "q"; },
      [](Transfer& t) { t.tensors[0].sources[0].file = 1; },
      [](Transfer& t) { t.tensors[0].sources[0].offset = 17; },
      [](Transfer& t) { t.tensors[0].sources[0].box.offset[0] = 1; },
      [](Transfer& t) { t.tensors[0].sources[0].box.shape[0] = 3; },
      [](Transfer& t) { t.tensors[0].parts[1].offset[0] = 1; },
      [](Transfer& t) { t.tensors[0].parts[1].shape[1] = 1; },
      [](Transfer& t) { t.tensors[0].parts.pop_back(); },
      [](Transfer& t) { t.outputs[0].name = "c"; },
      [](Transfer& t) { t.outputs[0].header = "Header"; },
      [](Transfer& t) { t.outputs[0].size = 41; },
      [](Transfer& t) { t.outputs[0].pieces[0].tensor = 1; },
      [](Transfer& t) { t.outputs[0].pieces[0].part = 1; },
      [](Transfer& t) { t.outputs[0].pieces[0].offset = 9; },
      [](Transfer& t) { t.outputs[1].pieces.pop_back(); },
      [](Transfer& t) { t.outputs.pop_back(); },
  };
  std::set<std::string> keys = {TransferKey(Small())};
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    Transfer changed = Small();
    changes[i](changed);
    CHECK(keys.insert(TransferKey(changed)).second);
  }
  Transfer same = Small();
  same.directory = "elsewhere";
  same.sources[0].changed_ns = 9;
  CHECK(TransferKey(same) == TransferKey(Small()));
  CHECK(SourceState(same) != SourceState(Small()));
}

TEST_CASE("a journal keeps the checksums of an earlier run") {
  const TemporaryFolder folder;
  const std::string path = folder / "j";
  const Transfer transfer = Small();
  Findings findings;
  CHECK_FALSE(Journal::Read(path, "k", transfer));
  {
    auto journal = Journal::Open(path, "k", transfer, findings);
    REQUIRE(journal);
    CHECK_FALSE(journal->resumed());
    CHECK(journal->Add(0, 0, 0xdeadbeef));
    CHECK(journal->Add(1, 1, 1));
    CHECK(journal->Flush());
    // A second run with the same journal is refused while the first one runs.
    CHECK_FALSE(Journal::Open(path, "k", transfer, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].message == "cannot write in `" + (folder / "") +
                                           "`: another run is writing there");
  }
  auto again = Journal::Open(path, "k", transfer, findings);
  REQUIRE(again);
  CHECK(again->resumed());
  CHECK_FALSE(again->done());
  CHECK(again->recorded() == Checksums{{0xdeadbeef}, {{}, 1}});
  CHECK(again->MarkDone());
  const auto read = Journal::Read(path, "k", transfer);
  REQUIRE(read);
  CHECK(read->done());
  CHECK(read->recorded() == again->recorded());
  CHECK_FALSE(Journal::Read(path, "other", transfer));
  again->Remove();
  CHECK(folder.Count() == 0);
}

TEST_CASE("lines of another form, and an incomplete last one, do not count") {
  const TemporaryFolder folder;
  const Transfer transfer = Small();
  const std::string first =
      "shardc-journal/v1 k " + SourceState(transfer) + "\n";
  const auto recorded = [&](const std::string& text) {
    folder.Write("j", first + text);
    const auto journal = Journal::Read(folder / "j", "k", transfer);
    REQUIRE(journal);
    CHECK(journal->done() == (text == "done\n"));
    return journal->recorded();
  };
  const Checksums none = {{{}}, {{}, {}}};
  CHECK(recorded("0 0 ff\n") == Checksums{{255}, {{}, {}}});
  CHECK(recorded("0 0 ff\n1 0 00000010\n") == Checksums{{255}, {16, {}}});
  for (const char* text :
       {"", "done\n", "done", "0 0 ff", "2 0 ff\n", "0 1 ff\n", "1 2 ff\n",
        "0 0 ff 3\n", "0 0\n", "0\n", "x 0 ff\n", "0 0 100000000\n", "\n"}) {
    CAPTURE(text);
    CHECK(recorded(text) == none);
  }
  // The checksums of an earlier run are ignored after a change of its sources.
  folder.Write("j", "shardc-journal/v1 k 0\n0 0 ff\n");
  Findings findings;
  auto journal = Journal::Open(folder / "j", "k", transfer, findings);
  REQUIRE(journal);
  CHECK_FALSE(journal->resumed());
  CHECK(journal->recorded() == none);
}

}  // namespace
}  // namespace shardc
