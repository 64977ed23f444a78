#include "step/roles.h"
#include "source/size.h"
#include "step/program.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "families/families.h"
#include "parse/project.h"
#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::step {
namespace {

std::string Root() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return root == nullptr ? "." : root;
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry :
       std::filesystem::directory_iterator(Root() + "/testdata/" + folder)) {
    out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string ConfigPath(const std::string& model) {
  return Root() + "/testdata/configs/" + model + ".config.json";
}

// Returns the description of the pack that fits the model, or null if none
// does.
std::shared_ptr<const ModelDescription> DescriptionFor(
    const Manifest& manifest, std::string_view model_type) {
  const auto pack = PickPack(manifest, model_type);
  return pack ? PackDescription(*pack, manifest.separator) : nullptr;
}

// Returns the problems of the roles of a tree, "" if there are none, and adds
// the number of parameters with a role to `seen`.
std::string Problems(const ModelDescription& description,
                     const ModelConfig* config, const Manifest& manifest,
                     size_t& seen) {
  Findings findings;
  const auto formulas = Formulas::Make(description, config, findings);
  if (formulas == nullptr) return TextOf(findings);
  const auto roles = AssignRoles(description, *formulas, manifest, findings);
  if (!roles) return TextOf(findings);
  CHECK(roles->tensors.size() == manifest.tensors.size());
  seen += roles->tensors.size();
  std::string out;
  std::set<std::pair<RoleFault, int32_t>> told;
  for (const RoleProblem& problem : roles->problems) {
    if (!told.emplace(problem.fault, problem.role).second) continue;
    out += problem.message + "\n";
  }
  return out;
}

TEST_CASE("every parameter of a bundled tree has one role and its shape") {
  size_t trees = 0, seen = 0;
  for (const std::string& file : FilesOf("models")) {
    const size_t naming = std::min(file.find(".hf."), file.find(".flax."));
    if (naming == file.npos || file.starts_with("real-")) continue;
    const std::string model = file.substr(0, naming);
    if (!std::filesystem::exists(ConfigPath(model))) continue;
    CAPTURE(file);
    Findings findings;
    const auto config = ReadModelConfig(ConfigPath(model), findings);
    const auto manifest =
        OpenManifest(Root() + "/testdata/models/" + file, {}, findings);
    REQUIRE(config);
    REQUIRE(manifest);
    const auto description = DescriptionFor(*manifest, config->model_type);
    if (description == nullptr) continue;
    ++trees;
    const std::string problems =
        Problems(*description, &*config, *manifest, seen);
    if (model == "mistral-7b") {
      // The tree is that of an older model than the one of the configuration.
      CHECK(problems.find("is [32000, 4096], but [v, d] is [32768, 4096]") !=
            problems.npos);
    } else {
      CHECK(problems == "");
    }
  }
  CHECK(trees >= 25);
  CHECK(seen > 10000);
  MESSAGE(trees, " trees, ", seen, " parameters");
}

TEST_CASE("so has every parameter of trees made of configurations") {
  size_t trees = 0, seen = 0;
  std::string undescribed;
  for (const std::string& file : FilesOf("configs")) {
    CAPTURE(file);
    const std::string path = Root() + "/testdata/configs/" + file;
    for (const std::string_view naming : {"hf", "hf-files"}) {
      CAPTURE(naming);
      Findings findings, ignored;
      const auto config = ReadModelConfig(path, findings);
      REQUIRE(config);
      // Sections describe the model that is trained, with unquantised weights.
      families::TreeWeights trained;
      trained.trained = true;
      const auto manifest =
          families::BuildTree(path, naming, ignored, {}, trained);
      const auto description =
          manifest ? DescriptionFor(*manifest, config->model_type) : nullptr;
      if (description == nullptr) {
        undescribed += file + " ";
        continue;
      }
      const std::string problems =
          Problems(*description, &*config, *manifest, seen);
      ++trees;
      if (file.starts_with("t5-v1.1-xxl")) {
        // The tree has an encoder only, and all its parameters have roles.
        CHECK(problems.find("layer 0 has no `norm1`") == 0);
        CHECK(problems.find("encoder") == problems.npos);
        continue;
      }
      CHECK(problems == "");
    }
  }
  CHECK(trees >= 70);
  MESSAGE(trees, " trees, ", seen, " parameters; not described: ", undescribed);
}

TEST_CASE("without a config.json, unknown sizes are no wrong shapes") {
  Findings findings;
  const auto manifest = OpenManifest(
      Root() + "/testdata/models/llama-3-8b.hf.manifest.json", {}, findings);
  REQUIRE(manifest);
  const auto description = DescriptionFor(*manifest, "llama");
  REQUIRE(description);
  size_t seen = 0;
  const std::string problems = Problems(*description, nullptr, *manifest, seen);
  CHECK(problems.find("`model.layers.0.self_attn.q_proj.weight` is [4096, "
                      "4096], and without the model's config.json not all "
                      "sizes of [n h, d] are known\n") == 0);
}

TEST_CASE("sizes that another family's config.json lacks are not shown as 0") {
  Findings findings;
  const std::string path = ConfigPath("mixtral-8x7b");
  const auto config = ReadModelConfig(path, findings);
  const auto manifest = families::BuildTree(path, "hf", findings);
  REQUIRE(config);
  REQUIRE(manifest);
  const auto description = PackDescription("qwen_moe", manifest->separator);
  REQUIRE(description);
  size_t seen = 0;
  const std::string problems =
      Problems(*description, &*config, *manifest, seen);
  CAPTURE(problems);
  CHECK(problems.find("is [8, 28672, 4096], and the model's config.json does "
                      "not give all sizes of [e, z g, d]\n") !=
        std::string::npos);
  CHECK(problems.find(", 0]") == std::string::npos);
}

TEST_CASE("numbers of layers and experts beyond the limits are reported") {
  Findings findings;
  const std::string path = ConfigPath("mixtral-8x7b");
  const auto config = ReadModelConfig(path, findings);
  const auto manifest = families::BuildTree(path, "hf-files", findings);
  REQUIRE(config);
  REQUIRE(manifest);
  const auto description = DescriptionFor(*manifest, config->model_type);
  REQUIRE(description != nullptr);
  const std::string expert = "has an expert numbered above 99,999",
                    layer = "has no role in the model's section",
                    missing = "layer 0 has not every expert's";
  struct Case {
    const char* from;
    const char* to;
    std::string problem;
  };
  const Case cases[] = {
      {".layers.0.block_sparse_moe.experts.7.",
       ".layers.0.block_sparse_moe.experts.100000.", expert},
      {".layers.0.block_sparse_moe.experts.7.",
       ".layers.0.block_sparse_moe.experts.99999999999.", expert},
      {".layers.0.block_sparse_moe.experts.7.",
       ".layers.0.block_sparse_moe.experts.99999.", missing},
      {".layers.0.self_attn.", ".layers.99999999999.self_attn.", layer}};
  for (const Case& one : cases) {
    CAPTURE(one.to);
    ManifestBuilder builder;
    for (const Tensor& tensor : manifest->tensors) {
      std::string name(tensor.name);
      const size_t at = name.find(one.from);
      if (at != name.npos) {
        name.replace(at, std::string_view(one.from).size(), one.to);
      }
      builder.Add(name, manifest->TypeOf(tensor));
    }
    builder.manifest().separator = manifest->separator;
    const Manifest changed = builder.Take();
    size_t seen = 0;
    const std::string problems =
        Problems(*description, &*config, changed, seen);
    CAPTURE(problems);
    CHECK(problems.find(one.problem) != problems.npos);
    const bool incomplete = problems.find(missing) != problems.npos;
    CHECK(incomplete == (one.problem != layer));
  }
}

TEST_CASE("without a configuration sizes come from the tree") {
  Findings findings;
  const auto manifest = OpenManifest(
      Root() + "/testdata/models/qwen3-0.6b.hf.manifest.json.gz", {}, findings);
  REQUIRE(manifest);
  const auto description = DescriptionFor(*manifest, "qwen3");
  REQUIRE(description != nullptr);
  // The norm of a head has the size of a head, from which the number of heads
  // follows.
  size_t seen = 0;
  CHECK(Problems(*description, nullptr, *manifest, seen) == "");
  const auto step =
      BuildForward(*description, nullptr, *manifest, Mode::kTrain, findings);
  CHECK(TextOf(findings) == "");
  REQUIRE(step);
  const Sizes sizes = RealSizes(*step, 4, 128);
  const auto& logits = step->graph.values[AsIndex(step->graph.logits)].labels;
  CHECK(sizes[AsIndex(logits[2])] == 151936);
}

TEST_CASE("a model of 80 layers is built at once") {
  Findings findings;
  const auto config = ReadModelConfig(ConfigPath("llama-3-70b"), findings);
  const auto manifest =
      OpenManifest(Root() + "/testdata/models/llama-3-70b.hf.manifest.json.gz",
                   {}, findings);
  REQUIRE(config);
  REQUIRE(manifest);
  const auto description = DescriptionFor(*manifest, "llama");
  REQUIRE(description != nullptr);
  const std::clock_t begin = std::clock();
  auto step =
      BuildForward(*description, &*config, *manifest, Mode::kTrain, findings);
  REQUIRE(step);
  const size_t forward = step->graph.ops.size();
  Differentiate(step->graph);
  AppendOptimizer(step->graph);
  const double took =
      static_cast<double>(std::clock() - begin) * 1000 / CLOCKS_PER_SEC;
  CHECK(step->graph.parameters.size() == 723);
  CHECK(step->graph.ops.size() > forward * 2);
  CHECK(took < 2000);
  MESSAGE(forward, " ops forward, ", step->graph.ops.size(), " in all, ", took,
          " ms of a processor");
}

}  // namespace
}  // namespace shardc::step
