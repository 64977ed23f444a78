#include "resolve/resolve.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "model/manifest.h"

namespace shardc {
namespace {

using Names = std::vector<std::string>;

Mesh MeshOf(std::initializer_list<std::pair<const char*, int64_t>> axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size});
    mesh.devices *= size;
  }
  return mesh;
}

Mesh Full() {
  return MeshOf({{"dp", 2}, {"fsdp", 2}, {"ep", 2}, {"tp", 2}, {"sp", 2}});
}

SpecList List(const std::vector<Names>& entries) {
  SpecList list;
  for (const Names& names : entries) {
    SpecEntry entry;
    entry.is_group = names.size() > 1;
    for (const std::string& name : names) entry.names.push_back({name, {}});
    list.entries.push_back(entry);
  }
  return list;
}

AxisValue Value(AxisGroup axes) {
  return {.is_null = false, .axes = std::move(axes)};
}

Registration Reg(std::string name, Names rule, bool override_it = false) {
  Registration registration;
  registration.name = std::move(name);
  registration.rule.is_null = rule.empty();
  for (std::string& text : rule) {
    registration.rule.names.push_back({std::move(text), false});
  }
  registration.override_existing = override_it;
  return registration;
}

RegisteredRule RuleOf(Names names) { return Reg("x", std::move(names)).rule; }

std::string Text(const RuleSet& rules, const Mesh& mesh,
                 const std::vector<Names>& entries, Mode mode) {
  Findings findings;
  auto resolver = Resolver::Make(rules, mesh, findings);
  if (!resolver) return "make: " + findings.all()[0].message;
  auto resolved = resolver->Resolve(List(entries), mode, findings);
  if (!resolved) return findings.all()[0].message;
  return SpecText(resolved->spec);
}

std::string Made(const RuleSet& rules) {
  Findings findings;
  if (Resolver::Make(rules, Full(), findings)) return "ok";
  return findings.all()[0].code->Id() + " " + findings.all()[0].message;
}

TEST_CASE("names of every kind") {
  const RuleSet none;
  struct {
    std::vector<Names> entries;
    Mode mode;
    std::string expected;
  } const cases[] = {
      {{{"BATCH"}, {"__EMBED__"}}, Mode::kTrain, R"([["fsdp", "dp"], "tp"])"},
      {{{"FSDP", "SP"}, {"TP"}}, Mode::kTrain, R"([["fsdp", "sp"], "tp"])"},
      {{{"BATCH", "SP"}}, Mode::kTrain, R"([["fsdp", "dp", "sp"]])"},
      {{{"head"}, {"dp"}, {}}, Mode::kTrain, R"(["tp", "dp", null])"},
      {{{"_"}, {"_", "tp"}}, Mode::kTrain, R"([null, "tp"])"},
      {{}, Mode::kTrain, "[]"},
      {{{"HEAD_DIM"}, {"EXPERT"}}, Mode::kPrefill, R"([null, "ep"])"},
      // If the decode rule is null, the standard rule applies.
      {{{"QUERY_LENGTH"}}, Mode::kDecode, R"(["sp"])"},
      // An axis that occurs twice stays in the spec; legalization reports it.
      {{{"HEAD"}, {"VOCAB"}}, Mode::kTrain, R"(["tp", "tp"])"},
      {{{"HEAD"}, {"HEAD"}}, Mode::kTrain, R"(["tp", "tp"])"},
      {{{"tp"}, {"HEAD"}}, Mode::kTrain, R"(["tp", "tp"])"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.expected);
    CHECK(Text(none, Full(), c.entries, c.mode) == c.expected);
  }
}

