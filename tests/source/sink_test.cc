#include "source/sink.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "source/digest.h"

namespace shardc {
namespace {

// Records the pieces that Drain receives.
class Pieces final : public Sink {
 public:
  Pieces() : Sink(buffer_) {}
  std::vector<std::string> pieces;

 private:
  void Drain(std::string_view bytes) override { pieces.emplace_back(bytes); }
  std::array<char, 8> buffer_;
};

TEST_CASE("sink: whole buffers are passed on, those of a long piece together") {
  Pieces sink;
  sink.Append("abc");
  sink.Put('d');
  sink.Append("");
  CHECK(sink.pieces.empty());
  sink.Append("efgh");  // fills it
  CHECK(sink.pieces.empty());
  sink.Put('i');
  sink.Append("0123456789");
  sink.Fill(9, '-');
  sink.Append("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  sink.Flush();
  sink.Flush();
  CHECK(sink.pieces == std::vector<std::string>{"abcdefgh", "i0123456",
                                                "789-----", "----ABCD",
                                                "EFGHIJKLMNOPQRST", "UVWXYZ"});
}

TEST_CASE("sink: any mixture of pieces gives the same bytes") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string expected;
    Sha256Sink digest;
    const std::string text = TextOf([&](Sink& out) {
      for (int i = 0; i < 40; ++i) {
        const size_t count =
            random() % 100 == 0 ? random() % 40'000 : random() % 60;
        const auto c = static_cast<char>('a' + random() % 26);
        expected.append(count, c);
        digest.Append(std::string(count, c));
        if (count == 1) {
          out.Put(c);
        } else if (random() % 2 == 0) {
          out.Fill(count, c);
        } else {
          out.Append(std::string(count, c));
        }
      }
    });
    REQUIRE(text == expected);
    REQUIRE(digest.Hex() == HexDigest("sha256", expected));
  }
}

}  // namespace
}  // namespace shardc
