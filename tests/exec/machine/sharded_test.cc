#include "exec/machine/sharded.h"

#include <doctest/doctest.h>

#include "exec/machine/mesh_fixture.h"

namespace shardc::exec {
namespace {

TEST_CASE("scatter shards by index and replicates over axes not named") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  const ShardedTensor t = Scatter(mesh, Counting({2, 4}), {{}, {"tp"}});
  REQUIRE(t.local.size() == 4);
  CHECK(t.spec.size() == 2);
  CHECK(t.local[0].real == std::vector<float>{0, 1, 4, 5});
  CHECK(t.local[1].real == std::vector<float>{2, 3, 6, 7});
  CHECK(BitEqual(t.local[0], t.local[2]));
  CHECK(BitEqual(t.local[1], t.local[3]));
}

TEST_CASE("a shard begins at 0 of what its spec does not name") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  CHECK(LocalStart(mesh, {4, 6, 5}, {{"tp"}}, 3) == Shape{2, 0, 0});
  CHECK(LocalStart(mesh, {4, 8, 5}, {{}, {"dp", "tp"}}, 3) == Shape{0, 6, 0});
  CHECK(LocalStart(mesh, {4, 6, 5}, {}, 3) == Shape{0, 0, 0});
}

TEST_CASE("an axis list's order is part of the layout") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}});
  const auto xy = Scatter(mesh, Counting({4}), {{"x", "y"}});
  const auto yx = Scatter(mesh, Counting({4}), {{"y", "x"}});
  std::vector<float> a, b;
  for (int d = 0; d < 4; ++d) {
    a.push_back(xy.local[static_cast<size_t>(d)].real[0]);
    b.push_back(yx.local[static_cast<size_t>(d)].real[0]);
  }
  CHECK(a == std::vector<float>{0, 1, 2, 3});
  CHECK(b == std::vector<float>{0, 2, 1, 3});
}

TEST_CASE("gather refuses replicas that differ in bits") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  ShardedTensor t =
      Scatter(mesh, Buffer::Zeros({2, 4}, Dtype::kBF16), {{}, {"tp"}});
  LayoutError why;
  CHECK(Gather(mesh, t, why).has_value());
  t.local[3].real[2] = -0.0f;
  CHECK_FALSE(Gather(mesh, t, why).has_value());
  CHECK(why.message ==
        "replicas differ on devices 1 (dp=0 tp=1) and 3 (dp=1 tp=1) at "
        "[1, 2]");
  CHECK(why.devices == std::vector<int>{1, 3});
  CHECK(why.position == Shape{1, 2});
}

TEST_CASE("gather refuses a shard of another shape") {
  const SimMesh mesh = SimMeshOf({{"tp", 2}});
  ShardedTensor t = Scatter(mesh, Counting({4}), {{"tp"}});
  t.local[1] = Counting({1});
  LayoutError why;
  CHECK_FALSE(Gather(mesh, t, why).has_value());
  CHECK(why.message == "device 1 holds [1] where its layout has [2]");
}

TEST_CASE("illegal layouts are named with the axis at fault") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 4}});
  const auto check = [&](const Shape& shape, const Spec& spec) {
    const auto why = CheckLayout(mesh, shape, spec);
    return why ? why->axis + ": " + why->message : std::string("legal");
  };
  CHECK(check({8, 8}, {{"dp"}, {"tp"}}) == "legal");
  CHECK(check({8, 8}, {}) == "legal");
  CHECK(check({8, 6}, {{"dp"}, {"tp"}}) ==
        "tp: dimension 1 of [8, 6] does not divide into 4 parts over "
        "\"tp\"");
  CHECK(check({8}, {{"ep"}}) == "ep: the mesh has no axis `ep`");
  CHECK(check({8, 8}, {{"tp"}, {"tp"}}) ==
        "tp: axis `tp` occurs twice in [\"tp\", \"tp\"]");
  CHECK(check({8}, {{}, {}}) ==
        ": the spec [null, null] has 2 entries for rank 1");
}