TEST_CASE("axes of whole experts shard no other dimension of an expert") {
  RuleSet rules;
  rules.axes.Set(AxisRule::kExpert, {false, {"ep", "tp"}});
  struct {
    std::vector<Names> entries;
    std::string expected;
  } const cases[] = {
      {{{"EXPERT"}, {"MLP_INTERMEDIATE"}, {"FSDP", "SP"}},
       R"([["ep", "tp"], null, ["fsdp", "sp"]])"},
      {{{"FSDP", "TP"}, {"EXPERT"}}, R"(["fsdp", ["ep", "tp"]])"},
      // Without experts, tp shards the dimension.
      {{{"MLP_INTERMEDIATE"}, {"FSDP"}}, R"(["tp", "fsdp"])"},
      // An axis that the spec names itself stays; legalization reports it.
      {{{"EXPERT"}, {"tp"}}, R"([["ep", "tp"], "tp"])"},
  };
  Findings findings;
  const auto resolver = Resolver::Make(rules, Full(), findings);
  REQUIRE(resolver);
  for (const auto& c : cases) {
    CAPTURE(c.expected);
    auto resolved = resolver->Resolve(List(c.entries), Mode::kTrain, findings);
    REQUIRE(resolved);
    KeepExpertsWhole(*resolved);
    CHECK(SpecText(resolved->spec) == c.expected);
  }
  // A spec as such is resolved as in the reference.
  CHECK(Text(rules, Full(), {{"EXPERT"}, {"MLP_INTERMEDIATE"}}, Mode::kTrain) ==
        R"([["ep", "tp"], "tp"])");
}

// Resolves the entries as the spec of a file, whose names have a place.
std::string TextInFile(const RuleSet& rules, const Mesh& mesh,
                       const std::vector<Names>& entries, Mode mode,
                       const std::string& file = "rules.yaml") {
  Findings findings;
  auto resolver = Resolver::Make(rules, mesh, findings);
  if (!resolver) return "make: " + findings.all()[0].message;
  SpecList list = List(entries);
  const SourceRef source = MakeSource(file, "rules");
  for (SpecEntry& entry : list.entries) {
    for (SpecName& name : entry.names) {
      name.is_mesh_axis = name.text.starts_with("axis:");
      if (name.is_mesh_axis) name.text.erase(0, 5);
      name.place = {source, 0, 1};
    }
  }
  auto resolved = resolver->Resolve(list, mode, findings);
  if (resolved) return SpecText(resolved->spec);
  return findings.all()[0].message + "; " + findings.all()[0].help;
}

// Returns all names of axis rules and built-in logical axes that can also be
// names of mesh axes, each with its axis rule.
std::vector<std::pair<std::string, AxisRule>> LogicalNames() {
  std::vector<std::pair<std::string, AxisRule>> out;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    out.emplace_back(AxisRuleName(rule), rule);
    out.emplace_back(AxisFieldName(rule), rule);
  }
  for (const Token& token : BuiltinTokens()) {
    if (!token.rule) continue;
    const std::string full(token.long_name);
    out.emplace_back(token.short_name, *token.rule);
    out.emplace_back(full, *token.rule);
    out.emplace_back(full.substr(2, full.size() - 4), *token.rule);
  }
  return out;
}

TEST_CASE("a name is the mesh axis if its rule has no axis in the mesh") {
  const RuleSet none;
  RuleSet eformer;
  eformer.policy.compat = Compat::kFjformer;
  for (const auto& [name, rule] : LogicalNames()) {
    const auto& given_name = name;
    CAPTURE(given_name);
    const Mesh mesh = MeshOf({{name.c_str(), 4}, {"model", 2}});
    const std::vector<Names> entries = {{name}, {"model"}};
    for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
      CHECK(TextInFile(none, mesh, entries, mode) ==
            "[\"" + name + "\", \"model\"]");
      CHECK(TextInFile(eformer, mesh, entries, mode) == "[null, \"model\"]");
      CHECK(TextInFile(none, mesh, entries, mode, "builtin:x") ==
            "[null, \"model\"]");
    }
  }
  CHECK(TextInFile(none, MeshOf({{"EMPTY", 4}}), {{"EMPTY"}}, Mode::kTrain) ==
        "[\"EMPTY\"]");
  CHECK(TextInFile(none, Full(), {{"EMPTY"}, {"tp"}}, Mode::kTrain) ==
        "[null, \"tp\"]");
}

