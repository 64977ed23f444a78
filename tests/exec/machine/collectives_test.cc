#include "exec/machine/collectives.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "exec/machine/mesh_fixture.h"

namespace shardc::exec {
namespace {

// Returns buffers of `shape` in which element i of device d is d * 100 + i.
PerDevice Marked(const SimMesh& mesh, const Shape& shape) {
  PerDevice out;
  for (int d = 0; d < mesh.devices(); ++d) {
    Buffer b = Counting(shape);
    for (float& v : b.real) v += static_cast<float>(100 * d);
    out.push_back(std::move(b));
  }
  return out;
}

TEST_CASE("all_gather joins in the list's order") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}});
  Machine machine(mesh);
  const auto in = Marked(mesh, {1});
  const auto xy = AllGather(machine, {"x", "y"}, in, 0, "t");
  CHECK(xy[3].real == std::vector<float>{0, 100, 200, 300});
  const auto yx = AllGather(machine, {"y", "x"}, in, 0, "t");
  CHECK(yx[0].real == std::vector<float>{0, 200, 100, 300});
  const auto y = AllGather(machine, {"y"}, in, 0, "t");
  CHECK(y[2].real == std::vector<float>{200, 300});
  CHECK(machine.ledger().steps() == 3);
}

TEST_CASE("reduce_scatter keeps the member's own slice of the sum") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 2}});
  Machine machine(mesh);
  const auto out = ReduceScatter(machine, {"y"}, Marked(mesh, {2, 2}), 1, "t");
  CHECK(out[0].real == std::vector<float>{100, 104});
  CHECK(out[1].real == std::vector<float>{102, 106});
  CHECK(out[2].real == std::vector<float>{500, 504});
  CHECK(out[3].shape == Shape{2, 1});
}

TEST_CASE("all_reduce sums and takes maxima within groups") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 3}});
  Machine machine(mesh);
  const auto in = Marked(mesh, {2});
  const auto sum = AllReduce(machine, {"y"}, in, Reduce::kSum, "t");
  CHECK(sum[0].real == std::vector<float>{300, 303});
  CHECK(sum[5].real == std::vector<float>{1200, 1203});
  const auto max = AllReduce(machine, {"x"}, in, Reduce::kMax, "t");
  CHECK(max[1].real == std::vector<float>{400, 401});
}

TEST_CASE("sums add in ascending index, so that all replicas agree") {
  const SimMesh mesh = SimMeshOf({{"x", 5}});
  Machine machine(mesh);
  PerDevice in;
  float total = 0;
  for (int d = 0; d < 5; ++d) {
    Buffer b = Buffer::Zeros({1}, Dtype::kF32);
    b.real[0] = std::ldexp(1.0f, 24 - 5 * d) + 1.1f;
    total = d == 0 ? b.real[0] : total + b.real[0];
    in.push_back(std::move(b));
  }
  const auto out = AllReduce(machine, {"x"}, in, Reduce::kSum, "t");
  for (const Buffer& b : out) CHECK(b.real[0] == total);
}

TEST_CASE("all_to_all is its own inverse with the dimensions exchanged") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 3}});
  Machine machine(mesh);
  const auto in = Marked(mesh, {2, 6, 3});
  const auto out = AllToAll(machine, {"y"}, in, 1, 2, "t");
  CHECK(out[0].shape == Shape{2, 2, 9});
  const auto back = AllToAll(machine, {"y"}, out, 2, 1, "t");
  for (size_t d = 0; d < in.size(); ++d) CHECK(BitEqual(back[d], in[d]));
}

