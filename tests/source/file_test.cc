#include "source/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace shardc {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "shardc_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }
  size_t Count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string Get(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string CodeOf(const std::string& path, int64_t limit = kTextLimitBytes) {
  Findings findings;
  if (ReadSource(path, findings, limit) != nullptr) return "ok";
  REQUIRE(findings.errors() == 1);
  return std::string(findings.all()[0].code->name);
}

TEST_CASE("file: what is read and what is refused") {
  const Folder folder;
  Put(folder / "plain", std::string(100, 'x'));
  Put(folder / "bomb.gz", Gzip(std::string(1000000, 'x')));
  Put(folder / "cut.gz", Gzip("hello world").substr(0, 15));
  Put(folder / "tail.gz", Gzip("hello") + "tail");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(CodeOf(folder / "plain") == "ok");
  CHECK(CodeOf(folder / "plain", 100) == "ok");
  CHECK(CodeOf(folder / "plain", 99) == "limit");
  CHECK(CodeOf(folder / "bomb.gz", 1000000) == "ok");
  CHECK(CodeOf(folder / "bomb.gz", 999999) == "limit");
  CHECK(CodeOf(folder / "cut.gz") == "unreadable");
  CHECK(CodeOf(folder / "tail.gz") == "unreadable");
  CHECK(CodeOf(folder / "fifo") == "not-regular");
  CHECK(CodeOf(folder / "none") == "missing");
  CHECK(CodeOf(folder / "plain/none") == "missing");
  CHECK(CodeOf(folder / ".") == "not-regular");
  CHECK(CodeOf("/dev/zero") == "not-regular");
  CHECK(CodeOf("/proc/self/status") == "ok");  // says its size is 0
  CHECK(CodeOf("") == "missing");
}

TEST_CASE("file: gzip members one after the other, and zero padding") {
  std::string why;
  CHECK(Inflate(Gzip("one ") + Gzip("two"), 100, &why) == "one two");
  CHECK(Inflate(Gzip("one") + std::string(512, '\0'), 100, &why) == "one");
  CHECK(Inflate(Gzip(""), 0, &why) == "");
  std::string damaged = Gzip("some text that is long enough");
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK_FALSE(Inflate(damaged, 100, &why));
  CHECK_FALSE(why.empty());
  // Across the chunks that zlib is fed and filled with.
  std::string big;
  for (int i = 0; i < 900000; ++i) big += std::to_string(i * 2654435761u);
  CHECK(Inflate(Gzip(big), int64_t{1} << 30, &why) == big);
}

TEST_CASE("file: writes are whole or not at all") {
  const Folder folder;
  Findings findings;
  REQUIRE(WriteWhole(folder / "a", "one", findings));
  ::chmod((folder / "a").c_str(), 0640);
  fs::create_symlink("a", folder / "link");
  REQUIRE(WriteWhole(folder / "link", "two", findings));
  CHECK(Get(folder / "a") == "two");
  CHECK(fs::is_symlink(folder / "link"));
  struct stat status = {};
  ::stat((folder / "a").c_str(), &status);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(folder.Count() == 2);
  CHECK(WriteWhole("/dev/null", "x", findings));

  CHECK_FALSE(WriteWhole(folder / ".", "x", findings));
  CHECK_FALSE(WriteWhole(folder / "no/such", "x", findings));
  CHECK_FALSE(WriteWhole("/dev/full", "x", findings));
  CHECK(findings.errors() == 3);
  CHECK(findings.all()[2].code->name == "write");
  CHECK(folder.Count() == 2);
}

TEST_CASE("file: a write that fails half way leaves the old file alone") {
  const Folder folder;
  Findings findings;
  REQUIRE(WriteWhole(folder / "a", "old", findings));
  struct rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const bool written =
      WriteWhole(folder / "a", std::string(5000, 'x'), findings);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_FALSE(written);
  CHECK(findings.errors() == 1);
  CHECK(Get(folder / "a") == "old");
  CHECK(folder.Count() == 1);
}

TEST_CASE("file: paths beside a file") {
  CHECK(PathBeside("a/x.yaml", "b") == "a/b");
  CHECK(PathBeside("x.yaml", "b") == "b");
  CHECK(PathBeside("/x.yaml", "../b") == "/../b");
  CHECK(PathBeside("a/x.yaml", "/b") == "/b");
}

}  // namespace
}  // namespace shardc
