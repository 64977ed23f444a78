#include "source/sink.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "temporary_folder.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

TEST_CASE("file sink: writes are complete or not made at all") {
  const TemporaryFolder folder;
  Findings findings;
  REQUIRE(WriteToFile(folder / "a", "one", findings));
  ::chmod((folder / "a").c_str(), 0640);
  fs::create_symlink("a", folder / "link");
  REQUIRE(WriteToFile(folder / "link", "two", findings));
  CHECK(folder.Read("a") == "two");
  CHECK(fs::is_symlink(folder / "link"));
  struct stat status = {};
  ::stat((folder / "a").c_str(), &status);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(folder.Count() == 2);
  CHECK(WriteToFile("/dev/null", "x", findings));

  CHECK_FALSE(WriteToFile(folder / ".", "x", findings));
  CHECK_FALSE(WriteToFile(folder / "no/such", "x", findings));
  CHECK_FALSE(WriteToFile("/dev/full", "x", findings));
  CHECK_FALSE(WriteToFile("", "x", findings));
  CHECK(findings.errors() == 4);
  CHECK(findings.all()[2].code->name == "write");
  CHECK(folder.Count() == 2);
}

TEST_CASE("file sink: a link whose file does not exist yet is kept") {
  const TemporaryFolder folder;
  Findings findings;
  fs::create_directory(folder / "below");
  fs::create_symlink("below/a", folder / "link");
  fs::create_symlink("link", folder / "second");
  REQUIRE(WriteToFile(folder / "second", "one", findings));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "second"));
  CHECK(folder.Read("below/a") == "one");
  REQUIRE(WriteToFile(folder / "link", "two", findings));
  CHECK(folder.Read("below/a") == "two");

  fs::create_symlink("no/such", folder / "far");
  CHECK_FALSE(WriteToFile(folder / "far", "x", findings));
  fs::create_symlink("circle", folder / "circle");
  CHECK_FALSE(WriteToFile(folder / "circle", "x", findings));
  REQUIRE(findings.errors() == 2);
  CHECK(findings.all()[0].message.find("there is no folder `") !=
        std::string::npos);
  CHECK(fs::is_symlink(folder / "far"));
  CHECK(fs::is_symlink(folder / "circle"));
}

