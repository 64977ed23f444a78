#include "devices/curve.h"

#include <algorithm>

namespace shardc {

double ValueAt(const Curve& curve, double at) {
  const auto next =
      std::find_if(curve.begin(), curve.end(),
                   [&](const CurvePoint& point) { return point.at >= at; });
  if (next == curve.begin()) return curve.front().value;
  if (next == curve.end()) return curve.back().value;
  const CurvePoint& before = *(next - 1);
  return before.value + (next->value - before.value) * (at - before.at) /
                            (next->at - before.at);
}

double SecondsAt(const Curve& rates, double bytes) {
  double out = bytes / ValueAt(rates, bytes);
  for (const CurvePoint& point : rates) {
    // Between two points of the curve, the time of a message only rises or only
    // falls with its size. So the fastest message of at least `bytes` has this
    // size or the size of a point of the curve.
    if (point.at > bytes) out = std::min(out, point.at / point.value);
  }
  return out;
}

bool Ascends(const Curve& curve) {
  return std::is_sorted(curve.begin(), curve.end(),
                        [](const CurvePoint& a, const CurvePoint& b) {
                          return a.value < b.value;
                        });
}

}  // namespace shardc
