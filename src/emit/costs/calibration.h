// Writes a calibrated device profile, and compares its expected times with the
// measured runs.
#ifndef SHARDC_EMIT_COSTS_CALIBRATION_H_
#define SHARDC_EMIT_COSTS_CALIBRATION_H_

#include <string>
#include <string_view>

#include "cost/calibrate.h"
#include "devices/profiles.h"

namespace shardc {

// Returns the text of a shardc.profile/v1 file, with the fitted figures and the
// runs from which they were fitted.
std::string CalibratedProfileText(const DeviceProfile& base,
                                  std::string_view name,
                                  const cost::Calibration& calibration);
// Returns a table of the runs, and then the figures before and after the fit.
std::string CalibrationText(const DeviceProfile& base,
                            const cost::Calibration& calibration);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_CALIBRATION_H_
