#include "model/name.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("whole digit parts are stars") {
  CHECK(NameTemplate("layers/10/w1/0", '/') == "layers/*/w1/*");
  CHECK(NameTemplate("0.a.12", '.') == "*.a.*");
  CHECK(NameTemplate("a//b", '/') == "a//b");
  CHECK(NameTemplate("12", 0) == "*");
  // Megatron-Core numbers the leaves of grouped experts. `weight1` and
  // `weight2` of its older module are two parameters of all experts.
  CHECK(NameTemplate("l.3.mlp.experts.linear_fc1.weight12", '.') ==
        "l.*.mlp.experts.linear_fc1.weight*");
  CHECK(NameTemplate("experts/linear_fc2/bias0", '/') ==
        "experts/linear_fc2/bias*");
  CHECK(NameTemplate("mlp.experts.weight1", '.') == "mlp.experts.weight1");
  CHECK(NameTemplate("mlp.linear_fc1.weight1", '.') ==
        "mlp.linear_fc1.weight1");
  CHECK(NameTemplate("experts.weight1", 0) == "experts.weight1");
  CHECK(NameTemplate("", '/') == "");
  std::string out = "x ";
  AppendTemplate("a/1", '/', out);
  CHECK(out == "x a/*");
}

TEST_CASE("a name is split at its separators") {
  using Parts = std::vector<std::string_view>;
  CHECK(SplitName("a/b.c", '/') == Parts{"a", "b.c"});
  CHECK(SplitName("a/b.c", '.') == Parts{"a/b", "c"});
  CHECK(SplitName("a/b", 0) == Parts{"a/b"});
  CHECK(SplitName("/a//", '/') == Parts{"", "a", "", ""});
  CHECK(SplitName("", '/') == Parts{""});
}

}  // namespace
}  // namespace shardc
