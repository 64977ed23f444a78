#include "source/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "temporary_folder.h"

namespace shardc {
namespace {

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

std::string CodeOf(const std::string& path, int64_t limit = kTextLimitBytes) {
  Findings findings;
  if (ReadSource(path, findings, limit) != nullptr) return "ok";
  REQUIRE(findings.errors() == 1);
  return std::string(findings.all()[0].code->name);
}

TEST_CASE("file: what is read and what is refused") {
  const TemporaryFolder folder;
  folder.Write("plain", std::string(100, 'x'));
  folder.Write("bomb.gz", Gzip(std::string(1000000, 'x')));
  folder.Write("cut.gz", Gzip("hello world").substr(0, 15));
  folder.Write("tail.gz", Gzip("hello") + "tail");
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
  CHECK(CodeOf("/proc/self/status") == "ok");  // reports a size of 0
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
  // Inflate a text that is longer than the chunks of zlib's input and output.
  std::string big;
  for (int i = 0; i < 900000; ++i)
    big += std::to_string(int64_t{i} * 2654435761);
  CHECK(Inflate(Gzip(big), int64_t{1} << 30, &why) == big);
}

TEST_CASE("file: gzip of spaces is refused beyond 64 times its size") {
  const std::string spaces = Gzip(std::string(size_t{40} << 20, ' '));
  std::string why;
  CHECK_FALSE(Inflate(spaces, kTextLimitBytes, &why));
  CHECK(why.starts_with("it inflates to more than 34."));
  const std::string few = Gzip(std::string(size_t{32} << 20, ' '));
  CHECK(Inflate(few, kTextLimitBytes, &why)->size() == size_t{32} << 20);
}

TEST_CASE("file: paths in the folder of a file") {
  CHECK(PathNextTo("a/x.yaml", "b") == "a/b");
  CHECK(PathNextTo("x.yaml", "b") == "b");
  CHECK(PathNextTo("/x.yaml", "../b") == "/../b");
  CHECK(PathNextTo("a/x.yaml", "/b") == "/b");
}

}  // namespace
}  // namespace shardc
