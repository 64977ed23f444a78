// Finds the collective that reshards a parameter. If the two meshes differ,
// both specs are first expressed over a joint mesh (comm/joint_mesh.h). Each
// axis of the two meshes is a product of axes of the joint mesh. The collective
// is named by axes of the first mesh. If no joint mesh exists, or if shards are
// uneven, every transfer of data is a ppermute.
//
// For example, the mesh dp=2 fsdp=16 becomes fsdp=32, with the spec ["fsdp"].
// Over the joint axes dp and fsdp, the spec changes from [fsdp] to
// [[dp, fsdp]]. Most devices do not hold their new shard, so the collective is
// a ppermute over dp and fsdp.
#include "plan/difference/moves.h"

#include <algorithm>
#include <span>
#include <vector>

#include "model/mesh_layout.h"
#include "model/shard_range.h"
#include "model/sub_axis.h"
#include "source/checked.h"

namespace shardc {
namespace {

// Returns the axes that at least one of the specs uses, without duplicates and
// without axes of size 1.
AxisGroup AxesOf(const Mesh& mesh, const Spec& before, const Spec& after) {
  AxisGroup out;
  for (const Spec* spec : {&before, &after}) {
    for (const AxisGroup& group : *spec) {
      for (const std::string& axis : DropTrivial(mesh, group)) {
        if (std::find(out.begin(), out.end(), axis) == out.end()) {
          out.push_back(axis);
        }
      }
    }
  }
  return out;
}

}  // namespace

bool SameAxes(const Mesh& a, const Mesh& b) {
  return std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [](const MeshAxis& one, const MeshAxis& other) {
                      return one.name == other.name && one.size == other.size;
                    });
}

std::optional<int64_t> BytesHeld(const Mesh& mesh, const TensorType& type,
                                 const Spec& spec) {
  if (!type.shape || !type.dtype) return std::nullopt;
  const auto elements = CheckedProduct(ShardShape(mesh, *type.shape, spec));
  return elements ? BytesOf(*elements, *type.dtype) : std::nullopt;
}

MoveCosts::MoveCosts(const Mesh& before, const Mesh& after)
    : before_(before),
      after_(after),
      // Two meshes with equal axes may have their devices in different orders.
      // If a mesh consists of several slices (pods), the order depends on the
      // axes along which the slices are arranged.
      same_mesh_(SameAxes(before, after) &&
                 DeviceOrder(before) == DeviceOrder(after)) {
  if (!same_mesh_) joint_ = JointMesh::Of(before, after);
}

std::optional<SpecMove> MoveCosts::Classify(const Spec& before,
                                            const Spec& after,
                                            bool joint) const {
  if (same_mesh_) return ClassifyMove(before_, before, after);
  if (!joint) return SpecMove{Collective::kPpermute, {}};
  auto move = ClassifyMove(joint_->mesh(), joint_->OfBefore(before),
                           joint_->OfAfter(after));
  if (move) move->axes = joint_->NamesBefore(move->axes);
  return move;
}

MoveCost MoveCosts::Compute(const TensorType& type, const Spec& before,
                            const Spec& after) const {
  MoveCost out;
  if (!type.shape || before_.devices != after_.devices ||
      before.size() > type.shape->size() || after.size() > type.shape->size()) {
    return out;
  }
  if (HasSubAxis(before) || HasSubAxis(after)) {
    const std::vector<Spec> specs = {before, after};
    const auto all = std::span(specs);
    const auto from = RefinedMesh(before_, same_mesh_ ? all : all.first(1));
    const auto to = RefinedMesh(after_, same_mesh_ ? all : all.last(1));
    if (!from || !to) return out;
    out =
        MoveCosts(*from, *to)
            .Compute(type, RefinedSpec(*from, before), RefinedSpec(*to, after));
    if (out.move) out.move->axes = JoinedGroup(out.move->axes);
    return out;
  }
  // The joint mesh divides a dimension first over a factor of an axis. Uneven
  // shards over the complete axis may begin at other elements.
  const bool even = DividesEvenly(before_, *type.shape, before) &&
                    DividesEvenly(after_, *type.shape, after);
  const bool joint = !same_mesh_ && joint_ && even;
  auto move = Classify(before, after, joint);
  if (!move) return out;
  const std::vector<int64_t> sent =
      same_mesh_ ? SentElements(before_, *type.shape, before, after)
                 : SentElements(before_, after_, *type.shape, before, after);
  const int64_t most = *std::max_element(sent.begin(), sent.end());
  // Shards may be the same although the axes differ, for example if only the
  // first device has elements.
  if (most == 0 && (!even || (!same_mesh_ && !joint))) return out;
  if (!same_mesh_ && !joint) {
    move->axes = AxesOf(before_, before, after);
  }
  out.move = std::move(move);
  if (type.dtype) out.sent_bytes_per_device = BytesOf(most, *type.dtype);
  return out;
}

MoveCost MoveCosts::OfOtherParts(const Spec& before, const Spec& after) const {
  if (before_.devices != after_.devices) return {};
  return {SpecMove{Collective::kPpermute, AxesOf(before_, before, after)},
          std::nullopt};
}

const MoveCost& MoveCosts::Of(const TensorType& type, const Spec& before,
                              const Spec& after) {
  std::string key = type.shape ? ShapeText(*type.shape) : "?";
  if (type.dtype) key += DtypeName(*type.dtype);
  key += SpecText(before) + SpecText(after);
  const auto [at, is_new] = known_.try_emplace(std::move(key));
  if (is_new) at->second = Compute(type, before, after);
  return at->second;
}

}  // namespace shardc