TEST_CASE("every layout round-trips and proves its coverage") {
  int layouts = 0;
  for (const auto& sizes : std::vector<std::array<int64_t, 3>>{
           {2, 2, 2}, {1, 4, 2}, {3, 2, 1}, {2, 3, 4}}) {
    const SimMesh mesh =
        SimMeshOf({{"a", sizes[0]}, {"b", sizes[1]}, {"c", sizes[2]}});
    const Shape shape = {24, 48};
    const Buffer ids = UniqueIds(shape);
    for (const AxisGroup& first : AxisLists(mesh)) {
      for (const AxisGroup& second : AxisLists(mesh)) {
        const Spec spec = {first, second};
        if (CheckLayout(mesh, shape, spec)) continue;
        ++layouts;
        const ShardedTensor t = Scatter(mesh, ids, spec);
        CHECK_FALSE(CheckCoverage(mesh, t).has_value());
        LayoutError why;
        const auto back = Gather(mesh, t, why);
        REQUIRE(back.has_value());
        CHECK(BitEqual(*back, ids));
      }
    }
  }
  CHECK(layouts > 100);
}

TEST_CASE("missing, duplicated or moved elements are detected") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  const ShardedTensor good = Scatter(mesh, UniqueIds({4, 2}), {{"tp"}});
  SUBCASE("a slot that holds another element") {
    ShardedTensor t = good;
    t.local[1].integers[0] = 0;
    const auto why = CheckCoverage(mesh, t);
    REQUIRE(why.has_value());
    CHECK(why->message.find("element [0, 0] is held 3 times where 2 "
                            "replicas should hold it once") == 0);
  }
  SUBCASE("shards exchanged over a whole axis keep the counts") {
    ShardedTensor t = good;
    std::swap(t.local[0], t.local[1]);
    std::swap(t.local[2], t.local[3]);
    const auto why = CheckCoverage(mesh, t);
    REQUIRE(why.has_value());
    CHECK(why->message ==
          "device 0 (dp=0 tp=0) holds element [2, 0] where [0, 0] belongs");
    CHECK(why->axis == "tp");
  }
  SUBCASE("the first element is an element") {
    const SimMesh one = SimMeshOf({{"tp", 1}});
    ShardedTensor t = Scatter(one, UniqueIds({1, 3}), {});
    t.local[0].integers = {1, 0, 2};
    const auto first = CheckCoverage(one, t);
    REQUIRE(first.has_value());
    CHECK(first->message ==
          "device 0 (tp=0) holds element [0, 1] where [0, 0] belongs");
    t.local[0].integers = {0, 0, 2};
    const auto again = CheckCoverage(one, t);
    REQUIRE(again.has_value());
    CHECK(again->message.find("device 0 (tp=0) holds element [0, 0] where "
                              "[0, 1] belongs") != std::string::npos);
  }
  SUBCASE("an id out of range") {
    ShardedTensor t = good;
    t.local[0].integers[0] = -1;
    CHECK(CheckCoverage(mesh, t).has_value());
  }
  SUBCASE("the position in dimensions that the spec does not shard") {
    // The rows of device 1 are contiguous in the full tensor too.
    ShardedTensor t =
        Scatter(mesh, UniqueIds({2, 4, 3, 2}), {{"dp"}, {"tp"}, {}, {}});
    const int32_t other = t.local[1].integers[8];
    t.local[1].integers[8] = 5;
    const auto why = CheckCoverage(mesh, t);
    REQUIRE(why.has_value());
    CHECK(other == 20);
    CHECK(why->message ==
          "element [0, 0, 2, 1] is held 2 times where 1 replica should hold it "
          "once; device 1 (dp=0 tp=1) holds element [0, 0, 2, 1] where "
          "[0, 3, 1, 0] belongs");
  }
  SUBCASE("a shard whose elements all come one too far") {
    ShardedTensor t = Scatter(mesh, UniqueIds({8}), {{"tp"}});
    for (int32_t& id : t.local[3].integers) ++id;
    const auto why = CheckCoverage(mesh, t);
    REQUIRE(why.has_value());
    CHECK(why->message ==
          "element [4] is held 1 time where 2 replicas should hold it once; "
          "device 3 (dp=1 tp=1) holds element [5] where [4] belongs");
  }
}

