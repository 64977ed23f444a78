#include "cost/time.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cost/models.h"
#include "cost/rates.h"
#include "model/mesh_layout.h"

namespace shardc::cost {
namespace {

constexpr double kMicro = 1e-6;

// Returns the network without start-up times (alpha), which the published
// examples leave out as well.
Network Plain(const char* profile, const Mesh& mesh) {
  Network out = NetworkOf(*FindDeviceProfile(profile), mesh);
  out.start = out.step = out.far_step = 0;
  return out;
}

double Gather(const Network& network, const Mesh& mesh, const AxisGroup& axes,
              double whole) {
  const auto n = static_cast<double>(*mesh.Parts(axes));
  return CollectiveSeconds(network, SpanOf(mesh, network, axes),
                           Collective::kAllGather, whole * (n - 1) / n);
}

doctest::Approx About(double seconds) {
  return doctest::Approx(seconds).epsilon(0.005);
}

// github.com/jax-ml/scaling-book, sharding.md: TPU v4 4x4x4, bf16[1024, 4096].
TEST_CASE("gathers on a torus that closes") {
  const Mesh mesh = MeshOf({{"X", 4}, {"Y", 4}, {"Z", 4}});
  const Network network = Plain("tpu-v4", mesh);
  const double whole = 2.0 * 1024 * 4096;
  // The tensor is sharded over Y too, so a quarter of it is gathered over X.
  CHECK(Gather(network, mesh, {"X"}, whole / 4) == About(23.3 * kMicro));
  CHECK(Gather(network, mesh, {"X", "Y"}, whole) == About(46.6 * kMicro));
  // An all_reduce over Z of a tensor that is sharded over X and Y. A later
  // edition of the book prints 11.6 us.
  const double part = whole / 16;
  CHECK(CollectiveSeconds(network, SpanOf(mesh, network, {"Z"}),
                          Collective::kAllReduce,
                          2 * part * 3 / 4) == About(11.65 * kMicro));
}

TEST_CASE("hops of a microsecond bound what is small") {
  const Mesh mesh = MeshOf({{"X", 4}, {"Y", 4}, {"Z", 4}});
  const Network network = NetworkOf(*FindDeviceProfile("tpu-v4"), mesh);
  CHECK(Gather(network, mesh, {"X"}, 256) == About(2 * kMicro));
}

// v5e 8x4 has no wraparound, so there are three hops of a quarter. The book
// prints 560 at 45 GB/s per link and direction; its later copies have 50, as
// our profile does.
TEST_CASE("a ring that does not close") {
  const Mesh mesh = MeshOf({{"X", 8}, {"Y", 4}});
  Network network = Plain("tpu-v5e", mesh);
  network.link_rate = 45e9;
  CHECK(Gather(network, mesh, {"Y"}, 2.0 * 2048 * 8192) == About(559 * kMicro));
}

// From gpus.md: eight H100 behind one switch.
TEST_CASE("gathers in a host") {
  const Mesh mesh = MeshOf({{"dp", 8}});
  const Network network = Plain("h100-sxm", mesh);
  CHECK(Gather(network, mesh, {"dp"}, 2.0 * 1024 * 16384) ==
        About(65.2 * kMicro));
  CHECK(Gather(network, mesh, {"dp"}, 2.0 * 4096 * 65536) == About(1.044e-3));
}

// Llama-3-70B's parameters are gathered over 8 hosts of 8: 0.2744 s inside a
// host, 0.3087 s across hosts.
TEST_CASE("across hosts the slower level counts") {
  const Mesh mesh = MeshOf({{"fsdp", 64}});
  const Network network = Plain("h100-sxm", mesh);
  const double whole = 141107412992;
  const GroupSpan place = SpanOf(mesh, network, {"fsdp"});
  CHECK(place.near == 8);
  CHECK(place.domains == 8);
  CHECK(place.sharing == 1);
  CHECK(Gather(network, mesh, {"fsdp"}, whole) == About(0.3087));
  // A group has one device of each host, so eight groups share the network of a
  // host, which gives 50 GB/s to each.
  const Mesh outer = MeshOf({{"dp", 8}, {"tp", 8}});
  const GroupSpan one = SpanOf(outer, network, {"dp"});
  CHECK(one.near == 1);
  CHECK(one.sharing == 8);
  CHECK(Gather(network, outer, {"dp"}, 8e9) == About(7e9 / 50e9));
  CHECK(SpanOf(outer, network, {"tp"}).domains == 1);
}

TEST_CASE("the mesh's processes say how many share a host") {
  Mesh mesh = MeshOf({{"dp", 4}, {"tp", 4}});
  mesh.processes = 4;
  const Network network = NetworkOf(*FindDeviceProfile("h100-sxm"), mesh);
  CHECK(network.inside == 4);
  CHECK(SpanOf(mesh, network, {"tp"}).domains == 1);
  CHECK(SpanOf(mesh, network, {"dp"}).domains == 4);
}

TEST_CASE("slices of a torus are reached over their hosts") {
  Mesh mesh = MeshOf({{"dp", 4}, {"tp", 16}});
  mesh.slices = 4;
  mesh.dcn = {4, 1};
  const Network network = NetworkOf(*FindDeviceProfile("tpu-v5p"), mesh);
  CHECK(network.inside == 16);
  CHECK(network.leaving == 4 * 25e9);
  CHECK(SpanOf(mesh, network, {"dp"}).domains == 4);
  CHECK(SpanOf(mesh, network, {"tp"}).domains == 1);
}

TEST_CASE("hosts of several slices have the devices with the nearest numbers") {
  const DeviceProfile& h100 = *FindDeviceProfile("h100-sxm");
  for (const std::vector<int64_t>& dcn :
       {std::vector<int64_t>{}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}}) {
    Mesh mesh = MeshOf({{"dp", 2}, {"fsdp", 8}, {"tp", 4}});
    mesh.dcn = dcn;
    for (const int64_t factor : dcn) mesh.slices *= factor;
    const Network network = NetworkOf(h100, mesh);
    CHECK(network.inside == 8);
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      // Counts the devices of the axis that are in the first device's host.
      int64_t near = 0;
      std::vector<int64_t> at(mesh.axes.size());
      for (at[i] = 0; at[i] < mesh.axes[i].size; ++at[i]) {
        const DevicePlace one = shardc::PlaceOf(mesh, PositionOf(mesh, at));
        near += one.device < network.inside ? 1 : 0;
      }
      CAPTURE(mesh.axes[i].name);
      const GroupSpan place = SpanOf(mesh, network, {mesh.axes[i].name});
      CHECK(place.near == near);
      CHECK(place.domains == mesh.axes[i].size / near);
    }
  }
}

