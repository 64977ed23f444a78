// Fits a device profile's figures, such as the efficiency of matmuls, to the
// measured times of steps, by the method of Levenberg and Marquardt: the
// logarithms of the expected times are replaced by linear functions of the
// logarithms of the figures, whose best values are the next figures.
//
// Two terms are added up. An error r = log(expected / measured) of a step
// counts r^2 up to kNoise and only linearly beyond it (Huber), so that a step
// of a bad release does not decide alone. A figure with a width is expected
// near its base: log(figure / base)^2 / width^2 is added. So three steps that
// contradict each other change such a figure little, and three that agree
// change it almost as far as they say. Steps with the same expected time are
// runs of the same configuration, and count together as one: the model's error
// is the same in each of them.
//
// For example, two steps can determine two figures. A step with short sequences
// spends little time in attention, so it determines the efficiency of
// matmuls. A step with 32,768 tokens in each sequence then determines the
// efficiency of attention.
#include "cost/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cost/expected.h"
#include "cost/pipeline.h"
#include "cost/rates.h"
#include "source/list.h"

namespace shardc::cost {
namespace {

constexpr int kRounds = 200;
// Fitting stops if a round reduces the sum by less than this fraction, or if
// the figures would hardly change.
constexpr double kLeastGain = 1e-12, kMostDamping = 1e9;
// The change of a figure's logarithm with which derivatives are computed.
constexpr double kDifference = 1e-4;
// The error of a published step of a release, compared with the steps of other
// releases: 3.4 % in the median, and 22 % in one of ten.
constexpr double kNoise = 0.05;
// If only one step was measured, figures are fitted only if the measured time
// differs by more than this fraction from the time that the base profile
// predicts. A smaller difference may be noise.
constexpr double kNearBase = 0.10;
// The efficiency of attention is fitted only if attention takes a different
// fraction of the time in two of the steps: the larger fraction must be more
// than this many times the smaller one.
constexpr double kOtherPart = 1.5;
// Two steps whose expected times differ by less than this fraction have the
// same configuration.
constexpr double kSame = 1e-6;
// A figure is fitted only if it determines more than this fraction of the time
// of a step.
constexpr double kLeastPart = 0.005;

struct FigureDef {
  std::string_view name;
  double least, most;
  // The standard deviation of log(figure / base) before anything is measured.
  // The time of the host may be half or one and a half times as long in nine of
  // ten cases, and the parts of experts and of stages differ by as much as
  // published families do (cost/experts.h). A figure may have any value if
  // steps of dense models without stages determine it, which was the rule
  // before others were fitted.
  double width;
};
// In the order of Figure.
constexpr std::array<FigureDef, 12> kFigures = {{
    {"efficiency.matmul.bf16", 0.02, 1, 0.2},
    {"efficiency.matmul.fp8", 0.02, 1, 0.2},
    {"efficiency.matmul.fp4", 0.02, 1, 0.2},
    {"efficiency.attention.flash_attn1", 0.02, 1, 0.15},
    {"efficiency.attention.flash_attn2", 0.02, 1, 0.15},
    {"efficiency.attention.cudnn", 0.02, 1, 0.15},
    {"efficiency.attention.other", 0.02, 1, 0.15},
    {"efficiency.experts.compute", 0.05, 10, 0.2},
    {"efficiency.experts.dispatch", 0.05, 10, 0.3},
    {"efficiency.experts.host", 0.05, 10, 0.25},
    {"efficiency.messages", 0.05, 10, 0.2},
    {"scale", 0.001, 0.2, 0.3},
}};
const FigureDef& DefOf(Figure figure) {
  return kFigures[static_cast<size_t>(figure)];
}

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
    case Figure::kDispatch:
      return of.dispatch;
    case Figure::kExpertHost:
      return of.expert_host;
    case Figure::kMessages:
      return of.messages;
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

bool HasExperts(const MeasuredStep& step) {
  return step.inputs.model && step.inputs.model->experts;
}

// Returns whether the step is of a dense model without stages.
bool IsPlain(const MeasuredStep& step) {
  return step.stages == nullptr && !HasExperts(step);
}

// Solves a * x = b for a symmetric positive definite matrix `a`.
std::vector<double> Solve(std::vector<std::vector<double>> a,
                          std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      const double by = a[j][i] / a[i][i];
      for (size_t k = i; k < n; ++k) a[j][k] -= by * a[i][k];
      b[j] -= by * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t j = i + 1; j < n; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

class Fitting {
 public:
  Fitting(const DeviceProfile& base, std::span<const MeasuredStep> steps)
      : base_(base), profile_(base), steps_(steps) {}

  std::optional<double> Expected(const MeasuredStep& step) const {
    Settings settings = step.settings;
    settings.profile = &profile_;
    if (step.stages == nullptr) {
      return ExpectedSecondsOf(step.inputs, settings, step.memory,
                               step.communication);
    }
    Findings unreported;
    // No other division of the layers is looked for.
    const StagedModel model{step.compiled->plan,
                            step.compiled->manifest.separator, false};
    const auto cost = PipelineCostOf(model, step.inputs,
                                     WithLossOf(step.compiled->rules, settings),
                                     *step.stages, step.exposed, unreported);
    if (!cost || !cost->timed) return std::nullopt;
    return cost->Step();
  }

  // Returns the fraction of the step's time that is proportional to 1 / figure.
  double PartOf(const MeasuredStep& step, Figure figure) {
    const Efficiency before = profile_.efficiency;
    const double seconds = *Expected(step);
    FigureIn(profile_.efficiency, figure) *= std::exp(kDifference);
    const double part = -std::log(*Expected(step) / seconds) / kDifference;
    profile_.efficiency = before;
    return std::abs(part);
  }

  // Sets the figures to the values that minimise Sum(). The steps determine
  // those in `free`, which need not be near the base's.
  void Fit(const std::vector<Figure>& figures,
           const std::vector<Figure>& free) {
    figures_ = figures;
    free_ = free;
    weights_.clear();
    for (const MeasuredStep& step : steps_) {
      const double own = *Expected(step);
      const auto equal = std::count_if(
          steps_.begin(), steps_.end(), [&](const MeasuredStep& other) {
            return std::abs(*Expected(other) / own - 1) < kSame;
          });
      weights_.push_back(1 / Real(equal));
    }
    for (const Figure figure : figures_) {
      // The fitted figure is one constant. It replaces the profile's curve of
      // efficiency by matmul size.
      Efficiency& of = profile_.efficiency;
      if (figure == Figure::kMatmul) of.matmul_curve.clear();
      if (figure == Figure::kMatmulFp8) of.matmul_fp8_curve.clear();
    }
    const size_t n = figures_.size();
    double damping = 1e-3, sum = Sum(Errors());
    for (int round = 0; round < kRounds && n > 0; ++round) {
      const auto [matrix, right] = Equations();
      const Efficiency before = profile_.efficiency;
      double found = sum;
      for (; damping < kMostDamping; damping *= 4) {
        std::vector<std::vector<double>> damped = matrix;
        for (size_t j = 0; j < n; ++j) damped[j][j] *= 1 + damping;
        const std::vector<double> change = Solve(std::move(damped), right);
        for (size_t j = 0; j < n; ++j) Move(figures_[j], change[j]);
        found = Sum(Errors());
        if (found < sum) break;
        profile_.efficiency = before;
      }
      if (!(found < sum * (1 - kLeastGain) - kLeastGain)) break;
      sum = found;
      damping = std::max(1e-9, damping / 16);
    }
  }

  const DeviceProfile& profile() const { return profile_; }

 private:
  // Multiplies a figure by exp(change), inside its range.
  void Move(Figure figure, double change) {
    double& value = FigureIn(profile_.efficiency, figure);
    value = std::clamp(value * std::exp(std::clamp(change, -3.0, 3.0)),
                       DefOf(figure).least, DefOf(figure).most);
  }

  // Returns log(figure / base) / width^2, or 0 for a figure without a width.
  // `factor` is 1 / width^2.
  double FromBase(Figure figure, double& factor) const {
    const bool free = IsAmong(figure, free_);
    const double width = free ? 0 : DefOf(figure).width;
    factor = width > 0 ? 1 / (width * width) : 0;
    return factor * std::log(FigureOf(profile_.efficiency, figure) /
                             FigureOf(base_.efficiency, figure));
  }

  // Returns log(expected / measured) of each step.
  std::vector<double> Errors() const {
    std::vector<double> out;
    for (const MeasuredStep& step : steps_) {
      out.push_back(std::log(*Expected(step) / step.seconds));
    }
    return out;
  }

  // Returns how much an error counts in the linear equations: the derivative of
  // its term in Sum(), divided by the error. It falls beyond kNoise.
  static double Weight(double error) {
    return std::min(1.0, kNoise / std::max(kNoise, std::abs(error))) /
           (kNoise * kNoise);
  }

  double Sum(const std::vector<double>& errors) const {
    double out = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
      const double size = std::abs(errors[i]) / kNoise;
      out += weights_[i] * (size <= 1 ? 0.5 * size * size : size - 0.5);
    }
    for (const Figure figure : figures_) {
      double factor = 0;
      const double from = FromBase(figure, factor);
      if (factor > 0) out += 0.5 * from * from / factor;
    }
    return out;
  }

  // Returns the matrix and the right side of the linear equations whose
  // solution is the change of the figures' logarithms.
  std::pair<std::vector<std::vector<double>>, std::vector<double>> Equations() {
    const size_t n = figures_.size();
    const std::vector<double> errors = Errors();
    std::vector<std::vector<double>> slopes;  // by figure and step
    for (const Figure figure : figures_) {
      const Efficiency before = profile_.efficiency;
      FigureIn(profile_.efficiency, figure) *= std::exp(kDifference);
      slopes.push_back(Errors());
      profile_.efficiency = before;
      for (size_t i = 0; i < errors.size(); ++i) {
        slopes.back()[i] = (slopes.back()[i] - errors[i]) / kDifference;
      }
    }
    std::vector<std::vector<double>> matrix(n, std::vector<double>(n, 0));
    std::vector<double> right(n, 0);
    for (size_t j = 0; j < n; ++j) {
      double factor = 0;
      right[j] = -FromBase(figures_[j], factor);
      matrix[j][j] = factor + 1e-9;
      for (size_t i = 0; i < errors.size(); ++i) {
        const double weighted = weights_[i] * Weight(errors[i]) * slopes[j][i];
        right[j] -= weighted * errors[i];
        for (size_t k = 0; k < n; ++k) matrix[j][k] += weighted * slopes[k][i];
      }
    }
    return {std::move(matrix), std::move(right)};
  }

  const DeviceProfile& base_;
  DeviceProfile profile_;
  std::span<const MeasuredStep> steps_;
  std::vector<Figure> figures_, free_;
  std::vector<double> weights_;  // of the steps
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

// Returns which figures a step may change. A step with experts changes those of
// parts that other models do not have, and that of attention. Its other parts
// run as fast as those of published dense runs.
std::vector<Figure> FiguresOf(const MeasuredStep& step,
                              const DeviceProfile& base) {
  std::vector<Figure> out;
  Settings settings = step.settings;
  settings.profile = &base;
  if (HasExperts(step)) {
    out = {Figure::kExperts, Figure::kDispatch, Figure::kExpertHost};
  } else {
    out = {!RunsInFp8(settings)               ? Figure::kMatmul
           : settings.scaling == Scaling::kNv ? Figure::kMatmulFp4
                                              : Figure::kMatmulFp8};
  }
  const auto kernel = AttentionFigure(step);
  if (kernel && !IsPlain(step)) out.push_back(*kernel);
  if (step.stages != nullptr && step.exposed) out.push_back(Figure::kMessages);
  return out;
}

// Returns the efficiencies of attention kernels that plain steps determine:
// attention's fraction of the time differs by more than the factor
// kOtherPart between the steps that run the kernel.
std::vector<Figure> AttentionFigures(Fitting& fitting,
                                     std::span<const MeasuredStep> steps) {
  std::vector<Figure> out;
  for (const MeasuredStep& step : steps) {
    const auto figure = AttentionFigure(step);
    if (!figure || !IsPlain(step)) continue;
    double least = 1, most = 0;
    for (const MeasuredStep& other : steps) {
      if (AttentionFigure(other) != figure || !IsPlain(other)) continue;
      const double part = fitting.PartOf(other, *figure);
      least = std::min(least, part);
      most = std::max(most, part);
    }
    if (most > kOtherPart * least) AddOnce(out, *figure);
  }
  return out;
}

// Returns whether three or more steps of dense models did not all run on the
// same number of devices. With `plain`, steps with stages do not count.
bool ScaleDiffers(std::span<const MeasuredStep> steps, bool plain) {
  std::vector<int64_t> devices;
  for (const MeasuredStep& step : steps) {
    const bool counts = plain ? IsPlain(step) : !HasExperts(step);
    if (counts) devices.push_back(step.inputs.WholeMesh().devices);
  }
  return devices.size() >= 3 &&
         *std::max_element(devices.begin(), devices.end()) >
             *std::min_element(devices.begin(), devices.end());
}

}  // namespace

std::string_view FigureName(Figure figure) { return DefOf(figure).name; }

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
    const int64_t ranks =
        step.stages == nullptr ? 0 : step.stages->table.ranks();
    out.steps.push_back({step.name, step.seconds, *time, 0, ranks});
  }
  if (steps.empty()) {
    why = "no step was measured";
    return std::nullopt;
  }
  const bool near_base =
      std::abs(std::log(out.steps[0].before / out.steps[0].seconds)) <=
      std::log1p(kNearBase);
  std::vector<Figure> free;
  if (steps.size() == 1 && near_base) {
    out.remarks.emplace_back(
        "the base is within 10 % of the only step, and is kept");
  } else {
    for (const MeasuredStep& step : steps) {
      for (const Figure one : FiguresOf(step, base)) {
        if (fitting.PartOf(step, one) <= kLeastPart) continue;
        AddOnce(out.figures, one);
        if (IsPlain(step)) AddOnce(free, one);
      }
    }
    for (const Figure one : AttentionFigures(fitting, steps)) {
      AddOnce(free, one);
      AddOnce(out.figures, one);
    }
    if (ScaleDiffers(steps, false)) out.figures.push_back(Figure::kScale);
    if (ScaleDiffers(steps, true)) free.push_back(Figure::kScale);
  }
  if (steps.size() == 1 && !near_base) {
    out.remarks.emplace_back(
        "one step alone: its noise is part of the figures; measure one of at "
        "least 16,384 tokens too");
  }
  fitting.Fit(out.figures, free);
  out.efficiency = fitting.profile().efficiency;
  for (size_t i = 0; i < steps.size(); ++i) {
    out.steps[i].after = *fitting.Expected(steps[i]);
  }
  return out;
}

}  // namespace shardc::cost
