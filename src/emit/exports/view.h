// What several formats ask of a plan.
#ifndef SHARDC_EMIT_EXPORTS_VIEW_H_
#define SHARDC_EMIT_EXPORTS_VIEW_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/read.h"
#include "source/finding.h"

namespace shardc::exports {

// The separator that most names hold; a slash where none does or both tie.
char SeparatorOf(const ReadPlan& plan);

// A group per dimension of a tensor of that rank.
Spec Padded(const Spec& spec, size_t rank);

// Nothing where the shape is unknown.
std::optional<Shape> ShardShape(const Mesh& mesh, const Spec& spec,
                                const std::optional<Shape>& shape);
std::optional<int64_t> ShardBytes(const Mesh& mesh, const Spec& spec,
                                  const TensorType& type);

// False with a finding (inexpressible) that names the format, the first
// parameters concerned and how many there are: for formats that have no word
// for a tensor that lives at one coordinate, or that ask for the rank.
bool NoPlacements(const ReadPlan& plan, std::string_view format,
                  Findings& findings);
bool ShapesKnown(const ReadPlan& plan, std::string_view format,
                 Findings& findings);
// The same of types whose elements are stored in blocks.
bool NoBlocks(const ReadPlan& plan, std::string_view format,
              Findings& findings);

// The place in the mesh that axis `name` has in words of messages, or a
// finding (unknown-name).
bool HasAxis(const Mesh& mesh, const std::string& flag, const std::string& name,
             Findings& findings);

// Parameters that differ in whole numbers of their names alone, and are cut
// alike: one line of people's formats.
struct Fold {
  std::string name;  // `layers/*/mlp/up/kernel`
  const ReadParam* first = nullptr;
  int64_t count = 0;
};
// In the order of the first.
std::vector<Fold> Folded(const ReadPlan& plan, char separator);

// `["fsdp", "sp"], "tp"` as a spec's cell without its brackets is read by no
// one: `fsdp+sp, tp, -`; `whole` where nothing is split.
std::string ShortSpec(const Spec& spec);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_VIEW_H_
