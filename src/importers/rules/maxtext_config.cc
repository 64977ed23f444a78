// Checks configurations of MaxText, as its own code reads them
// (AI-Hypercomputer/maxtext at e591f30c: configs/pyconfig.py, configs/types.py,
// utils/max_utils.py, utils/sharding.py). A configuration replaces the keys of
// its `base_config`. The file of its model replaces those rules that have the
// same logical axis:
//
//   base_config: base.yml        mesh_axes: [data, fsdp, tensor]
//   ici_expert_parallelism: 4    ->  no axis `expert`, so that it is ignored
#include "importers/rules/maxtext_config.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "importers/rules/importer.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/list.h"
#include "source/wording.h"
#include "yaml/yaml.h"

namespace shardc::imports {
namespace {

constexpr int kDeepestBase = 8;
constexpr int64_t kLongestFile = int64_t{1} << 20;

// The mesh axes that MaxText knows, and the word of the keys with their sizes:
// `ici_tensor_parallelism`. Some axes have no key.
// Texts are stored as characters, because pointers are relocated at each start.
struct MaxTextAxis {
  char axis[24], key[24];
};
constexpr MaxTextAxis kAxes[] = {
    {"diloco", "diloco"},
    {"data", "data"},
    {"stage", "pipeline"},
    {"fsdp", "fsdp"},
    {"fsdp_transpose", "fsdp_transpose"},
    {"sequence", "sequence"},
    {"context", "context"},
    {"context_usp_ulysses", "context_usp_ulysses"},
    {"context_autoregressive", "context_autoregressive"},
    {"tensor", "tensor"},
    {"tensor_sequence", "tensor_sequence"},
    {"model", "tensor"},
    {"expert", "expert"},
    {"autoregressive", "autoregressive"},
    {"attn_dp", ""},
    {"attn_dp_expert", ""},
};

struct PlacedRule {
  std::string name;
  AxisGroup axes;
  Place place;
};

struct PlacedText {
  std::string text;
  Place place;
};

// The keys of a file, and of those that it names.
struct Config {
  std::vector<PlacedRule> rules;
  std::vector<PlacedText> mesh_axes;
  bool has_rules = false, has_mesh = false;
  // Sizes of axes, by key: `ici_tensor_parallelism`.
  std::vector<std::pair<std::string, PlacedText>> sizes;
  std::optional<PlacedText> base, model;
};

// Returns the path of a file that is named from a configuration: next to it, or
// below a folder above it. Returns an empty path if there is none.
std::string FindNamed(const std::string& of, const std::string& name) {
  std::string above = of;
  for (;;) {
    const std::string path = PathNextTo(above, name);
    if (path != of && IsThere(path, nullptr)) return path;
    const size_t slash = above.rfind('/');
    if (slash == std::string::npos || slash == 0) return {};
    above.resize(slash);
  }
}

class Checker {
 public:
  explicit Checker(Findings& findings) : findings_(findings) {}

  std::string Run(const SourceRef& source) {
    file_ = source->name();
    Config config = Read(source, 0);
    if (findings_.HasErrors()) return "it is not understood";
    // The file of a model is read over the configuration that names the model.
    if (!config.base && !config.has_mesh) ReadOver("base.yml", source, config);
    if (config.model) ReadModel(source, config);
    CheckMesh(config);
    CheckRules(config);
    CheckSizes(config);
    return Line(config);
  }

 private:
  void Add(const Code& code, const Place& place, std::string message,
           std::string help, std::optional<Level> level = std::nullopt) {
    Finding one;
    one.code = &code;
    one.level = level.value_or(code.level);
    one.place = place;
    one.message = std::move(message);
    one.help = std::move(help);
    findings_.Add(std::move(one));
  }

