#include "parse/rules.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/render.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

// Rules files in a temporary folder, which is removed at the end of the test.
class Files {
 public:
  explicit Files(const std::map<std::string, std::string>& files) {
    for (const auto& [file, text] : files) folder_.Write(file, text);
  }

  std::optional<RuleSet> Read(std::vector<std::string> names,
                              Findings& findings) const {
    for (std::string& name : names) {
      if (!name.starts_with("builtin:") && name != "auto") {
        name = folder_ / name;
      }
    }
    const PackLookup packs = [](std::string_view name) -> SourceRef {
      if (name == "builtin:base") {
        return MakeSource("builtin:base",
                          "axes: {head: sp, vocab: tp}\n"
                          "rules: [{match: base, spec: []}]\n");
      }
      if (name == "auto") {
        return MakeSource("builtin:auto", "rules: [{match: auto, spec: []}]\n");
      }
      return nullptr;
    };
    return ReadRules(names, packs, findings);
  }

 private:
  TemporaryFolder folder_;
};

std::optional<RuleSet> ReadOne(const std::string& text, Findings& findings) {
  return Files({{"r.yaml", text}}).Read({"r.yaml"}, findings);
}

std::string Show(const SpecSource& source) {
  if (const auto* bundle = std::get_if<SpecBundle>(&source)) {
    return "bundle " + bundle->name;
  }
  if (const auto* like = std::get_if<SpecLike>(&source)) {
    return "like " + like->rewrite;
  }
  std::string out;
  for (const SpecEntry& entry : std::get<SpecList>(source).entries) {
    if (!out.empty()) out += ", ";
    if (entry.is_group) out += "(";
    for (size_t i = 0; i < entry.names.size(); ++i) {
      out += (i > 0 ? " " : "") + entry.names[i].text;
    }
    if (entry.is_group) out += ")";
    if (!entry.is_group && entry.names.empty()) out += "-";
  }
  return "[" + out + "]";
}

std::string Matches(const RuleSet& set) {
  std::string out;
  for (const Rule& rule : set.rules) out += rule.match + " ";
  return out;
}

TEST_CASE("a file without a separator shows it by its patterns") {
  using From = SeparatorFrom;
  const auto read = [](const std::string& pattern) {
    Findings findings;
    const auto file = ParseRuleFile(
        MakeSource("r", "version: 1\nrules: [{match: '" + pattern +
                            "', spec: []}, {match: x, spec: []}]\n"),
        findings);
    REQUIRE(file);
    // All rules of a file have the same separator.
    CHECK(file->rules[0].separator_from == file->rules[1].separator_from);
    CHECK(file->rules[0].separator == file->rules[1].separator);
    return std::pair(file->rules[0].separator_from, file->rules[0].separator);
  };
  CHECK(read("a/b") == std::pair(From::kPatterns, '/'));
  CHECK(read("a\\/b") == std::pair(From::kPatterns, '/'));
  CHECK(read("a\\.b") == std::pair(From::kPatterns, '.'));
  CHECK(read("[a/]b\\.c") == std::pair(From::kPatterns, '.'));
  CHECK(read("[^]/]b\\.c") == std::pair(From::kPatterns, '.'));
  CHECK(read("[]/]b\\.c") == std::pair(From::kPatterns, '.'));
  CHECK(read("[a]/b") == std::pair(From::kPatterns, '/'));
  CHECK(read("a.b") == std::pair(From::kNames, '/'));
  CHECK(read("[a\\/]") == std::pair(From::kNames, '/'));
  CHECK(read("[a/]") == std::pair(From::kNames, '/'));
  CHECK(read("\\\\.b") == std::pair(From::kNames, '/'));
  CHECK(read("a/b\\.c").first == From::kBoth);
}

