#include "source/text_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "source/plain_text.h"

namespace shardc {
namespace {

void CheckOrder(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const TextOrder found = OrderOf(views);
  std::vector<uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return views[a] < views[b]; });
  CHECK(found.order == order);
  bool distinct = true;
  for (size_t i = 1; i < order.size(); ++i) {
    distinct = distinct && views[order[i - 1]] != views[order[i]];
  }
  CHECK(found.distinct == distinct);
  CHECK(AreDistinct(views) == distinct);
}

TEST_CASE("texts are ordered by their bytes, equal ones by position") {
  CheckOrder({});
  CheckOrder({"a"});
  CheckOrder({"b", "a", ""});
  CheckOrder({"", ""});
  CheckOrder({"layers/10/q", "layers/10/k", "layers/9/q", "layers/1"});
  CheckOrder({std::string("a\0", 2), "a", std::string("a\0\0b", 4), "a"});
  CheckOrder({"12345678", "123456789", "1234567", "12345678"});
  CheckOrder({"\x80", "\x7f", "\xff", "z"});
}

TEST_CASE("texts of any bytes are ordered") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> texts(random() % 3000);
    const int letters = round % 3 == 0 ? 256 : 3;
    for (std::string& text : texts) {
      text = random() % 2 == 0 ? "model/layers/" : "";
      text.resize(text.size() + random() % 24);
      for (char& c : text) c = static_cast<char>(random() % letters);
    }
    CheckOrder(texts);
    std::sort(texts.begin(), texts.end());
    CheckOrder(texts);
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    CheckOrder(texts);
  }
}

TEST_CASE("plain text ends at the first byte that is special in JSON") {
  for (int special = 0; special < 256; ++special) {
    const auto byte = static_cast<unsigned char>(special);
    const bool plain =
        byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
    for (size_t size = 1; size < 40; ++size) {
      for (size_t at = 0; at < size; ++at) {
        std::string text(size, 'x');
        text[at] = static_cast<char>(special);
        REQUIRE(EndOfPlain(text) == (plain ? size : at));
      }
    }
  }
  CHECK(EndOfPlain("\"abc", 1) == 4);
}

}  // namespace
}  // namespace shardc