  // Reads a file, and its base_config before it.
  Config Read(const SourceRef& source, int depth) {
    Config own;
    const auto document = YamlDocument::Parse(source, findings_);
    if (!document || !document->root().IsMapping()) return own;
    for (const YamlMember& member : document->root().members) {
      ReadMember(*document, member, own);
    }
    if (!own.base) return own;
    const std::string path = depth < kDeepestBase
                                 ? FindNamed(source->name(), own.base->text)
                                 : std::string();
    const SourceRef base =
        path.empty() ? nullptr : ReadSource(path, findings_, kLongestFile);
    if (base == nullptr) {
      Add(code::kConfigUndetermined, own.base->place,
          "the file " + ShortQuote(own.base->text) +
              " of `base_config` is not in this folder",
          "keys that it has are not checked", Level::kNote);
      return own;
    }
    return Over(Read(base, depth + 1), std::move(own));
  }

  void ReadMember(const YamlDocument& document, const YamlMember& member,
                  Config& own) {
    const std::string& key = member.key.text;
    const YamlNode& value = member.value;
    const Place place = document.PlaceOf(member.key);
    if (key == "base_config" && !value.text.empty()) {
      own.base = PlacedText{value.text, place};
    } else if (key == "model_name" && !value.text.empty() &&
               value.text != "default") {
      own.model = PlacedText{value.text, place};
    } else if (key == "mesh_axes" && value.IsSequence()) {
      own.has_mesh = true;
      for (const YamlNode& item : value.items) {
        own.mesh_axes.push_back({item.text, document.PlaceOf(item)});
      }
    } else if (key == "logical_axis_rules" && value.IsSequence()) {
      own.has_rules = true;
      for (const YamlNode& item : value.items) ReadRule(document, item, own);
    } else if ((key.starts_with("ici_") || key.starts_with("dcn_")) &&
               key.ends_with("_parallelism") && value.IsScalar()) {
      own.sizes.emplace_back(key, PlacedText{value.text, place});
    }
  }

  void ReadRule(const YamlDocument& document, const YamlNode& node,
                Config& own) {
    const bool pair =
        node.IsSequence() && node.items.size() == 2 && node.items[0].IsScalar();
    const auto axes = pair ? ReadAxes(node.items[1]) : std::nullopt;
    const Place place = document.PlaceOf(node);
    if (!axes) {
      Add(code::kConfigRefused, place,
          "this is no pair of a logical axis and mesh axes",
          "write `['embed', ['fsdp', 'tensor']]`");
      return;
    }
    own.rules.push_back({node.items[0].text, *axes, place});
  }

  // Returns the keys of `own` and of `base`, where `own` lacks them.
  static Config Over(Config base, Config own) {
    if (!own.has_rules) {
      own.rules = std::move(base.rules);
      own.has_rules = base.has_rules;
    }
    if (!own.has_mesh) {
      own.mesh_axes = std::move(base.mesh_axes);
      own.has_mesh = base.has_mesh;
    }
    for (auto& size : base.sizes) {
      const bool replaced = std::ranges::any_of(
          own.sizes, [&](const auto& one) { return one.first == size.first; });
      if (!replaced) own.sizes.push_back(std::move(size));
    }
    if (!own.model) own.model = std::move(base.model);
    return own;
  }

  // Reads a configuration over which this one is read, with the rules of both.
  void ReadOver(const std::string& name, const SourceRef& source,
                Config& config) {
    const std::string path = FindNamed(source->name(), name);
    if (path.empty()) return;
    Findings unread;
    const SourceRef base = ReadSource(path, unread, kLongestFile);
    if (base == nullptr) return;
    Config below = Read(base, 0);
    below.model.reset();
    config = Merged(std::move(below), std::move(config));
  }

  // Returns the keys of both, where rules of `own` replace those with the same
  // logical axis.
  static Config Merged(Config base, Config own) {
    std::set<std::string> replaced;
    for (const PlacedRule& rule : own.rules) replaced.insert(rule.name);
    std::vector<PlacedRule> rules;
    for (PlacedRule& rule : base.rules) {
      if (!replaced.contains(rule.name)) rules.push_back(std::move(rule));
    }
    std::ranges::move(own.rules, std::back_inserter(rules));
    own.has_rules = own.has_rules || base.has_rules;
    own.rules = std::move(rules);
    return Over(std::move(base), std::move(own));
  }

