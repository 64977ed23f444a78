// Translates the metadata keys of a GGUF file into the keys of a config.json,
// so that the sizes of the model need no second file.
#ifndef SHARDC_IMPORTERS_GGUF_CONFIG_H_
#define SHARDC_IMPORTERS_GGUF_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class GgufConfig {
 public:
  // Takes one pair of the metadata. `value` has the bytes of the value without
  // its type, which is `type`. Keys and types that are not translated are
  // ignored.
  void Take(std::string_view key, uint32_t type, std::string_view value);

  // Returns the text of a config.json, or an empty text if the file does not
  // state a number of heads, or if its attention keeps latent rows, whose keys
  // have other meanings in files of different ages.
  //
  // The number of layers is left out for models of which the keys do not say
  // which layers have full attention: those with windows, with state-space
  // blocks, or with layers without attention. Figures that need it, such as the
  // bytes of a KV cache, are then not known.
  std::string Json() const;

 private:
  std::string architecture_;
  // The integers of the translated keys by the key's name in a config.json. A
  // key with a value for each layer has several.
  std::map<std::string_view, std::vector<int64_t>> sizes_;
  bool latent_ = false;
  // Whether the layers have kinds that the keys do not assign to them.
  bool mixed_ = false;
};

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_CONFIG_H_
