// A case is run three times: on the mesh, on one device, and as the reference
// in double. Checks from the surest on, the first that fails is told: layouts
// by element numbers, replicas, finite numbers, the error, bits where no
// reduction crosses devices, and bytes by formula.
//
//   allowed is twice the one device's error and a little for rounding, under
//   a cap: 2 * 1.5e-07 + 1.1e-06 = 1.4e-06 in float32, values up to 1
#include "verify/judge/run_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "verify/cases/features.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/shapes.h"
#include "verify/judge/explain.h"
#include "verify/judge/layout_proof.h"
#include "verify/judge/narrow_bound.h"
#include "verify/judge/tolerance.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::DenseArray;

// The case on one device, everything whole.
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
    if (!Layouts() || !Sharded() || !OfDtype()) return std::move(result_);
    if (!Whole() || !Dense()) return std::move(result_);
    if (!Numbers() || !Bits()) return std::move(result_);
    Bytes();
    return std::move(result_);
  }

 private:
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
    const exec::SimMesh mesh(test_.mesh);
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

  exec::OperationOutcome Operate(const Case& test, exec::Ledger& ledger) {
    const exec::SimMesh mesh(test.mesh);
    exec::Machine machine(mesh, options_.threads, options_.seams);
    exec::AttentionSpecs specs = test.specs;
    exec::OperationSettings settings = SettingsOf(test);
    if (options_.told) options_.told(problem_, machine, specs, settings);
    exec::OperationOutcome out =
        test.operation->run(machine, problem_, specs, settings);
    ledger = machine.ledger();
    return out;
  }

  bool Sharded() {
    outcome_ = Operate(test_, result_.ledger);
    result_.remarks = outcome_.remarks;
    if (!outcome_.unsupported) return true;
    // Left out, what cannot run is taken for what passed.
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

  // The whole output, once replicas agree.
  bool Whole() {
    const exec::SimMesh mesh(test_.mesh);
    exec::Complaint why;
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
      return true;
    }
    output_ = Buffer::Zeros(outcome_.output.shape, outcome_.output.dtype);
    for (int d = mesh.devices(); d-- > 0;) {
      const Buffer& local = outcome_.output.local[static_cast<size_t>(d)];
      exec::CopyBlock(local, Shape(local.shape.size(), 0), output_,
                      exec::LocalStart(mesh, outcome_.output.shape,
                                       outcome_.output.spec, d),
                      local.shape);
    }
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
    auto in = ReferenceInputsOf(test_, problem_, why);
    std::optional<exec::ReferenceResult> reference;
    if (in) reference = exec::ReferenceAttention(*in, problem_.options, why);
    if (!reference) {
      result_.status = Status::kUnsupported;
      result_.reason = why;
      return false;
    }
    reference_ = std::move(reference->output);
    logit_ = OutputDtype(test_) == Dtype::kF32
                 ? LargestLogit(*in, problem_.options)
                 : 0;
    narrow_ = MaxAbs(NarrowBounds(*in, problem_.options, test_.settings));
    if (test_.settings.dot_bits > 0) {
      const bool blocks = test_.operation->quantises_blocks;
      const auto cut = CutOperands(*in, test_.settings.dot_bits,
                                   blocks ? test_.settings.blocksize_k : 0);
      reference = exec::ReferenceAttention(cut, problem_.options, why);
      if (reference) cut_reference_ = std::move(reference->output);
      cut_bounds_ = NarrowBounds(cut, problem_.options, test_.settings, true);
    }
    if (tensors_ != nullptr) {
      tensors_->problem = problem_;
      if (const auto table = test_.operation->block_table) {
        tensors_->problem.blocks =
            table(problem_, test_.settings, in->query.dim(1), in->key.dim(1));
      }
      tensors_->output = output_;
      tensors_->reference = reference_;
    }
    return true;
  }

  bool Numbers() {
    const Case alone = Unsharded(test_);
    exec::Ledger none;
    const exec::OperationOutcome whole = Operate(alone, none);
    if (whole.unsupported) {
      result_.status = Status::kUnsupported;
      result_.reason = "on one device: " + whole.unsupported->message;
      return false;
    }
    unsharded_ = whole.output.local[0];
    got_ = DenseOf(output_, test_.layout);
    result_.error = CompareOutputs(got_, reference_);
    result_.unsharded =
        CompareOutputs(DenseOf(unsharded_, test_.layout), reference_);
    const double largest = MaxAbs(reference_);
    result_.tolerance =
        2 * result_.unsharded.max_abs +
        ErrorFloor(OutputDtype(test_), largest, test_.settings.softmax_dtype);
    result_.cap = ErrorCap(OutputDtype(test_), largest, logit_) + narrow_;
    result_.device_error = DeviceErrors(test_, got_, reference_);
    const double limit = std::min(result_.tolerance, result_.cap);
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
    // A mean would let a single wrong element pass.
    const double judged = options_.checks.Has(Check::kMaximum)
                              ? result_.error.max_abs
                              : result_.error.mean_abs;
    if (Within(judged, limit)) return CutNumbers(largest);
    if (!Fail(Check::kError, "")) {
      ExplainNumbers(test_, got_, reference_, result_);
      return false;
    }
    return true;
  }

  // Each row against the operands as they were cut.
  bool CutNumbers(double largest) {
    const double cap = ErrorCap(OutputDtype(test_), largest, logit_);
    const int64_t dim = cut_bounds_.data.empty() ? 0 : got_.dim(3);
    for (size_t i = 0; dim > 0 && i < got_.data.size(); ++i) {
      const double error = std::abs(got_.data[i] - cut_reference_.data[i]);
      const double limit = cap + cut_bounds_.data[i / static_cast<size_t>(dim)];
      if (Within(error, limit)) continue;
      const Shape at = exec::PositionOf(got_.shape, static_cast<int64_t>(i));
      return Fail(Check::kError,
                  "output differs by " + ErrorText(error) +
                      " from attention of operands quantised to " +
                      std::to_string(test_.settings.dot_bits) + " bits where " +
                      ErrorText(limit) + " is allowed; first at batch " +
                      std::to_string(at[0]) + ", token " +
                      std::to_string(at[1]) + ", head " +
                      std::to_string(at[2]));
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
    if (!traffic.unknown().empty()) {
      result_.unchecked = "bytes are held to no formula: " + traffic.unknown();
      result_.remarks.push_back(result_.unchecked);
      return;
    }
    const int64_t sent = result_.ledger.TotalSent();
    if (sent == traffic.total()) return;
    Fail(Check::kLedger, BytesDiffer(sent, traffic.total()));
  }

  const Case& test_;
  const exec::AttentionProblem& problem_;
  const RunOptions& options_;
  CaseTensors* tensors_;
  CaseResult result_;
  exec::OperationOutcome outcome_;
  Buffer output_, unsharded_;
  DenseArray reference_, got_;
  DenseArray cut_reference_, cut_bounds_;  // empty: products are whole
  double logit_ = 0, narrow_ = 0;
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
  const exec::AttentionProblem problem =
      MakeProblem(test, std::max(options.threads, 1));
  return JudgeProblem(test, problem, options, tensors);
}

}  // namespace shardc::verify
