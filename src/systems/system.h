// Declares what a file of the folder systems/ states about a system: its keys,
// what follows from them, what it refuses, and how it shards parameters.
// systems/README.md explains the format of these files.
#ifndef SHARDC_SYSTEMS_SYSTEM_H_
#define SHARDC_SYSTEMS_SYSTEM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/description.h"
#include "roles/role.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/source.h"
#include "yaml/read.h"

namespace shardc::systems {

// A key that the system reads and that changes what a rank holds.
struct SystemKey {
  std::string name;  // by which expressions refer to it
  // How configurations write it, in the form of Setting::key. `*.` at the
  // beginning stands for any path of mappings, or for none.
  std::vector<std::string> spellings;
};

// A text with expressions in braces: `{tp} ranks`.
struct Message {
  struct Part {
    std::string text;
    std::optional<families::Expression> value;  // in place of `text`
  };
  std::vector<Part> parts;
};

// A combination of settings that the system refuses, or with which it does
// something else than the settings seem to state.
struct Check {
  std::string name;  // unique in the system, in lower case with hyphens
  families::Expression when;
  Level level = Level::kError;
  bool silent = false;  // whether the system accepts it
  Message says, help;
  // The keys at whose place the finding is; the first that is given.
  std::vector<std::string> at;
  std::string checked;  // when the system checks it: "validate_args"
  // The public source of the statement, such as "Megatron-LM#1304".
  std::string source;
  // Configurations with and without the finding, as flags or as the text of a
  // mapping. A test reads them.
  std::string example, right;
};

// Axes of ranks, the slowest first. All grids number the same ranks.
struct GridRow {
  std::vector<std::string> axes;
  std::optional<families::Expression> when;
};

// How axes divide one dimension.
enum class Division : uint8_t {
  kExact,     // into equal parts; the system refuses others
  kChunk,     // into parts of ceil(size / parts); the last are smaller or empty
  kBalanced,  // the first size % parts parts have one element more
  kUnits,     // balanced, by units such as heads
  kReplicate,  // by units; if there are fewer units than parts, several parts
               // hold the same unit
};

// One division of a dimension. `axes` are flattened to one axis.
struct ShareRow {
  std::vector<std::string> axes;
  Division division = Division::kExact;
};

// Which parameters a row is about: a pattern of names, or roles.
struct Selector {
  std::string match;  // an RE2 pattern; empty if roles are given
  std::vector<Role> roles;
  // Of roles: only routed experts, only others, or both.
  std::optional<bool> experts;
  std::optional<families::Expression> when;
};

struct SplitRow {
  Selector of;
  // The divisions of each dimension. For roles, `out` and `in` are those of the
  // output and the input dimension, and `count` of the dimension that counts
  // experts.
  std::vector<std::vector<ShareRow>> dims;
  std::vector<ShareRow> out, in, count;
  // The axes over which a parameter is divided as one flat buffer, if it has
  // more elements than `gathered`.
  std::vector<ShareRow> flat;
  std::optional<families::Expression> units, gathered;
  int64_t parts = 1;  // equal parts, one after the other, of the output
  std::string why;    // what else a reader of the rule should know
  Place place;
};

// A dimension that the system pads to a larger size.
struct PadRow {
  Selector of;
  families::Expression to;
};

// How the layers are divided among the stages of a pipeline.
enum class StageMethod : uint8_t {
  kLayout,      // a text such as `Et|t|tL`
  kListed,      // the number of layers of each stage
  kEven,        // an equal number, after first and last stages of their own
  kFirst,       // the remainder to the first stages
  kLast,        // the remainder to the last stages
  kBeforeLast,  // the remainder to the stages before the last one
};
struct StageRow {
  StageMethod method = StageMethod::kEven;
  std::optional<families::Expression> when;
  // kLayout: the text. kListed: the numbers, separated by commas.
  std::optional<families::Expression> value;
  // kEven: layers of the first and the last stage. Others: units that are added
  // to the layers before the division and taken from the end stages after it.
  std::optional<families::Expression> first, last;
};
struct StagesSection {
  std::string axis;
  families::Expression layers, virtual_stages;
  std::optional<families::Expression> microbatches, schedule;
  // Holds if stage s of a rank r is r or 2 * ranks - 1 - r.
  std::optional<families::Expression> folded;
  // Holds if the last stage has a copy of a tied table.
  std::optional<families::Expression> copies;
  std::string pattern;
  std::vector<std::string> first, last;
  std::vector<StageRow> rows;
};

// A key of a target, or an option of `cost`, that follows from the keys.
struct StepRow {
  std::string key;
  families::Expression value;
};

// A key that `export` writes, with its value.
struct ExportRow {
  std::string key;
  families::Expression value;
  std::optional<families::Expression> when;
};
struct ExportSection {
  std::string form;   // `flags`, `yaml`, `json` or `toml`
  std::string begin;  // the words of the command: `vllm serve MODEL`
  std::vector<ExportRow> rows;
  // What the keys cannot state: `when` and `says` of each.
  std::vector<Check> cannot;
};

// A key by which a configuration names a file, or something else, with further
// keys.
struct Elsewhere {
  std::string key;   // with `*` for any text
  std::string does;  // what it does: "names a checkpoint"
  // Folders that have the file: `.` is that of the configuration, and others
  // are below any folder above it. Empty if it is no file that can be read.
  std::vector<std::string> folders;
  // The names of SystemKeys that it does not state.
  std::vector<std::string> but;
};

struct System {
  std::string name, title, versions;
  std::vector<std::string> evidence;
  // Words of commands that run the system: the ends of their paths, or several
  // words with blanks.
  std::vector<std::string> commands;
  // Keys of which a configuration has at least one.
  std::vector<std::string> marks;
  // Whether any command with one of the marks is a configuration, as programs
  // that are made from the system's have its keys.
  bool any_command = false;
  // Words of commands whose models have other parameters, with what they are.
  std::vector<std::pair<std::string, std::string>> other_models;
  // Whether the commands run a script, whose flags follow its name.
  bool launcher = false;
  // Texts of which a file has at least one if it has a configuration.
  std::vector<std::string> words;
  std::vector<SystemKey> keys;
  std::vector<std::string> other;  // keys without effect, with `*`
  // Keys whose effect is not computed, with what they do, and values with which
  // they do nothing.
  struct Unsupported {
    std::string key, what;
    std::vector<std::string> unless;
  };
  std::vector<Unsupported> unsupported;
  std::vector<Elsewhere> elsewhere;
  // Names of files next to the configuration that have the model's sizes.
  std::vector<std::string> model_files;
  // What `let`, `blocks` and `tree` of the file state. The tree is empty if the
  // parameters are those of the model's config.json.
  families::Description tree;
  std::optional<families::Expression> dtype;
  std::vector<GridRow> grids;
  std::vector<SplitRow> splits;
  std::vector<PadRow> pads;
  std::optional<StagesSection> stages;
  std::vector<Check> checks;
  // Configurations whose parameters are not computed: `when` and `says`.
  std::vector<Check> opaque;
  std::vector<StepRow> step;
  std::optional<ExportSection> exported;
  SourceRef source;

