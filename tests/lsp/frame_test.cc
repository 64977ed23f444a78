#include "lsp/server.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc::lsp {
namespace {

std::string KindText(const Frame& frame) {
  switch (frame.kind) {
    case Frame::Kind::kMessage:
      return frame.body;
    case Frame::Kind::kTooLarge:
      return "<large>";
    case Frame::Kind::kBroken:
      return "<broken>";
  }
  return {};
}

std::vector<std::string> Read(std::string_view bytes, size_t step) {
  FrameReader reader;
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.Feed(bytes.substr(at, step));
    while (const auto frame = reader.Next()) out.push_back(KindText(*frame));
  }
  return out;
}

TEST_CASE("frame: messages, in pieces of any size") {
  const std::string large(FrameReader::kBodyLimit + 1, 'x');
  const struct {
    std::string bytes;
    std::vector<std::string> frames;
  } cases[] = {
      {Framed("{}"), {"{}"}},
      {Framed("") + Framed("[1]"), {"", "[1]"}},
      {"content-LENGTH:  2 \r\nContent-Type: x; charset=utf-8\r\n\r\n{}",
       {"{}"}},
      {"Content-Length: -2\r\n\r\n" + Framed("{}"), {"<broken>", "{}"}},
      {"Content-Length: 2x\r\n\r\n" + Framed("{}"), {"<broken>", "{}"}},
      {"rubbish" + Framed("{}"), {"<broken>", "{}"}},
      {"\r\n\r\n" + Framed("{}"), {"<broken>", "{}"}},
      {Framed("\xF0\x9F\x98\x80"), {"\xF0\x9F\x98\x80"}},
      {"Content-Length: 5\r\n\r\nabc", {}},
      {"Content-Length: 99999999999999999999999999\r\n\r\nabc", {"<large>"}},
  };
  for (const auto& one : cases) {
    for (const size_t step : {size_t{1}, size_t{3}, size_t{100000}}) {
      CAPTURE(one.bytes);
      CHECK(Read(one.bytes, step) == one.frames);
    }
  }
  // A message that is too large is skipped, and the next one is read.
  const std::string bytes = "Content-Length: " + std::to_string(large.size()) +
                            "\r\n\r\n" + large + Framed("{}");
  CHECK(Read(bytes, 65536) == std::vector<std::string>{"<large>", "{}"});
}

TEST_CASE("frame: a header that never ends is not kept") {
  FrameReader reader;
  for (size_t i = 0; i < 1000; ++i) {
    reader.Feed(std::string(1000, 'x'));
    while (reader.Next()) {
    }
  }
  reader.Feed("\r\n\r\n" + Framed("{}"));
  std::vector<std::string> out;
  while (const auto frame = reader.Next()) out.push_back(KindText(*frame));
  CHECK(out.back() == "{}");
  CHECK(reader.empty());
}

}  // namespace
}  // namespace shardc::lsp
