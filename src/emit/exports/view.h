// Functions on a plan that several export formats share.
#ifndef SHARDC_EMIT_EXPORTS_VIEW_H_
#define SHARDC_EMIT_EXPORTS_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/read.h"
#include "source/finding.h"

namespace shardc::exports {

// What JAX and XLA do with a dimension that its axes do not divide. XLA's parts
// also differ from those of a plan if a dimension has several axes.
constexpr std::string_view kEqualParts =
    "a NamedSharding of JAX divides a dimension into equal parts";
constexpr std::string_view kPaddedByXla =
    "XLA pads such a dimension, and its shards are then of equal size";

// The largest number of devices that an export lists by number.
constexpr int64_t kMostListed = 1 << 16;

// Returns the separator that occurs in more parameter names: a slash or a dot.
// If as many names contain a slash as a dot, returns a slash.
char SeparatorOf(const ReadPlan& plan);

// Returns the spec for a tensor of the given rank: an empty entry is added for
// each dimension that the spec lacks.
Spec Padded(const Spec& spec, size_t rank);

// Return the shape and the bytes of the largest shard. An axis that the mesh
// lacks has size 1. Both return nullopt if the shape is unknown or a number
// overflows. ShardBytes() also returns nullopt if the dtype is unknown.
std::optional<Shape> ShardShape(const Mesh& mesh, const Spec& spec,
                                const std::optional<Shape>& shape);
std::optional<int64_t> ShardBytes(const Mesh& mesh, const Spec& spec,
                                  const TensorType& type);

// Returns false and adds a finding (inexpressible) if some parameter is held
// only by the devices at one coordinate of an axis, which the format cannot
// express. The finding names the format, the first such parameter and the
// number of others.
bool NoPlacements(const ReadPlan& plan, std::string_view format,
                  Findings& findings);
bool ShapesKnown(const ReadPlan& plan, std::string_view format,
                 Findings& findings);
// Returns false and adds a finding (inexpressible) if some parameter has a
// dtype that stores elements in blocks.
bool NoBlocks(const ReadPlan& plan, std::string_view format,
              Findings& findings);

// Which uneven shards a format cannot express: those of one mode, or of all
// modes if `mode` is nullopt, and, if `axis` is not empty, only those of
// dimensions that this axis shards.
struct Inexpressible {
  std::string_view format;
  std::string_view why;  // what the other system does with such a dimension
  std::optional<Mode> mode = std::nullopt;
  std::string axis = {};
};
// Returns false and adds a finding (inexpressible) if some parameter has such
// shards, which only the policy `illegal: pad` permits.
bool EvenShards(const ReadPlan& plan, const Inexpressible& uneven,
                Findings& findings);

// Returns false and adds a finding (limit) if the mesh has several slices, so
// that its devices must be listed, and has more than kMostListed devices.
bool CanListDevices(const Mesh& mesh, std::string_view format,
                    Findings& findings);

// Returns whether the mesh has the axis that an option names. If not, adds a
// finding (unknown-name).
bool HasAxis(const Mesh& mesh, const std::string& flag, const std::string& name,
             Findings& findings);

// Parameters whose names differ only in whole numbers and that have the same
// type and sharding. Text formats write one line for all of them.
struct Fold {
  std::string name;  // such as `layers/*/mlp/up/kernel`
  const ReadParam* first = nullptr;
  int64_t count = 0;
};
// Returns the groups in the order of their first parameter.
std::vector<Fold> Folded(const ReadPlan& plan, char separator);

// Returns a spec in short form: `fsdp+sp, tp, -` for [["fsdp", "sp"], "tp",
// null]; `replicated` if no dimension is sharded.
std::string ShortSpec(const Spec& spec);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_VIEW_H_
