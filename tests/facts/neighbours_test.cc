#include "facts/neighbours.h"

#include <algorithm>
#include <array>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"

namespace shardc::facts {
namespace {

struct Stored {
  std::string name;
  Shape shape;
  int64_t count = 2;
};

// The corrected roles of parameters without scanned layers.
class Tree {
 public:
  explicit Tree(std::vector<Stored> stored, const StatedSizes& sizes = {})
      : stored_(std::move(stored)) {
    std::vector<Neighbour> groups;
    for (const Stored& one : stored_) {
      roles_.push_back(Classify(one.name, '.', Confidence::kLikely,
                                static_cast<int>(one.shape.size())));
      mixes_.push_back({false});
      Neighbour& group = groups.emplace_back();
      group.name = one.name;
      group.shape = &one.shape;
      group.rank = static_cast<int>(one.shape.size());
      std::copy(one.shape.begin(), one.shape.end(), group.sizes.begin());
      group.count = one.count;
      group.role = &roles_.back();
      group.mixes = mixes_.back().data();
    }
    CorrectByNeighbours(groups, '.', sizes);
  }

  const ParameterRole& operator[](size_t i) const {
    return *std::next(roles_.begin(), static_cast<ptrdiff_t>(i));
  }
  bool Mixes(size_t i) const {
    return (*std::next(mixes_.begin(), static_cast<ptrdiff_t>(i)))[0];
  }

 private:
  std::vector<Stored> stored_;
  std::list<ParameterRole> roles_;
  std::list<std::array<bool, 1>> mixes_;
};

TEST_CASE("a gate of the shape of the up projection next to it is no router") {
  const struct {
    std::string gate;
    Shape shape;
    Role role;
  } kCases[] = {
      {"layers.*.mlp.gate.weight", {96, 64}, Role::kGate},
      {"layers.*.mlp.gate.weight", {8, 64}, Role::kRouter},
      {"layers.*.moe.gate.weight", {96, 64}, Role::kRouter},
      {"layers.*.mlp.router.weight", {8, 64}, Role::kRouter},
  };
  for (const auto& [name, shape, role] : kCases) {
    const std::string gate = name;
    CAPTURE(gate);
    const Tree tree({{name, shape},
                     {"layers.*.mlp.up.weight", {96, 64}},
                     {"layers.*.mlp.down.weight", {64, 96}}});
    CHECK(tree[0].module_role == role);
    CHECK(tree[0].role == role);
  }
}

TEST_CASE("w2 next to another down projection is an up projection") {
  const Tree qwen({{"h.*.mlp.w1.weight", {96, 64}},
                   {"h.*.mlp.w2.weight", {96, 64}},
                   {"h.*.mlp.c_proj.weight", {64, 96}}});
  CHECK(qwen[1].role == Role::kUp);
  CHECK(qwen[2].role == Role::kDown);
  const Tree llama({{"layers.*.feed_forward.w1.weight", {96, 64}},
                    {"layers.*.feed_forward.w3.weight", {96, 64}},
                    {"layers.*.feed_forward.w2.weight", {64, 96}}});
  CHECK(llama[2].role == Role::kDown);
}

TEST_CASE("numbered blocks are experts if there are as many as experts") {
  const auto tree_of = [&](int64_t blocks, int64_t experts, bool attends) {
    std::vector<Stored> stored = {
        {"l.*.moe.router.weight", {4, 64}},
        {"l.*.moe.ffns.*.up_proj.weight", {96, 64}, blocks},
        {"l.*.moe.ffns.*.down_proj.weight", {64, 96}, blocks},
        {"l.*.moe.all.up_proj.weight", {96, 64}}};
    if (attends) {
      stored.push_back({"l.*.moe.ffns.*.q_proj.weight", {64, 64}, blocks});
    }
    StatedSizes sizes;
    if (experts > 0) sizes.experts = experts;
    return Tree(std::move(stored), sizes);
  };
  for (const int64_t stated : {0, 4}) {
    const Tree tree = tree_of(8, stated, false);
    CHECK_FALSE(tree[0].expert);
    CHECK(tree[1].expert);
    CHECK(tree[1].counted_expert);
    CHECK(tree[2].expert);
    CHECK_FALSE(tree[3].expert);
    CHECK(tree[3].shared_expert);
  }
  // Six blocks are not four experts for each of two routers, and a block with
  // attention is a layer.
  for (const bool attends : {false, true}) {
    const Tree tree = tree_of(attends ? 8 : 6, 4, attends);
    CHECK_FALSE(tree[1].expert);
    CHECK_FALSE(tree[3].shared_expert);
  }
}

TEST_CASE("a first dimension of the number of experts counts experts") {
  const auto tree_of = [](int64_t first) {
    return Tree({{"l.*.mlp.router.weight", {4, 64}},
                 {"l.*.mlp.up_proj.kernel", {first, 64, 96}},
                 {"l.*.mlp.down_proj.kernel", {first, 96, 64}}},
                {.hidden = 64});
  };
  CHECK(tree_of(4)[1].expert);
  CHECK(tree_of(4)[2].expert);
  CHECK_FALSE(tree_of(2)[1].expert);
}

TEST_CASE(
    "a mixer is attention if it has queries, and a state space otherwise") {
  const Tree phi({{"h.*.mixer.Wqkv.weight", {192, 64}},
                  {"h.*.mixer.out_proj.weight", {64, 64}}});
  CHECK(phi[1].role == Role::kOutput);
  CHECK(phi[1].attention);
  CHECK_FALSE(phi.Mixes(1));
  const Tree mamba({{"layers.*.mixer.in_proj.weight", {256, 64}},
                    {"layers.*.mixer.out_proj.weight", {64, 128}}});
  CHECK(mamba.Mixes(0));
  CHECK(mamba.Mixes(1));
  CHECK(mamba[1].module_role == Role::kOutput);
  CHECK_FALSE(mamba[1].attention);
  // Some layers of Nemotron-H are attention, and others state spaces.
  const Tree hybrid({{"layers.*.mixer.in_proj.weight", {256, 64}},
                     {"layers.*.mixer.out_proj.weight", {64, 128}},
                     {"layers.*.mixer.q_proj.weight", {64, 64}},
                     {"layers.*.mixer.o_proj.weight", {64, 64}}});
  CHECK(hybrid.Mixes(1));
  CHECK(hybrid[2].attention);
  CHECK(hybrid[3].attention);
  CHECK_FALSE(hybrid.Mixes(3));
}

TEST_CASE("vectors of the width are norms where no matrix is next to them") {
  const Tree tree({{"layers.*.scaler.w", {64}},
                   {"layers.*.lin.w", {96, 64}},
                   {"layers.*.lin.b_", {64}},
                   {"scaler.w", {64}},
                   {"layers.*.short.w", {32}}},
                  {.hidden = 64});
  CHECK(tree[0].role == Role::kNorm);
  CHECK(tree[2].role != Role::kNorm);
  CHECK(tree[3].role != Role::kNorm);
  CHECK(tree[4].role != Role::kNorm);
}

TEST_CASE("a square matrix with the name of a head is none") {
  for (const int64_t vocabulary : {64, 1000}) {
    const Tree tree({{"embeddings.word_embeddings.weight", {vocabulary, 64}},
                     {"lm_head.dense.weight", {64, 64}},
                     {"lm_head.decoder.weight", {vocabulary, 64}}},
                    {.hidden = 64});
    CHECK((tree[1].module_role == Role::kHead) == (vocabulary == 64));
    CHECK(tree[2].module_role == Role::kHead);
  }
}

}  // namespace
}  // namespace shardc::facts
