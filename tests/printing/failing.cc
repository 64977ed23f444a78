// Checks that fail. tests/printing/printing_test.py reads their output: each
// kind of value must be printed so that a reader sees the difference.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "comm/collective.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "step/program.h"

namespace printed {

class Hidden;
class Named {
 public:
  std::string_view name() const { return "a name"; }
};
struct Chain {
  int number = 0;
  const Chain* next = nullptr;
  bool operator==(const Chain&) const = default;
};

}  // namespace printed

namespace {

using shardc::AxisType;
using shardc::Collective;
using shardc::MeshAxis;

class Closed {
 public:
  explicit Closed(int number) : number_(number) {}
  bool operator==(const Closed&) const = default;
  friend std::string Printed(const Closed& x) {
    return "closed " + std::to_string(x.number_);
  }

 private:
  int number_;
};

TEST_CASE("strings") {
  const std::string text = "all_gather ba 0";
  const std::string_view view = std::string_view(text).substr(0, 10);
  const char* pointer = "tp";
  CHECK(text == "reduce");
  CHECK(view == pointer);
  CHECK(pointer == view);
  CHECK(std::filesystem::path("a/b") == std::filesystem::path("a/c"));
}

TEST_CASE("enumerators") {
  CHECK(Collective::kAllGather == Collective::kAllToAll);
  CHECK(AxisType::kAuto == static_cast<AxisType>(99));
  CHECK(std::optional<Collective>() == Collective::kAllReduce);
}

TEST_CASE("containers") {
  const std::map<std::string, std::vector<int>> map = {{"dp", {1, 2}}};
  CHECK(map == decltype(map)());
  CHECK(std::pair(1, "x") == std::pair(2, "y"));
  CHECK(std::variant<int, std::string>("one") ==
        std::variant<int, std::string>(1));
  CHECK(std::vector<bool>{true, false} == std::vector<bool>{true});
  CHECK(std::optional<int>(3) == std::nullopt);
}

TEST_CASE("structures") {
  CHECK(MeshAxis{"tp", 4} == MeshAxis{"tp", 8});
  shardc::step::Sharding sharded;
  sharded.rank = 1;
  CHECK(sharded == shardc::step::Sharding());
  CHECK(Closed(1) == Closed(2));
}

TEST_CASE("numbers and messages") {
  const MeshAxis axis = {"dp", 2};
  CAPTURE(axis);
  INFO("of ", std::string_view("axes"), ' ', AxisType::kManual);
  CHECK((int64_t{1} << 40) == 0.5);
  CHECK(1.0 == doctest::Approx(2));
}

TEST_CASE("pointers") {
  const int* const nothing = nullptr;
  CHECK(nothing != nullptr);
  const MeshAxis axes[] = {{"tp", 4}, {"dp", 8}};
  CHECK(&axes[0] == &axes[1]);
  CHECK(std::make_unique<Closed>(1) == nullptr);
  const auto three = std::make_shared<int>(3);
  CHECK(three == nullptr);
  const std::string text = "a text";
  CHECK(&text == nullptr);
  CHECK(std::optional(three) == std::nullopt);
  const printed::Named named;
  CHECK(&named == nullptr);
  printed::Chain chain{1, nullptr};
  chain.next = &chain;
  CHECK(&chain == nullptr);
  const Closed* const pair[] = {nullptr, nullptr};
  CHECK(std::vector(std::begin(pair), std::end(pair)).empty());
  const void* const any = &axes;
  CHECK(any == nullptr);
  CHECK(reinterpret_cast<const printed::Hidden*>(any) == nullptr);
  int (*const function)() = [] { return 1; };
  CHECK(function == nullptr);
}

}  // namespace