TEST_CASE("a scalar has one element on every device") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}});
  ShardedTensor t = Scatter(mesh, UniqueIds({}), {});
  CHECK_FALSE(CheckCoverage(mesh, t).has_value());
  t.local[1].integers[0] = 1;
  CHECK(CheckCoverage(mesh, t).has_value());
}

TEST_CASE("reshard converts every layout to every other, bit for bit") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}, {"z", 3}});
  const Shape shape = {12, 24};
  const Buffer ids = UniqueIds(shape);
  std::vector<Spec> specs;
  for (const AxisGroup& first : AxisLists(mesh)) {
    for (const AxisGroup& second : AxisLists(mesh)) {
      const Spec spec = {first, second};
      if (!CheckLayout(mesh, shape, spec)) specs.push_back(spec);
    }
  }
  REQUIRE(specs.size() > 30);
  int moves = 0;
  for (const Spec& from : specs) {
    const ShardedTensor t = Scatter(mesh, ids, from);
    for (const Spec& to : specs) {
      Machine machine(mesh);
      const ShardedTensor moved = Reshard(machine, t, to, "t");
      const ShardedTensor want = Scatter(mesh, ids, to);
      // Count the elements that each device receives: those of its target that
      // are not in its own source shard.
      int64_t received = 0;
      for (int d = 0; d < mesh.devices(); ++d) {
        const auto i = static_cast<size_t>(d);
        CHECK(BitEqual(moved.local[i], want.local[i]));
        for (int32_t id : want.local[i].integers) {
          const auto& own = t.local[i].integers;
          received += std::find(own.begin(), own.end(), id) == own.end();
        }
      }
      int64_t sent = 0;
      for (const LedgerEntry& e : machine.ledger().entries()) {
        for (int64_t bytes : e.sent) sent += bytes;
      }
      CHECK(sent == received * 4);
      ++moves;
    }
  }
  CHECK(moves > 900);
}

TEST_CASE("reshards between modes cost what the formulas give") {
  const SimMesh mesh = SimMeshOf({{"x", 4}, {"y", 4}});
  const Shape shape = {16, 32};
  const Buffer global = Counting(shape);
  const int64_t whole = global.Bytes();
  struct Case {
    Spec from, to;
    Collective kind;
    AxisGroup axes;
    int64_t most;
  };
  const std::vector<Case> cases = {
      {{{"x"}}, {}, Collective::kAllGather, {"x"}, whole * 3 / 4},
      {{}, {{"x"}}, Collective::kAllGather, {}, 0},
      {{{"x"}}, {{}, {"x"}}, Collective::kAllToAll, {"x"}, whole / 4 * 3 / 4},
      {{{"x", "y"}},
       {{"y", "x"}},
       Collective::kPpermute,
       {"x", "y"},
       whole / 16},
      {{{"x"}}, {{"x", "y"}}, Collective::kAllGather, {}, 0},
      {{{"x", "y"}}, {{"x"}}, Collective::kAllGather, {"y"}, whole / 16 * 3},
      {{{"x"}}, {{"y"}}, Collective::kPpermute, {"x", "y"}, whole / 4},
  };
  for (const Case& c : cases) {
    CAPTURE(SpecText(c.from));
    CAPTURE(SpecText(c.to));
    Machine machine(mesh);
    const auto moved =
        Reshard(machine, Scatter(mesh, global, c.from), c.to, "t");
    CHECK(machine.ledger().MostSent(c.kind) == c.most);
    if (c.most == 0) {
      CHECK(machine.ledger().entries().empty());
      continue;
    }
    REQUIRE(machine.ledger().steps() == 1);
    CHECK(machine.ledger().entries()[0].kind == c.kind);
    CHECK(machine.ledger().entries()[0].axes == c.axes);
    CHECK(machine.ledger().entries()[0].what == "t");
  }
}

}  // namespace
}  // namespace shardc::exec
