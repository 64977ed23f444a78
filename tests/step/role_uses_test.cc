#include "step/role_uses.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "families/families.h"
#include "model/name.h"
#include "parse/project.h"
#include "roles/classify.h"
#include "source/size.h"
#include "step/described.h"
#include "target/choose.h"

namespace shardc::step {
namespace {

std::string Root() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return root == nullptr ? "." : root;
}

// Returns the use of each role of a section, by the role's name. All sections
// have the same dimensions.
std::map<std::string, RoleUse> UsesOfSection(const std::string& params,
                                             const std::string& lines) {
  const std::string text =
      "version: 1\nseparator: '.'\nrules: [{match: '.*', spec: Replicated}]\n"
      "model:\n  dims: {d: 16, n: 4, k: 2, h: 4, f: 32, v: 64, z: 2, r: 8, "
      "e: 8, 'nq': 4}\n"
      "  axes: {d: EMBED, v: VOCAB, e: EXPERT}\n  repeat: 2\n"
      "  params:\n    table: ['a$', [v, d]]\n" +
      params + "  begin: x = lookup(table, ids)\n  layer:\n" + lines +
      "  end:\n    - x = rmsnorm(x)\n    - logits = linear(x, table)\n";
  Findings findings;
  const auto description = Description(text, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(description);
  const std::vector<RoleUse> uses = UsesOf(*description);
  std::map<std::string, RoleUse> out;
  for (size_t i = 0; i < uses.size(); ++i) {
    out[description->roles[i].name] = uses[i];
  }
  return out;
}

TEST_CASE("the ops of a section show what its roles do, whatever their names") {
  const auto uses = UsesOfSection(
      "    down: ['$i\\.b$', [n h, d]]\n"
      "    gate: ['$i\\.c$', [d, k h]]\n"
      "    up: ['$i\\.d$', [k h, d]]\n"
      "    q: ['$i\\.e$', [d, n h]]\n"
      "    k: ['$i\\.f$', [d, f]]\n"
      "    v: ['$i\\.g$', [f, d]]\n"
      "    o: ['$i\\.h$', [f, d]]\n"
      "    head: ['$i\\.n$', [d]]\n",
      "    - y = rmsnorm(x, head)\n"
      "    - a = linear(y, down)\n"
      "    - b = linear(y, gate)\n"
      "    - c = linear(y, up)\n"
      "    - a = rope(a)\n"
      "    - b = rope(b)\n"
      "    - a = attention(a, b, c)\n"
      "    - a = linear(a, q)\n"
      "    - x = add(x, a)\n"
      "    - y = rmsnorm(x)\n"
      "    - m = linear(y, k)\n"
      "    - m = fn(m, silu)\n"
      "    - g = linear(y, o)\n"
      "    - m = multiply(m, g)\n"
      "    - m = linear(m, v)\n"
      "    - x = add(x, m)\n");
  const auto is = [&](const char* name, Role role, int in, int out) {
    CAPTURE(name);
    const RoleUse& use = uses.at(name);
    CHECK(use.role == role);
    CHECK(use.in == in);
    CHECK(use.out == out);
  };
  is("down", Role::kQuery, 1, 2);
  is("gate", Role::kKey, 2, 1);
  is("up", Role::kValue, 1, 2);
  is("q", Role::kOutput, 1, 2);
  is("k", Role::kGate, 2, 1);
  is("o", Role::kUp, 1, 2);
  is("v", Role::kDown, 2, 1);
  CHECK(uses.at("head").role == Role::kNorm);
  // The table is also the head.
  CHECK(uses.at("table").role == Role::kEmbedding);
  CHECK(uses.at("q").attention);
  CHECK_FALSE(uses.at("v").attention);
}

// Returns the names of tensors whose role by the section differs from their
// role by name, without repetitions, or which have another orientation. Only
// what both show is compared.
std::map<std::string, std::string> Differences(
    const ModelDescription& description, const Manifest& manifest,
    size_t& compared) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : manifest.tensors) names.push_back(tensor.name);
  ParameterUses all;
  const std::vector<RoleUse>& uses =
      all.Of(description, names, manifest.separator);
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorType& type = manifest.types[manifest.tensors[i].type];
    const int rank = type.shape ? static_cast<int>(type.shape->size()) : -1;
    const std::string name = NameTemplate(names[i], manifest.separator);
    const ParameterRole named =
        Classify(name, manifest.separator, Confidence::kLikely, rank);
    const RoleUse& use = uses[i];
    if (!use.IsKnown() || use.skipped || named.module_role == Role::kOther) {
      continue;
    }
    ++compared;
    const bool turned = use.in > 0 && rank == 2 && named.in_first &&
                        !named.conv1d && use.module_role != Role::kEmbedding &&
                        (use.in > use.out) != *named.in_first;
    const bool same = !turned && use.module_role == named.module_role &&
                      use.expert == named.expert &&
                      use.shared_expert == named.shared_expert;
    if (!same) {
      out[name] = std::to_string(static_cast<int>(use.module_role)) + " for " +
                  std::to_string(static_cast<int>(named.module_role)) +
                  (use.expert != named.expert ? " expert" : "") +
                  (use.shared_expert != named.shared_expert ? " shared" : "") +
                  (turned ? " turned" : "");
    }
  }
  return out;
}

TEST_CASE("roles by the packs' sections are those of the parameters' names") {
  size_t trees = 0, compared = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(Root() + "/testdata/configs")) {
    const std::string path = entry.path().string();
    CAPTURE(path);
    Findings findings, ignored;
    const auto config = ReadModelConfig(path, findings);
    REQUIRE(config);
    const auto manifest = families::BuildTree(path, "hf", ignored);
    if (!manifest) continue;
    const auto pack = PickPack(*manifest, config->model_type);
    if (!pack) continue;
    const auto description = PackDescription(*pack, manifest->separator);
    if (description == nullptr) continue;
    ++trees;
    for (const auto& [name, text] :
         Differences(*description, *manifest, compared)) {
      // The first Qwen applies the activation function to the second of its
      // two inner projections, which its names do not show.
      if (name.ends_with("mlp.w1.weight") || name.ends_with("mlp.w2.weight")) {
        continue;
      }
      const auto& given_name = name;
      CAPTURE(given_name);
      CHECK(text == "");
    }
  }
  CHECK(trees >= 35);
  CHECK(compared > 10000);
}

}  // namespace
}  // namespace shardc::step
