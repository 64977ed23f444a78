// The files of systems/: each can be read, and states what a check needs.
#include "systems/system.h"

#include "doctest/doctest.h"

#include <set>
#include <string>

#include "source/source.h"
#include "systems/config_text.h"

namespace shardc::systems {
namespace {

TEST_CASE("each file of a system is read without findings") {
  std::set<std::string> names;
  for (const EmbeddedFile& file : EmbeddedSystems()) {
    CAPTURE(std::string(file.name));
    Findings findings;
    const auto system = ParseSystem(
        MakeSource(std::string(file.name), std::string(file.text)), findings);
    for (const Finding& finding : findings.all()) {
      FAIL_CHECK(finding.place.ToString() << ": " << finding.message);
    }
    REQUIRE(system);
    CHECK(system->name + ".yaml" == file.name);
    CHECK(names.insert(system->name).second);
    CHECK_FALSE(system->words.empty());
    CHECK_FALSE(system->grids.empty());
    std::set<std::string> checks;
    for (const Check& check : system->checks) {
      CAPTURE(check.name);
      CHECK(checks.insert(check.name).second);
      CHECK_FALSE(check.source.empty());
      for (const std::string& key : check.at) {
        bool known = false;
        for (const SystemKey& one : system->keys) known |= one.name == key;
        CHECK_MESSAGE(known, key);
      }
    }
  }
  CHECK(Systems().size() == names.size());
}

TEST_CASE("a key is found by its spelling, below any path with a star") {
  const System* const megatron = FindSystem("megatron");
  REQUIRE(megatron != nullptr);
  CHECK(megatron->FindKey("tensor_model_parallel_size") != nullptr);
  CHECK(megatron->FindKey("model.tensor_model_parallel_size") != nullptr);
  CHECK(megatron->FindKey("xtensor_model_parallel_size") == nullptr);
  CHECK(megatron->IsOther("adam_beta1"));
  CHECK_FALSE(megatron->IsOther("tensor_modl_parallel_size"));
}

TEST_CASE("a description with another form is refused with its place") {
  const std::string head =
      "schema: shardc.system/v1\nname: a\ntitle: A\nversions: '1'\n";
  struct Row {
    std::string text;
    const char* message;
  };
  const Row rows[] = {
      {"schema: other\nname: a\ntitle: A\nversions: '1'\n",
       "`schema` is `other`, not `shardc.system/v1`"},
      {head + "splits: [{roles: [nose], out: tp}]\n",
       "there is no role `nose`"},
      {head + "splits: [{match: x, dims: ['tp:half']}]\n",
       "there is no division `half`"},
      {head + "stages: {axis: pp, layers: 1, virtual: 1, of: x, divide: "
              "[{method: odd}]}\n",
       "there is no method `odd`"},
      {head + "let: {a: '1 +'}\n", "cannot be read from character"},
      {head + "checks: [{name: a}]\n", "has no `when`"}};
  for (const Row& row : rows) {
    CAPTURE(row.message);
    Findings findings;
    CHECK_FALSE(ParseSystem(MakeSource("a.yaml", row.text), findings));
    std::string all;
    for (const Finding& finding : findings.all()) all += finding.message + "\n";
    CHECK_MESSAGE(all.find(row.message) != std::string::npos, all);
  }
}

TEST_CASE("a glob fits by any text in place of a star") {
  CHECK(FitsGlob("rdzv_*", "rdzv_backend"));
  CHECK(FitsGlob("*.a.*", "x.a.y"));
  CHECK_FALSE(FitsGlob("*.a", "x.a.y"));
  CHECK(FitsGlob("*", ""));
  CHECK_FALSE(FitsGlob("", "a"));
}

}  // namespace
}  // namespace shardc::systems