  const SystemKey* FindKey(std::string_view key) const;
  bool IsOther(std::string_view key) const;
};

// Returns all systems, sorted by name. Their files are parsed at the first
// call. A file that cannot be read is left out: a test reads each.
std::span<const System> Systems();
const System* FindSystem(std::string_view name);
// Reads the description of a system. Returns nullopt after a finding.
std::optional<System> ParseSystem(SourceRef source, Findings& findings);

// Returns whether a text fits a pattern in which `*` stands for any text.
bool FitsGlob(std::string_view pattern, std::string_view text);

// Returns the files of the folder systems/, sorted by name. The table is
// generated by the build.
std::span<const EmbeddedFile> EmbeddedSystems();

}  // namespace shardc::systems

namespace shardc::keys {

extern const KeyTable kSystem;
extern const KeyTable kSystemCheck;
extern const KeyTable kSystemSplit;
extern const KeyTable kSystemPad;
extern const KeyTable kSystemGrid;
extern const KeyTable kSystemStages;
extern const KeyTable kSystemStageRow;
extern const KeyTable kSystemExport;
extern const KeyTable kSystemCannot;
extern const KeyTable kSystemUnsupported;
extern const KeyTable kSystemElsewhere;

}  // namespace shardc::keys

#endif  // SHARDC_SYSTEMS_SYSTEM_H_
