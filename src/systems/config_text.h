// Directory: systems. Reads the configurations of training and serving systems
// (Megatron-LM, torchtitan, DeepSpeed, Accelerate, vLLM, SGLang), and computes
// what the system makes of them: its mesh, its stages, and what each rank
// holds. Each system is described by a file of the folder systems/.
// Its files include headers of these directories: source, model, yaml, parse,
// match, families, roles, facts.
//
// This header reads the texts in which teams keep these configurations: shell
// scripts, YAML, TOML, JSON and Python. All of them become one list of
// settings. No text is executed.
#ifndef SHARDC_SYSTEMS_CONFIG_TEXT_H_
#define SHARDC_SYSTEMS_CONFIG_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"
#include "source/size.h"
#include "source/source.h"

namespace shardc::systems {

// A word of a command line, or a scalar of a file.
struct Word {
  std::string text;
  Place place;
  // Why the text is not known, such as "`$TP` has no value in this file"; empty
  // if it is known.
  std::string unknown;
  // Whether only one branch of a condition has the word.
  bool conditional = false;
};

// A key with its values.
struct Setting {
  // The key without dashes before it. Keys of nested mappings are joined by
  // dots, and `-` in a key is `_`: `parallelism.tensor_parallel_degree`.
  std::string key;
  // The key as the file has it: `--tensor-model-parallel-size`.
  std::string written;
  Place place;  // of the key
  // Empty for a flag without a value.
  std::vector<Word> values;
  bool conditional = false;
};

// Variables of the environment that the user gives, by their names. `1` is the
// first argument of a script.
using Environment = std::map<std::string, std::string>;

enum class TextForm : uint8_t { kShell, kYaml, kJson, kToml, kPython };

// One configuration of a file: a mapping, a function of Python, or a command of
// a shell script with the words before its first flag.
struct ConfigText {
  TextForm form = TextForm::kShell;
  SourceRef source;
  std::string name;  // of the Python function; else empty
  // The function of the same file whose settings come before these.
  std::string base;
  std::vector<Setting> settings;
  // The words of the command that are no flags and no values of them.
  std::vector<std::string> words;
  // Expansions without a value that may have further flags: `$EXTRA_ARGS`.
  std::vector<Word> open = {};
  Place place;
  // The variables of the script, which the files that it names may read: their
  // values, or `${NAME}` for those that are not known. Null for other forms.
  std::shared_ptr<const Environment> variables = nullptr;
};

// Counts what is kept of a text before it is kept: variables, functions and
// sections repeat others, so that few bytes can ask for much.
class TextWork {
 public:
  TextWork(SourceRef source, Findings& findings)
      : source_(std::move(source)), findings_(findings) {}

  // Returns whether `count` further words or settings, of `bytes` together, may
  // be kept. Adds an error `limit` the first time that they may not.
  bool Keeps(size_t count, size_t bytes);
  bool exceeded() const { return exceeded_; }

 private:
  SourceRef source_;
  Findings& findings_;
  Size count_ = 0;
  Size bytes_ = 0;
  bool exceeded_ = false;
};

// Returns the form that the name of a file, or else its content, has.
TextForm FormOf(std::string_view file, std::string_view text);

// Reads a text. A shell script has a configuration for each of its commands
// with flags, and a Python file one for each of its functions. Returns no
// configuration after a finding.
std::vector<ConfigText> ReadConfigTexts(const SourceRef& source,
                                        Findings& findings,
                                        const Environment& environment = {});

// The readers of single forms.
std::vector<ConfigText> ReadShell(const SourceRef& source, TextWork& work,
                                  const Environment& environment);
std::vector<ConfigText> ReadToml(const SourceRef& source, TextWork& work,
                                 Findings& findings);
std::vector<ConfigText> ReadPython(const SourceRef& source, TextWork& work);

// Returns the settings of the words of a command, which begin with the
// command's name.
ConfigText CommandOf(std::vector<Word> words);

// Returns the words of shell text at a place of a file, such as a line of a
// manifest.
std::vector<std::vector<Word>> ShellCommands(const SourceRef& source,
                                             size_t begin, size_t end,
                                             TextWork& work,
                                             const Environment& environment);

// Returns the key with `_` in place of `-`, and without dashes before it.
std::string NormalKey(std::string_view written);

}  // namespace shardc::systems

#endif  // SHARDC_SYSTEMS_CONFIG_TEXT_H_
