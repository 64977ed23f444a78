// Computes which devices hold an element. Only the mesh's coordinates are used,
// not the code that shards tensors, so that errors in that code are detected:
//
//   16 tokens over [sp, cp], 2 x 2, token 9: shard 9 / 4 = 2, so sp=1 and cp=0
#include "verify/judge/placed.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "exec/machine/random.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/cases/case.h"
#include "verify/judge/explain.h"

namespace shardc::verify {
namespace {

using dense::Array;

// Returns the index of the device's shard over `axes`, of which the first axis
// is the major one.
int64_t PartOf(const exec::SimMesh& mesh, int device, const AxisGroup& axes) {
  int64_t part = 0;
  for (const std::string& axis : axes) {
    part = part * mesh.Parts({axis}) + mesh.Coordinate(device, axis);
  }
  return part;
}

std::vector<bool> Holders(const exec::SimMesh& mesh,
                          const exec::TensorSharding& out, const Shape& place) {
  std::vector<bool> holds(AsIndex(mesh.devices()), true);
  for (size_t d = 0; d < out.spec.size(); ++d) {
    if (out.shape[d] == 1) continue;  // a dimension of size 1 is never sharded
    const int64_t size = out.shape[d] / mesh.Parts(out.spec[d]);
    for (int device = 0; device < mesh.devices(); ++device) {
      if (PartOf(mesh, device, out.spec[d]) != place[d] / size) {
        holds[AsIndex(device)] = false;
      }
    }
  }
  return holds;
}

// Returns true if the axis separates devices that hold the element from devices
// that do not.
bool Parts(const exec::SimMesh& mesh, const std::string& axis,
           const std::vector<bool>& holds) {
  for (const std::vector<int>& group : mesh.Groups({axis})) {
    for (const int device : group) {
      if (holds[AsIndex(device)] != holds[AsIndex(group[0])]) return true;
    }
  }
  return false;
}

bool Near(double a, double b) { return std::fabs(a - b) <= 1e-9 * b; }

// An element to which an error was added. The report must name the element's
// index `place`, the size of the error and the devices that hold the element.
struct Placed {
  Shape place;
  double error;
  std::vector<bool> holds;
};

// Returns which part of the report is wrong, or an empty text if all parts are
// correct.
std::string Misjudged(const Placed& placed, const Array& reference,
                      const ErrorOf& reported) {
  double squares = 0;
  for (const double x : reference.data) squares += x * x;
  const auto count = static_cast<double>(reference.data.size());
  if (!std::equal(reported.worst.begin(), reported.worst.end(),
                  placed.place.begin(), placed.place.end())) {
    return "another element";
  }
  if (reported.max_abs != placed.error) return "another error";
  if (!Near(reported.mean_abs * count, placed.error)) return "another mean";
  const double norm = squares > 0 ? std::sqrt(squares) : 1;
  return Near(reported.relative_l2 * norm, placed.error) ? "" : "another l2";
}

std::string Misreported(const Placed& placed, const exec::SimMesh& mesh,
                        const CaseResult& reported) {
  int64_t held = 0;
  int first = -1;
  for (size_t d = 0; d < placed.holds.size(); ++d) {
    if (placed.holds[d] != (reported.device_error[d] == placed.error)) {
      return "device " + std::to_string(d);
    }
    if (placed.holds[d] && first < 0) first = static_cast<int>(d);
    held += placed.holds[d];
  }
  const std::string where = ", on " + Counted(held, "device") + " from " +
                            std::to_string(first) + " (" +
                            mesh.DeviceText(first) + "); first at batch " +
                            std::to_string(placed.place[0]) + ", token " +
                            std::to_string(placed.place[1]) + ", head " +
                            std::to_string(placed.place[2]);
  if (reported.reason.find(where) == std::string::npos) return reported.reason;
  const bool everywhere = held == mesh.devices();
  return everywhere || Parts(mesh, reported.axis, placed.holds)
             ? ""
             : "axis `" + reported.axis + "`";
}

}  // namespace

void OfferPlaced(const Case& test, const Array& reference, const Limits& limits,
                 WrongOutputs& wrong) {
  const size_t count = reference.data.size();
  if (count == 0) return;
  const exec::Random random(std::bit_cast<uint64_t>(reference.data[0]));
  const auto at = static_cast<size_t>(random.Below(0, count));
  Array got = reference;
  got.data[at] += 4 * limits.At(at);
  const double error = std::abs(got.data[at] - reference.data[at]);
  if (!(error > limits.At(at))) return;
  const exec::SimMesh mesh(test.mesh);
  const Shape place =
      exec::PositionOf(reference.shape, static_cast<int64_t>(at));
  const Placed placed{place, error, Holders(mesh, OutputOf(test), place)};
  ++wrong.offered;
  const Judgement judged = JudgeOutput(got, reference, limits);
  CaseResult reported;
  reported.error = judged.error;
  reported.tolerance = reported.cap = judged.allowed;
  reported.device_error = DeviceErrors(test, got, reference);
  if (Within(judged.error.max_abs, judged.allowed)) {
    wrong.taken.emplace_back("one element off");
    return;
  }
  ExplainNumbers(test, got, reference, reported);
  std::string bad = Misjudged(placed, reference, reported.error);
  if (bad.empty()) bad = Misreported(placed, mesh, reported);
  if (!bad.empty()) {
    wrong.taken.push_back("one wrong element, reported with " + bad);
  }
}

}  // namespace shardc::verify
