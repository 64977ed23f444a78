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
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "comm/collective.h"
#include "exec/attention/staging.h"
#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "floats/convert.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/cases/case.h"
#include "verify/cases/problem_data.h"

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

// Checks a case at the sizes that the user gave, without running it. The
// operation receives shapes without elements, which need no memory. The
// operation computes nothing, and only reports whether it supports these
// shapes. The formula for its bytes reads no elements either.
//
//   64 rows of 8,192 keys over sp=3  ->  refused, and no key was allocated

namespace {

using exec::Buffer;

// Returns the shapes of the latent inputs, or nullopt if the case has no
// latent. They are read from a latent of one token, since its rank and rotated
// size do not depend on batch, length or heads.
std::optional<exec::LatentInputs> HollowLatent(const Case& test) {
  const Sizes& n = test.sizes;
  if (!test.operation->latent || n.heads != n.key_heads) return std::nullopt;
  Case one = test;
  one.layout = Layout::kBthd;
  one.sizes.batch = one.sizes.query_length = one.sizes.key_length = 1;
  one.sizes.heads = one.sizes.key_heads = 1;
  one.features = {};
  std::optional<exec::LatentInputs> out = MakeProblem(one).latent;
  if (!out) return std::nullopt;
  const auto hollow = [](Buffer& x, int64_t first,
                         std::optional<int64_t> then) {
    x.shape[0] = first;
    if (then) x.shape[1] = *then;
    x = Buffer::Hollow(x.shape, x.dtype);
  };
  hollow(out->latent, n.batch, n.key_length);
  hollow(out->rope_key, n.batch, n.key_length);
  hollow(out->up_key, n.heads, std::nullopt);
  hollow(out->up_value, n.heads, std::nullopt);
  return out;
}

// Returns the case's inputs as shapes without elements. The lengths, starts and
// positions of rows and the table of blocks are left out.
exec::AttentionProblem HollowProblem(const Case& test) {
  const Sizes& n = test.sizes;
  const Features& f = test.features;
  const bool packed = test.layout == Layout::kThd;
  const int64_t batch = packed ? 1 : n.batch;
  const int64_t rows = packed ? n.batch * n.query_length : n.query_length;
  const int64_t keys = packed ? n.batch * n.key_length : n.key_length;
  const auto tensor = [&](int64_t length, int64_t heads, int64_t dim,
                          Dtype dtype) {
    return Buffer::Hollow(ShapeIn(test.layout, n.batch, length, heads, dim),
                          dtype);
  };
  exec::AttentionProblem out;
  out.layout = test.layout;
  out.query = tensor(n.query_length, n.heads, n.head_dim, test.dtype);
  out.key = tensor(n.key_length, n.key_heads, n.head_dim, KeyDtype(test));
  out.value = tensor(n.key_length, n.key_heads, n.ValueDim(), KeyDtype(test));
  if (f.bias) {
    out.bias = Buffer::Hollow({batch, f.bias_by_head ? n.heads : 1, rows, keys},
                              Dtype::kF32);
  }
  if (f.mask || (f.masked_row && !f.additive_mask)) {
    out.mask = Buffer::Hollow({batch, 1, rows, keys}, Dtype::kBool);
  }
  if (f.additive_mask) {
    out.additive_mask = Buffer::Hollow({batch, 1, rows, keys}, Dtype::kF32);
  }
  if (packed || f.segments) {
    out.query_segments = Buffer::Hollow({batch, rows}, Dtype::kI32);
    out.key_segments = Buffer::Hollow({batch, keys}, Dtype::kI32);
  }
  if (f.sinks_rank > 0) {
    out.softmax_aux = Buffer::Hollow(
        f.sinks_rank == 1 ? Shape{n.heads} : Shape{2, n.key_heads},
        Dtype::kF32);
  }
  out.latent = HollowLatent(test);
  out.options.causal = f.causal;
  out.options.scale = f.scale;
  out.options.soft_cap = f.soft_cap;
  out.options.dropout = f.dropout;
  out.options.window = WindowOf(f);
  return out;
}

exec::OperationSettings SettingsOf(const Case& test) {
  exec::OperationSettings out = test.settings;
  out.int8_pages = HasInt8Pages(test);
  return out;
}

}  // namespace

std::optional<CaseResult> RefusalAt(const Case& test) {
  if (test.features.custom_blocks &&
      !test.operation->Takes(exec::Input::kBlockTable)) {
    return std::nullopt;
  }
  const exec::SimMesh mesh(test.mesh);
  exec::Machine machine(mesh);
  const exec::OperationOutcome outcome = test.operation->run(
      machine, HollowProblem(test), test.specs, SettingsOf(test));
  if (!outcome.unsupported) return std::nullopt;
  CaseResult out;
  out.status = Status::kUnsupported;
  out.reason = outcome.unsupported->message;
  out.help = outcome.unsupported->help;
  out.axis = outcome.unsupported->axis;
  out.remarks = outcome.remarks;
  return out;
}