TEST_CASE("specs in all their forms") {
  struct Case {
    std::string_view spec, shown;
  };
  constexpr Case kCases[] = {
      {"[]", "[]"},
      {"[null, tp]", "[-, tp]"},
      {"[_, ~]", "[-, -]"},
      {"[[fsdp, sp], TP, null]", "[(fsdp sp), TP, -]"},
      {"[[null, fsdp, _], []]", "[(fsdp), ()]"},
      {"[__BATCH__, head]", "[__BATCH__, head]"},
      {"[TP, TP, head, head]", "[TP, TP, head, head]"},
      {"ColumnWise", "bundle ColumnWise"},
      {"'ColumnWise'", "bundle ColumnWise"},
      {"{like: '\\1.weight'}", "like \\1.weight"},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.spec);
    Findings findings;
    const auto set = ReadOne(
        "rules:\n  - match: a\n    spec: " + std::string(test.spec) + "\n",
        findings);
    CHECK(findings.empty());
    REQUIRE(set);
    CHECK(Show(set->rules[0].spec) == test.shown);
  }
}

TEST_CASE("a rules file with everything") {
  Findings findings;
  const auto set = ReadOne(R"(version: 1
separator: "."
axes: {head: tp, batch: [fsdp, dp], decode_head: null, decode_batch: []}
register:
  KV_GROUP: {rule: kv_head, generation: [tp], override: false}
  WIDE: {rule: [{axis: expert}, tp], override: true}
  NONE: {rule: null}
bundles:
  QKV: [[FSDP, SP], TP]
  Step: {axes: [BATCH], mode: decode}
  Shape: {axes: [BATCH], mode: 1}
rules:
  - match: 'embed\.weight$'
    spec: [VOCAB, [fsdp, sp]]
    modes: {decode: [VOCAB, null], __insert__: QKV}
    illegal: shrink
    min_size: 1024
    note: why
  - match: 'experts\.(\d+)\.gate'
    spec: [TP, null]
    place: {axis: ep, index: 'experts\.(\d+)\.', count: 128}
policy: {unmatched: replicate, illegal: drop, min_size: 0, compat: eformer}
)",
                           findings);
  CHECK(findings.empty());
  REQUIRE(set);
  CHECK(set->axes.Given(AxisRule::kHead)->axes == AxisGroup{"tp"});
  CHECK(set->axes.Given(AxisRule::kBatch)->axes == AxisGroup{"fsdp", "dp"});
  CHECK(set->axes.Given(AxisRule::kDecodeHead)->is_null);
  CHECK_FALSE(set->axes.Given(AxisRule::kDecodeBatch)->is_null);
  CHECK(set->axes.Given(AxisRule::kDecodeBatch)->axes.empty());
  CHECK_FALSE(set->axes.Given(AxisRule::kVocab));
  const Place& head = set->axes_places[static_cast<size_t>(AxisRule::kHead)];
  CHECK(head.source->text().substr(head.begin, head.end - head.begin) ==
        "head: tp");

  REQUIRE(set->registrations.size() == 3);
  const Registration& group = set->registrations[0];
  CHECK(group.name == "KV_GROUP");
  CHECK(group.rule.names == std::vector<RegisteredRule::Name>{{"kv_head"}});
  REQUIRE(group.generation);
  CHECK(group.generation->names == std::vector<RegisteredRule::Name>{{"tp"}});
  const Registration& wide = set->registrations[1];
  CHECK(wide.rule.names ==
        std::vector<RegisteredRule::Name>{{"expert", true}, {"tp"}});
  CHECK(wide.override_existing);
  CHECK_FALSE(wide.generation);
  CHECK(set->registrations[2].rule.is_null);

  REQUIRE(set->bundles.size() == 3);
  CHECK(Show(set->bundles[0].axes) == "[(FSDP SP), TP]");
  CHECK(std::get<Mode>(set->bundles[0].mode) == Mode::kTrain);
  CHECK(std::get<Mode>(set->bundles[1].mode) == Mode::kDecode);
  CHECK(std::get<int>(set->bundles[2].mode) == 1);

  REQUIRE(set->rules.size() == 2);
  const Rule& embed = set->rules[0];
  CHECK(embed.match == "embed\\.weight$");
  CHECK(embed.separator == '.');
  CHECK(embed.match_place.source->At(embed.match_place.begin).line == 13);
  CHECK(Show(embed.modes.at(Mode::kDecode)) == "[VOCAB, -]");
  CHECK(Show(embed.modes.at(Mode::kInsert)) == "bundle QKV");
  CHECK(embed.illegal == IllegalPolicy::kShrink);
  CHECK(embed.min_size == 1024);
  CHECK(embed.note == "why");
  REQUIRE(set->rules[1].placement);
  CHECK(set->rules[1].placement->axis == "ep");
  CHECK(set->rules[1].placement->index_pattern == "experts\\.(\\d+)\\.");
  CHECK(set->rules[1].placement->count == 128);
  CHECK(set->policy.unmatched == UnmatchedPolicy::kReplicate);
  CHECK(set->policy.illegal == IllegalPolicy::kDrop);
  CHECK(set->policy.min_size == 0);
  CHECK(set->policy.compat == Compat::kEformer);
}

