// Runs a case and checks its result. A case is computed three times: on the
// mesh, on one device, and as a dense reference in double. The checks run from
// the most reliable to the least, and the first that fails is reported. They
// check, in this order:
// - the layouts place each element correctly
// - the output has the right dtype
// - replicas are equal
// - numbers are finite
// - the error is within its tolerance
// - if no reduction crosses devices, the bits equal those of one device
// - the bytes sent equal the formula
//
// The tolerance is computed by tolerance.h. For example, a float32 output has
// elements up to 1, and its error on one device is 1.5e-07. The tolerance is
// twice this error plus 16 roundoffs of 2^-24: 1.3e-06.
#include "verify/judge/run_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dense/narrow.h"
#include "exec/attention/traffic.h"
#include "exec/machine/agreement.h"
#include "exec/machine/machine.h"
#include "source/index.h"
#include "source/memory.h"
#include "verify/cases/dense_inputs.h"
#include "verify/cases/features.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/shapes.h"
#include "verify/judge/explain.h"
#include "verify/judge/layout_proof.h"
#include "verify/judge/parts.h"
#include "verify/judge/tolerance.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::Buffer;

// Returns the case on one device, where nothing is sharded.
Case Unsharded(const Case& test) {
  Case out = test;
  out.mesh = Mesh{};
  out.mesh.axes.push_back({"one", 1, AxisType::kAuto});
  out.specs = {};
  return out;
}

class Judge {
 public:
  Judge(const Case& test, const exec::AttentionProblem& problem,
        const RunOptions& options, CaseTensors* tensors)
      : test_(test), problem_(problem), options_(options), tensors_(tensors) {}

  CaseResult Run() {
    if (test_.features.custom_blocks &&
        !Takes(*test_.operation, test_.mode, test_.layout,
               Feature::kCustomBlocks)) {
      result_.status = Status::kUnsupported;
      result_.reason =
          std::string(test_.operation->name) + " takes no table of blocks";
      result_.help = "use blocksparse";
      return std::move(result_);
    }
    ReportProgress("layouts");
    if (!Layouts()) return std::move(result_);
    ReturnMemory();
    ReportProgress("the mesh");
    if (!Sharded() || !OfDtype() || !ComputeUnsharded())
      return std::move(result_);
    if (options_.transport != nullptr) InParts();
    if (Leads()) Compare();
    Agree();
    return std::move(result_);
  }

 private:
  bool Leads() const {
    return options_.transport == nullptr || options_.transport->rank() == 0;
  }

  // Computes the reference and the run on one device in parts, distributed over
  // all ranks (processes), because these two need the most memory.
  void InParts() {
    if (!HasParts(test_, problem_)) return;
    ReportProgress("the reference");
    parts_ = JudgeInParts(
        test_, problem_, DenseOptions(), NeedsLogit(),
        [&](const exec::AttentionProblem& part) -> std::optional<Buffer> {
          const Case alone = Unsharded(test_);
          const exec::SimMesh mesh(alone.mesh);
          exec::Machine machine(mesh);
          exec::OperationOutcome out = alone.operation->run(
              machine, part, alone.specs, SettingsOf(alone));
          if (out.unsupported) return std::nullopt;
          return std::move(out.output.local[0]);
        },
        *options_.transport);
  }

  dense::Options DenseOptions() const {
    dense::Options out = OptionsOf(problem_.options);
    // The default scale is computed from the head dimension of the query here,
    // because absorbing a latent may enlarge that dimension later.
    out.scale = out.ScaleOf(problem_.query.shape.back());
    return out;
  }

  // Returns freed memory to the system between the stages of a large case.
  // Tensors of a later stage rarely fit into blocks that an earlier stage has
  // freed.
  void ReturnMemory() const {
    if (HasManyParts(problem_)) ReturnFreedMemory();
  }

  void Compare() {
    ReportProgress("the reference");
    if (!Dense()) return;
    ReportProgress("one device");
    if (Numbers() && Bits()) Bytes();
  }

