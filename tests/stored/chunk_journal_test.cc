// Tests the journal of written chunks: its lines, what another run reads from
// them, and which chunks are still valid after a kill.
#include "stored/write.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "source/digest.h"
#include "stored/checksum.h"
#include "temporary_folder.h"

namespace shardc::stored {
namespace {

const JournalKey kKey = {"chunks", "state"};

WrittenChunk InFile(int64_t offset, int64_t bytes, uint32_t crc) {
  WrittenChunk out;
  out.offset = offset;
  out.bytes = bytes;
  out.crc = crc;
  return out;
}

WrittenChunk HeldChunk(const std::string& bytes) {
  WrittenChunk out;
  out.bytes = static_cast<int64_t>(bytes.size());
  out.crc = Crc32c(bytes);
  out.held = bytes;
  return out;
}

// Returns "offset bytes crc held" for each chunk.
std::vector<std::string> Texts(const std::vector<WrittenChunk>& chunks) {
  std::vector<std::string> out;
  for (const WrittenChunk& one : chunks) {
    out.push_back(std::to_string(one.offset) + " " + std::to_string(one.bytes) +
                  " " + std::to_string(one.crc) +
                  (one.held ? " held " + *one.held : ""));
  }
  return out;
}

using Lines = std::vector<std::string>;

// Returns the chunks that another process reads, and "done" after the last one
// if all were written.
Lines ReadBack(const std::string& path, const JournalKey& key = kKey) {
  const auto read = ChunkJournal::Read(path, key);
  if (!read) return {"unreadable"};
  Lines out = Texts(read->chunks());
  if (read->done()) out.emplace_back("done");
  return out;
}

TEST_CASE("journal: names hold the run, process and number of processes") {
  CHECK(JournalName("x", 123456, 7) == ".x-123456-of-00007.journal");
  const JournalParts names[] = {
      {".shardc-00000-of-00001.journal", "shardc", 0, 1},
      {".shardc-00003-of-00004.journal", "shardc", 3, 4},
      {".shardc-123456-of-1234567.journal", "shardc", 123456, 1234567},
      {".m-00001-of-00002.safetensors-00000-of-00003.journal",
       "m-00001-of-00002.safetensors", 0, 3},
      {".-00000-of-00001.journal", "", 0, 1},
  };
  for (const JournalParts& name : names) {
    CAPTURE(name.name);
    CHECK(JournalName(name.tag, name.index, name.count) == name.name);
    const auto parts = ParseJournalName(name.name);
    REQUIRE(parts);
    CHECK(parts->name == name.name);
    CHECK(parts->tag == name.tag);
    CHECK(parts->index == name.index);
    CHECK(parts->count == name.count);
  }
  for (const char* name :
       {"", "-of-", "x-of-", "00000-of-00001.journal",
        "-00000-of-00001.journal", "shardc-00000-of-00001.journal",
        ".shardc-00004-of-00004.journal", ".shardc-00005-of-00004.journal",
        ".shardc-0000-of-00001.journal", ".shardc-00000-of-00001.journal2",
        ".shardc-00000-of-0001.journal", ".shardc-00000-of-.journal",
        ".shardc--0001-of-00004.journal", ".shardc-00000.journal",
        ".shardc-x-of-00004.journal", ".00000-of-00001.journal"}) {
    CAPTURE(name);
    CHECK_FALSE(ParseJournalName(name));
  }
}

TEST_CASE("journal: the journals of a run are found, counted and removed") {
  const TemporaryFolder folder;
  CHECK(CountProcesses(folder / "", "a") == 1);
  CHECK(JournalsIn(folder / "none", {}).empty());
  for (const char* name :
       {".a-00000-of-00003.journal", ".a-00002-of-00003.journal",
        ".b-00000-of-9999999.journal", ".a-3-of-4.journal", "data"}) {
    folder.Write(name, "");
  }
  CHECK(JournalsIn(folder / "", {}).size() == 3);
  REQUIRE(JournalsIn(folder / "", "a").size() == 2);
  CHECK(JournalsIn(folder / "", "a")[1].index == 2);
  CHECK(CountProcesses(folder / "", "a") == 3);
  CHECK(CountProcesses(folder / "", "b") == 1'000'000);
  RemoveJournals(folder / "", "a", 2);
  CHECK(folder.Count() == 5);
  RemoveJournals(folder / "", "a", 3);
  CHECK(folder.Count() == 3);
}

TEST_CASE("journal: a run waits while another process tests the lock") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("j", "");
  Descriptor other;
  REQUIRE(other.Open(path, O_RDONLY));
  REQUIRE(LockFile(other.get(), {}));
  std::thread test([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Descriptor closed = std::move(other);
  });
  Findings findings;
  CHECK(ChunkJournal::Open(path, kKey, findings).has_value());
  test.join();
}

TEST_CASE("journal: a journal that is removed while a run opens it") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("j", "");
  Descriptor other;
  REQUIRE(other.Open(path, O_RDONLY));
  REQUIRE(LockFile(other.get(), {}));
  std::thread test([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::unlink(path.c_str());
    Descriptor closed = std::move(other);
  });
  Findings findings;
  const auto journal = ChunkJournal::Open(path, kKey, findings);
  test.join();
  REQUIRE(journal);
  CHECK(folder.Read("j") == "shardc-chunks/v1 chunks state\n");
}

