// Fits a device profile's figures, such as the efficiency of matmuls,
// to the measured times of steps. There are 20 rounds. In each round, one
// figure after the other is set to its best value, while all others keep their
// values. The best value minimises the sum of the squared errors. A step's time
// falls as an efficiency grows, so the sum is assumed to have a single minimum
// along each figure.
//
// For example, two steps can determine two figures. A step with short sequences
// spends little time in attention, so it determines the efficiency of matrix
// matmuls. A step with 32,768 tokens in each sequence then determines the
// efficiency of attention.
#include "cost/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cost/expected.h"
#include "cost/rates.h"

namespace shardc::cost {
namespace {

constexpr int kRounds = 20;
constexpr int kNarrowings = 60;
constexpr double kLeastShare = 0.02, kMostShare = 1;
constexpr double kLeastExperts = 0.05, kMostExperts = 10;
constexpr double kLeastScale = 0.001, kMostScale = 0.2;
// If only one step was measured, figures are fitted only if the measured time
// differs by more than this fraction from the time that the base profile
// predicts. A smaller difference may be noise.
constexpr double kNoise = 0.10;
// The efficiency of attention is fitted only if attention takes a different
// fraction of the time in two of the steps: the larger fraction must be more
// than this many times the smaller one.
constexpr double kOtherPart = 1.5;

double& FigureIn(Efficiency& of, Figure figure) {
  switch (figure) {
    case Figure::kMatmul:
      return of.matmul;
    case Figure::kMatmulFp8:
      return of.matmul_fp8;
    case Figure::kMatmulFp4:
      return of.matmul_fp4;
    case Figure::kExperts:
      return of.experts;
    case Figure::kFlash1:
      if (!of.flash_attn1) of.flash_attn1 = of.attention;
      return *of.flash_attn1;
    case Figure::kFlash2:
      if (!of.flash_attn2) of.flash_attn2 = of.attention;
      return *of.flash_attn2;
    case Figure::kCudnn:
      if (!of.cudnn) of.cudnn = of.attention;
      return *of.cudnn;
    case Figure::kAttention:
      return of.attention;
    case Figure::kScale:
      break;
  }
  return of.scale;
}

std::pair<double, double> RangeOf(Figure figure) {
  switch (figure) {
    case Figure::kScale:
      return {kLeastScale, kMostScale};
    case Figure::kExperts:
      return {kLeastExperts, kMostExperts};
    default:
      return {kLeastShare, kMostShare};
  }
}

bool HasExperts(const MeasuredStep& step) {
  return step.inputs.model && step.inputs.model->experts;
}

class Fitting {
 public:
  Fitting(const DeviceProfile& base, std::span<const MeasuredStep> steps)
      : profile_(base), steps_(steps) {}

  std::optional<ExpectedTime> Expected(const MeasuredStep& step) const {
    Settings settings = step.settings;
    settings.profile = &profile_;
    return ExpectedTimeOf(step.inputs, settings, step.memory,
                          step.communication);
  }

  // Returns the sum of the squares of log(expected / measured).
  double Error() const {
    double out = 0;
    for (const MeasuredStep& step : steps_) {
      const auto time = Expected(step);
      const double error = time ? std::log(time->seconds / step.seconds) : 0.0;
      out += error * error;
    }
    return out;
  }

  // Sets a figure to the value that minimises Error() while the others are
  // constant.
  void Search(Figure figure) {
    // The fitted figure is one constant. It replaces the profile's curve of
    // efficiency by matmul size.
    if (figure == Figure::kMatmul) profile_.efficiency.matmul_curve.clear();
    if (figure == Figure::kMatmulFp8) {
      profile_.efficiency.matmul_fp8_curve.clear();
    }
    const auto [least, most] = RangeOf(figure);
    double low = std::log(least), high = std::log(most);
    const auto error_at = [&](double at) {
      FigureIn(profile_.efficiency, figure) = std::exp(at);
      return Error();
    };
    for (int i = 0; i < kNarrowings; ++i) {
      const double third = (high - low) / 3;
      const double left = low + third, right = high - third;
      if (error_at(left) <= error_at(right)) {
        high = right;
      } else {
        low = left;
      }
    }
    FigureIn(profile_.efficiency, figure) = std::exp((low + high) / 2);
  }

  DeviceProfile& profile() { return profile_; }
  const DeviceProfile& profile() const { return profile_; }

