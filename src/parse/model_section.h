// Reads the `model:` section of a rules file (docs/guides/model-section.md).
#ifndef SHARDC_PARSE_MODEL_SECTION_H_
#define SHARDC_PARSE_MODEL_SECTION_H_

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_description.h"
#include "source/finding.h"
#include "yaml/read.h"

namespace shardc {

// An entry of a mapping in a `model:` section. The mapping is merged with the
// same mapping of the section that this section extends. An entry without a
// value (null) removes the entry of the same name in that mapping.
template <class T>
struct SectionEntry {
  std::string name;
  std::optional<T> value;
  Place place;  // place of the name
};
template <class T>
using SectionEntries = std::vector<SectionEntry<T>>;

// An entry of a list of ops: an op, or the name of a block to insert.
struct SectionOp {
  // The name of the block; empty if the entry is an op.
  std::string block;
  DescribedLine line;
};
using SectionOps = std::vector<SectionOp>;

struct SectionRole {
  DescribedRole role;
  // The role of the bias, which is inserted after `role`.
  std::optional<DescribedRole> bias;
};

struct SectionStack {
  Place place;
  std::optional<DescribedText> repeat;
  SectionEntries<SectionRole> roles;
  std::optional<SectionOps> begin, layer, end;
};

// A `model:` section as it is written in a file, or after it was merged with
// the sections that it extends.
struct ModelSection {
  // The name of the section that this section extends; empty if there is none.
  std::string extends;
  Place extends_place;
  SectionEntries<DescribedText> dims;
  SectionEntries<std::string> axes;
  SectionStack decoder;
  std::optional<SectionStack> encoder;
  bool removes_encoder = false;
  std::optional<std::vector<DescribedText>> skip;
  // The name of an entry is its path, such as `rope.base`. A null entry `rope`
  // removes all settings of the group `rope`.
  SectionEntries<DescribedText> settings;
  SectionEntries<SectionOps> blocks;
  SourceRef source;
};

// Reads a model section. Returns null after findings.
std::shared_ptr<ModelSection> ReadModelSection(const YamlContext& context,
                                               const YamlNode& node);

// Parses the ops and the dimensions of a `model:` section.

// Parses a dimension such as `n (p+r)`, in which `n`, `p` and `r` are names.
// Returns nullopt for other texts.
std::optional<DescribedDim> ParseDescribedDim(std::string_view text);

// Parses an op of the form `name[, name] = op(argument, ...) [@role] [if
// condition]`. Returns nullopt for other texts. The condition is stored as
// text.
std::optional<DescribedLine> ParseDescribedLine(std::string_view text);

// Returns whether the text is a single name, such as the name of a block.
bool IsModelWord(std::string_view text);

// Returns `base` with the entries of `own` merged into it. An entry of `own`
// replaces the entry of the same name and keeps its position. A null entry
// removes the entry of the same name. If there is none, this is a finding
// (unknown-name), except for settings. A new entry is inserted after the entry
// that precedes it in `own`. A new setting, or a new entry that is first in
// `own`, is appended. Lists of ops and `skip` are replaced, not merged.
ModelSection MergeSections(ModelSection base, ModelSection own,
                           Findings& findings);

// Converts a merged section to a model description. Replaces the name of a
// block in a list of ops by the ops of the block. Adds the roles of biases.
// Checks that dimensions and blocks exist. Returns null after findings: schema,
// unknown-name, cycle, limit. The caller sets `separator` (`/` or `.`, for the
// names of parameters) in the result.
std::shared_ptr<ModelDescription> DescribeModel(const ModelSection& section,
                                                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_SECTION_H_