TEST_CASE("journal: lines hold offset, bytes, CRC and small chunks") {
  const TemporaryFolder folder;
  const std::string path = folder / "j";
  Findings findings;
  {
    auto journal = ChunkJournal::Open(path, kKey, findings);
    REQUIRE(journal);
    CHECK(journal->chunks().empty());
    CHECK_FALSE(journal->done());
    // The first line is written immediately, and other lines are buffered.
    CHECK(folder.Read("j") == "shardc-chunks/v1 chunks state\n");
    CHECK(journal->Add(InFile(0, 4096, 0x1f2e3d4c)));
    CHECK(journal->Add(InFile(4096, 3, 0xabc)));
    CHECK(journal->Add(HeldChunk(std::string("\x01\xff\0z", 4))));
    CHECK(folder.Read("j") == "shardc-chunks/v1 chunks state\n");
    CHECK(journal->chunks().size() == 3);
    CHECK(journal->MarkDone());
    CHECK(journal->done());
  }
  const std::string held = ChecksumText(Crc32c(std::string("\x01\xff\0z", 4)));
  CHECK(folder.Read("j") ==
        "shardc-chunks/v1 chunks state\n0 4096 1f2e3d4c\n4096 3 00000abc\n"
        "0 4 " +
            held.substr(held.find(':') + 1) + " 01ff007a\ndone\n");
  CHECK(ReadBack(path).size() == 4);
  CHECK(ReadBack(path).back() == "done");
  // The next run with the same key continues the journal.
  auto next = ChunkJournal::Open(path, kKey, findings);
  REQUIRE(next);
  CHECK(next->done());
  CHECK(Texts(next->chunks()) ==
        Texts({InFile(0, 4096, 0x1f2e3d4c), InFile(4096, 3, 0xabc),
               HeldChunk(std::string("\x01\xff\0z", 4))}));
  // Keep removes the mark that all is done, and the chunks after the given
  // number.
  CHECK(next->Keep(1));
  CHECK_FALSE(next->done());
  CHECK(folder.Read("j") == "shardc-chunks/v1 chunks state\n0 4096 1f2e3d4c\n");
  CHECK(next->Keep(9));
  CHECK(next->chunks().size() == 1);
  next->Remove();
  CHECK(ReadBack(path) == Lines{"unreadable"});
  CHECK(findings.empty());
}

TEST_CASE("journal: another key starts a new journal, another state is read") {
  const TemporaryFolder folder;
  const std::string path =
      folder.Write("j", "shardc-chunks/v1 chunks state\n0 4 00000001\ndone\n");
  CHECK(ReadBack(path) == Lines{"0 4 1", "done"});
  CHECK(ReadBack(path, {"chunks", "other"}) == Lines{"0 4 1", "done"});
  CHECK(ReadBack(path, {"chunk", "state"}) == Lines{"unreadable"});
  CHECK(ReadBack(folder / "none") == Lines{"unreadable"});
  Findings findings;
  {
    const auto journal =
        ChunkJournal::Open(path, {"chunks", "other"}, findings);
    REQUIRE(journal);
    CHECK(journal->chunks().empty());
    CHECK(folder.Read("j") == "shardc-chunks/v1 chunks other\n");
  }
  // An empty key never matches.
  folder.Write("j", "shardc-chunks/v1  state\n0 4 00000001\n");
  const auto journal = ChunkJournal::Open(path, {"", "state"}, findings);
  REQUIRE(journal);
  CHECK(journal->chunks().empty());
  CHECK(findings.empty());
}

