// Reads common manifests in one pass from the text to the manifest. Anything
// uncommon ends the pass and is left to the full parser, so that this reader
// never has to report an error:
//
//   {"schema": "shardc.manifest/v1", "params": [
//     {"name": "a/b", "shape": [8, 4], "dtype": "F32"}]}   one tensor
//   ... {"name": "\u0061/b", ...             left to the full parser
//
// Plain names are printable ASCII without `"` and `\`, which need no escape
// when written as JSON.
#include "parse/plain_manifest.h"

#include <string_view>
#include <utility>

#include "parse/plain_leaf.h"
#include "parse/plain_tree.h"
#include "source/plain_json.h"

namespace shardc {
namespace {

constexpr std::string_view kPlainSchema = "shardc.manifest/v1";

class PlainManifest {
 public:
  explicit PlainManifest(std::string_view text) : json_(text) {
    leaves.ReserveFor(text.size());
  }

  bool Read(Manifest& manifest) {
    if (!json_.Take('{') || !Members(manifest)) return false;
    return json_.End() && has_params_ && has_schema_;
  }

  PlainLeaves leaves;

 private:
  bool Members(Manifest& manifest) {
    enum : unsigned {
      kSchema = 1,
      kParams = 2,
      kModel = 4,
      kNaming = 8,
      kSeparator = 16
    };
    unsigned seen = 0;
    const auto first = [&](unsigned key) { return (seen ^= key) & key; };
    std::string_view key, value;
    do {
      if (!json_.String(key) || !json_.Take(':')) return false;
      bool good = false;
      if (key == "params") {
        good = first(kParams) && Params();
      } else if (!json_.String(value)) {
        return false;
      } else if (key == "schema") {
        good = first(kSchema) && value == kPlainSchema;
        has_schema_ = true;
      } else if (key == "model") {
        good = first(kModel);
        manifest.model = value;
      } else if (key == "naming") {
        good = first(kNaming);
        manifest.naming = value;
      } else if (key == "separator" && (value == "/" || value == ".")) {
        good = first(kSeparator);
        manifest.separator = value[0];
      }
      if (!good) return false;
    } while (json_.Take(','));
    return json_.Take('}');
  }

  bool Params() {
    has_params_ = true;
    if (json_.Take('[')) {
      // Without a schema, the first item shows that the list is a manifest.
      return json_.Take(']') || (Items() && json_.Take(']'));
    }
    return json_.Take('{') &&
           (json_.Take('}') || (NamedItems() && json_.Take('}')));
  }

  bool Items() {
    has_schema_ = true;
    do {
      std::string_view name;
      if (!json_.Take('{') || !leaves.TakeNamed(json_, name) || name.empty()) {
        return false;
      }
      leaves.names.push_back(name);
    } while (json_.Take(','));
    return true;
  }

  bool NamedItems() {
    do {
      std::string_view name;
      if (!json_.String(name) || name.empty() || !json_.Take(':') ||
          !json_.Take('{') || !leaves.Take(json_)) {
        return false;
      }
      leaves.names.push_back(name);
    } while (json_.Take(','));
    return true;
  }

  PlainJson json_;
  bool has_params_ = false;
  bool has_schema_ = false;
};

}  // namespace

std::optional<Manifest> ReadPlainManifest(const SourceRef& source) {
  Manifest manifest;
  PlainManifest reader(source->text());
  if (!reader.Read(manifest)) return ReadPlainTree(source);
  if (!TakeTensors(reader.leaves, manifest)) return std::nullopt;
  manifest.source = source;
  return manifest;
}

}  // namespace shardc
