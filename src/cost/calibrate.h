// Fits a device profile's efficiencies to measured training steps.
#ifndef SHARDC_COST_CALIBRATE_H_
#define SHARDC_COST_CALIBRATE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "devices/profiles.h"

namespace shardc::cost {

// A training step and its measured seconds. The step's own profile
// (`settings.profile`) is not used.
struct MeasuredStep {
  std::string name;
  CostInputs inputs;
  Settings settings;
  Memory memory;
  Communication communication;
  double seconds = 0;
};

// A figure of a device profile that can be fitted to measured steps.
enum class Figure : uint8_t {
  kMatmul,
  kMatmulFp8,
  kMatmulFp4,
  kFlash1,
  kFlash2,
  kCudnn,
  kAttention,
  kExperts,
  kScale,
};
// Returns the name of a figure in a profile file: "efficiency.matmul.bf16".
std::string_view FigureName(Figure figure);
double FigureOf(const Efficiency& efficiency, Figure figure);

struct CalibratedStep {
  std::string name;
  double seconds = 0;  // measured seconds of the step
  double before = 0;   // expected seconds with the base profile
  double after = 0;    // expected seconds with the calibrated profile
};

struct Calibration {
  // The efficiencies of the base profile. Those that `figures` lists have been
  // replaced by fitted values.
  Efficiency efficiency;
  // The fitted figures; empty if nothing was fitted.
  std::vector<Figure> figures;
  std::vector<CalibratedStep> steps;
  std::vector<std::string> remarks;
};

// Fits figures of the base profile to the steps: minimises the sum of the
// squares of log(expected / measured). The efficiency of matmuls is
// fitted for each dtype that the steps use. For steps of models with experts,
// the fraction Efficiency::experts is fitted instead. The efficiency of an
// attention kernel is fitted if attention's fraction of the time differs by
// more than a factor of 1.5 between the steps that run this kernel. The
// fraction by which a step becomes longer with each doubling of the hosts is
// fitted if there are three or more steps, not all on the same number of
// devices. If there is only one step and the base predicts its time within 10
// %, nothing is fitted, because the difference may be noise. Returns nullopt
// and sets `why` if there is no step, or if a step has no expected time.
std::optional<Calibration> Calibrate(const DeviceProfile& base,
                                     std::span<const MeasuredStep> steps,
                                     std::string& why);

}  // namespace shardc::cost

#endif  // SHARDC_COST_CALIBRATE_H_