TEST_CASE("a name of a mesh axis and of a rule with axes is an error") {
  const RuleSet none;
  for (const auto& [name, rule] : LogicalNames()) {
    const auto& given_name = name;
    CAPTURE(given_name);
    Mesh mesh = Full();
    mesh.axes.push_back({name, 2});
    const std::string text = TextInFile(none, mesh, {{name}}, Mode::kTrain);
    // The default of rules such as attention_dim is null.
    const bool empty = none.axes.Value(rule).axes.empty();
    if (empty) {
      CHECK(text == "[\"" + name + "\"]");
    } else if (name.starts_with("__")) {
      // The long form is always the logical axis if that has axes.
      CHECK(text == Text(none, Full(), {{name}}, Mode::kTrain));
    } else {
      CHECK(text.find("`" + name + "` is an axis of the mesh and ") == 0);
      CHECK(text.find("write `{axis: " + name + "}`") != text.npos);
      const std::string other = text.substr(text.find("or `") + 4);
      const Names again = {other.substr(0, other.find('`'))};
      CHECK(TextInFile(none, mesh, {again}, Mode::kTrain) ==
            Text(none, Full(), {{std::string(AxisRuleName(rule))}},
                 Mode::kTrain));
    }
    CHECK(TextInFile(none, mesh, {{"axis:" + name}}, Mode::kTrain) ==
          "[\"" + name + "\"]");
  }
  // Only the decode rule has an axis of the mesh.
  RuleSet decode;
  decode.axes.Set(AxisRule::kDecodeBatch, Value({"tp"}));
  const Mesh mesh = MeshOf({{"batch", 4}, {"tp", 2}});
  CHECK(TextInFile(decode, mesh, {{"batch"}}, Mode::kTrain)
            .find("`batch` is an axis of the mesh and an axis rule") == 0);
  // Both meanings are the same axis in one of the modes alone.
  for (const AxisRule rule : {AxisRule::kBatch, AxisRule::kDecodeBatch}) {
    RuleSet one;
    one.axes.Set(AxisRule::kBatch, Value({"tp"}));
    one.axes.Set(AxisRule::kDecodeBatch, Value({"tp"}));
    one.axes.Set(rule, Value({"batch"}));
    CHECK(TextInFile(one, mesh, {{"batch"}}, Mode::kTrain)
              .find("`batch` is an axis of the mesh and an axis rule") == 0);
  }
  // Both meanings are the same axis.
  RuleSet same;
  same.axes.Set(AxisRule::kBatch, Value({"batch"}));
  CHECK(TextInFile(same, mesh, {{"batch", "tp"}}, Mode::kDecode) ==
        R"([["batch", "tp"]])");
}

TEST_CASE("a registered name applies unless it would drop a mesh axis") {
  RuleSet rules;
  rules.registrations = {Reg("x", {"tp"}), Reg("y", {"sp"}), Reg("batch", {})};
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 2}, {"tp", 2}, {"batch", 2}});
  CHECK(TextInFile(rules, mesh, {{"x"}}, Mode::kTrain) == R"(["tp"])");
  CHECK(TextInFile(rules, mesh, {{"axis:x"}}, Mode::kTrain) == R"(["x"])");
  CHECK(TextInFile(rules, mesh, {{"y"}}, Mode::kTrain) ==
        "`y` is an axis of the mesh and a registered logical axis (\"sp\"): "
        "both could be meant; write `{axis: y}` for the mesh axis, or "
        "`__y__` for \"sp\"");
  CHECK(TextInFile(rules, mesh, {{"batch"}}, Mode::kTrain)
            .find("`batch` is an axis of the mesh and a registered") == 0);
  CHECK(TextInFile(rules, mesh, {{"axis:nope"}}, Mode::kTrain)
            .find("the mesh has no axis `nope`") == 0);
  CHECK(TextInFile(rules, mesh, {{"axis:fsdp"}}, Mode::kTrain) == "[null]");
}

