// Compares the trees of described families with those that transformers made.
#include "families/families.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "complete.h"
#include "doctest/doctest.h"
#include "records.h"

namespace shardc {
namespace {

using Tree = std::map<std::string, std::string>;  // name to shape and dtype

constexpr int64_t kTrees = 1300;     // of transformers
constexpr int64_t kDefaults = 100;   // default and published configs
constexpr int64_t kFlaxTrees = 200;  // of its Flax classes
constexpr int64_t kPublished = 30;   // models whose exact number is published
constexpr size_t kEvery = 3;         // an ordinary run has one of so many

// Checks that about as many of `all` cases were compared as a run has.
void CheckCount(int64_t compared, int64_t all) {
  const int64_t every = RunsAllCases() ? 1 : kEvery;
  CHECK(compared >= all / every - (every > 1 ? all / 10 : 0));
}

std::string TypeOf(JsonValue entry, bool with_dtype) {
  return ShapeText(Integers(Member(entry, "shape"))) +
         (with_dtype ? std::string(Member(entry, "dtype").string()) : "");
}

// Adds to `out` every name that a folded entry stands for, with each
// combination of its numbers.
void Unfold(JsonValue entry, const std::vector<std::vector<int64_t>>& indices,
            size_t at, std::string name, Tree& out) {
  if (at == indices.size()) {
    out[name] = TypeOf(entry, true);
    return;
  }
  const size_t place = name.find("{}");
  for (const int64_t index : indices[at]) {
    std::string filled = name;
    Unfold(entry, indices, at + 1,
           filled.replace(place, 2, std::to_string(index)), out);
  }
}

Tree InModel(JsonValue record, bool with_dtype = true) {
  Tree tree;
  for (JsonValue entry : Member(record, "params").items()) {
    tree[std::string(Member(entry, "name").string())] =
        TypeOf(entry, with_dtype);
  }
  return tree;
}

// Adds the tensors of a folded list.
void AddFolded(JsonValue list, Tree& tree) {
  for (JsonValue entry : list.items()) {
    std::vector<std::vector<int64_t>> indices;
    if (const auto lists = entry.Find("indices")) {
      for (JsonValue one : lists->items()) indices.push_back(Integers(one));
    }
    Unfold(entry, indices, 0, std::string(Member(entry, "name").string()),
           tree);
  }
}

Tree InFiles(JsonValue record) {
  Tree tree;
  if (const auto saved = record.Find("saved")) {
    AddFolded(*saved, tree);
    return tree;
  }
  tree = InModel(record);
  for (JsonValue entry : Member(record, "buffers").items()) {
    if (!Member(entry, "saved").boolean()) continue;
    tree[std::string(Member(entry, "name").string())] = TypeOf(entry, true);
  }
  return tree;
}

std::string Text(JsonValue value) {
  const Place place = value.place();
  return std::string(
      place.source->text().substr(place.begin, place.end - place.begin));
}

// The tree of a class, whose weights are not quantised.
std::optional<Manifest> TreeOf(const JsonDocument& document,
                               std::string_view naming, Findings& findings) {
  families::TreeWeights weights;
  weights.trained = true;
  return families::BuildTree(document, naming, findings, {}, weights);
}

Tree Built(JsonValue config, std::string_view naming, bool with_dtype = true) {
  Findings findings;
  const auto document =
      JsonDocument::Parse(MakeSource("config.json", Text(config)), findings);
  REQUIRE(document != nullptr);
  const auto manifest = TreeOf(*document, naming, findings);
  Tree tree;
  if (!manifest) {
    tree[findings.empty() ? "no finding" : findings.all()[0].message] = "";
    return tree;
  }
  for (const Tensor& tensor : manifest->tensors) {
    const TensorType& type = manifest->TypeOf(tensor);
    tree[std::string(tensor.name)] =
        ShapeText(*type.shape) +
        (with_dtype ? std::string(DtypeName(*type.dtype)) : "");
  }
  CHECK(tree.size() == manifest->tensors.size());  // names are distinct
  return tree;
}

// Returns the first difference of two trees; empty if there is none.
std::string Difference(const Tree& wanted, const Tree& built) {
  for (const auto& [name, type] : wanted) {
    const auto found = built.find(name);
    if (found == built.end()) return "lacks " + name + " " + type;
    if (found->second != type) return name + " is " + found->second;
  }
  for (const auto& [name, type] : built) {
    if (!wanted.contains(name)) return "has " + name + " " + type;
  }
  return {};
}

bool IsDescribed(std::string_view type) {
  const auto types = families::ModelTypes();
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::vector<std::string> RecordedFamilies() {
  std::vector<std::string> names;
  const auto index = LoadRecord("transformers/index");
  for (JsonValue name : Member(index->root(), "families").items()) {
    if (IsDescribed(name.string())) names.emplace_back(name.string());
  }
  return names;
}

std::optional<double> NumberOf(JsonValue object, std::string_view key) {
  const auto value = object.Find(key);
  if (!value || value->IsNull()) return std::nullopt;
  return value->real();
}

// Returns whether attention cannot be computed with these sizes. The program
// refuses such a configuration, although transformers builds its parameters:
// the KV heads do not divide the heads, the heads do not divide the hidden
// size, or the rotary embedding rotates an odd number of elements.
bool IsRefused(JsonValue config) {
  const JsonValue inner = config.Find("text_config").value_or(config);
  const auto heads = NumberOf(inner, "num_attention_heads");
  const auto hidden = NumberOf(inner, "hidden_size");
  if (!heads || !hidden) return false;
  const auto kv_heads = NumberOf(inner, "num_key_value_heads");
  if (kv_heads && std::fmod(*heads, *kv_heads) != 0) return true;
  auto head_dim = NumberOf(inner, "head_dim");
  // Attention of latents has sizes of heads of its own.
  if (inner.Find("qk_nope_head_dim")) return false;
  if (!head_dim && std::fmod(*hidden, *heads) != 0) return true;
  head_dim = head_dim.value_or(*hidden / *heads);
  auto factor = NumberOf(inner, "partial_rotary_factor");
  const auto rope = inner.Find("rope_parameters");
  if (!factor && rope && rope->IsObject()) {
    factor = NumberOf(*rope, "partial_rotary_factor");
  }
  return factor && std::fmod(std::floor(*head_dim * *factor), 2) != 0;
}

TEST_CASE("small models of every family are those that transformers makes") {
  int64_t trees = 0, refused = 0;
  size_t number = 0;
  const auto names = RecordedFamilies();
  CHECK(names.size() >= 40);
  for (const std::string& family : names) {
    const auto record = LoadRecord("transformers/small/" + family);
    for (JsonValue entry : Member(record->root(), "cases").items()) {
      if (!IsInPart(number++, kEvery)) continue;
      CAPTURE(family);
      CAPTURE(std::string(Member(entry, "name").string()));
      const Tree model = InModel(entry);
      const JsonValue config = Member(entry, "config");
      if (IsRefused(config)) {
        CHECK(Built(config, "hf").size() == 1);  // the message of a finding
        ++refused;
        continue;
      }
      CHECK(Difference(model, Built(config, "hf")) == "");
      CHECK(Difference(InFiles(entry), Built(config, "hf-files")) == "");
      trees += 2;
      // A config with only the required keys gives the same tree.
      if (const auto given = entry.Find("given")) {
        CHECK(Difference(model, Built(*given, "hf")) == "");
        ++trees;
      }
    }
  }
  MESSAGE(trees << " trees of " << names.size() << " families, " << refused
                << " configurations refused");
  CheckCount(trees, kTrees);
}

TEST_CASE(
    "published models have the trees that transformers makes, and the "
    "published numbers of parameters") {
  int64_t published = 0;
  size_t number = 0;
  const auto index = LoadRecord("transformers/index");
  for (JsonValue entry : Member(index->root(), "models").items()) {
    if (!IsDescribed(Member(entry, "model_type").string())) continue;
    if (!IsInPart(number++, kEvery)) continue;
    const std::string model(Member(entry, "model").string());
    CAPTURE(model);
    const auto record = LoadRecord("transformers/known/" + model);
    const JsonValue root = record->root();
    // The published config.json is used if the record has one.
    const JsonValue config =
        Member(root, Member(root, "source").IsNull() ? "config" : "given");
    CHECK(Difference(InModel(root), Built(config, "hf")) == "");
    Tree files = InFiles(root);
    // Published files of DeepSeek-V3 have the router's correction in float32.
    // The class, whose tree is recorded, gives it the dtype of the config.
    for (auto& [name, type] : files) {
      if (name.ends_with("e_score_correction_bias")) {
        type.replace(type.find(']') + 1, type.npos, "F32");
      }
    }
    CHECK(Difference(files, Built(config, "hf-files")) == "");
    const auto said = root.Find("published");
    if (!said || said->Find("differs")) continue;
    Findings findings;
    const auto document =
        JsonDocument::Parse(MakeSource("config.json", Text(config)), findings);
    const auto manifest = TreeOf(*document, "hf", findings);
    REQUIRE(manifest);
    int64_t elements = 0;
    for (const Tensor& tensor : manifest->tensors) {
      elements += *manifest->TypeOf(tensor).Elements();
    }
    CHECK(elements == Member(*said, "parameters").integer());
    ++published;
  }
  MESSAGE(published << " published numbers");
  CheckCount(published, kPublished);
}

TEST_CASE(
    "default configs, and published ones whose keys the class rewrites, have "
    "the trees that transformers makes") {
  int64_t trees = 0, refused = 0;
  size_t number = 0;
  const auto record = LoadRecord("transformers/defaults");
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const JsonValue config = Member(entry, "config");
    const std::string type(Member(config, "model_type").string());
    if (entry.Find("error") || !IsDescribed(type)) continue;
    if (!IsInPart(number++, kEvery)) continue;
    CAPTURE(type);
    CAPTURE(std::string(Member(entry, "name").string()));
    if (IsRefused(config)) {
      CHECK(Built(config, "hf").size() == 1);
      ++refused;
      continue;
    }
    Tree model, files;
    AddFolded(Member(entry, "params"), model);
    const auto saved = entry.Find("saved");
    AddFolded(saved ? *saved : Member(entry, "params"), files);
    if (!saved) AddFolded(Member(entry, "buffers"), files);
    CHECK(Difference(model, Built(config, "hf")) == "");
    CHECK(Difference(files, Built(config, "hf-files")) == "");
    ++trees;
  }
  MESSAGE(trees << " configs, " << refused << " refused");
  CheckCount(trees, kDefaults);
}

TEST_CASE("Flax trees are those of transformers' Flax classes") {
  int64_t trees = 0;
  std::set<std::string> types;
  for (const std::string name : {"flax/small", "flax/known"}) {
    const auto record = LoadRecord(name);
    for (JsonValue entry : Member(record->root(), "cases").items()) {
      const std::string type(Member(entry, "model_type").string());
      if (!entry.Find("params") || !IsDescribed(type)) continue;
      const JsonValue config = Member(entry, "config");
      // For a model without a config.json only some sizes are given.
      if (name == "flax/known") {
        const auto known =
            LoadRecord("transformers/known/" +
                       std::string(Member(entry, "model").string()));
        if (Member(known->root(), "source").IsNull()) continue;
      }
      const Tree built = Built(config, "flax", false);
      if (built.size() == 1 &&
          built.begin()->first.find("has no naming") != std::string::npos) {
        continue;
      }
      CAPTURE(type);
      CAPTURE(std::string(Member(entry, "model").string()));
      CHECK(Difference(InModel(entry, false), built) == "");
      types.insert(type);
      ++trees;
    }
  }
  MESSAGE(trees << " trees of " << types.size() << " families");
  CHECK(types.size() >= 12);
  CHECK(trees >= kFlaxTrees);
}

}  // namespace
}  // namespace shardc
