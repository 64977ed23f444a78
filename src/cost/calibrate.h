// Fits a device profile's efficiencies to measured training steps.
#ifndef SHARDC_COST_CALIBRATE_H_
#define SHARDC_COST_CALIBRATE_H_

#include <cstdint>
#include <memory>
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
#include "plan/compile.h"
#include "plan/planned_stages.h"

namespace shardc::cost {

// A training step and its measured seconds. The step's own profile
// (`settings.profile`) is not used.
struct MeasuredStep {
  std::string name;
  CostInputs inputs;
  Settings settings;
  // Those of a step without stages.
  Memory memory;
  Communication communication;
  // The stages of a pipeline, and the plan that they divide; null without
  // stages. With `exposed`, a rank computes nothing while it sends.
  std::shared_ptr<const Compiled> compiled = nullptr;
  std::shared_ptr<const PlannedStages> stages = nullptr;
  bool exposed = false;
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
  kDispatch,
  kExpertHost,
  kMessages,
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
  int64_t ranks = 0;   // ranks of the pipeline; 0 without stages
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

// Fits figures of the base profile to the steps. Steps of dense models without
// stages determine the efficiency of matmuls for each dtype that they use; that
// of an attention kernel if attention's fraction of the time differs by more
// than a factor of 1.5 between the steps that run this kernel; and the fraction
// by which a step becomes longer with each doubling of the hosts, if there are
// three or more, not all on the same number of devices. Steps of pipelines
// change the same figures and that of the messages between stages, and steps of
// models with experts that of attention and the factors of what experts
// compute, of all-to-alls and of the host: these changes stay near the base
// unless several steps agree (calibrate.cc). If there is only one step and the
// base predicts its time within 10 %, nothing is fitted, because the difference
// may be noise. Returns nullopt and sets `why` if there is no step, or if a
// step has no expected time.
std::optional<Calibration> Calibrate(const DeviceProfile& base,
                                     std::span<const MeasuredStep> steps,
                                     std::string& why);

}  // namespace shardc::cost

#endif  // SHARDC_COST_CALIBRATE_H_