TEST_CASE("ppermute sends along its edges, and zeros where none ends") {
  const SimMesh mesh = SimMeshOf({{"x", 3}});
  Machine machine(mesh);
  const auto in = Marked(mesh, {1});
  const auto ring = Ppermute(machine, {"x"}, in, RingEdges(3), "t");
  CHECK(ring[0].real[0] == 200);
  CHECK(ring[1].real[0] == 0);
  CHECK(ring[2].real[0] == 100);
  const auto some = Ppermute(machine, {"x"}, in, {{2, 0}, {1, 1}}, "t");
  CHECK(some[0].real[0] == 200);
  CHECK(some[1].real[0] == 100);
  CHECK(some[2].real[0] == 0);
  CHECK(machine.ledger().entries()[1].sent == std::vector<int64_t>{0, 0, 4});
  // Devices that receive nothing get zeros.
  const auto away = Ppermute(machine, {"x"}, in, {{0, 2}}, "t");
  for (const size_t d : {size_t{0}, size_t{1}}) {
    CHECK(away[d].shape == in[d].shape);
    CHECK(away[d].real == std::vector<float>(in[d].real.size(), 0));
  }
}

TEST_CASE("broadcast copies the root's buffer down a chain") {
  const SimMesh mesh = SimMeshOf({{"x", 2}, {"y", 3}});
  Machine machine(mesh);
  const auto out = Broadcast(machine, {"y"}, Marked(mesh, {2}), 1, "t");
  CHECK(out[0].real[0] == 100);
  CHECK(out[5].real[0] == 400);
  CHECK(machine.ledger().entries()[0].sent ==
        std::vector<int64_t>{0, 8, 8, 0, 8, 8});
}

TEST_CASE("a group of one sends nothing and is not recorded") {
  const SimMesh mesh = SimMeshOf({{"x", 1}, {"y", 2}});
  Machine machine(mesh);
  const auto in = Marked(mesh, {2});
  for (const AxisGroup& axes : {AxisGroup{}, AxisGroup{"x"}}) {
    CHECK(BitEqual(AllReduce(machine, axes, in, Reduce::kSum, "t")[1], in[1]));
    CHECK(BitEqual(AllGather(machine, axes, in, 0, "t")[1], in[1]));
    CHECK(BitEqual(AllToAll(machine, axes, in, 0, 0, "t")[1], in[1]));
  }
  CHECK(machine.ledger().entries().empty());
}

TEST_CASE("the ledger's bytes are the closed formulas") {
  for (int64_t n : {2, 3, 4, 8, 16}) {
    CAPTURE(n);
    const SimMesh mesh = SimMeshOf({{"x", n}, {"z", 2}});
    const int64_t elements = 48 * n;
    const int64_t b = elements * 4;
    const auto in = Marked(mesh, {elements});
    const auto most = [&](Collective kind, auto run) {
      Machine machine(mesh);
      run(machine);
      CHECK(machine.ledger().entries()[0].group_size == n);
      CHECK(machine.ledger().TotalSent(kind) == [&] {
        int64_t sum = 0;
        for (int64_t s : machine.ledger().SentByDevice()) sum += s;
        return sum;
      }());
      return machine.ledger().MostSent(kind);
    };
    const AxisGroup x = {"x"};
    CHECK(most(Collective::kAllGather, [&](Machine& m) {
            AllGather(m, x, in, 0, "t");
          }) == (n - 1) * b);
    CHECK(most(Collective::kReduceScatter, [&](Machine& m) {
            ReduceScatter(m, x, in, 0, "t");
          }) == b * (n - 1) / n);
    CHECK(most(Collective::kAllReduce, [&](Machine& m) {
            AllReduce(m, x, in, Reduce::kSum, "t");
          }) == 2 * b * (n - 1) / n);
    CHECK(most(Collective::kAllToAll, [&](Machine& m) {
            AllToAll(m, x, in, 0, 0, "t");
          }) == b * (n - 1) / n);
    CHECK(most(Collective::kPpermute, [&](Machine& m) {
            Ppermute(m, x, in, RingEdges(n), "t");
          }) == b);
  }
}

TEST_CASE("threads change nothing") {
  const SimMesh mesh = SimMeshOf({{"x", 7}, {"y", 3}});
  for (int threads : {1, 2, 5, 64}) {
    Machine machine(mesh, threads);
    std::vector<int> ran(21, 0);
    machine.Local([&](int d) { ran[static_cast<size_t>(d)] += d + 1; });
    for (int d = 0; d < 21; ++d) CHECK(ran[static_cast<size_t>(d)] == d + 1);
  }
}

}  // namespace
}  // namespace shardc::exec