 private:
  DeviceProfile profile_;
  std::span<const MeasuredStep> steps_;
};

// Returns which efficiency of the device profile belongs to the attention
// kernel that the step runs, such as kFlash2. Returns nullopt if attention is
// unfused, because the profile has no separate efficiency for it.
std::optional<Figure> AttentionFigure(const MeasuredStep& step) {
  const Stack& stack = StackOf(step.inputs, step.settings);
  if (IsUnfused(step.settings, stack)) return std::nullopt;
  switch (KernelOf(step.settings, stack)) {
    case Kernel::kFlash1:
      return Figure::kFlash1;
    case Kernel::kFlash2:
      return Figure::kFlash2;
    case Kernel::kCudnn:
      return Figure::kCudnn;
    case Kernel::kAny:
      return Figure::kAttention;
    case Kernel::kUnfused:
      break;
  }
  return std::nullopt;
}

double PartOf(const ExpectedTime& time, std::string_view name) {
  double out = 0;
  for (const TimePart& part : time.parts) {
    if (part.name == name) out += part.seconds;
  }
  return out / time.seconds;
}

void AddOnce(std::vector<Figure>& to, Figure figure) {
  if (std::find(to.begin(), to.end(), figure) == to.end()) {
    to.push_back(figure);
  }
}

// Returns which efficiencies are fitted: those of matmuls in the dtypes
// in which the layers of these steps run, and that of the parts of models with
// experts. A step with experts determines only the latter: the other parts of
// its layers run as fast as those of published dense runs.
std::vector<Figure> ProductFigures(const DeviceProfile& base,
                                   std::span<const MeasuredStep> steps) {
  std::vector<Figure> out;
  for (const MeasuredStep& step : steps) {
    Settings settings = step.settings;
    settings.profile = &base;
    AddOnce(out, HasExperts(step)                   ? Figure::kExperts
                 : !RunsInFp8(settings)             ? Figure::kMatmul
                 : settings.scaling == Scaling::kNv ? Figure::kMatmulFp4
                                                    : Figure::kMatmulFp8);
  }
  return out;
}

// Returns the efficiencies of attention kernels that can be fitted. A kernel's
// efficiency can be fitted if attention's fraction of the time differs by more
// than the factor kOtherPart between the steps that run the kernel.
std::vector<Figure> AttentionFigures(const Fitting& fitting,
                                     std::span<const MeasuredStep> steps) {
  std::vector<Figure> out;
  for (const MeasuredStep& step : steps) {
    const auto figure = AttentionFigure(step);
    if (!figure || HasExperts(step)) continue;
    double least = 1, most = 0;
    for (const MeasuredStep& other : steps) {
      if (AttentionFigure(other) != figure) continue;
      const auto time = fitting.Expected(other);
      const double part = time ? PartOf(*time, "attention") : 0;
      least = std::min(least, part);
      most = std::max(most, part);
    }
    if (most > kOtherPart * least) AddOnce(out, *figure);
  }
  return out;
}

// Returns whether steps ran on different numbers of devices.
bool ScaleDiffers(std::span<const MeasuredStep> steps) {
  const auto [least, most] = std::minmax_element(
      steps.begin(), steps.end(),
      [](const MeasuredStep& a, const MeasuredStep& b) {
        return a.inputs.mesh.devices < b.inputs.mesh.devices;
      });
  return most->inputs.mesh.devices > least->inputs.mesh.devices;
}

}  // namespace

std::string_view FigureName(Figure figure) {
  constexpr std::array<std::string_view, 9> kNames = {
      "efficiency.matmul.bf16",
      "efficiency.matmul.fp8",
      "efficiency.matmul.fp4",
      "efficiency.attention.flash_attn1",
      "efficiency.attention.flash_attn2",
      "efficiency.attention.cudnn",
      "efficiency.attention.other",
      "efficiency.experts",
      "scale"};
  return kNames[static_cast<size_t>(figure)];
}

double FigureOf(const Efficiency& efficiency, Figure figure) {
  Efficiency copy = efficiency;
  return FigureIn(copy, figure);
}

std::optional<Calibration> Calibrate(const DeviceProfile& base,
                                     std::span<const MeasuredStep> steps,
                                     std::string& why) {
  Fitting fitting(base, steps);
  Calibration out;
  for (const MeasuredStep& step : steps) {
    const auto time = fitting.Expected(step);
    if (!time) {
      why = "the step of " + step.name +
            " has no expected time: it needs a batch, a length and the "
            "model's hidden size";
      return std::nullopt;
    }
    out.steps.push_back({step.name, step.seconds, time->seconds, 0});
  }
  if (steps.empty()) {
    why = "no step was measured";
    return std::nullopt;
  }
  const bool near_base =
      std::abs(std::log(out.steps[0].before / out.steps[0].seconds)) <=
      std::log1p(kNoise);
  if (steps.size() == 1 && near_base) {
    out.remarks.emplace_back(
        "the base is within 10 % of the only step, and is kept");
  } else {
    out.figures = ProductFigures(base, steps);
    for (const Figure one : AttentionFigures(fitting, steps)) {
      out.figures.push_back(one);
    }
    if (steps.size() >= 3 && ScaleDiffers(steps)) {
      out.figures.push_back(Figure::kScale);
    }
  }
  if (steps.size() == 1 && !near_base) {
    out.remarks.emplace_back(
        "one step alone: its noise is part of the figures; measure one of at "
        "least 16,384 tokens too");
  }
  for (int round = 0; round < kRounds; ++round) {
    for (const Figure figure : out.figures) fitting.Search(figure);
  }
  out.efficiency = fitting.profile().efficiency;
  for (size_t i = 0; i < steps.size(); ++i) {
    out.steps[i].after = fitting.Expected(steps[i])->seconds;
  }
  return out;
}

}  // namespace shardc::cost
