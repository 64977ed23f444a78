// Finds the likely cause of a wrong result, for the message of a failed case.
// Some layouts are wrong by themselves: the batch is sharded differently in two
// tensors, or a device has key heads that its queries do not use. These causes
// are checked first.
//
// Otherwise a mesh axis is named, because it separates correct from wrong
// devices. The devices whose indices differ only on this axis form a group. The
// axis is named for which most groups have both correct and wrong devices. For
// example, on the mesh dp=2 tp=2, devices 1 and 3 are wrong. Both groups along
// tp, {0, 1} and {2, 3}, have one correct and one wrong device. The groups
// along dp, {0, 2} and {1, 3}, have none or two wrong devices. So tp is named.
#include "verify/judge/explain.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "comm/collective_def.h"
#include "exec/attention/staging.h"
#include "source/index.h"
#include "source/wording.h"
#include "verify/cases/shapes.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::AxesText;
using exec::LayoutError;
using exec::SimMesh;

std::string FirstAxis(const SimMesh& mesh, const AxisGroup& a,
                      const AxisGroup& b) {
  // Returns the first axis after the common prefix of both lists, or an empty
  // text if the lists are equal.
  const AxisGroup first = exec::DropTrivial(mesh, a);
  const AxisGroup second = exec::DropTrivial(mesh, b);
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i >= first.size()) return second[i];
    if (i >= second.size() || first[i] != second[i]) return first[i];
  }
  return "";
}

LayoutError Breaks(std::string axis, std::string message, std::string help) {
  LayoutError out;
  out.axis = std::move(axis);
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

// Returns the axis that best separates correct from wrong devices, or an empty
// text if no axis does. A group along an axis has the devices whose indices on
// all other axes are equal. The best axis has the most groups in which some
// devices are correct and others wrong.
std::string AxisOfDevices(const SimMesh& mesh, const std::vector<bool>& bad) {
  std::string best;
  int best_score = 0;
  for (const MeshAxis& axis : mesh.mesh().axes) {
    if (axis.size == 1) continue;
    int score = 0;
    for (const auto& group : mesh.Groups({axis.name})) {
      int wrong = 0;
      for (int d : group) wrong += bad[AsIndex(d)];
      if (wrong > 0 && wrong < static_cast<int>(group.size())) ++score;
    }
    if (score > best_score) {
      best_score = score;
      best = axis.name;
    }
  }
  return best;
}

// Returns the first axis that shards the query or the key. Lengths are searched
// first, then heads and batch. Returns an empty text if query and key are
// unsharded in these dimensions.
std::string AnySplitAxis(const SimMesh& mesh, const Case& test) {
  const exec::TensorSharding q = QueryOf(test), k = KeyOf(test);
  for (const AxisGroup* group :
       {&k.spec[1], &q.spec[1], &k.spec[2], &q.spec[2], &q.spec[0]}) {
    const AxisGroup axes = exec::DropTrivial(mesh, *group);
    if (!axes.empty()) return axes.front();
  }
  return "";
}

}  // namespace

std::string ErrorText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::scientific, 2);
  return std::string(text, end.ptr);
}

std::string BytesDiffer(const SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected) {
  for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
    for (int device = 0; device < mesh.devices(); ++device) {
      const auto d = AsIndex(device);
      const auto of = [&](const exec::SentBytes& from) {
        return d < from.by[kind].size() ? from.by[kind][d] : 0;
      };
      if (of(sent) == of(expected)) continue;
      return "device " + std::to_string(device) + " (" +
             mesh.DeviceText(device) + ") sent " + std::to_string(of(sent)) +
             " bytes by " +
             std::string(CollectiveName(static_cast<Collective>(kind))) +
             " where the closed formulas give " + std::to_string(of(expected));
    }
  }
  return "";
}

