// Tests cases of resolution that the recorded vectors do not contain.
#include "reference/resolve.h"

#include <doctest/doctest.h>

namespace shardc::reference {
namespace {

std::string Text(const Value& value) {
  if (value.IsNone()) return "None";
  if (value.IsName()) return value.name;
  std::string out = "(";
  for (const Value& item : value.items) {
    out += (out.size() > 1 ? ", " : "") + Text(item);
  }
  return out + ")";
}

std::string Resolved(const Registry& registry, const Value& entry,
                     std::string_view mode = "__train__") {
  const std::vector<Value> axes = {entry};
  const auto result = ResolveAxis(PartitionAxis(), registry, axes, mode);
  if (const Error* error = Failure(result)) return error->kind;
  return Text(std::get<std::vector<Value>>(result)[0]);
}

Value Name(std::string_view name) { return Value::Name(name); }

TEST_CASE("a rule of None maps to nothing") {
  Registry registry;
  REQUIRE_FALSE(
      registry.Register("__BATCH__", Value::None(), std::nullopt, true));
  REQUIRE_FALSE(
      registry.Register("__X__", Name("__BATCH__"), std::nullopt, false));
  CHECK(Resolved(registry, Name("__BATCH__")) == "unknown_axis");
  CHECK(Resolved(registry, Value::List({Name("__BATCH__"), Name("dp")})) ==
        "(__BATCH__, dp)");
  CHECK(Resolved(registry, Name("__X__")) == "__BATCH__");
  REQUIRE_FALSE(registry.Unregister("__BATCH__", false));
  CHECK(Resolved(registry, Name("__BATCH__")) == "(fsdp, dp)");
  CHECK(Resolved(registry, Name("__X__")) == "(fsdp, dp)");
}

TEST_CASE("a generation rule counts in generation modes only") {
  Registry registry;
  REQUIRE_FALSE(registry.Register("__X__", Name("head_axis"),
                                  Value::Tuple({Name("ep"), Name("sp")}),
                                  false));
  CHECK(Resolved(registry, Name("__X__"), "__prefill__") == "tp");
  CHECK(Resolved(registry, Name("__X__"), "decode") == "tp");
  CHECK(Resolved(registry, Name("__X__"), "__insert__") == "(ep, sp)");
}

TEST_CASE("a generation rule next to a null rule counts inside a group") {
  Registry registry;
  REQUIRE_FALSE(registry.Register("__X__", Value::None(), Name("tp"), false));
  const Value group = Value::List({Name("__X__"), Name("dp")});
  CHECK(Resolved(registry, group, "__autoregressive__") == "(tp, dp)");
  CHECK(Resolved(registry, group, "__insert__") == "(tp, dp)");
  CHECK(Resolved(registry, group, "__train__") == "(__X__, dp)");
  CHECK(Resolved(registry, Name("__X__"), "__autoregressive__") ==
        "unknown_axis");
}

TEST_CASE("attention by dimension fails, as no shape is passed") {
  AttentionCall call;
  call.mode = int64_t{1};
  call.layout = "bthd";
  const auto result = AttentionShardings(PartitionAxis(), Registry(), call);
  REQUIRE(Failure(result) != nullptr);
  CHECK(Failure(result)->kind == "missing_shape");
}

}  // namespace
}  // namespace shardc::reference