TEST_CASE("a bundle's mode is a name or a dimension from -64 to 63") {
  const auto mode = [](const std::string& text) -> std::string {
    Findings findings;
    const auto set =
        ReadOne("version: 1\nbundles: {B: {axes: [TP], mode: " + text + "}}\n",
                findings);
    if (!set || findings.HasErrors()) return findings.all()[0].message;
    const auto& read = set->bundles[0].mode;
    if (const Mode* named = std::get_if<Mode>(&read)) {
      return std::string(ModeName(*named));
    }
    return std::to_string(std::get<int>(read));
  };
  for (const char* dim : {"-64", "-2", "-1", "0", "1", "63"}) {
    CHECK(mode(dim) == dim);
  }
  CHECK(mode("prefill") == "prefill");
  CHECK(mode("'1'") == "the mode of a bundle is the string `1`");
  CHECK(mode("64") == "`mode` is `64`, more than 63");
  CHECK(mode("-65") == "`mode` is `-65`, less than -64");
  CHECK(mode("1.5") == "the mode of a bundle is the number `1.5`");
  CHECK(mode("[1]") == "the mode of a bundle is a list");
}

TEST_CASE("files follow each other depth first, nearest first") {
  const Files files({
      {"top.yaml",
       "extends: [sub/left.yaml, right.yaml, builtin:base]\n"
       "axes: {head: tp}\n"
       "bundles: {B: [TP]}\n"
       "policy: {illegal: drop}\n"
       "rules: [{match: top, spec: []}]\n"},
      {"sub/left.yaml",
       "extends: ../shared.yaml\n"
       "axes: {head: ep, kv_head: ~}\n"
       "rules: [{match: left, spec: []}]\n"},
      {"right.yaml",
       "extends: [./sub/../shared.yaml]\n"
       "policy: {illegal: shrink, min_size: 7}\n"
       "register: {__G__: {rule: tp}}\n"
       "rules: [{match: right, spec: []}]\n"},
      {"shared.yaml",
       "separator: '.'\n"
       "register: {G: {rule: sp}}\n"
       "bundles: {B: [SP], C: [SP]}\n"
       "rules: [{match: shared, spec: []}]\n"},
      {"second.yaml", "rules: [{match: second, spec: []}]\n"},
  });
  Findings findings;
  const auto set =
      files.Read({"top.yaml", "second.yaml", "auto", "right.yaml"}, findings);
  CHECK(findings.empty());
  REQUIRE(set);
  CHECK(Matches(*set) == "top left shared right base second auto ");
  CHECK(set->rules[2].separator == '.');
  CHECK(set->rules[3].separator == '/');
  CHECK(set->sources.size() == 7);
  CHECK(set->axes.Given(AxisRule::kHead)->axes == AxisGroup{"tp"});
  CHECK(set->axes.Given(AxisRule::kKvHead)->is_null);
  CHECK(set->axes.Given(AxisRule::kVocab)->axes == AxisGroup{"tp"});
  REQUIRE(set->registrations.size() == 1);
  CHECK(set->registrations[0].rule.names[0].text == "sp");
  REQUIRE(set->bundles.size() == 2);
  CHECK(Show(set->bundles[0].axes) == "[TP]");
  CHECK(set->policy.illegal == IllegalPolicy::kDrop);
  CHECK(set->policy.min_size == 7);
}

