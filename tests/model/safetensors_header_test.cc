#include "model/manifest.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

TEST_CASE("a header has its length, the tensors in order and padding") {
  const std::vector<HeaderEntry> entries = {{"a", Dtype::kF32, {2, 3}, 24},
                                            {"b", Dtype::kBF16, {}, 2}};
  const std::string json =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],)"
      R"("data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[],)"
      R"("data_offsets":[24,26]}})";
  for (const size_t alignment : {size_t{8}, size_t{64}, size_t{4096}}) {
    CAPTURE(alignment);
    const std::string text =
        SafetensorsHeaderText(entries, {{"k", "v"}}, alignment);
    CHECK(text.size() % alignment == 0);
    CHECK(text.size() < 8 + json.size() + alignment);
    size_t length = 0;
    for (size_t i = 8; i > 0; --i) {
      length = length * 256 + static_cast<unsigned char>(text[i - 1]);
    }
    CHECK(length == text.size() - 8);
    CHECK(text.substr(8, json.size()) == json);
    CHECK(text.find_first_not_of(' ', 8 + json.size()) == std::string::npos);
  }
  CHECK(SafetensorsHeaderText({}, {}).substr(8) == "{}      ");
}

}  // namespace
}  // namespace shardc
