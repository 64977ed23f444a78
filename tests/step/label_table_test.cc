#include "step/graph_writer.h"

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

TEST_CASE("labels: fused weights by part have their counts inside") {
  struct Row {
    std::vector<std::vector<std::string>> factors;
    std::string contiguous, by_part;
  };
  // `n` is a logical axis, the other labels are not.
  const std::vector<Row> rows = {
      {{{"c"}, {"n"}, {"h"}}, "(c n h)", "(n c h)"},
      {{{"c"}, {"r"}, {"n"}}, "(c r n)", "(n c r)"},
      {{{"n"}, {"c"}, {"h"}}, "(n c h)", "(n c h)"},
      {{{"c"}, {"h"}}, "(c h)", "(c h)"},
      // A label with a factor of several parts is not reordered.
      {{{"n", "c"}, {"h"}}, "((n+c) h)", "((n+c) h)"},
      {{{"c"}, {"n", "r"}, {"h"}}, "(c (n+r) h)", "(c (n+r) h)"}};
  for (const std::string fused : {"", "contiguous", "by_part"}) {
    Made one;
    if (!fused.empty()) one.description.settings["fused"] = {fused, {}};
    for (const Row& row : rows) {
      CAPTURE(row.contiguous);
      CAPTURE(fused);
      DescribedDim dim;
      dim.factors = row.factors;
      CHECK(one.labels[one.labels.Of(dim)].name ==
            (fused == "by_part" ? row.by_part : row.contiguous));
    }
  }
}

}  // namespace
}  // namespace shardc::step