exec::SentBytes SentAt(const Case& test) {
  const exec::SimMesh mesh(test.mesh);
  const exec::AttentionProblem problem = HollowProblem(test);
  const exec::OperationSettings settings = SettingsOf(test);
  exec::Traffic traffic(mesh, problem, test.specs, settings);
  test.operation->bytes(traffic);
  return traffic.sent();
}

// Computes tolerances in units of the dtype's roundoff, scaled by the largest
// output. Each element has its own tolerance. The report shows one element: the
// one whose error exceeds its tolerance by the largest factor. If no error
// does, it is the element with the largest error. An element that is not finite
// takes precedence over all others.
//
// For example, if float32 outputs are at most 1, the tolerance is at least 16 *
// 2^-24 = 9.5e-07. It is at most 1e-5, or more if logits are above 8. If a
// bfloat16 output is 0.1, its rounding adds up to 1.3 * 0.1 * 2^-8 to the
// tolerance of this element.

namespace {

// The rounding error that an element may have, in units of the roundoff. The
// value 1.3 accepts rounding to nearest, which has an error of at most 1 unit.
// It rejects truncation, which has an error of up to 2 units.
constexpr double kRounding = 1.3;

}  // namespace

ErrorOf CompareOutputs(const dense::Array& got, const dense::Array& reference) {
  ErrorOf out;
  double difference = 0, total = 0;
  int64_t worst = -1;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double want = reference.data[i], have = got.data[i];
    total += want * want;
    if (!std::isfinite(have) && std::isfinite(want)) {
      if (!out.non_finite) worst = static_cast<int64_t>(i);
      out.non_finite = true;
      out.max_abs = std::numeric_limits<double>::infinity();
      continue;
    }
    if (have == want) continue;
    const double error = std::abs(have - want);
    difference += error * error;
    out.mean_abs += error;
    if (!out.non_finite && !(error <= out.max_abs)) {
      out.max_abs = error;
      worst = static_cast<int64_t>(i);
    }
  }
  if (!reference.data.empty()) {
    out.mean_abs /= static_cast<double>(reference.data.size());
  }
  out.relative_l2 =
      total > 0 ? std::sqrt(difference / total) : std::sqrt(difference);
  if (worst >= 0) {
    for (size_t d = 4; d > 0;) {
      --d;
      out.worst[d] = worst % reference.dim(d);
      worst /= reference.dim(d);
    }
  }
  return out;
}

double MaxAbs(const dense::Array& x) {
  double out = 0;
  for (double v : x.data) out = std::max(out, std::abs(v));
  return out;
}

double ErrorFloor(double max_reference) {
  return 16 * UnitRoundoff(Dtype::kF32) * max_reference;
}

double ErrorCap(Dtype dtype, double max_reference, double max_logit) {
  const double scale = std::max(1.0, max_reference / 2);
  const double rounding = kRounding * UnitRoundoff(dtype) * max_reference;
  switch (dtype) {
    case Dtype::kF16:
      return std::max(1e-3 * scale, rounding);
    case Dtype::kBF16:
      return std::max(1e-2 * scale, rounding);
    default:
      return 1e-5 * scale * std::max(1.0, max_logit / 8);
  }
}

bool Within(double error, double tolerance) { return error <= tolerance; }

double BeyondSlack(const dense::Array& got, const dense::Array& reference,
                   const dense::Array& slack) {
  double out = 0;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double error = std::abs(got.data[i] - reference.data[i]);
    const double own = slack.empty() ? 0 : slack.data[i];
    if (!(error - own <= out)) out = error - own;
  }
  return out;
}

dense::Array SlackOf(Dtype dtype, const dense::Array& reference,
                     const dense::Array& more) {
  dense::Array out = dense::Array::Zeros(reference.shape);
  if (!more.data.empty()) out = more;
  if (dtype == Dtype::kF32) return out;
  // The subnormal numbers of float16 have steps of 2^-24.
  const double least = dtype == Dtype::kF16 ? 0x1p-24 : 0;
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] += kRounding * UnitRoundoff(dtype) *
                       (std::abs(reference.data[i]) + out.data[i]) +
                   least;
  }
  return out;
}

Judgement JudgeOutput(const dense::Array& got, const dense::Array& reference,
                      const Limits& limits) {
  Judgement out;
  out.error = CompareOutputs(got, reference);
  out.allowed = limits.base;
  if (out.error.non_finite) return out;
  double most = 1, largest = -1;
  size_t worst = 0;
  for (size_t i = 0; i < reference.data.size(); ++i) {
    const double error = got.data[i] == reference.data[i]
                             ? 0
                             : std::abs(got.data[i] - reference.data[i]);
    const double limit = limits.At(i);
    const bool beyond = !Within(error, limit);
    if (beyond ? !(error / limit <= most) : most == 1 && error > largest) {
      most = beyond ? error / limit : most;
      largest = error;
      worst = i;
      out.error.max_abs = error;
      out.allowed = limit;
    }
  }
  auto at = static_cast<int64_t>(worst);
  for (size_t d = 4; d > 0 && !reference.data.empty();) {
    --d;
    out.error.worst[d] = at % reference.dim(d);
    at /= reference.dim(d);
  }
  return out;
}

}  // namespace shardc::verify
