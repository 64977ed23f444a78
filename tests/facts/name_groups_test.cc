#include "facts/name_groups.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "draws.h"
#include "model/name.h"

namespace shardc::facts {
namespace {

TEST_CASE("name groups: names with one template") {
  CHECK(SameTemplate("layers.0.up", "layers.12.up", '.'));
  CHECK(SameTemplate("a.1.2", "a.11.3", '.'));
  CHECK(SameTemplate("1", "22", '/'));
  CHECK_FALSE(SameTemplate("a.1", "a.1.2", '.'));
  CHECK_FALSE(SameTemplate("a.1", "a.x", '.'));
  CHECK_FALSE(SameTemplate("a1.b", "a2.b", '.'));
  CHECK_FALSE(SameTemplate("a.", "a", '.'));
  CHECK(
      SameTemplate("l.0.experts.fc1.weight5", "l.3.experts.fc1.weight12", '.'));
  CHECK(SameTemplate("experts.fc1.bias*", "experts.fc1.bias7", '.'));
  CHECK_FALSE(SameTemplate("experts.fc1.weight", "experts.fc1.weight1", '.'));
  CHECK_FALSE(SameTemplate("mlp.fc1.weight1", "mlp.fc1.weight2", '.'));
  CHECK(SameTemplate("h_1/wi_0", "h_12/wi_0", '/'));
  CHECK_FALSE(SameTemplate("h_1/wi_0", "h_12/wi_1", '/'));
  CHECK_FALSE(SameTemplate("h_1/up", "layers_1/up", '/'));
  CHECK(SameTemplate("['a'][0]['up']", "['a'][11]['up']", '\0'));
  CHECK_FALSE(SameTemplate("['a'][0]['up']", "['a'][b]['up']", '\0'));
}

TEST_CASE("name groups: random names compare as their templates do") {
  Draws draws(3);
  int same = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto name = [&] {
      std::string out;
      for (size_t left = draws() % 7; left > 0; --left) {
        constexpr std::array<std::string_view, 9> kPieces = {
            "a", "h", "0", "1", ".", "*", "h_", "[", "]"};
        out += kPieces[draws() % kPieces.size()];
      }
      return out;
    };
    const std::string a = name(), b = name();
    const bool equal = NameTemplate(a, '.') == NameTemplate(b, '.');
    same += equal && a != b ? 1 : 0;
    REQUIRE_MESSAGE(SameTemplate(a, b, '.') == equal, a, " ", b);
  }
  CHECK(same > 100);
}

TEST_CASE("name groups: a group is found by template and type") {
  LastGroups last('.');
  last.Keep("l.0.up", 1, 7);
  CHECK(last.Find("l.5.up", 1) == 7);
  CHECK_FALSE(last.Find("l.5.down", 1));
  CHECK_FALSE(last.Find("l.5.up", 2));
  LastGroups none('\0');
  none.Keep("l0", 1, 7);
  CHECK_FALSE(none.Find("l0", 1));
}

TEST_CASE("name groups: parameters of a layer that have one type") {
  constexpr std::array<std::string_view, 10> kEnds = {
      "self_attn/q_proj/kernel", "self_attn/k_proj/kernel",
      "self_attn/v_proj/kernel", "self_attn/o_proj/kernel",
      "mlp/gate_proj/kernel",    "mlp/up_proj/kernel",
      "mlp/down_proj/kernel",    "experts/w1/kernel",
      "experts/w2/kernel",       "norm/kernel"};
  std::array<std::string, 2 * kEnds.size()> names;
  LastGroups last('/');
  for (uint32_t i = 0; i < kEnds.size(); ++i) {
    names[i] = "layers/10/" + std::string(kEnds[i]);
    names[kEnds.size() + i] = "layers/11/" + std::string(kEnds[i]);
    last.Keep(names[i], 1, i);
  }
  for (uint32_t i = 0; i < kEnds.size(); ++i) {
    CHECK(last.Find(names[kEnds.size() + i], 1) == i);
  }
}

}  // namespace
}  // namespace shardc::facts