TEST_CASE("a list of registrations is a list of steps") {
  Findings findings;
  const auto set = ReadOne(R"(register:
  - X: {rule: kv_head, generation: ep}
  - Y: {rule: [head]}
    Z: {rule: tp}
  - __X__: {rule: kv_head, override: true}
  - Y: {unregister: true, missing_ok: false}
  - Z: {unregister: true}
  - Z: {rule: sp}
)",
                           findings);
  CHECK(findings.empty());
  REQUIRE(set);
  REQUIRE(set->registrations.size() == 2);
  // A registration with `override` does not keep the generation rule of the one
  // that it replaces.
  CHECK(set->registrations[0].name == "__X__");
  CHECK_FALSE(set->registrations[0].generation);
  CHECK_FALSE(set->registrations[0].rule.is_list);
  CHECK(set->registrations[1].rule.names[0].text == "sp");
}

TEST_CASE("a step that replaces without `override` is reported") {
  const auto message = [](const std::string& text) {
    Findings findings;
    ReadOne(text, findings);
    REQUIRE(findings.errors() == 1);
    return findings.all()[0].message;
  };
  CHECK(message("register: [{X: {rule: tp}}, {__X__: {rule: sp}}]\n") ==
        "logical axis `__X__` is registered twice");
  for (const char* next : {"override: true, rule: tp", "unregister: true"}) {
    CHECK(message("register: [{HEAD: {rule: sp}}, {__HEAD__: {" +
                  std::string(next) + "}}]\n") ==
          "logical axis `HEAD` is built in");
  }
  CHECK(message("register: {X: {unregister: true, missing_ok: false}}\n") ==
        "`X` is unregistered, but no file registers it");
  for (const char* next : {"rule: tp", "unregister: true"}) {
    CHECK(message("register: [{X: {unregister: true, missing_ok: false}}, "
                  "{__X__: {" +
                  std::string(next) + "}}]\n") ==
          "`X` is unregistered, but no file registers it");
  }
  CHECK(message("register: {X: {unregister: true, rule: tp}}\n") ==
        "`rule` is given for a name that is unregistered");
  CHECK(message("register: {X: {rule: tp, missing_ok: true}}\n") ==
        "`missing_ok` is given for a name that is registered");
}

TEST_CASE("a nearer file unregisters what it extends") {
  const Files files({
      {"near.yaml",
       "extends: far.yaml\n"
       "register: [{X: {unregister: true, missing_ok: false},\n"
       "            W: {unregister: true},\n"
       "            Z: {unregister: true, missing_ok: false}},\n"
       "           {Z: {rule: dp}}]\n"},
      {"far.yaml",
       "register: {X: {rule: tp}, Y: {rule: [sp]}, Z: {rule: tp}}\n"},
  });
  Findings findings;
  const auto set = files.Read({"near.yaml"}, findings);
  CHECK(findings.empty());
  REQUIRE(set);
  REQUIRE(set->registrations.size() == 2);
  CHECK(set->registrations[0].name == "Z");
  CHECK(set->registrations[0].rule.names[0].text == "dp");
  CHECK(set->registrations[1].name == "Y");
  CHECK(set->registrations[1].rule.is_list);
}