std::string MovedDiffers(const SimMesh& mesh, const exec::Ledger& ledger) {
  exec::SentBytes moved, recorded;
  const exec::SentBytes sent = ledger.Sent();
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto kind = static_cast<Collective>(i);
    const auto summed = [&](const std::vector<int64_t>& of) {
      if (!DefOf(kind).only_total) return of;
      return std::vector<int64_t>{
          std::accumulate(of.begin(), of.end(), int64_t{0})};
    };
    moved.Add(kind, summed(ledger.moved().Of(kind)));
    recorded.Add(kind, summed(sent.Of(kind)));
  }
  if (moved == recorded) return "";
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto total = [&](const exec::SentBytes& of) {
      return std::accumulate(of.by[i].begin(), of.by[i].end(), int64_t{0});
    };
    if (moved.by[i] == recorded.by[i]) continue;
    return "by " + std::string(CollectiveName(static_cast<Collective>(i))) +
           " ranks handed over " + std::to_string(total(moved)) + " bytes of " +
           std::to_string(mesh.devices()) + " devices where the ledger has " +
           std::to_string(total(recorded));
  }
  return "";
}

namespace {

// The layouts of a case's tensors. Each function below checks one property of
// these layouts.
struct Layouts {
  SimMesh mesh;
  exec::TensorSharding q, k, v;
};

std::optional<LayoutError> BatchFault(const Layouts& of) {
  const auto& [mesh, q, k, v] = of;
  for (const auto& [name, other] :
       {std::pair{"key", &k}, std::pair{"value", &v}}) {
    if (exec::SameAxes(mesh, q.spec[0], other->spec[0])) continue;
    return Breaks(FirstAxis(mesh, other->spec[0], q.spec[0]),
                  std::string("the batch of the ") + name + " is split over " +
                      AxesText(other->spec[0]) + " and the query's over " +
                      AxesText(q.spec[0]),
                  "split the batch of all tensors over the same axes in the "
                  "same order");
  }
  return std::nullopt;
}

std::optional<LayoutError> HeadFault(const Layouts& of, const Case& test) {
  const auto& [mesh, q, k, v] = of;
  if (!exec::IsPrefix(mesh, k.spec[2], q.spec[2])) {
    return Breaks(FirstAxis(mesh, k.spec[2], q.spec[2]),
                  "key heads are split over " + AxesText(k.spec[2]) +
                      ", which the query's heads over " + AxesText(q.spec[2]) +
                      " do not begin with",
                  "set kv_head to the leading axes of head, or to null");
  }
  if (!exec::SameAxes(mesh, k.spec[2], v.spec[2])) {
    return Breaks(FirstAxis(mesh, v.spec[2], k.spec[2]),
                  "key and value split their heads differently",
                  "give key and value the same spec");
  }
  if (!exec::SameAxes(mesh, k.spec[2], q.spec[2]) && q.shape[2] > 1 &&
      k.shape[2] > 1 && !test.operation->global_view &&
      !test.operation->latent) {
    const AxisGroup axes = exec::DropTrivial(mesh, q.spec[2]);
    const AxisGroup held = exec::DropTrivial(mesh, k.spec[2]);
    return Breaks(axes[held.size()],
                  "query heads are split over " + AxesText(q.spec[2]) +
                      " and key heads over " + AxesText(k.spec[2]) +
                      ": a device's heads are not those of its key heads",
                  k.shape[2] % mesh.Parts(q.spec[2]) == 0
                      ? "set kv_head to " + AxesText(q.spec[2])
                      : "repeat key heads to the query's, or use vanilla");
  }
  return std::nullopt;
}

std::optional<LayoutError> LengthFault(const Layouts& of) {
  const auto& [mesh, q, k, v] = of;
  if (!exec::SameAxes(mesh, k.spec[1], v.spec[1])) {
    return Breaks(FirstAxis(mesh, v.spec[1], k.spec[1]),
                  "key and value split their length differently",
                  "give key and value the same spec");
  }
  return std::nullopt;
}

std::optional<LayoutError> DimFault(const Layouts& of) {
  const auto& [mesh, q, k, v] = of;
  if (!exec::SameAxes(mesh, q.spec[3], k.spec[3])) {
    return Breaks(FirstAxis(mesh, k.spec[3], q.spec[3]),
                  "query and key split the head dimension differently",
                  "set attention_kv_dim to attention_dim");
  }
  return std::nullopt;
}

}  // namespace

