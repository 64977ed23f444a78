// A figure that depends on a size, such as a rate that depends on the bytes of
// a message. Between two measured points it is interpolated linearly.
#ifndef SHARDC_DEVICES_CURVE_H_
#define SHARDC_DEVICES_CURVE_H_

#include <vector>

namespace shardc {

struct CurvePoint {
  double at = 0, value = 0;
};
// Points in ascending order of `at`; empty: there is no curve.
using Curve = std::vector<CurvePoint>;

// Returns the value at `at`, interpolated linearly between the two points
// around it. Before the first point and after the last, returns the value of
// that point. The curve must not be empty.
double ValueAt(const Curve& curve, double at);
// Returns whether no point has a smaller value than the point before it.
bool Ascends(const Curve& curve);

}  // namespace shardc

#endif  // SHARDC_DEVICES_CURVE_H_