  void ReadModel(const SourceRef& source, Config& config) {
    std::string name = config.model->text;
    const size_t instruct = name.find("-Instruct");
    if (instruct != std::string::npos) name.erase(instruct, 9);
    const std::string path =
        FindNamed(source->name(), "models/" + name + ".yml");
    if (path == file_) return;
    if (path.empty()) {
      // The folder of MaxText's models is next to its `base.yml`.
      const std::string models = FindNamed(source->name(), "models");
      const bool folder =
          !models.empty() && IsThere(PathNextTo(models, "base.yml"), nullptr);
      Add(folder ? code::kConfigSilent : code::kConfigUndetermined,
          config.model->place,
          "there is no file `models/" + name + ".yml` of the model" +
              (folder ? "; MaxText logs a warning and trains a model of the "
                        "sizes of `base.yml`"
                      : " in this folder"),
          folder ? "give a name of the folder `models`; source: "
                   "src/maxtext/configs/pyconfig.py"
                 : "keys that it has are not checked",
          folder ? std::nullopt : std::optional(Level::kNote));
      return;
    }
    Findings unread;
    const SourceRef file = ReadSource(path, unread, kLongestFile);
    if (file == nullptr) return;
    Config model = Read(file, kDeepestBase);
    model.model = config.model;
    config = Merged(std::move(config), std::move(model));
  }

  static bool IsKnown(std::string_view axis) {
    return std::ranges::any_of(
        kAxes, [&](const MaxTextAxis& one) { return axis == one.axis; });
  }

  static bool HasAxis(const Config& config, std::string_view axis) {
    return std::ranges::any_of(config.mesh_axes, [&](const PlacedText& one) {
      return one.text == axis;
    });
  }

  void CheckMesh(const Config& config) {
    std::set<std::string> seen;
    std::vector<std::string> known;
    for (const MaxTextAxis& axis : kAxes) known.emplace_back(axis.axis);
    for (const PlacedText& axis : config.mesh_axes) {
      if (!IsKnown(axis.text)) {
        Add(code::kConfigRefused, axis.place,
            "MaxText has no mesh axis " + ShortQuote(axis.text) +
                ", and stops with a KeyError",
            DidYouMean(axis.text, known, "its axes are " + Join(known, ", ")) +
                "; source: src/maxtext/configs/types.py");
      } else if (!seen.insert(axis.text).second) {
        Add(code::kConfigRefused, axis.place,
            "the mesh axis " + ShortQuote(axis.text) + " is given twice",
            "remove one of them; source: jax.sharding.Mesh");
      }
    }
  }

  void CheckRules(const Config& config) {
    // The axes that the mesh lacks, with their first rule and their number.
    std::vector<std::pair<std::string, std::pair<const PlacedRule*, int64_t>>>
        absent;
    for (const PlacedRule& rule : config.rules) {
      std::set<std::string> seen;
      for (const std::string& axis : rule.axes) {
        if (!seen.insert(axis).second) {
          Add(code::kConfigRefused, rule.place,
              "the rule of " + ShortQuote(rule.name) + " has the mesh axis " +
                  ShortQuote(axis) + " twice",
              "remove one of them; source: jax.sharding.PartitionSpec");
          continue;
        }
        if (!config.has_mesh || HasAxis(config, axis)) continue;
        const auto known = std::ranges::find_if(
            absent, [&](const auto& one) { return one.first == axis; });
        if (known == absent.end()) {
          absent.emplace_back(axis, std::pair(&rule, 1));
        } else {
          ++known->second.second;
        }
      }
    }
    std::vector<std::string> names;
    for (const PlacedText& one : config.mesh_axes) names.push_back(one.text);
    for (const auto& [axis, used] : absent) {
      // Rules for several meshes name axes that one of them lacks.
      Add(code::kConfigSilent, used.first->place,
          "the mesh has no axis " + ShortQuote(axis) + ", which " +
              Counted(used.second, "rule") + " of logical axes " +
              (used.second == 1 ? "names" : "name") +
              "; MaxText leaves it out without a word",
          DidYouMean(axis, names, "the axes are " + Join(names, ", ")) +
              "; source: src/maxtext/utils/sharding.py",
          IsKnown(axis) ? std::optional(Level::kNote) : std::nullopt);
    }
  }

