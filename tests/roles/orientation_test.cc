#include "roles/orientation.h"

#include <deque>
#include <string>

#include "doctest/doctest.h"

namespace shardc {
namespace {

class Tree {
 public:
  void Add(const char* name, Shape shape, int64_t count = 4,
           bool packed = false) {
    names_.emplace_back(name);
    roles_.push_back(Classify(names_.back(), '/'));
    shapes_.push_back(std::move(shape));
    entries_.push_back(
        {names_.back(), &roles_.back(), &shapes_.back(), count, packed});
  }
  // Returns a character for each parameter: "i" for [in, out], "o" for [out,
  // in], "-" for unknown.
  std::string Orientations(std::optional<int64_t> hidden = {}) const {
    std::string out;
    for (const auto& one : OrientationsOf(entries_, Widths(entries_, hidden))) {
      out += !one ? '-' : *one ? 'i' : 'o';
    }
    return out;
  }
  // Transposes every matrix and keeps the names.
  void Transpose() {
    for (Shape& shape : shapes_) {
      const size_t rank = shape.size();
      if (rank >= 2) std::swap(shape[rank - 2], shape[rank - 1]);
    }
  }

 private:
  std::deque<std::string> names_;
  std::deque<ParameterRole> roles_;
  std::deque<Shape> shapes_;
  std::vector<ShapedParameter> entries_;
};

Tree Llama() {
  Tree tree;
  tree.Add("embed_tokens/embedding", {32000, 1024}, 1);
  tree.Add("layers/*/attn/q_proj/kernel", {1024, 1024});
  tree.Add("layers/*/attn/k_proj/kernel", {1024, 256});
  tree.Add("layers/*/attn/o_proj/kernel", {1024, 1024});
  tree.Add("layers/*/mlp/up_proj/kernel", {1024, 4096});
  tree.Add("layers/*/mlp/down_proj/kernel", {4096, 1024});
  tree.Add("lm_head/kernel", {1024, 32000}, 1);
  return tree;
}

TEST_CASE("sizes show that a tree is transposed") {
  Tree tree = Llama();
  CHECK(tree.Orientations() == "iiiiiii");
  tree.Transpose();
  // Square matrices take the vote of rectangular ones. For an embedding its own
  // sizes count.
  CHECK(tree.Orientations() == "ooooooo");
}

TEST_CASE("scales determine how weights are packed") {
  // Eight weights in one number: along the input dimension in rows, in columns,
  // and along the output dimension in columns.
  Tree tree;
  tree.Add("l/*/q_proj/weight", {4096, 512}, 4, true);
  tree.Add("l/*/q_proj/scales", {4096, 64});
  tree.Add("l/*/k_proj/qweight", {512, 1024}, 4, true);
  tree.Add("l/*/k_proj/scales", {32, 1024});
  tree.Add("l/*/v_proj/qweight", {4096, 128}, 4, true);
  tree.Add("l/*/v_proj/scales", {32, 1024});
  CHECK(tree.Orientations() == "o-i-i-");
}

TEST_CASE("the length of a norm between blocks is the width") {
  // The mixer's own width occurs in more matrices than the model's width.
  Tree tree;
  tree.Add("l/*/up_proj/weight", {5120, 2560});
  tree.Add("l/*/x_proj/weight", {192, 5120});
  tree.Add("l/*/dt_proj/weight", {5120, 160});
  tree.Add("l/*/norm/weight", {2560});
  CHECK(tree.Orientations() == "ooo-");
}

TEST_CASE("a bias decides for its own weight") {
  Tree tree;
  tree.Add("h/*/attn/c_attn/weight", {768, 2304});
  tree.Add("h/*/attn/c_attn/bias", {2304});
  tree.Add("h/*/attn/c_proj/weight", {768, 768});
  tree.Add("h/*/adapter/weight", {768, 64});
  tree.Add("h/*/adapter/bias", {64});
  // The adapter is not a Conv1D, although its bias is as long as its second
  // side.
  CHECK(tree.Orientations() == "i-ii-");
  tree.Transpose();
  CHECK(tree.Orientations() == "o-oo-");
}

TEST_CASE(
    "experts are oriented by their last two dimensions, and do not outvote "
    "layers") {
  Tree tree;
  tree.Add("layers/*/attn/q_proj/kernel", {512, 1024});
  tree.Add("layers/*/attn/k_proj/kernel", {512, 128});
  tree.Add("layers/*/norm/scale", {512});
  tree.Add("layers/*/experts/up_proj/kernel", {8, 512, 96});
  CHECK(tree.Orientations() == "ii-i");
  tree.Transpose();
  CHECK(tree.Orientations() == "oo-o");
}

TEST_CASE("thousands of counted experts do not outvote layers") {
  Tree tree;
  tree.Add("layers/*/attn/q_proj/kernel", {512, 1024}, 48);
  tree.Add("layers/*/norm/scale", {512}, 48);
  tree.Add("layers/*/experts/*/adapter/kernel", {1024, 80}, 48 * 256);
  CHECK(tree.Orientations().front() == 'i');
}

TEST_CASE("a tree without counters has a width") {
  Tree tree;
  tree.Add("layers/attn/c_attn/kernel", {48, 16}, 1);
  tree.Add("layers/attn/c_proj/kernel", {16, 16}, 1);
  tree.Add("layers/mlp/c_fc/kernel", {64, 16}, 1);
  CHECK(tree.Orientations() == "ooo");
  tree.Transpose();
  CHECK(tree.Orientations() == "iii");
}

TEST_CASE("each stack of layers has a width of its own") {
  Tree tree;
  tree.Add("a/*/norm/scale", {512});
  tree.Add("a/*/mlp/up_proj/kernel", {512, 2048});
  tree.Add("b/*/norm/scale", {2048});
  tree.Add("b/*/mlp/up_proj/kernel", {2048, 512});
  CHECK(tree.Orientations() == "-i-i");
  // This kernel has the width of the other stack only, which does not determine
  // its orientation.
  tree.Add("a/*/attn/q_proj/kernel", {3, 2048, 64});
  CHECK(tree.Orientations() == "-i-i-");
}

TEST_CASE("stacked matrices vote apart") {
  Tree tree;
  tree.Add("layers/*/attn/q_proj/kernel", {1024, 512});
  tree.Add("layers/*/attn/o_proj/kernel", {512, 512});
  tree.Add("layers/*/norm/scale", {512});
  tree.Add("layers/*/experts/up_proj/kernel", {8, 512, 96}, 32);
  CHECK(tree.Orientations() == "oo-i");
}

TEST_CASE("a configuration's width decides where the tree has it") {
  Tree tree;
  tree.Add("layers/*/mlp/up_proj/kernel", {256, 1024});
  tree.Add("layers/*/mlp/down_proj/kernel", {1024, 256});
  CHECK(tree.Orientations(256) == "ii");
  CHECK(tree.Orientations(1024) == "oo");
  CHECK(tree.Orientations(999) == tree.Orientations());
}

TEST_CASE("names decide if sizes do not") {
  Tree tree;
  tree.Add("layers/*/attn/q_proj/kernel", {512, 512});
  tree.Add("layers/*/attn/k_proj/weight", {64, 512}, 4, true);
  tree.Add("layers/*/mlp/other/kernel", {512, 2048});
  CHECK(tree.Orientations() == "---");
}

}  // namespace
}  // namespace shardc