TEST_CASE("a registration's rule is a mesh axis only if the rule has none") {
  RuleSet rules;
  rules.registrations = {Reg("X", {"head_axis"}), Reg("Y", {"batch"})};
  rules.axes.Set(AxisRule::kDecodeHead, Value({"ep"}));
  const Mesh batch = MeshOf({{"batch", 2}, {"tp", 2}, {"ep", 2}});
  CHECK(Text(rules, batch, {{"X"}, {"Y"}}, Mode::kTrain) ==
        R"(["tp", "batch"])");
  CHECK(Text(rules, batch, {{"X"}, {"Y"}}, Mode::kDecode) ==
        R"(["ep", "batch"])");
  const Mesh both = MeshOf({{"batch", 2}, {"dp", 2}, {"head_axis", 2}});
  CHECK(Text(rules, both, {{"Y"}}, Mode::kTrain) == R"(["dp"])");
  RuleSet head;
  head.registrations = {Reg("X", {"head_axis"})};
  CHECK(Text(head, both, {{"X"}}, Mode::kDecode) == R"(["head_axis"])");
}

TEST_CASE("a placement's axis is what the axis rules give for its default") {
  RuleSet rules;
  rules.axes.Set(AxisRule::kExpertParallel, Value({"expert"}));
  Findings findings;
  const auto resolver =
      Resolver::Make(rules, MeshOf({{"expert", 4}, {"tp", 2}}), findings);
  REQUIRE(resolver);
  CHECK(resolver->PlacementAxis("ep") == "expert");
  CHECK(resolver->PlacementAxis("EXPERT_PARALLEL") == "expert");
  CHECK(resolver->PlacementAxis("tp") == "tp");
  CHECK(resolver->PlacementAxis("sp") == "sp");
  CHECK(resolver->PlacementAxis("other") == "other");
}

TEST_CASE("unknown names have suggestions") {
  Findings findings;
  auto resolver = Resolver::Make({}, Full(), findings);
  REQUIRE(resolver);
  auto finding = [&](const std::vector<Names>& entries) {
    Findings out;
    CHECK_FALSE(resolver->Resolve(List(entries), Mode::kTrain, out));
    REQUIRE(out.errors() > 0);
    const Finding& f = out.all()[0];
    return f.code->Id() + " " + f.message + " | " + f.help;
  };
  CHECK(finding({{"KV_HEDA"}}) ==
        "SHD028 `KV_HEDA` is neither a logical axis nor an axis rule nor a "
        "mesh axis"
        " | did you mean `KV_HEAD`?");
  CHECK(finding({{"ColumnWise"}}) ==
        "SHD028 bundle `ColumnWise` cannot stand inside a list"
        " | a bundle is a whole spec: write `spec: ColumnWise`");
  CHECK(finding({{"tp"}, {"dp", "tp"}})
            .starts_with("SHD027 axis `tp` is written twice in one spec"));
  Findings both;
  CHECK_FALSE(
      resolver->Resolve(List({{"nope1"}, {"nope2"}}), Mode::kTrain, both));
  CHECK(both.errors() == 2);
  RuleSet rules;
  rules.registrations = {Reg("WIDE_GROUP", {"tp"})};
  resolver = Resolver::Make(rules, Full(), findings);
  REQUIRE(resolver);
  CHECK(finding({{"WIDE_GRUOP"}}).ends_with(" | did you mean `WIDE_GROUP`?"));
}

TEST_CASE("a dimension of size 1 means decode, counted from either end") {
  const Shape shape = {1, 7, 1, 5};
  const auto mode = [&](int64_t dim) -> std::string {
    const auto found = ModeFromShape(dim, shape);
    return found ? std::string(ModeName(*found)) : "none";
  };
  const std::pair<int64_t, std::string> cases[] = {
      {0, "decode"},       {1, "train"},       {2, "decode"},  {3, "train"},
      {4, "none"},         {-1, "train"},      {-2, "decode"}, {-3, "train"},
      {-4, "decode"},      {-5, "none"},       {100, "none"},  {-100, "none"},
      {INT64_MAX, "none"}, {INT64_MIN, "none"}};
  for (const auto& one : cases) {
    CAPTURE(one.first);
    CHECK(mode(one.first) == one.second);
  }
  CHECK_FALSE(ModeFromShape(0, {}).has_value());
  CHECK_FALSE(ModeFromShape(-1, {}).has_value());
}

