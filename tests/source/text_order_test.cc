#include "source/text_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "source/plain_json.h"

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

// Returns the names of `count` layers one after the other, each with all
// suffixes.
std::vector<std::string> Layers(const std::string& before, int count,
                                const std::vector<std::string>& suffixes) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) {
    for (const std::string& suffix : suffixes) {
      out.push_back(before + std::to_string(i) + suffix);
    }
  }
  return out;
}

void Append(std::vector<std::string>& texts, std::vector<std::string> more) {
  texts.insert(texts.end(), more.begin(), more.end());
}

TEST_CASE("names of layers are ordered as other texts are") {
  const std::vector<std::string> kinds = {".q", ".k", ".mlp.down", ".mlp.0.up",
                                          ".mlp"};
  auto texts = Layers("model.layers.", 120, kinds);
  texts.insert(texts.begin(), {"model.norm", "embed", "model.layers"});
  CheckOrder(texts);
  SUBCASE("layers of another block") {
    Append(texts, Layers("model.blocks/", 30, {"/b/x", "/a/y"}));
    Append(texts, Layers("model.layer", 30, {".z", ".y"}));
  }
  SUBCASE("layers of three kinds in turn") {
    for (int i = 0; i < 60; ++i) {
      for (const char* kind : {"q", "o", "k", "z", "v", "a"}) {
        texts.push_back("other." + std::to_string(i) + "." + kind +
                        std::to_string(i % 3));
      }
    }
  }
  SUBCASE("a layer that lacks a name") { texts.erase(texts.begin() + 204); }
  SUBCASE("a name twice in each layer") {
    texts = Layers("l.", 200, {".b", ".a", ".b", ".c"});
  }
  SUBCASE("a name twice in one layer") { texts[301] = texts[300]; }
  SUBCASE("a layer that comes twice") {
    Append(texts, {"model.layers.7.new", "model.layers.7.a"});
  }
  SUBCASE("a prefix that begins with another name") {
    Append(texts, {"model.layers.7.", "model.layers.7", "model.layers.", ""});
  }
  SUBCASE("a prefix that is a name too, twice") {
    Append(texts, {"model.norm", "embed"});
  }
  SUBCASE("one layer of all names") {
    texts = Layers("model.layers.0.experts.", 200, {".down", ".b", ".a"});
  }
  SUBCASE("texts that begin with a number, and empty parts") {
    texts = Layers("", 100, {".weight", "..bias", "//", "."});
  }
  CheckOrder(texts);
}

TEST_CASE("names of random layers are ordered as other texts are") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> texts;
    for (int block = 0; block < 4; ++block) {
      std::vector<std::string> suffixes(1 + random() % 12);
      for (std::string& suffix : suffixes) {
        suffix = random() % 3 == 0 ? "." : ".a";
        suffix += std::to_string(random() % 30);
        if (random() % 3 == 0) suffix += ".w";
      }
      const std::string before = random() % 2 == 0 ? "m." : "m.layer/";
      Append(texts, Layers(before, static_cast<int>(random() % 80), suffixes));
      if (random() % 4 == 0) texts.emplace_back("m.norm");
    }
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