TEST_CASE("file sink: until it is committed the old file stands") {
  const TemporaryFolder folder;
  Findings findings;
  folder.Write("a", "old");
  const std::string piece(10'000, 'x');
  {
    FileSink file(folder / "a");
    for (int i = 0; i < 100; ++i) file.Append(piece);
    CHECK(folder.Read("a") == "old");
    CHECK(folder.Count() == 1);  // the new one has no name yet
  }
  CHECK(folder.Read("a") == "old");
  CHECK(folder.Count() == 1);
  FileSink file(folder / "a");
  for (int i = 0; i < 100; ++i) file.Append(piece);
  REQUIRE(file.Commit(findings));
  CHECK(folder.Read("a") == std::string(1'000'000, 'x'));
  CHECK(folder.Count() == 1);
}

TEST_CASE("file sink: a prepared file has no name until it is committed") {
  const TemporaryFolder folder;
  folder.Write("a", "old");
  Findings findings;
  FileSink good(folder / "a");
  good.Append("new");
  REQUIRE(good.Prepare(findings));
  CHECK(folder.Read("a") == "old");
  FileSink bad("/dev/full");
  bad.Append("new");
  CHECK_FALSE(bad.Prepare(findings));
  CHECK(findings.errors() == 1);
  CHECK(folder.Read("a") == "old");
  REQUIRE(good.Commit(findings));
  CHECK(folder.Read("a") == "new");
  CHECK(folder.Count() == 1);
}

TEST_CASE("file sink: what is known last may stand first") {
  const TemporaryFolder folder;
  Findings findings;
  // The disk begins to write the longest before it is complete.
  for (const size_t body :
       {size_t{0}, size_t{9}, size_t{300'000}, size_t{40'000'000}}) {
    CAPTURE(body);
    FileSink file(folder / "a");
    REQUIRE(file.amendable());
    file.Append("head ");
    const int64_t first = file.Leave(3);
    file.Append(std::string(body, 'x'));
    const int64_t second = file.Leave(2);
    file.Append(" end");
    file.Amend(second, "89");
    file.Amend(first, "567");
    REQUIRE(file.Commit(findings));
    CHECK(folder.Read("a") == "head 567" + std::string(body, 'x') + "89 end");
  }
  CHECK_FALSE(FileSink("-").amendable());
}

TEST_CASE("file sink: a process that is killed leaves nothing") {
  const TemporaryFolder folder;
  folder.Write("a", "old");
  for (const std::string name : {"a", "b"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      FileSink file(folder / name);
      for (int i = 0; i < 100; ++i) file.Append(std::string(10'000, 'x'));
      ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(folder.Count() == 1);
    CHECK(folder.Read("a") == "old");
  }
}

TEST_CASE("file sink: what a killed run had named goes with the next") {
  const TemporaryFolder folder;
  folder.Write("a", "old");
  folder.Write(".a.new.tmp", "whole, but not renamed");
  Findings findings;
  REQUIRE(WriteToFile(folder / "a", "new", findings));
  CHECK(folder.Read("a") == "new");
  CHECK(folder.Count() == 1);
}

TEST_CASE("unfinished files go, those that were finished stay") {
  const TemporaryFolder folder;
  folder.Write("a", "1");
  folder.Write("b", "2");
  const std::string a = folder / "a", b = folder / "b";
  {
    const Unfinished one(a.c_str());
    const Unfinished none((folder / "c").c_str());
  }
  const Unfinished other(b.c_str());
  RemoveUnfinished();
  CHECK(folder.Count() == 1);
  CHECK(folder.Read("a") == "1");
}

// While an object exists, the size of files is limited, so that writes fail as
// on a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit small = before_;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  struct rlimit before_ = {};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST_CASE("file sink: a write that fails half way leaves the old file alone") {
  const TemporaryFolder folder;
  folder.Write("a", "old");
  // The write fails in the first piece, in a later one, and in the last one,
  // which Commit flushes.
  for (const size_t bytes : {size_t{5000}, size_t{300'000}, size_t{70'000}}) {
    Findings findings;
    const SmallFiles small(bytes == 5000 ? 1000 : 66'000);
    FileSink file(folder / "a");
    for (size_t at = 0; at < bytes; at += 1000) {
      file.Append(std::string(1000, 'x'));
    }
    CHECK_FALSE(file.Commit(findings));
    CHECK(findings.errors() == 1);
    CHECK(folder.Read("a") == "old");
  }
  CHECK(folder.Count() == 1);
}

// While an object exists, standard output is redirected to a descriptor.
class Stdout {
 public:
  explicit Stdout(int fd) : saved_(::dup(STDOUT_FILENO)) {
    ::dup2(fd, STDOUT_FILENO);
  }
  ~Stdout() {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST_CASE("file sink: standard output that nobody reads, or that is full") {
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  auto* handler = std::signal(SIGPIPE, SIG_IGN);
  Findings findings;
  bool early = false;
  {
    const Stdout redirected(ends[1]);
    early = WriteToFile("-", std::string(100'000, 'x'), findings);
  }
  ::close(ends[1]);
  std::signal(SIGPIPE, handler);
  CHECK(early);  // `| head` has seen enough
  CHECK(findings.empty());

  const int full = ::open("/dev/full", O_WRONLY);
  bool written = true;
  {
    const Stdout redirected(full);
    written = WriteToFile("-", "x", findings);
  }
  ::close(full);
  CHECK_FALSE(written);
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message.find("standard output") == 0);
}

}  // namespace
}  // namespace shardc
