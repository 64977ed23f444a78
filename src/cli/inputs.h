// The input options that most commands have. They override the target of the
// project file.
#ifndef SHARDC_CLI_INPUTS_H_
#define SHARDC_CLI_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "schedule/table.h"
#include "source/finding.h"
#include "source/text_order.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::cli {

// The headings of these options in help.
inline constexpr char kInputsGroup[] = "Inputs";
inline constexpr char kCompilingGroup[] = "Compiling";

// The values of the options. The value of an option that is not given is empty.
struct InputFlags {
  TargetRequest asked;
  Strings targets;  // values of `--target`, if several are allowed
  std::string devices, processes, stdin_filename;
  bool header_only = false, kv_replicate = false;
  // Set by commands that compute figures of training: the weights of a
  // config.json are then those before quantisation.
  bool trains = false;
  Strings modes;
  std::string unmatched, illegal, min_size, compat;
  Held held;  // A cache for commands that read the same targets several times.
};

Options MeshInputs(InputFlags& flags);
// Returns the option `--device`, which names one device of the mesh.
Option DeviceInput(std::string& number);
std::optional<int64_t> ParseDevice(const std::string& number, const Mesh& mesh,
                                   Findings& findings);
Options RulesInputs(InputFlags& flags);
Options ManifestInputs(InputFlags& flags);
Options ProjectInputs(InputFlags& flags);
// Returns the option `--illegal`, for commands that do not use AllInputs.
// AllInputs includes this option.
Option IllegalInput(InputFlags& flags);
// Returns the option `--model` with this help, and the options of the tree that
// is built from the model's config.json: `--families`, which adds descriptions
// of families, and `--weights-dtype`.
Options ModelInputs(InputFlags& flags,
                    std::string_view help = "the model's config.json");
// Returns all options that name inputs, and those that determine how they are
// compiled: --modes, --unmatched, --illegal, --min-size, --kv-replicate and
// --compat.
Options AllInputs(InputFlags& flags);

// Changes the option `--target` so that it can be given several times. Its
// values are stored in `flags.targets`. `by_default` is the default that the
// help states.
void TakeSeveralTargets(Options& options, InputFlags& flags,
                        std::string_view by_default);

// LoadMesh and LoadManifest read the mesh and the manifest that the options or
// the target name. They return nullopt after a finding.
std::optional<Mesh> LoadMesh(const InputFlags& flags, const Target& target,
                             Findings& findings);
// Returns the mesh of `--mesh` or, without this option, of the target. Reads no
// other input.
std::optional<Mesh> LoadMeshAlone(const InputFlags& flags, Findings& findings);
std::optional<Manifest> LoadManifest(const InputFlags& flags,
                                     const std::string& path,
                                     Findings& findings);
// Returns a resolver, which replaces the names in a spec, such as logical axes,
// by mesh axes. It is for commands that work with or without a mesh.
std::optional<OpenedResolver> LoadResolver(const InputFlags& flags,
                                           Findings& findings);

// Opens the target with the options applied. Errors in options are reported
// together with the errors in files.
std::optional<Opened> LoadTarget(const InputFlags& flags, const Target& target,
                                 const Common& common, Findings& findings);

// Adds an error for each given option of AllInputs that would change the plan
// of the inputs, such as --mesh or --illegal. Commands that read a plan file
// call this function, because they compile no inputs. `because` is the reason
// that the message states. Returns false after a finding.
bool RefuseInputs(const InputFlags& flags, std::string_view because,
                  Findings& findings);

// Returns the target that the options choose. If `plan` names a plan file, the
// target's mesh, rules and manifest are not needed. The returned target is then
// empty except for the path of the config.json that `--model` names. Returns
// nullopt after a finding, for example if RefuseInputs returns false.
std::optional<Target> TargetOrPlan(const InputFlags& flags,
                                   const std::string& plan, Findings& findings);