  // Sets the status on every rank to the status of the first rank.
  void Agree() {
    if (options_.transport == nullptr) return;
    exec::Packet own;
    if (Leads()) own.push_back(static_cast<std::byte>(result_.status));
    const exec::Packet first = options_.transport->Share(own).front();
    if (first.size() == 1) result_.status = static_cast<Status>(first[0]);
  }

  void ReportProgress(const std::string& what) const {
    if (options_.stage) options_.stage(what);
  }

  bool Fail(Check check, std::string reason, std::string axis = {},
            std::string help = {}) {
    if (!options_.checks.Has(check)) return true;
    result_.status = Status::kFail;
    result_.failed = check;
    result_.reason = std::move(reason);
    result_.axis = std::move(axis);
    result_.help = std::move(help);
    return false;
  }

  bool Layouts() {
    if (!options_.checks.Has(Check::kLayout)) return true;
    const exec::SimMesh mesh(test_.mesh, options_.transport);
    exec::Machine machine(mesh, options_.threads, options_.seams);
    if (auto bad = ProveLayouts(test_, machine)) {
      return Fail(Check::kLayout, bad->message, bad->axis, bad->help);
    }
    return true;
  }

  static exec::OperationSettings SettingsOf(const Case& test) {
    exec::OperationSettings out = test.settings;
    out.int8_pages = HasInt8Pages(test);
    return out;
  }

  exec::OperationOutcome Operate(const Case& test,
                                 const exec::AttentionProblem& problem,
                                 exec::Transport* transport,
                                 exec::Ledger& ledger) {
    const exec::SimMesh mesh(test.mesh, transport);
    exec::Machine machine(mesh, options_.threads, options_.seams);
    exec::AttentionSpecs specs = test.specs;
    exec::OperationSettings settings = SettingsOf(test);
    if (options_.replace_inputs)
      options_.replace_inputs(problem, machine, specs, settings);
    exec::OperationOutcome out =
        test.operation->run(machine, problem, specs, settings);
    ledger = exec::SumOverRanks(transport, machine.ledger());
    return out;
  }

  bool Sharded() {
    outcome_ = Operate(test_, problem_, options_.transport, result_.ledger);
    result_.remarks = outcome_.remarks;
    if (!outcome_.unsupported) return true;
    // If the check kUnsupported is off, a case that cannot run passes.
    if (options_.checks.Has(Check::kUnsupported)) {
      result_.status = Status::kUnsupported;
    }
    result_.reason = outcome_.unsupported->message;
    result_.help = outcome_.unsupported->help;
    result_.axis = outcome_.unsupported->axis;
    return false;
  }

  bool OfDtype() {
    const Dtype got = outcome_.output.dtype, want = OutputDtype(test_);
    if (got == want) return true;
    return Fail(Check::kError, "the output is " + std::string(DtypeName(got)) +
                                   " where " + std::string(DtypeName(want)) +
                                   " is computed in");
  }

  // Gathers the output. Fails the case if replicas differ. If the check of
  // replicas is off, the first replica is used.
  bool ComputeUnsharded() {
    const exec::SimMesh mesh(test_.mesh, options_.transport);
    exec::LayoutError why;
    if (options_.checks.Has(Check::kReplicas)) {
      auto whole = exec::Gather(mesh, outcome_.output, why);
      if (!whole) {
        const auto fault = LayoutFault(test_);
        return Fail(
            Check::kReplicas,
            "output: " + why.message + (fault ? "; " + fault->message : ""),
            fault ? fault->axis : AxisBetween(mesh, why.devices),
            fault ? fault->help : "");
      }
      output_ = std::move(*whole);
      outcome_.output.local.clear();
      return true;
    }
    output_ = Buffer::Zeros(outcome_.output.shape, outcome_.output.dtype);
    for (int d = mesh.devices(); d > 0;) {
      --d;
      const Buffer& local = outcome_.output.local[AsIndex(d)];
      exec::CopyBlock(local, Shape(local.shape.size(), 0), output_,
                      exec::LocalStart(mesh, outcome_.output.shape,
                                       outcome_.output.spec, d),
                      local.shape);
    }
    outcome_.output.local.clear();
    return true;
  }