TEST_CASE("matmuls of layers in 8 bits run at the rate of 8 bits") {
  const DeviceProfile& h100 = *FindDeviceProfile("h100-sxm");
  CostInputs work = TrainingOn(MeshOf({{"dp", 2}}), {"dp"});
  work.mode = Mode::kPrefill;
  work.params = {
      ClassOf("layers.*.mlp.up_proj.weight", {64, 32}, Dtype::kBF16, {}, 3),
      ClassOf("lm_head.weight", {128, 32}, Dtype::kBF16, {})};
  ModelConfig model;
  model.hidden = 32;
  work.model = model;
  Settings settings;
  settings.batch = 4;
  settings.length = 16;
  settings.profile = &h100;
  const auto compute = [&] {
    Communication none;
    return TimeOf(work, settings, MemoryOf(work, settings), none)->compute;
  };
  // Two rows: 32 tokens of three layers, and the logits of two.
  const double layers = 2.0 * 32 * 64 * 32 * 3, head = 2.0 * 2 * 128 * 32;
  CHECK(compute() == doctest::Approx((layers + head) / h100.bf16_rate));
  settings.matmuls = Dtype::kF8E4M3;
  CHECK(compute() ==
        doctest::Approx(layers / *h100.fp8_rate + head / h100.bf16_rate));
  // Matmuls have the dtype of the activations if they have none of their own.
  settings.matmuls = std::nullopt;
  settings.activations = Dtype::kF8E4M3;
  CHECK(compute() ==
        doctest::Approx(layers / *h100.fp8_rate + head / h100.bf16_rate));
  settings.matmuls = Dtype::kBF16;
  CHECK(compute() == doctest::Approx((layers + head) / h100.bf16_rate));
}

