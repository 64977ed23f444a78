#include "audit/growth.h"

#include <doctest/doctest.h>

namespace shardc::audit {
namespace {

const Route kRoute{"all_gather", "fsdp"};
const Sent::Cause kGate{"gate", "f32[32,64]", "layer"};

Sent Sending(int64_t bytes) {
  Sent out;
  out.bytes[kRoute][kGate] = bytes;
  return out;
}

TEST_CASE("growth counts beyond 1 % and 4 KiB, and from nothing always") {
  const Sent before = Sending(1'000'000);
  CHECK(GrowthOf(before, Sending(1'000'000 + 10'000 + 4096)).empty());
  const auto grown = GrowthOf(before, Sending(1'000'000 + 10'000 + 4097));
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].route == kRoute);
  CHECK(grown[0].before == 1'000'000);
  CHECK(grown[0].cause == kGate);
  CHECK(GrowthOf(Sent(), Sending(1)).size() == 1);
  CHECK(GrowthOf(before, Sent()).empty());
}

TEST_CASE("the cause is what grew most, and the largest growth comes first") {
  Sent after = Sending(50'000);
  after.bytes[kRoute][{"activation", "f32[8]", ""}] = 90'000;
  after.bytes[{"all_to_all", "ep"}][{"activation", "f32[8]", ""}] = 500'000;
  const auto grown = GrowthOf(Sending(40'000), after);
  REQUIRE(grown.size() == 2);
  CHECK(grown[0].route.second == "ep");
  CHECK(grown[1].cause.what == "activation");
  CHECK(grown[1].after == 140'000);
}

TEST_CASE("an earlier audit is read by kind and axes") {
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource("base.json", R"({"schema": "shardc.audit/v1", "devices": 8,
        "collectives": [
        {"collective": "all_gather", "axes": ["fsdp", "tp"], "group_size": 4,
         "bytes_per_device": 12, "what": "gradient", "parameter": "gate",
         "shape": "f32[2]", "line": {"function": "layer"}},
        {"collective": "all_gather", "axes": null, "group_size": 4,
         "bytes_per_device": 3, "what": "activation", "shape": "f32[2]"}]})"),
      findings);
  REQUIRE(document);
  const auto sent = ReadSent(*document, findings);
  REQUIRE(sent);
  CHECK(sent->devices == 8);
  const auto& causes = sent->bytes.at({"all_gather", "fsdp+tp"});
  CHECK(causes.at({"gradient of gate", "f32[2]", "layer"}) == 12);
  CHECK(sent->bytes.at({"all_gather", "groups of 4"}).size() == 1);
}

}  // namespace
}  // namespace shardc::audit