TEST_CASE("bundles are complete specs") {
  RuleSet rules;
  Bundle ours;
  ours.name = "Ours";
  ours.axes = List({{"FSDP", "SP"}, {"TP"}, {}});
  rules.bundles.push_back(ours);
  Findings findings;
  auto resolver = Resolver::Make(rules, Full(), findings);
  REQUIRE(resolver);
  auto resolved =
      resolver->Resolve(SpecBundle{"Ours", {}}, Mode::kTrain, findings);
  REQUIRE(resolved);
  CHECK(SpecText(resolved->spec) == R"([["fsdp", "sp"], "tp", null])");
  CHECK(resolved->bundle == "Ours");
  resolved =
      resolver->Resolve(SpecBundle{"RowWise", {}}, Mode::kTrain, findings);
  REQUIRE(resolved);
  CHECK(SpecText(resolved->spec) == R"(["tp", ["fsdp", "sp"]])");
  CHECK(resolver->BundleNames().size() == 18);
  CHECK_FALSE(
      resolver->Resolve(SpecBundle{"RowWide", {}}, Mode::kTrain, findings));
  CHECK(findings.all()[0].help == "did you mean `RowWise`?");
  CHECK_FALSE(resolver->Resolve(SpecBundle{"tp", {}}, Mode::kTrain, findings));
  CHECK(findings.all()[1].help == "to shard the first dimension, write `[tp]`");
  CHECK_FALSE(
      resolver->Resolve(SpecLike{"\\1.weight", {}}, Mode::kTrain, findings));
}

TEST_CASE("parallelism axes that the mesh lacks are left out") {
  const Mesh mesh = MeshOf({{"fsdp", 4}, {"tp", 2}});
  RuleSet rules;
  CHECK(Text(rules, mesh, {{"BATCH"}, {"SP"}, {"ep"}}, Mode::kTrain) ==
        R"(["fsdp", null, null])");
  SUBCASE("any other axis stays") {
    rules.axes.Set(AxisRule::kHead, Value({"heads"}));
    CHECK(Text(rules, mesh, {{"HEAD"}}, Mode::kTrain) == R"(["heads"])");
    CHECK(Text(rules, mesh, {{"heads"}}, Mode::kTrain).starts_with("`heads`"));
  }
  SUBCASE("a renamed one loses its default name") {
    rules.axes.Set(AxisRule::kSequenceParallel, Value({"seq"}));
    CHECK(Text(rules, mesh, {{"SP"}, {"seq"}}, Mode::kTrain) == "[null, null]");
    CHECK(Text(rules, mesh, {{"sp"}}, Mode::kTrain).starts_with("`sp`"));
  }
  SUBCASE("eformer keeps them, to drop their group") {
    rules.policy.compat = Compat::kEformer;
    CHECK(Text(rules, mesh, {{"BATCH"}}, Mode::kTrain) ==
          R"([["fsdp", "dp"]])");
  }
}

TEST_CASE("decode rules") {
  RuleSet rules;
  rules.axes.Set(AxisRule::kDecodeHead, Value({"tp", "ep"}));
  rules.axes.Set(AxisRule::kDecodeKvHead, Value({}));
  rules.axes.Set(AxisRule::kDecodeKeySequence, {});
  const std::vector<Names> entries = {
      {"HEAD"}, {"KV_HEAD"}, {"KV_LENGTH"}, {"head", "dp"}};
  CHECK(Text(rules, Full(), entries, Mode::kPrefill) ==
        R"(["tp", "tp", "sp", ["tp", "dp"]])");
  for (Mode mode : {Mode::kDecode, Mode::kInsert}) {
    CHECK(Text(rules, Full(), entries, mode) ==
          R"([["tp", "ep"], null, "sp", ["tp", "ep", "dp"]])");
  }
  Findings findings;
  auto resolver = Resolver::Make(rules, Full(), findings);
  REQUIRE(resolver);
  auto resolved = resolver->Resolve(List(entries), Mode::kDecode, findings);
  REQUIRE(resolved);
  const NameTrace& head = resolved->traces[0][0];
  CHECK(head.name == "HEAD");
  CHECK(head.kind == "token");
  CHECK(head.rule == "decode_head");
  CHECK_FALSE(head.decode_fallback);
  const NameTrace& length = resolved->traces[2][0];
  CHECK(length.rule == "key_sequence");
  CHECK(length.decode_fallback);
  CHECK_FALSE(resolved->traces[1][0].decode_fallback);
  CHECK(resolved->traces[3][0].kind == "axis rule");
  CHECK(resolved->traces[3][1].kind == "mesh axis");
}