  static std::string AxisBetween(const exec::SimMesh& mesh,
                                 const std::vector<int>& devices) {
    if (devices.size() < 2) return "";
    for (const MeshAxis& axis : mesh.mesh().axes) {
      if (mesh.Coordinate(devices[0], axis.name) !=
          mesh.Coordinate(devices[1], axis.name)) {
        return axis.name;
      }
    }
    return "";
  }

  bool Dense() {
    std::string why;
    dense_ = DenseOptions();
    std::optional<dense::NarrowResult> right;
    if (parts_) {
      right = dense::NarrowResult{std::move(parts_->reference), {}};
    } else if (HasParts(test_, problem_)) {
      right = RightOutputInParts(why);
    } else {
      const dense::Inputs in = InputsOf(test_, problem_);
      right = RightOutput(in, why);
      if (right && NeedsLogit()) logit_ = dense::LargestLogit(in, dense_);
    }
    if (!right) {
      result_.status = Status::kUnsupported;
      result_.reason = why;
      return false;
    }
    reference_ = std::move(right->output);
    limits_.ties = std::move(right->slack);
    if (OutputDtype(test_) != Dtype::kF32 || !limits_.ties.empty()) {
      limits_.slack = SlackOf(OutputDtype(test_), reference_, limits_.ties);
    }
    if (tensors_ != nullptr) {
      tensors_->problem = problem_;
      tensors_->output = output_;
      tensors_->reference = reference_;
    }
    if (parts_ && NeedsLogit()) logit_ = parts_->largest_logit;
    return true;
  }

  // Returns true if the output is float32. Only then does the tolerance depend
  // on the largest logit.
  bool NeedsLogit() const { return OutputDtype(test_) == Dtype::kF32; }

  std::optional<dense::NarrowResult> RightOutputInParts(std::string& why) {
    auto whole = ReferenceInParts(test_, problem_, dense_, NeedsLogit(), why);
    if (!whole) return std::nullopt;
    logit_ = whole->largest_logit;
    return dense::NarrowResult{std::move(whole->output), {}};
  }

  // Computes the reference output with the arithmetic that the settings
  // request.
  std::optional<dense::NarrowResult> RightOutput(const dense::Inputs& in,
                                                 std::string& why) const {
    const dense::Narrow narrow = NarrowOf(test_);
    if (narrow.IsNarrow()) {
      return dense::NarrowAttention(in, dense_, narrow, why);
    }
    auto whole = dense::Attention(in, dense_, why);
    if (!whole) return std::nullopt;
    return dense::NarrowResult{std::move(whole->output), {}};
  }

  // Runs the same operation on one device. Returns false if it cannot run
  // there.
  bool Alone() {
    if (parts_) {
      unsharded_ = std::move(parts_->unsharded);
      return true;
    }
    const Case alone = Unsharded(test_);
    const auto run =
        [&](const exec::AttentionProblem& problem) -> std::optional<Buffer> {
      exec::Ledger none;
      exec::OperationOutcome out = Operate(alone, problem, nullptr, none);
      if (!out.unsupported) return std::move(out.output.local[0]);
      result_.status = Status::kUnsupported;
      result_.reason = "on one device: " + out.unsupported->message;
      return std::nullopt;
    };
    auto output = HasManyParts(problem_) && HasParts(test_, problem_)
                      ? OutputInParts(test_, problem_, run)
                      : run(problem_);
    if (output) unsharded_ = std::move(*output);
    return output.has_value();
  }