TEST_CASE("a file that extends itself, at once or by others") {
  const Files files({{"a.yaml", "extends: [b.yaml]\n"},
                     {"b.yaml", "extends: [./c.yaml]\n"},
                     {"c.yaml", "extends: [b.yaml]\n"},
                     {"d.yaml", "extends: d.yaml\n"}});
  for (const char* name : {"a.yaml", "d.yaml"}) {
    Findings findings;
    CHECK_FALSE(files.Read({name}, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].code->name == code::kCycle.name);
    CHECK(findings.all()[0].place.HasPosition());
  }
}

TEST_CASE("an axis twice in a spec is found when registrations are known") {
  const auto errors = [](const std::string& text) {
    Findings findings;
    ReadOne(text, findings);
    return findings.errors();
  };
  CHECK(errors("rules: [{match: a, spec: [x, x]}]\n") == 1);
  CHECK(errors("register: {X: {rule: tp}}\n"
               "rules: [{match: a, spec: [X, __X__, X]}]\n") == 0);
  CHECK(errors("bundles: {B: [tp, [sp, tp]]}\n") == 1);
  CHECK(errors("rules: [{match: a, spec: [], modes: {decode: [x, x]}}]\n") ==
        1);
}

TEST_CASE("all errors of all files at once, up to a limit") {
  std::string text = "rules:\n";
  for (int i = 0; i < 200; ++i) text += "  - {match: 1, spec: []}\n";
  Findings findings;
  CHECK_FALSE(ReadOne(text, findings));
  CHECK(findings.errors() == Findings::kErrorLimit);
}

TEST_CASE("large files take time in proportion") {
  // Test that reading takes less than quadratic time, which would be minutes
  // here.
  std::string registers = "register:\n";
  std::string bundles = "bundles:\n";
  std::string spec = "rules:\n  - match: a\n    spec: [";
  for (int i = 0; i < 20000; ++i) {
    const std::string name = "N" + std::to_string(i);
    registers += "  " + name + ": {rule: tp}\n";
    bundles += "  " + name + ": [TP]\n";
    spec += "N7, ";
  }
  Findings findings;
  const auto set = ReadOne(registers + bundles + spec + "]\n", findings);
  CHECK(findings.empty());
  REQUIRE(set);
  CHECK(set->registrations.size() == 20000);
  CHECK(set->bundles.size() == 20000);
}

TEST_CASE("a model section extends that of another file, which adds no rules") {
  const std::string base =
      "rules: [{match: b, spec: []}]\n"
      "model: {dims: {d: x}, repeat: 2, params: {a: ['a$', [d]]}}\n";
  Findings findings;
  const auto rules =
      Files({{"r.yaml",
              "rules: [{match: r, spec: []}]\n"
              "model: {extends: b.yaml, params: {c: ['c$', [d]]}}\n"},
             {"b.yaml", base}})
          .Read({"r.yaml"}, findings);
  CHECK(findings.empty());
  REQUIRE(rules);
  CHECK(rules->rules.size() == 1);
  CHECK(rules->sources.size() == 1);
  REQUIRE(rules->model != nullptr);
  CHECK(rules->model->roles.size() == 2);
}

TEST_CASE("model sections that extend each other in a circle are reported") {
  Findings findings;
  const auto rules = Files({{"a.yaml", "model: {extends: b.yaml}\n"},
                            {"b.yaml", "model: {extends: a.yaml}\n"},
                            {"c.yaml", "rules: []\nmodel: {extends: d.yaml}\n"},
                            {"d.yaml", "rules: []\n"}})
                         .Read({"a.yaml", "c.yaml"}, findings);
  CHECK_FALSE(rules);
  REQUIRE(findings.all().size() == 2);
  CHECK(findings.all()[0].code->name == code::kCycle.name);
  CHECK(findings.all()[0].message.starts_with(
      "a `model:` section extends itself: "));
  CHECK(findings.all()[1].message.ends_with(
      "d.yaml` has no `model:` section to extend"));
  CHECK(findings.all()[1].code->name == code::kReference.name);
}

}  // namespace
}  // namespace shardc
