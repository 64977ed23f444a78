#include "step/label_table.h"

#include <doctest/doctest.h>

namespace shardc::step {
namespace {

ModelDescription WithDims() {
  ModelDescription out;
  out.dims = {{"n", {}}, {"h", {}}, {"c", {}}, {"r", {}}};
  out.axes["n"] = "HEAD";
  out.stacks.resize(1);
  return out;
}

struct Made {
  ModelDescription description = WithDims();
  Graph graph;
  Sizes sizes;
  LabelTable labels{description, graph, sizes};

  Made() { labels.MakeCommon(std::vector<int64_t>{8, 64, 48, 16}); }
};

TEST_CASE("labels: tokens first, then the description's dimensions") {
  Made one;
  Graph& graph = one.graph;
  Sizes& sizes = one.sizes;
  LabelTable& labels = one.labels;
  CHECK(graph.common.batch == 0);
  CHECK(graph.common.key == 2);
  CHECK(graph.common.encoder_query == kNoLabel);
  CHECK(labels.Dim(0) == 3);
  CHECK(labels[labels.Dim(0)].semantic == "HEAD");
  CHECK(labels[labels.Dim(1)].semantic.empty());
  CHECK(labels.SizeOf(labels.Dim(2)) == 48);
  CHECK(sizes == Sizes{0, 0, 0, 8, 64, 48, 16});
}

TEST_CASE("labels: what is made of several is made once") {
  Made one;
  Graph& graph = one.graph;
  Sizes& sizes = one.sizes;
  LabelTable& labels = one.labels;
  const LabelId n = labels.Dim(0), h = labels.Dim(1);
  CHECK(labels.OfFactors({n}) == n);
  const LabelId both = labels.OfFactors({n, h});
  CHECK(labels[both].name == "(n h)");
  CHECK(labels[both].factors == std::vector<LabelId>{n, h});
  CHECK(labels.OfFactors({n, h}) == both);
  CHECK(labels.OfFactors({h, n}) != both);
  const size_t made = graph.labels.size();
  DescribedDim dim;
  dim.factors = {{"n"}, {"c", "r"}};
  const LabelId row = labels.Of(dim);
  CHECK(labels[row].name == "(n (c+r))");
  CHECK(labels[labels[row].factors[1]].parts ==
        std::vector<LabelId>{labels.Dim(2), labels.Dim(3)});
  CHECK(labels.Of(dim) == row);
  CHECK(graph.labels.size() == made + 2);
  CHECK(sizes.size() == graph.labels.size());
}

}  // namespace
}  // namespace shardc::step