// From the scaling book's chapter on inference: Llama-2-13B on eight v5e at
// 8.2e11 B/s, with 8192 tokens of cache per row, (6.7e9 B + 26e9) / 6.56e12 s.
TEST_CASE("decoding is bound by memory") {
  DeviceProfile v5e = *FindDeviceProfile("tpu-v5e");
  v5e.memory_rate = 8.2e11;
  CostInputs work = TrainingOn(MeshOf({{"tp", 8}}), {});
  work.mode = Mode::kDecode;
  work.query[2] = work.key[2] = work.value[2] = work.output[2] = {"tp"};
  work.params = {
      ClassOf("w.weight", {2, 6500000000}, Dtype::kBF16, {{}, {"tp"}})};
  ModelConfig model;
  model.layers = 40;
  model.heads = model.kv_heads = 40;
  model.head_dim = 128;
  model.hidden = 5120;
  work.model = model;
  const double printed[][2] = {{1, 4.98},   {8, 12.13},  {16, 20.30},
                               {32, 36.65}, {64, 69.33}, {240, 249.09}};
  for (const auto& [batch, milliseconds] : printed) {
    Settings settings;
    settings.batch = static_cast<int64_t>(batch);
    settings.kv_length = 8192;
    settings.profile = &v5e;
    const Memory memory = MemoryOf(work, settings);
    CHECK(*memory.most.Of(Component::kCache) * 8 ==
          6710886400 * static_cast<int64_t>(batch));
    Communication none;
    const auto time = TimeOf(work, settings, memory, none);
    REQUIRE(time);
    CHECK(time->memory * 1e3 == doctest::Approx(milliseconds).epsilon(0.003));
    CHECK(time->bound == Bound::kMemory);
  }
}

// A single device has no gradients while the loss is computed, where the peak
// of these steps is, but the step reads and writes all of them.
TEST_CASE("a training step reads and writes the gradients of all parameters") {
  const DeviceProfile& h100 = *FindDeviceProfile("h100-sxm");
  const CostInputs work = BundledWork("llama-3-8b.hf.manifest.json",
                                      "llama-3-8b", "dp:1", Mode::kTrain);
  for (const std::string stack : {"hf", "megatron"}) {
    CAPTURE(stack);
    Settings settings;
    settings.stack = FindStack(stack);
    settings.batch = 1;
    settings.length = 131072;
    settings.loss = LossKind::kEager;
    settings.profile = &h100;
    const Memory memory = MemoryOf(work, settings);
    CHECK(memory.most.Of(Component::kGradients) ==
          (stack == "hf" ? 0 : memory.gradients));
    CHECK(memory.gradients == 2LL * 8030261248);
    Communication none;
    const auto time = TimeOf(work, settings, memory, none);
    REQUIRE(time);
    const double bytes = Real(*memory.most.Of(Component::kParameters)) +
                         2 * (Real(*memory.gradients) +
                              Real(*memory.most.Of(Component::kOptimizer)));
    CHECK(time->memory == doctest::Approx(bytes / h100.memory_rate));
  }
}

// There are 6 operations per parameter and token, without the embedding's
// lookup.
TEST_CASE("a training step's operations") {
  const CostInputs work = BundledWork(
      "llama-3-8b.hf.manifest.json", "llama-3-8b", "fsdp:8,tp:4", Mode::kTrain);
  Settings settings;
  settings.batch = 8;
  settings.length = 1;
  const Memory memory = MemoryOf(work, settings);
  const double flops = *FlopsOf(work, settings, memory) * 32;
  const double matrices = 8030261248.0 - 128256.0 * 4096 - 65 * 4096;
  CHECK(flops == doctest::Approx(6 * matrices * 8).epsilon(0.001));
}

}  // namespace
}  // namespace shardc::cost