  bool Numbers() {
    if (!Alone()) return false;
    ReturnMemory();
    const double largest = MaxAbs(reference_);
    {
      const Array by_one = DenseOf(unsharded_, test_.layout);
      result_.unsharded = CompareOutputs(by_one, reference_);
      limits_.base = 2 * BeyondSlack(by_one, reference_, limits_.slack) +
                     ErrorFloor(largest);
    }
    limits_.cap = ErrorCap(OutputDtype(test_), largest, logit_);
    got_ = DenseOf(output_, test_.layout);
    const Judgement judged = JudgeOutput(got_, reference_, limits_);
    result_.error = judged.error;
    result_.tolerance = result_.cap = judged.allowed;
    result_.device_error = DeviceErrors(test_, got_, reference_);
    if (result_.error.non_finite) {
      const bool passes =
          Fail(Check::kFinite,
               "output is not finite at batch " +
                   std::to_string(result_.error.worst[0]) + ", token " +
                   std::to_string(result_.error.worst[1]) + ", head " +
                   std::to_string(result_.error.worst[2]) +
                   " where the reference is");
      if (!passes) {
        if (const auto fault = LayoutFault(test_)) {
          result_.axis = fault->axis;
          result_.help = fault->help;
        }
        return false;
      }
      return true;
    }
    // The maximum error is compared. With the mean of all errors, a single
    // wrong element could pass. Only tests use the mean.
    const double error = options_.checks.Has(Check::kMaximum)
                             ? result_.error.max_abs
                             : result_.error.mean_abs;
    if (Within(error, judged.allowed)) {
      if (options_.passed != nullptr) {
        options_.passed({test_, reference_, limits_, &problem_});
      }
      return true;
    }
    if (!Fail(Check::kError, "")) {
      ExplainNumbers(test_, got_, reference_, result_);
      return false;
    }
    return true;
  }

  bool Bits() {
    result_.exact = outcome_.exact;
    if (!outcome_.exact) return true;
    const int64_t at = exec::FirstDifference(output_, unsharded_);
    if (at < 0) return true;
    const Shape position = exec::PositionOf(output_.shape, at);
    return Fail(Check::kBits,
                "no reduction crosses devices, but the output's bits differ "
                "from the unsharded run's at " +
                    ShapeText(position));
  }

  void Bytes() {
    const exec::SimMesh mesh(test_.mesh);
    const exec::OperationSettings settings = SettingsOf(test_);
    exec::Traffic traffic(mesh, problem_, test_.specs, settings);
    test_.operation->bytes(traffic);
    const exec::SentBytes sent = result_.ledger.Sent();
    if (sent == traffic.sent()) {
      Moved(mesh);
      return;
    }
    Fail(Check::kLedger, BytesDiffer(mesh, sent, traffic.sent()));
  }

  // Fails the case if the bytes that ranks really sent differ from the bytes
  // that the ledger has recorded.
  void Moved(const exec::SimMesh& mesh) {
    if (options_.transport == nullptr) return;
    const std::string why = MovedDiffers(mesh, result_.ledger);
    if (!why.empty()) Fail(Check::kLedger, why);
  }

  const Case& test_;
  const exec::AttentionProblem& problem_;
  const RunOptions& options_;
  CaseTensors* tensors_;
  CaseResult result_;
  exec::OperationOutcome outcome_;
  Buffer output_, unsharded_;
  std::optional<JoinedParts> parts_;
  dense::Options dense_;
  Array reference_, got_;
  // The largest logit, on which the tolerance of a float32 output depends. It
  // is 0 if the output has another dtype.
  double logit_ = 0;
  Limits limits_;
};

}  // namespace

std::string_view StatusName(Status status) {
  static constexpr std::array<std::string_view, 3> kNames = {"pass", "fail",
                                                             "unsupported"};
  return kNames[static_cast<size_t>(status)];
}

std::string_view CheckName(Check check) {
  static constexpr std::array<std::string_view, kCheckCount> kNames = {
      "layout", "replicas",   "finite",      "error",  "bits",
      "ledger", "cache-bits", "unsupported", "maximum"};
  return kNames[static_cast<size_t>(check)];
}

CaseResult JudgeProblem(const Case& test, const exec::AttentionProblem& problem,
                        const RunOptions& options, CaseTensors* tensors) {
  return Judge(test, problem, options, tensors).Run();
}

CaseResult RunCase(const Case& test, const RunOptions& options,
                   CaseTensors* tensors) {
  if (options.stage) options.stage("test data");
  std::optional<exec::AttentionProblem> problem =
      MakeProblem(test, std::max(options.threads, 1));
  const bool large = HasManyParts(*problem);
  CaseResult result = JudgeProblem(test, *problem, options, tensors);
  // The next case has tensors of other sizes. Freed memory is therefore
  // returned to the system.
  problem.reset();
  if (large) ReturnFreedMemory();
  return result;
}

}  // namespace shardc::verify