TEST_CASE("journal: what a kill cuts off does not count") {
  const TemporaryFolder folder;
  const std::string first = "shardc-chunks/v1 chunks state\n";
  const struct {
    std::string lines;
    Lines expected;
  } cases[] = {
      {"", {}},
      {"0 4 00000001", {}},
      {"0 4 00000001\n4 4 0000", {"0 4 1"}},
      {"0 4 00000001\ndone", {"0 4 1"}},
      {"0 4 00000001\ndone\n4 4 00000002\n", {"0 4 1", "done"}},
      // The first malformed line ends the journal.
      {"0 4 00000001\n-1 4 00000001\n0 4 00000001\n", {"0 4 1"}},
      {"0 -4 00000001\n", {}},
      {"0 4\n", {}},
      {"x 4 00000001\n", {}},
      {"0 4 zz\n", {}},
      {"0 2 00000001 0aff\n", {"0 2 1 held \n\xff"}},
      {"0 2 00000001 0af\n", {}},
      {"0 2 00000001 0a\n", {}},
      {"0 1 00000001 0g\n", {}},
      {"0 1 00000001 0a0b\n", {}},
  };
  for (const auto& one : cases) {
    CAPTURE(one.lines);
    CHECK(ReadBack(folder.Write("j", first + one.lines)) == one.expected);
  }
  CHECK(ReadBack(folder.Write("j", "shardc-chunks/v1 chunks state")).empty());
  CHECK(ReadBack(folder.Write("j", "shardc-chunks/v1 chunks")) ==
        Lines{"unreadable"});
}

TEST_CASE("journal: lines of large or many chunks are written early") {
  const TemporaryFolder folder;
  Findings findings;
  auto journal = ChunkJournal::Open(folder / "j", kKey, findings);
  REQUIRE(journal);
  const auto lines = [&] { return ReadBack(folder / "j").size(); };
  // The lines are written after 8 MiB of chunks,
  const int64_t half = int64_t{4} << 20;
  CHECK(journal->Add(InFile(0, half, 1)));
  CHECK(lines() == 0);
  CHECK(journal->Add(InFile(half, half, 1)));
  CHECK(lines() == 2);
  CHECK(journal->Add(InFile(2 * half, half, 1)));
  CHECK(lines() == 2);
  // or after 4 KiB of lines.
  CHECK(journal->Add(HeldChunk(std::string(2048, 'x'))));
  CHECK(lines() == 4);
}

TEST_CASE("journal: a run locks its journal, and shows which run it is") {
  const TemporaryFolder folder;
  const std::string path = folder / "j";
  Findings findings;
  CHECK_FALSE(JournalFile::IsOfAnotherRun(path, kKey.Start()));
  {
    auto journal = ChunkJournal::Open(path, kKey, findings);
    REQUIRE(journal);
    CHECK_FALSE(JournalFile::IsOfAnotherRun(path, kKey.Start()));
    CHECK_FALSE(JournalFile::IsOfAnotherRun(
        path, JournalKey{"chunks", "other"}.Start()));
    CHECK(JournalFile::IsOfAnotherRun(path,
                                      JournalKey{"other", "state"}.Start()));
    CHECK_FALSE(ChunkJournal::Open(path, kKey, findings).has_value());
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].message == "another run has locked `" + path + "`");
    CHECK(findings.all()[0].code->name == "write");
    // The lock moves with the journal.
    const ChunkJournal moved = std::move(*journal);
    CHECK(JournalFile::IsOfAnotherRun(path,
                                      JournalKey{"other", "state"}.Start()));
    CHECK(moved.chunks().empty());
  }
  CHECK_FALSE(
      JournalFile::IsOfAnotherRun(path, JournalKey{"other", "state"}.Start()));
  CHECK_FALSE(ChunkJournal::Open(folder / "no/j", kKey, findings).has_value());
  CHECK(findings.errors() == 2);
}

TEST_CASE("journal: the first chunks whose bytes have their CRC are intact") {
  const TemporaryFolder folder;
  const std::string data = folder.Write("data", "0123456789");
  const std::vector<WrittenChunk> chunks = {
      InFile(0, 4, Crc32c("0123")), HeldChunk("held"),
      InFile(4, 6, Crc32c("456789")), InFile(10, 0, Crc32c(""))};
  CHECK(CountIntact(data, chunks) == 4);
  CHECK(CountIntact(data, {}) == 0);
  CHECK(CountIntact(folder / "none", chunks) == 0);
  folder.Write("data", "01234567x9");
  CHECK(CountIntact(data, chunks) == 2);
  folder.Write("data", "x123456789");
  CHECK(CountIntact(data, chunks) == 0);
  // The file ends inside a chunk.
  folder.Write("data", "012345678");
  CHECK(CountIntact(data, chunks) == 2);
  auto wrong = chunks;
  wrong[1].crc ^= 1;
  folder.Write("data", "0123456789");
  CHECK(CountIntact(data, wrong) == 1);
  // The chunk is longer than what is read at once.
  const std::string large((size_t{1} << 20) + 5, 'a');
  const std::string file = folder.Write("large", large);
  const auto all = static_cast<int64_t>(large.size());
  CHECK(CountIntact(file, {{InFile(0, all, Crc32c(large))}}) == 1);
  CHECK(CountIntact(file, {{InFile(1, all - 1, Crc32c(large))}}) == 0);
}

}  // namespace
}  // namespace shardc::stored