TEST_CASE("registered tokens") {
  RuleSet rules;
  rules.axes.Set(AxisRule::kDecodeKvHead, Value({"sp"}));
  SUBCASE("either spelling serves") {
    rules.registrations = {Reg("KV_GROUP", {"kv_head"}),
                           Reg("__STAGE__", {"stage"})};
    CHECK(Text(rules, Full(), {{"KV_GROUP"}, {"STAGE"}}, Mode::kTrain) ==
          R"(["tp", "stage"])");
    CHECK(Text(rules, Full(), {{"__KV_GROUP__"}}, Mode::kTrain) == R"(["tp"])");
  }
  SUBCASE("a decode rule is inferred from a rule's name") {
    rules.registrations = {Reg("X", {"kv_head"}), Reg("Q", {"query_sequence"}),
                           Reg("L", {"kv_head", "dp"})};
    CHECK(Text(rules, Full(), {{"X"}, {"Q"}, {"L"}}, Mode::kDecode) ==
          R"(["sp", null, ["tp", "dp"]])");
  }
  SUBCASE("a generation rule wins, also a null one") {
    Registration x = Reg("X", {"kv_head"});
    x.generation = RuleOf({"ep"});
    Registration y = Reg("Y", {"kv_head"});
    y.generation = RegisteredRule{};
    rules.registrations = {x, y};
    CHECK(Text(rules, Full(), {{"X"}, {"Y"}}, Mode::kInsert) ==
          R"(["ep", null])");
    CHECK(Text(rules, Full(), {{"X"}, {"Y"}}, Mode::kPrefill) ==
          R"(["tp", "tp"])");
  }
  SUBCASE("null is unsharded, and so is an empty list") {
    rules.registrations = {Reg("X", {})};
    CHECK(Text(rules, Full(), {{"X"}, {"X", "dp"}}, Mode::kTrain) ==
          R"([null, "dp"])");
  }
  SUBCASE("rule names win over mesh axes unless the axis is forced") {
    Mesh mesh = MeshOf({{"expert", 2}, {"ep", 2}});
    Registration forced = Reg("F", {"expert"});
    forced.rule.names[0].forced_axis = true;
    rules.registrations = {Reg("R", {"expert"}), forced};
    CHECK(Text(rules, mesh, {{"R"}, {"F"}}, Mode::kTrain) ==
          R"(["ep", "expert"])");
  }
  SUBCASE("they refer to one another and to tokens") {
    rules.registrations = {Reg("A", {"B", "C"}), Reg("B", {"KV_HEAD"}),
                           Reg("C", {"__BATCH__"})};
    CHECK(Text(rules, Full(), {{"A"}}, Mode::kTrain) ==
          R"([["tp", "fsdp", "dp"]])");
    // A name inside a registration means its standard rule in every mode.
    CHECK(Text(rules, Full(), {{"A"}}, Mode::kDecode) ==
          R"([["tp", "fsdp", "dp"]])");
  }
  SUBCASE("only a rule that is an axis rule's bare name infers its twin") {
    Registration listed = Reg("L", {"kv_head"});
    listed.rule.is_list = true;
    Registration generation = Reg("G", {"tp"});
    generation.generation = RuleOf({"__KV_HEAD__"});
    rules.registrations = {listed, generation, Reg("T", {"KV_HEAD"}),
                           Reg("A", {"B"}), Reg("B", {"kv_head"})};
    for (const char* name : {"L", "T", "A", "G"}) {
      CAPTURE(name);
      CHECK(Text(rules, Full(), {{name}}, Mode::kDecode) == R"(["tp"])");
    }
    CHECK(Text(rules, Full(), {{"B"}}, Mode::kDecode) == R"(["sp"])");
  }
  SUBCASE("an override's generation rule may name the token itself") {
    Registration batch = Reg("BATCH", {"sp"}, true);
    batch.generation = RuleOf({"__BATCH__"});
    rules.registrations = {batch};
    CHECK(Text(rules, Full(), {{"BATCH"}}, Mode::kDecode) == R"(["sp"])");
  }
  SUBCASE("a token may be overridden, under both names") {
    rules.registrations = {Reg("FSDP", {"dp"}, true)};
    CHECK(Text(rules, Full(), {{"FSDP"}, {"__FULLY_SHARDED_DATA_PARALLEL__"}},
               Mode::kTrain) == R"(["dp", "dp"])");
  }
}

