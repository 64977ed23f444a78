// A figure that is measured at several sizes, such as the rate of a collective
// at several message sizes in bytes. Between two measured points the figure is
// interpolated linearly.
#ifndef SHARDC_DEVICES_CURVE_H_
#define SHARDC_DEVICES_CURVE_H_

#include <vector>

namespace shardc {

struct CurvePoint {
  double at = 0, value = 0;
};
// Points in ascending order of `at`. An empty curve means that the figure does
// not depend on a size.
using Curve = std::vector<CurvePoint>;

// Returns the value at `at`, interpolated linearly between the two points
// around it. Before the first point and after the last, returns the value of
// that point. The curve must not be empty.
double ValueAt(const Curve& curve, double at);
// Returns the seconds of one collective in which a device sends `bytes`.
// `rates` is a curve of bytes per second, and must not be empty. In
// measurements, a larger message may take less time than a smaller one, because
// the network uses another protocol for it. The smaller message could be padded
// to the size of the larger one. The function therefore returns the shortest
// time of any message of at least `bytes`.
double SecondsAt(const Curve& rates, double bytes);
// Returns whether no point has a smaller value than the point before it.
bool Ascends(const Curve& curve);

}  // namespace shardc

#endif  // SHARDC_DEVICES_CURVE_H_
