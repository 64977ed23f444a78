#include "step/build.h"

#include <doctest/doctest.h>

#include "step/graph_writer.h"

namespace shardc::step {
namespace {

TEST_CASE("what neither logits nor caches are made of goes") {
  Graph graph;
  graph.labels.resize(2);
  GraphWriter write(graph);
  const ValueId ids = write.Input({0}, true);
  const ValueId unused = write.Input({0});
  const ValueId weight = write.Input({1});
  const ValueId kept = write.Input({0, 1});
  graph.data = {{DataKind::kIds, ids}, {DataKind::kPatches, unused}};
  graph.parameters.push_back({.role = "w", .value = weight});
  graph.caches.push_back({.layer = 0, .before = kept, .after = kept});
  const ValueId dead = write.Scaled(unused, {2, {}});
  write.Add({dead, unused});
  graph.logits = write.Scaled(ids, {3, {}});

  Prune(graph);
  REQUIRE(graph.ops.size() == 4);
  CHECK(graph.values.size() == 4);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    CHECK(graph.ops[i].out == static_cast<ValueId>(i));
  }
  REQUIRE(graph.data.size() == 1);
  CHECK(graph.data[0].kind == DataKind::kIds);
  CHECK(graph.data[0].value == 0);
  // A parameter stays even if no op reads it, because devices hold it.
  CHECK(graph.parameters[0].value == 1);
  CHECK(graph.caches[0].before == 2);
  CHECK(graph.caches[0].after == 2);
  CHECK(graph.logits == 3);
  CHECK(graph.ops[3].in == std::vector<ValueId>{0});
  CHECK(As<ScaleAttributes>(graph.ops[3]).factor.constant == 3);
  CHECK(graph.loss == kNoValue);
}

}  // namespace
}  // namespace shardc::step