TEST_CASE("a spec of another parameter needs a parameter") {
  Findings findings;
  const auto resolver = Resolver::Make(RuleSet(), Full(), findings);
  REQUIRE(resolver);
  const SpecSource like = SpecLike{"a", {}};
  CHECK_FALSE(resolver->Resolve(like, Mode::kTrain, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "`like` names a parameter, and there is none here");
}

TEST_CASE("registrations that cannot be") {
  RuleSet rules;
  rules.registrations = {Reg("HEAD", {"tp"})};
  CHECK(Made(rules) == "SHD020 logical axis `HEAD` is built in");
  rules.registrations = {Reg("__BATCH__", {"tp"})};
  CHECK(Made(rules) == "SHD020 logical axis `__BATCH__` is built in");
  rules.registrations = {Reg("X", {"tp"}), Reg("__X__", {"tp"})};
  CHECK(Made(rules) == "SHD020 logical axis `__X__` is registered twice");
  rules.registrations = {Reg("  ", {"tp"})};
  CHECK(Made(rules) == "SHD022 a registered logical axis has an empty name");
  rules.registrations = {Reg("_", {"tp"}, true)};
  CHECK(Made(rules).starts_with("SHD022 `_` always means unsharded"));
  rules.registrations = {Reg("A", {"B", "tp"}), Reg("B", {"A", "sp"})};
  CHECK(Made(rules) ==
        "SHD029 registrations refer to each other in a circle:"
        " `A` -> `B` -> `A`");
  rules.registrations = {Reg("tp", {"tp"})};
  CHECK(Made(rules) ==
        "SHD029 registrations refer to each other in a circle: `tp` -> `tp`");
  rules.registrations = {Reg("A", {"B", "B"}), Reg("B", {"tp"})};
  CHECK(Made(rules) == "ok");
  // A mesh axis or an axis rule that has the name of a registration does not
  // mean the registration, so that there is no cycle.
  Registration axis = Reg("tp", {"tp"});
  axis.rule.names[0].forced_axis = true;
  rules.registrations = {axis};
  CHECK(Made(rules) == "ok");
  axis = Reg("A", {"B"});
  axis.rule.names[0].forced_axis = true;
  rules.registrations = {axis, Reg("B", {"A"})};
  CHECK(Made(rules) == "ok");
  rules.registrations = {Reg("batch", {"batch"})};
  CHECK(Made(rules) == "ok");
  rules.registrations = {Reg("A", {"B"}), Reg("B", {"C"}), Reg("C", {"A"})};
  CHECK(Made(rules) ==
        "SHD029 registrations refer to each other in a circle:"
        " `A` -> `B` -> `C` -> `A`");
  Registration late = Reg("A", {"tp"});
  late.generation = RuleOf({"A"});
  rules.registrations = {late};
  CHECK(Made(rules) == "ok");
}

}  // namespace
}  // namespace shardc