// Opens and compiles the target. If `model` is not null, sets it to the model's
// configuration, if there is one. Returns null after a finding.
std::unique_ptr<const Compiled> LoadAndCompile(
    const InputFlags& flags, const Target& target, const Common& common,
    Findings& findings, std::optional<ModelConfig>* model = nullptr);

Strings ModeNames();
// Returns the option `--mode MODE`, for commands that use one mode. The default
// is train.
Option ModeOption(std::string* to);
// Parses modes such as "train,decode". Returns an empty list if `given` is
// empty, and nullopt after a finding.
std::optional<std::vector<Mode>> ParseModes(const Strings& given,
                                            Findings& findings);
std::optional<Mode> ParseModeFlag(const std::string& text, Findings& findings);

// Returns whether a plan that lists the modes `planned` has specs of `mode`. If
// not, adds a finding (usage). A plan always has the specs of train.
bool CheckMode(std::span<const Mode> planned, Mode mode, Findings& findings);

// The option `--attention`, which gives the sizes of attention's heads without
// a model's config.json:
//
//   --attention heads=32,kv_heads=8,head_dim=128

struct AttentionFlag {
  std::optional<int64_t> heads, kv_heads, head_dim, value_dim, window, latent,
      rope_dim;
};

// Parses the sizes. Each key may occur once; each value is a positive integer
// of at most 2^31. Returns nullopt after a finding.
std::optional<AttentionFlag> ParseAttention(const std::string& text,
                                            Findings& findings);

// Returns the index of a parameter. The name may be written with the other
// separator: model/layers/0 finds model.layers.0. If `separator` is 0, names
// have no separator. Returns nullopt after a finding if there is no such name.
std::optional<size_t> FindParam(Texts names, char separator,
                                const std::string& name, Findings& findings);

// Returns whether the format `name` accepts all given options. Otherwise adds a
// finding for the first option that the format does not accept. `flags` lists
// the options of the format, separated by spaces. `given` has the name of each
// option and whether it was given.
bool TakesFlags(std::string_view name, std::string_view flags,
                std::span<const std::pair<std::string_view, bool>> given,
                Findings& findings);

// Makes or reads the table of a pipeline schedule. A flag or an argument gives
// the name of a built-in schedule, or the path of a file.

struct ScheduleChoice {
  // The name of a built-in schedule, or a path if IsScheduleFile(name) is true.
  std::string name;
  // The option or the argument that gave `name`, for messages.
  std::string_view flag;
  std::optional<int32_t> ranks = {}, virtual_stages = {}, microbatches = {};
};

// Parses a size of a schedule, from 1 to 2^20. Returns nullopt if the text is
// empty, or after a finding.
std::optional<int32_t> ScheduleSize(std::string_view flag,
                                    const std::string& text,
                                    Findings& findings);

// Returns whether `name` is the path of a file, because it contains `/`, `\` or
// `.`. Otherwise it is the name of a built-in schedule.
bool IsScheduleFile(const std::string& name);

// Makes the table of a built-in schedule, or reads the table of a file. Returns
// nullopt after a finding (usage, limit, schedule-refuses, or an error in
// reading a file).
std::optional<schedule::Table> ScheduleTable(const ScheduleChoice& choice,
                                             Findings& findings);

// Returns the exit status after findings about stages: 1 if the options are
// valid but the stages that they describe are refused, else 2.
int StageStatus(const Findings& findings);

// Returns the names of the built-in schedules, for shell completion.
Strings ScheduleNames();

// A target that was opened and compiled.
struct StagedTarget {
  std::optional<ModelConfig> model;
  // The stages that the rules or the target declare, after OverrideStages()
  // (cli/cost_flags.h) has replaced keys by flags. It is nullopt if neither
  // files nor flags declare stages.
  std::optional<StageDeclaration> declared;
  std::shared_ptr<const Compiled> compiled;  // null after a finding

  const ModelConfig* config() const { return model ? &*model : nullptr; }
};

// Returns the project's settings for `check`. Returns defaults if they cannot
// be read; errors are not added, because `check` reports them. Files that were
// read are recorded in `findings`.
LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_INPUTS_H_