  void CheckSizes(const Config& config) {
    if (!config.has_mesh) return;
    for (const std::string_view network : {"ici_", "dcn_"}) {
      const PlacedText* rest = nullptr;
      std::string first;
      for (const auto& [key, value] : config.sizes) {
        if (!key.starts_with(network)) continue;
        std::string_view word = key;
        word.remove_prefix(network.size());
        word.remove_suffix(std::string_view("_parallelism").size());
        const bool known = std::ranges::any_of(
            kAxes, [&](const MaxTextAxis& axis) { return word == axis.key; });
        const bool there =
            std::ranges::any_of(kAxes, [&](const MaxTextAxis& axis) {
              return word == axis.key && HasAxis(config, axis.axis);
            });
        int64_t size = 1;
        const auto read = std::from_chars(
            value.text.data(), value.text.data() + value.text.size(), size);
        if (read.ec != std::errc()) continue;
        if (!known) {
          Add(code::kConfigNotUnderstood, value.place,
              "the key " + ShortQuote(key) + " of MaxText is not known",
              "its keys are `ici_` and `dcn_` with an axis and `_parallelism`",
              Level::kNote);
        } else if (!there && size > 1) {
          Add(code::kConfigSilent, value.place,
              "the mesh has no axis of " + ShortQuote(key) + ", so that " +
                  value.text + " is ignored",
              "add the axis to `mesh_axes`; source: "
              "src/maxtext/configs/types.py");
        } else if (there && size == -1) {
          if (rest != nullptr) {
            Add(code::kConfigRefused,
                InFile(value.place) ? value.place : rest->place,
                ShortQuote(key) + " and " + ShortQuote(first) +
                    " are both -1, and only one size can be that of the rest",
                "give a number for one of them; source: "
                "src/maxtext/utils/max_utils.py");
          }
          rest = &value;
          first = key;
        } else if (there && size < 1) {
          Add(code::kConfigRefused, value.place,
              ShortQuote(key) + " is " + value.text,
              "give a number from 1, or -1 for the rest; source: "
              "src/maxtext/utils/max_utils.py");
        }
      }
    }
  }

  bool InFile(const Place& place) const {
    return place.source != nullptr && place.source->name() == file_;
  }

  static std::string Line(const Config& config) {
    std::string out;
    if (config.has_rules) {
      AppendItem(out, "; ",
                 Counted(static_cast<int64_t>(config.rules.size()),
                         "logical axis rule"));
    }
    if (config.has_mesh) {
      AppendItem(
          out, "; ",
          "mesh " + Join(config.mesh_axes, ", ",
                         [](const PlacedText& one) { return one.text; }));
    }
    std::string sizes;
    for (const auto& [key, value] : config.sizes) {
      if (value.text != "1") AppendItem(sizes, " ", key + "=" + value.text);
    }
    if (!sizes.empty()) AppendItem(out, "; ", sizes);
    if (config.model) AppendItem(out, "; ", "model " + config.model->text);
    return out;
  }

  Findings& findings_;
  std::string file_;
};

}  // namespace

std::string CheckMaxtext(const SourceRef& source, Findings& findings) {
  return Checker(findings).Run(source);
}

}  // namespace shardc::imports
