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
        out += (word.unknown.empty() ? word.text : "?") + " ";
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
  };
  for (const Row& row : rows) {
    CAPTURE(row.script);
    CHECK(SettingsOf("a.sh", row.script) == row.settings);
  }
}

TEST_CASE("texts that never end are read to their end") {
  for (const char* text :
       {"A=(", "A=\"", "x --a ${", "x --a $((", "x --a '", "A=(${A[@]}",
        "x --a ${A:-${A:-${A:-", "`", "$", "\\", "x --a $("}) {
    CAPTURE(text);
    SettingsOf("a.sh", text);
    SettingsOf("a.py", text);
  }
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
