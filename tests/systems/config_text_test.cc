// Settings of shell scripts, TOML and Python, without running them.
#include "systems/config_text.h"

#include "doctest/doctest.h"

#include <string>

#include "source/source.h"

namespace shardc::systems {
namespace {

// Returns the settings as `key=value value;`, with `?` for unknown values.
std::string SettingsOf(const std::string& file, const std::string& text) {
  Findings findings;
  std::string out;
  for (const ConfigText& one :
       ReadConfigTexts(MakeSource(file, text), findings)) {
    for (const Setting& setting : one.settings) {
      if (setting.key.starts_with("env.")) continue;
      out += setting.key + "=";
      for (const Word& word : setting.values) {
        out +=
            (word.unknown.empty() && !word.conditional ? word.text : "?") + " ";
      }
      out += ";";
    }
  }
  return out;
}

TEST_CASE("words of a command are expanded in the order of the script") {
  struct Row {
    const char* script;
    const char* settings;
  };
  const Row rows[] = {
      {"x --a 1 --b=2 --c", "a=1 ;b=2 ;c=;"},
      {"T=4\nx --a $T --b ${T} --c \"$T\"", "a=4 ;b=4 ;c=4 ;"},
      {"T=4\nx --a $((T*2+1)) --b $(( T / 3 ))", "a=9 ;b=1 ;"},
      {"x --a ${T:-7} --b ${U:-$V}", "a=7 ;b=? ;"},
      {"A=(--a 1\n  # --z 9\n  --b 2)\nx \"${A[@]}\"", "a=1 ;b=2 ;"},
      {"A=\"--a 1 \\\n --b 2\"\nx $A", "a=1 ;b=2 ;"},
      {"A=\"\"\nx $A --a 1", "a=1 ;"},
      {"A=()\nx ${A[@]} --a 1", "a=1 ;"},
      {"A=(--a 1)\nA+=(--b 2)\nx ${A[*]}", "a=1 ;b=2 ;"},
      {"x --a $(nproc) --b `date` --c $1", "a=? ;b=? ;c=? ;"},
      {"if [ $S = 7b ]; then T=1; else T=2; fi\nx --a $T", "a=? ;"},
      {"x --a 1 # --b 2\n", "a=1 ;"},
      {"x --a 'b c' > log --d 1", "a=b c ;d=1 ;"},
      {"x --a -1 --b", "a=-1 ;b=;"},
      {"#SBATCH --nodes=4\nx --a 1", "a=1 ;scheduler.nodes=4 ;"},
      {"#SBATCH -N 4 # four\nx --a $SLURM_NNODES", "a=4 ;scheduler.nodes=4 ;"},
      {"#SBATCH --gres=gpu:a100:8\nx --a $SLURM_GPUS_PER_NODE",
       "a=8 ;scheduler.gpus_per_node=8 ;"},
      {"A=('--a 1' \"--b 2\")\nx ${A[@]}", "a=1 ;b=2 ;"},
      {": ${T:=7}\nx --a $T", "a=7 ;"},
      {"x --a \"$@\"\n", "a=;"},
      {"x --a $MORE_ARGS --b ${MORE[@]} --c $T\n", "a=;b=;c=? ;"},
      {"bash -c \"x --a 1 --b $(nproc)\"", "a=1 ;b=? ;"},
      {"C='x --a 1'\neval \"$C\"", "a=1 ;"},
      {"cat <<E > f\ny --z 1 it's\nE\nx --a 1", "a=1 ;"},
      // Branches whose conditions the text states.
      {"S=7b\nif [ $S = 7b ]; then T=1; else T=2; fi\nx --a $T", "a=1 ;"},
      {"S=8b\nif [ $S = 7b ]; then T=1; elif [[ $S == 8* ]]; then T=2\n"
       "else T=3; fi\nx --a $T",
       "a=2 ;"},
      {"S=4\nif [ $S -gt 2 ] && [ $S -lt 4 ]; then T=1; else T=2; fi\n"
       "x --a $T",
       "a=2 ;"},
      {"S=4\nif [ $S -le 2 ] || ! [ $S -ne 4 ]; then T=1; else T=2; fi\n"
       "x --a $T",
       "a=1 ;"},
      {"T=1\nS=\n[ -z \"$S\" ] && T=2\n[ -n \"$S\" ] && T=3\nx --a $T",
       "a=2 ;"},
      {"T=1\n[ -z \"$S\" ] && T=2\nx --a $T", "a=? ;"},
      {"S=b\ncase $S in\n  a) T=1 ;;\n  b|c) T=2 ;;\n  *) T=3 ;;\nesac\n"
       "x --a $T",
       "a=2 ;"},
      {"S=z\ncase $S in a) T=1 ;; *) T=3 ;; esac\nx --a $T", "a=3 ;"},
      {"case $1 in a) T=1 ;; *) T=3 ;; esac\nx --a $T", "a=? ;"},
      {"S=1\nif [ $S = 2 ]; then x --a 1; else x --b 1; fi", "b=1 ;"},
      {"if [[ $S > 3 ]]; then T=1; fi\nx --a ${T:-2}", "a=? ;"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.script);
    CHECK(SettingsOf("a.sh", row.script) == row.settings);
  }
}

TEST_CASE("variables that are given win over those of the script") {
  Findings findings;
  const auto read = [&](const char* script, const Environment& given) {
    std::string out;
    for (const ConfigText& one :
         ReadConfigTexts(MakeSource("a.sh", script), findings, given)) {
      for (const Setting& setting : one.settings) {
        if (!setting.values.empty() && !setting.key.starts_with("env.")) {
          out += setting.key + "=" + setting.values[0].text + ";";
        }
      }
    }
    return out;
  };
  CHECK(read("S=$2\nif [ $S = a ]; then T=1; else T=2; fi\nx --a $T",
             {{"2", "a"}}) == "a=1;");
  CHECK(read("T=1\nx --a $T", {{"T", "8"}}) == "a=8;");
  CHECK(read("if [ -z $V ]; then T=1; else T=2; fi\nx --a $T", {{"V", ""}}) ==
        "a=1;");
}

TEST_CASE("references of YAML are values of other keys and of variables") {
  const auto read = [](const std::string& text) {
    return SettingsOf("a.yaml", text);
  };
  CHECK(read("a: ${TP:4}\nb: ${oc.env:TP,8}\nc: ${TP:-2}\n") ==
        "a=4 ;b=8 ;c=2 ;");
  CHECK(read("m: {a: 3, b: '${.a}', c: '${m.a}'}\n") ==
        "m.a=3 ;m.b=3 ;m.c=3 ;");
  CHECK(read("m: {a: 3, b: '${multiply:4, ${.a}}'}\n") == "m.a=3 ;m.b=12 ;");
  CHECK(read("a: ${nothing}\nb: ${a}\n") == "a=? ;b=? ;");
  CHECK(read("a: ${b}\nb: ${a}\n") == "a=? ;b=? ;");
}

TEST_CASE("words of containers have the variables of their lists") {
  CHECK(SettingsOf("a.yaml",
                   "env: [{name: TP, value: '4'}]\ncommand: [x]\n"
                   "args: [--a, $(TP), --b, $(NO)]\n")
            .find("a=4 ;b=? ;") != std::string::npos);
  CHECK(SettingsOf("a.yaml", "command: [sh, -c]\nargs: ['x --a 1']\n")
            .find("a=1 ;") != std::string::npos);
}

TEST_CASE("texts that never end are read to their end") {
  for (const char* text : {"A=(",
                           "A=\"",
                           "x --a ${",
                           "x --a $((",
                           "x --a '",
                           "A=(${A[@]}",
                           "x --a ${A:-${A:-${A:-",
                           "`",
                           "$",
                           "\\",
                           "x --a $(",
                           "if [ a",
                           "case",
                           "case $A in",
                           "case a in a",
                           "x <<E",
                           "if if if",
                           "fi",
                           "esac ;;",
                           "[ &&",
                           "eval 'x -a",
                           "source",
                           "bash -c ' -c '"}) {
    CAPTURE(text);
    SettingsOf("a.sh", text);
    SettingsOf("a.py", text);
  }
}

TEST_CASE("what a text repeats is counted before it is kept") {
  struct Row {
    std::string file;
    std::string text;
  };
  std::string joined = "A=12345678\n", words = "A=(--a 1)\n";
  std::string quoted = "V0='--a 1'\n", branches, functions;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    joined += "A=$A$A\n";
    words += "A+=(${A[@]})\n";
    quoted += "V" + next + "=\"$V" + n + " $V" + n + "\"\n";
  }
  for (int i = 0; i < 1000; ++i) {
    branches += "if [ $S = " + std::to_string(i) + " ]; then A='--a " +
                std::to_string(i) + "'; fi\n";
    functions += "def f" + std::to_string(i + 1) + "():\n    c = f" +
                 std::to_string(i) + "()\n    c.x.y = 1\n";
  }
  const std::string section(200'000, 's');
  std::string sections = "[" + section + "]\n";
  std::string members = "{\"" + section + "\": {";
  for (int i = 0; i < 100; ++i) {
    sections += "k" + std::to_string(i) + " = 1\n";
    members += "\"k" + std::to_string(i) + "\": 1, ";
  }
  const Row rows[] = {
      {"a.sh", joined + "x --a $A\n"},
      {"a.sh", words + "x ${A[@]}\n"},
      {"a.sh", quoted + "x $V40\n"},
      {"a.sh", branches + "x $A\n"},
      {"a.py", "def f0():\n    return C(a=A(b=1))\n" + functions},
      {"a.toml", sections},
      {"a.json", members + "\"k\": 1}}"},
      {"a.yaml", "run: |\n  A=12345678\n" +
                     [] {
                       std::string out;
                       for (int i = 0; i < 40; ++i) out += "  A=$A$A\n";
                       return out;
                     }() +
                     "  x --a $A\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    Findings findings;
    CHECK(ReadConfigTexts(MakeSource(row.file, row.text), findings).empty());
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all().front().code == &code::kLimit);
    CHECK(findings.all().front().message.starts_with("this file expands to "));
  }
}

TEST_CASE("documents of YAML and words of a scalar keep their places") {
  const std::string text =
      "a: 1\n---\nb: {c: 2}\n---\nrun: |\n    x --d 3 \\\n      --e 3\n";
  Findings findings;
  std::string found;
  for (const ConfigText& one :
       ReadConfigTexts(MakeSource("a.yaml", text), findings)) {
    for (const Setting& setting : one.settings) {
      if (setting.key == "run") continue;
      const Place& key = setting.place;
      const Place& value = setting.values.at(0).place;
      found += text.substr(key.begin, key.end - key.begin) + "@" +
               std::to_string(key.begin) + "=" +
               text.substr(value.begin, value.end - value.begin) + "@" +
               std::to_string(value.begin) + " ";
    }
  }
  CHECK(found == "a@0=1@3 c@13=2@16 --d@36=3@40 --e@50=3@54 ");
}

TEST_CASE("sections of TOML and calls of Python are paths") {
  CHECK(
      SettingsOf("a.toml",
                 "[a]\nb = 1 # c\nd = \"x\"\n[a.e]\nf = [1,\n2]\ng = 8_192") ==
      "a.b=1 ;a.d=x ;a.e.f=[1,\n2] ;a.e.g=8192 ;");
  CHECK(SettingsOf(
            "a.py",
            "def f(x: int = 3):\n    return C(a=A(b=1, c=\"x\"), d=n)\n") ==
        "a.b=1 ;a.c=x ;d=? ;");
  CHECK(SettingsOf("a.py", "cfg.model.tp = 2\n") == "model.tp=2 ;");
  CHECK(SettingsOf("a.py", "X = {\"a\": {\"b\": True}}\n") == "a.b=True ;");
}

TEST_CASE("a list of words of a container is a command") {
  CHECK(SettingsOf("a.yaml", "command: [x]\nargs: ['--a', '1']\n")
            .find("a=1 ;") != std::string::npos);
}

}  // namespace
}  // namespace shardc::systems