std::optional<LayoutError> LayoutFault(const Case& test) {
  const Layouts of{SimMesh(test.mesh), QueryOf(test), KeyOf(test),
                   ValueOf(test)};
  std::vector<LayoutError> bad;
  for (auto& fault :
       {BatchFault(of), HeadFault(of, test), LengthFault(of), DimFault(of)}) {
    if (fault) bad.push_back(*fault);
  }
  return exec::Joined(std::move(bad));
}

std::vector<double> DeviceErrors(const Case& test, const Array& got,
                                 const Array& reference) {
  const SimMesh mesh(test.mesh);
  exec::TensorSharding out = OutputOf(test);
  for (size_t d = 0; d < 4; ++d) {
    if (out.shape[d] == 1) out.spec[d].clear();
  }
  const Shape extent = exec::LocalShape(mesh, out.shape, out.spec);
  std::vector<double> errors;
  for (int device = 0; device < mesh.devices(); ++device) {
    const Shape start = exec::LocalStart(mesh, out.shape, out.spec, device);
    double worst = 0;
    for (int64_t row = 0; row < extent[0] * extent[1] * extent[2]; ++row) {
      const int64_t b = start[0] + row / (extent[1] * extent[2]);
      const int64_t t = start[1] + row / extent[2] % extent[1];
      const int64_t h = start[2] + row % extent[2];
      const double* const have = got.Row(b, t, h) + start[3];
      const double* const want = reference.Row(b, t, h) + start[3];
      for (int64_t d = 0; d < extent[3]; ++d) {
        const double error = std::abs(have[d] - want[d]);
        if (!(error <= worst)) worst = error;
      }
    }
    errors.push_back(worst);
  }
  return errors;
}

void ExplainNumbers(const Case& test, const Array& got, const Array& reference,
                    CaseResult& result) {
  const SimMesh mesh(test.mesh);
  const double limit = std::min(result.tolerance, result.cap);
  std::vector<bool> bad;
  int64_t count = 0;
  int first_device = -1;
  for (size_t d = 0; d < result.device_error.size(); ++d) {
    bad.push_back(!(result.device_error[d] <= limit));
    count += bad.back();
    if (bad.back() && first_device < 0) first_device = static_cast<int>(d);
  }
  Shape first;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    if (std::abs(got.data[i] - reference.data[i]) <= limit) continue;
    first = exec::PositionOf({reference.dim(0), reference.dim(1),
                              reference.dim(2), reference.dim(3)},
                             static_cast<int64_t>(i));
    break;
  }
  result.reason = "output differs by " + ErrorText(result.error.max_abs) +
                  " where " + ErrorText(limit) + " is allowed";
  if (count > 0) {
    result.reason += ", on " + Counted(count, "device") + " from " +
                     std::to_string(first_device) + " (" +
                     mesh.DeviceText(first_device) + ")";
  }
  if (!first.empty()) {
    result.reason += "; first at batch " + std::to_string(first[0]) +
                     ", token " + std::to_string(first[1]) + ", head " +
                     std::to_string(first[2]);
  }
  if (const auto fault = LayoutFault(test)) {
    result.axis = fault->axis;
    result.reason += "; " + fault->message;
    result.help = fault->help;
    return;
  }
  result.axis = AxisOfDevices(mesh, bad);
  if (result.axis.empty()) result.axis = AnySplitAxis(mesh, test);
  if (!result.axis.empty()) {
    result.help = "leave `" + result.axis +
                  "` out of these tensors, or use an operation with a "
                  "collective over it";
  }
}

}  // namespace shardc::verify
