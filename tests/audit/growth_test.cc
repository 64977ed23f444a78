#include "audit/growth.h"

#include <doctest/doctest.h>

namespace shardc::audit {
namespace {

const TrafficRoute kRoute{"all_gather", "fsdp"};
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
  const auto fresh = GrowthOf(Sent(), Sending(1));
  REQUIRE(fresh.size() == 1);
  CHECK(fresh[0].cause == kGate);
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
         "bytes_per_device": 3, "what": "activation", "shape": "f32[2]"}],
        "mesh": {"axes": [{"name": "dp", "size": 1},
                          {"name": "fsdp", "size": 2},
                          {"name": "tp", "size": 4}]}})"),
      findings);
  REQUIRE(document);
  const auto sent = ReadSent(*document, findings);
  REQUIRE(sent);
  CHECK(sent->devices == 8);
  CHECK(sent->mesh == "fsdp=2 tp=4");
  const auto& causes = sent->bytes.at({"all_gather", "fsdp+tp"});
  CHECK(causes.at({"gradient of gate", "f32[2]", "layer"}) == 12);
  CHECK(sent->bytes.at({"all_gather", "groups of 4"}).size() == 1);
}

TEST_CASE("what is no earlier audit is refused at its place") {
  const std::string one =
      R"({"collective": "all_gather", "axes": null, "group_size": 4, )"
      R"("bytes_per_device": 3, "what": "activation", "shape": "f32[2]"})";
  const auto audit = [](const std::string& collectives) {
    return R"({"schema": "shardc.audit/v1", "devices": 8, "collectives": [)" +
           collectives + "]}";
  };
  const auto without = [&](const std::string& part, const std::string& other) {
    std::string text = one;
    return audit(text.replace(text.find(part), part.size(), other));
  };
  const struct {
    std::string text, at, message;
  } cases[] = {
      {"[]", "[]", "this is no audit (`shardc.audit/v1`)"},
      {R"({"schema": "shardc.plan/v1"})", R"({"schema": "shardc.plan/v1"})",
       "this is no audit (`shardc.audit/v1`)"},
      {R"({"schema": "shardc.audit/v1", "devices": -1})", "-1",
       "`devices` is a whole number from 0 on"},
      {R"({"schema": "shardc.audit/v1", "devices": 1})",
       R"({"schema": "shardc.audit/v1", "devices": 1})",
       "the list `collectives` is missing"},
      {R"({"schema": "shardc.audit/v1", "devices": 1, "collectives": [], )"
       R"("mesh": 7})",
       "7", "`mesh` has a list of axes, or is null"},
      {audit("7"), "7", "`bytes_per_device` is a whole number from 0 on"},
      {without("3,", "-3,"), "-3",
       "`bytes_per_device` is a whole number from 0 on"},
      {without("4,", "\"4\","), "\"4\"",
       "`group_size` is a whole number from 0 on"},
      {without("\"all_gather\"", "1"), "1", "`collective` is a text"},
      {without("\"activation\"", "1"), "1", "`what` is a text"},
      {without("\"f32[2]\"", "null"), "null", "`shape` is a text"},
      {without("null", "[1]"), "1", "an axis is a text"},
      {audit(R"({"collective": "a", "group_size": 1, "bytes_per_device": )"
             R"(9223372036854775807, "what": "w", "shape": "s"}, )" +
             one),
       one, "the bytes up to here do not fit in 64 bits"},
  };
  for (const auto& given : cases) {
    CAPTURE(given.text);
    Findings findings;
    const auto document =
        JsonDocument::Parse(MakeSource("base.json", given.text), findings);
    REQUIRE(document);
    CHECK_FALSE(ReadSent(*document, findings));
    REQUIRE(findings.all().size() == 1);
    const Finding& finding = findings.all()[0];
    CHECK(finding.message == given.message);
    CHECK(finding.help == "write it with `shardc audit PROGRAM --format json`");
    CHECK(given.text.substr(finding.place.begin,
                            finding.place.end - finding.place.begin) ==
          given.at);
  }
}

}  // namespace
}  // namespace shardc::audit
