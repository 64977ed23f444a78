// Directory: families. Builds the parameter tree of a model (names, shapes and
// data types). The inputs are the model's config.json and the description of
// the model's family, which is a bundled file of the folder families/ or a file
// of a folder that the user names.
// Its files include headers of these directories: source, model, yaml, parse,
// match, program.
#ifndef SHARDC_FAMILIES_FAMILIES_H_
#define SHARDC_FAMILIES_FAMILIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::families {

// The naming schemes of parameters: those of transformers' PyTorch modules, of
// its checkpoint files, of its Flax classes, and of EasyDeL.
inline constexpr std::array<std::string_view, 4> kNamings = {"hf", "hf-files",
                                                             "flax", "easydel"};

// The weights that a tree has if its config.json states how the published
// weights are quantised.
struct TreeWeights {
  // Whether the tree is that of a model which is trained: it is the tree before
  // quantisation. Otherwise it has the tensors of the published checkpoint.
  bool trained = false;
  // The text of `--weights-dtype`: a floating-point dtype that all weights
  // have, unquantised, or `config` for what the config states, also in
  // training. Empty if the option is not given.
  std::string dtype;
};

// Builds the parameter tree of the config.json at `config_path`, with the names
// of the scheme `naming`. An empty `naming` is `hf-files` for the tensors of a
// quantised checkpoint, and `hf` otherwise. Returns nullopt after a finding,
// for example if the model type is absent or unknown, the family's description
// does not list the model's class, a size is missing or out of range, or the
// family lacks the scheme. `folder` is a folder with more descriptions, whose
// files are used in place of bundled descriptions of the same names; empty if
// there is none. Manifest::described is set to what the description states
// about the dimensions of the tree before quantisation. A dimension without
// factors whose size is not 1 is not known.
std::optional<Manifest> BuildTree(const std::string& config_path,
                                  std::string_view naming, Findings& findings,
                                  const std::string& folder = {},
                                  const TreeWeights& weights = {});
// Builds the tree from a config that has already been read. The root of the
// document must be an object.
std::optional<Manifest> BuildTree(const JsonDocument& document,
                                  std::string_view naming, Findings& findings,
                                  const std::string& folder = {},
                                  const TreeWeights& weights = {});

// Returns the model types of the bundled descriptions, sorted.
std::vector<std::string_view> ModelTypes();

struct ConfigDtype {
  Dtype dtype = Dtype::kF32;
  bool assumed = false;  // whether the config names no dtype
};

// Returns the dtype that the config names in `dtype` or `torch_dtype`, or else
// the one that its nested `text_config` names. A config that names none gets
// float32, as in transformers. Returns nullopt after a finding if the name is
// unknown.
std::optional<ConfigDtype> ReadConfigDtype(const JsonValue& config,
                                           Findings& findings);

// A tensor of a tree that is the weight of a linear module, or the weights of
// experts that are stacked in one tensor.
struct LinearWeight {
  size_t tensor = 0;  // index into Manifest::tensors
  // Whether the last two sizes are [in, out], and not [out, in].
  bool inputs_first = false;
};

// Returns the dtype of the tensors that are not quantised, if the config states
// a known method of quantisation and names no dtype. Returns nullopt for other
// methods, and without quantisation.
std::optional<Dtype> QuantisedModelDtype(JsonValue config);

// Replaces the weights `linear`, which are in the order of the tree, by the
// tensors in which a checkpoint stores them by the method that the config's
// `quantization_config` states, and adds a note. Returns false, without a
// change, if the method is not known or states something that is not supported.
bool Quantise(JsonValue config, const std::vector<LinearWeight>& linear,
              Manifest& tree);

// How a quantised checkpoint stores the weight of a module.
struct StoredScheme {
  std::string_view layout;  // such as `float-quantized`; empty if not quantised
  int64_t bits = 0;
  // The inputs and the outputs that share a scale; 0 if all do.
  int64_t group = 0, rows = 0;
};
// Returns a function from the name of a linear module to its scheme, by the
// `quantization_config` of a config. Returns an empty function if the config
// has none, or states a method that is not supported.
std::function<StoredScheme(std::string_view module)> SchemesOf(
    JsonValue config);

// Returns the first type that differs from `word` only in case, in characters
// other than letters and digits, or by a typing error in one word: a doubled or
// missing double letter, a swap of neighbours or, in words of at least six
// letters, any single edit. Returns nullopt if there is none, or if `word` has
// more than 256 bytes. Types with other digits or further words are other
// models: `nemotron_h` is not `nemotron`, nor `qwen3_5` `qwen3`.
std::optional<std::string_view> FindMisspelled(
    std::string_view word, std::span<const std::string_view> types);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_FAMILIES_H_
