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
// The tolerance depends on the case. For example, a float32 output has elements
// up to 1, and its error on one device is 1.5e-07. The tolerance is twice this
// error plus 16 roundoffs of 2^-24: 1.3e-06.
#include "verify/judge/run_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "dense/narrow.h"
#include "exec/attention/traffic.h"
#include "exec/machine/agreement.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "source/process.h"
#include "source/size.h"
#include "verify/cases/case.h"
#include "verify/cases/problem_data.h"
#include "verify/judge/explain.h"

namespace shardc::verify {
namespace {

// Checks collectives on tensors in which each element is its own index: 0, 1, 2
// and so on. After each collective, a device must hold exactly the indices of
// its shard. With real data, equal values could hide an error. Large tensors
// are replaced by smaller ones with two elements for each shard. For example, a
// tensor [4] is sharded over tp=2:
//
//   devices hold 0 1 and 2 3; after all_gather, both must hold 0 1 2 3

using exec::LayoutError;
using exec::Machine;
using exec::ShardedTensor;

std::optional<LayoutError> Named(std::optional<LayoutError> bad,
                                 std::string_view tensor,
                                 std::string_view step) {
  if (bad) {
    bad->message =
        std::string(tensor) + " " + std::string(step) + ": " + bad->message;
  }
  return bad;
}

// `t` is a tensor of ids, in which each element is its own index. Gathers each
// sharded dimension, from the last to the first. Returns an error if a device
// then does not hold exactly the ids that it should hold.
std::optional<LayoutError> ProveGather(Machine& machine, ShardedTensor t,
                                       std::string_view name) {
  for (size_t d = t.shape.size(); d > 0;) {
    --d;
    if (machine.mesh().Parts(t.spec[d]) == 1) continue;
    t.local = exec::AllGather(machine, t.spec[d], t.local, d, name);
    t.spec[d].clear();
    if (auto bad =
            Named(CheckCoverage(machine.mesh(), t), name, "after all_gather")) {
      return bad;
    }
  }
  return std::nullopt;
}

// Exchanges length for heads by all_to_all and back, if the shape allows this.
// Returns an error if an id is in a wrong place.
std::optional<LayoutError> ProveExchange(Machine& machine,
                                         const ShardedTensor& whole,
                                         std::string_view name) {
  const AxisGroup axes = whole.spec[1];
  const int64_t n = machine.mesh().Parts(axes);
  if (n == 1 || whole.local[0].shape[2] % n != 0) return std::nullopt;
  ShardedTensor t = whole;
  t.local = exec::AllToAll(machine, axes, t.local, 2, 1, name);
  t.spec[1].clear();
  t.spec[2].insert(t.spec[2].end(), axes.begin(), axes.end());
  if (auto bad =
          Named(CheckCoverage(machine.mesh(), t), name, "after all_to_all")) {
    return bad;
  }
  t.local = exec::AllToAll(machine, axes, t.local, 1, 2, name);
  return Named(CheckCoverage(machine.mesh(),
                             {whole.shape, whole.dtype, whole.spec, t.local}),
               name, "after all_to_all there and back");
}

// Checks reduce_scatter on a tensor of ids, in which each element is its own
// index. Member 0 of each group contributes the ids and all other members
// contribute zeros, so the sum must equal the ids.
std::optional<LayoutError> ProveReduceScatter(Machine& machine,
                                              const ShardedTensor& split,
                                              size_t dim,
                                              std::string_view name) {
  const AxisGroup axes = split.spec[dim];
  if (machine.mesh().Parts(axes) == 1) return std::nullopt;
  ShardedTensor t = split;
  LayoutError why;
  const exec::Buffer ids = exec::UniqueIds(split.shape);
  Spec joined = split.spec;
  joined[dim].clear();
  t = exec::Scatter(machine.mesh(), ids, joined);
  for (int d = 0; d < machine.devices(); ++d) {
    if (!machine.mesh().Holds(d)) continue;
    if (machine.mesh().Index(d, axes) == 0) continue;
    auto& local = t.local[AsIndex(d)];
    local = exec::Buffer::Zeros(local.shape, local.dtype);
  }
  t.local = exec::ReduceScatter(machine, axes, t.local, dim, name);
  t.spec = split.spec;
  return Named(CheckCoverage(machine.mesh(), t), name, "after reduce_scatter");
}

// If a tensor's number of elements times the number of devices exceeds this
// limit, a smaller tensor of ids is checked in its place.
constexpr int64_t kMostIds = int64_t{1} << 24;

// Returns a layout in which the reshard of a tensor of ids (elements that are
// their own index) from the spec of `laid` to the spec `other` can be checked.
// This is `laid` itself if its ids fit within kMostIds. Otherwise it has a
// smaller shape. If `laid` splits a dimension into m parts and `other` splits
// it into n, the new size is 2 lcm(m, n). A dimension keeps its size if that is
// smaller than the new size, or no multiple of lcm(m, n). The new sizes
// distinguish all shards of both specs, since the offset and the length of a
// slice are linear in the dimension's length.
exec::TensorSharding Reduced(const exec::SimMesh& mesh,
                             exec::TensorSharding laid, const Spec& other) {
  if (exec::ElementsOf(laid.shape) * mesh.devices() <= kMostIds) return laid;
  for (size_t d = 0; d < laid.shape.size(); ++d) {
    const int64_t own = mesh.Parts(laid.spec[d]);
    const int64_t target = d < other.size() ? mesh.Parts(other[d]) : 1;
    // Both numbers of shards divide a legal dimension, so their least common
    // multiple divides it too.
    const int64_t unit = std::lcm(own, target);
    if (laid.shape[d] % unit != 0) continue;
    laid.shape[d] = std::min(laid.shape[d], 2 * unit);
  }
  return laid;
}

std::optional<LayoutError> ProveTensor(Machine& machine,
                                       const exec::TensorSharding& given,
                                       const Spec& other,
                                       std::string_view name) {
  const exec::SimMesh& mesh = machine.mesh();
  if (CheckLayout(mesh, given.shape, given.spec)) return std::nullopt;
  const exec::TensorSharding laid = Reduced(mesh, given, other);
  const ShardedTensor t =
      exec::Scatter(mesh, exec::UniqueIds(laid.shape), laid.spec);
  if (auto bad = Named(CheckCoverage(mesh, t), name, "as scattered")) {
    return bad;
  }
  if (auto bad = ProveGather(machine, t, name)) return bad;
  if (auto bad = ProveExchange(machine, t, name)) return bad;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (auto bad = ProveReduceScatter(machine, t, d, name)) return bad;
  }
  for (const Spec& target : {other, Spec(laid.shape.size())}) {
    if (CheckLayout(mesh, laid.shape, target)) continue;
    const ShardedTensor moved = exec::Reshard(machine, t, target, name);
    if (auto bad = Named(CheckCoverage(mesh, moved), name, "as moved")) {
      return bad;
    }
  }
  return std::nullopt;
}

// Checks the layouts of query, key, value and output on tensors of unique ids.
// Each tensor is scattered, gathered and reduce-scattered, and an all_to_all
// exchanges its length for heads and back. The query is also resharded to the
// output's spec, the other tensors to the query's spec, and then each tensor to
// replicated. Steps that the shape or the spec does not allow are left out.
// After each step, every device must hold exactly the elements of its shard.
// Returns the first error, or nullopt. Illegal layouts are not checked, because
// the operation refuses them.
std::optional<LayoutError> ProveLayouts(const Case& test, Machine& machine) {
  const exec::TensorSharding q = QueryOf(test), k = KeyOf(test),
                             v = ValueOf(test), o = OutputOf(test);
  if (auto bad = ProveTensor(machine, q, o.spec, "query")) return bad;
  if (auto bad = ProveTensor(machine, k, q.spec, "key")) return bad;
  if (auto bad = ProveTensor(machine, v, q.spec, "value")) return bad;
  return ProveTensor(machine, o, q.spec, "output");
}

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

// Divides the reference of a case into parts, because it needs much memory.
// Parts are assigned to ranks (processes) in turn, and each rank sends the
// results of its parts to the first rank. Messages contain only numbers: the
// sizes alone determine which bytes belong to which part.
//
//   8 rows of 8 key heads on 4 ranks: 4 parts of 2 rows
//   1 row of 8 key heads on 4 ranks: 4 parts of 2 heads

namespace {

using dense::Array;
using exec::Buffer;

size_t HeadDim(Layout layout) { return layout == Layout::kBhtd ? 1 : 2; }

int64_t Group(const exec::AttentionProblem& problem) {
  const size_t dim = HeadDim(problem.layout);
  return problem.query.shape[dim] / problem.key.shape[dim];
}

// Restricts a tensor to [begin, end) of a dimension. A dimension of size 1 is
// broadcast and therefore keeps its only element.
void Cut(std::optional<Buffer>& x, size_t dim, int64_t begin, int64_t end) {
  if (!x || x->shape[dim] == 1) return;
  x = exec::SliceDim(*x, dim, begin, end - begin);
}

// The number of elements of query, key and value in a part, 16 MiB in double.
// Parts are larger only if a case has too few rows and heads. Larger parts
// would not be faster.
constexpr int64_t kPartElements = int64_t{1} << 21;

// Returns the number of parts into which one process divides a problem, to
// compute one part after the other. There are fewer parts if the problem has
// fewer rows and heads.
int PartsInTurn(const exec::AttentionProblem& problem) {
  const int64_t elements = problem.query.Elements() + problem.key.Elements() +
                           problem.value.Elements();
  return static_cast<int>(elements / kPartElements + 1);
}

Shape OutputShape(const exec::AttentionProblem& problem) {
  Shape shape = problem.query.shape;
  shape[3] = problem.value.shape[3];
  return shape;
}

// Copies the output of a part, in the problem's layout, to its place in the
// full output `to`.
void Place(const Buffer& from, const RowsAndHeads& part,
           const exec::AttentionProblem& problem, Buffer& to) {
  Shape start(4, 0);
  start[0] = part.rows;
  start[HeadDim(problem.layout)] = part.heads * Group(problem);
  exec::CopyBlock(from, Shape(4, 0), to, start, from.shape);
}

// Copies the output of a part, [b, T, h, Dv], to its place in the full array
// `to`. `group` is the number of query heads for each key head.
void Place(const Array& from, const RowsAndHeads& part, int64_t group,
           Array& to) {
  const int64_t width = from.dim(2) * from.dim(3);
  const int64_t line = to.dim(2) * to.dim(3);
  const int64_t first = part.heads * group * to.dim(3);
  for (int64_t i = 0; i < from.dim(0) * from.dim(1); ++i) {
    std::copy_n(from.data.begin() + i * width, width,
                to.data.begin() + (part.rows * from.dim(1) + i) * line + first);
  }
}

}  // namespace

bool HasParts(const Case& test, const exec::AttentionProblem& problem) {
  return test.layout != Layout::kThd && !problem.latent && !problem.blocks &&
         problem.options.dropout == 0 && !NarrowOf(test).IsNarrow() &&
         problem.query.shape[0] == problem.key.shape[0] &&
         problem.query.shape[HeadDim(problem.layout)] %
                 problem.key.shape[HeadDim(problem.layout)] ==
             0;
}

std::vector<RowsAndHeads> PartsFor(const exec::AttentionProblem& problem,
                                   int ranks) {
  const int64_t rows = problem.key.shape[0];
  const int64_t heads = problem.key.shape[HeadDim(problem.layout)];
  const int64_t by_row = std::min<int64_t>(rows, ranks);
  const int64_t by_head =
      std::min<int64_t>(heads, (ranks + by_row - 1) / by_row);
  std::vector<RowsAndHeads> out;
  for (int64_t r = 0; r < by_row; ++r) {
    for (int64_t h = 0; h < by_head; ++h) {
      out.push_back({r * rows / by_row, (r + 1) * rows / by_row,
                     h * heads / by_head, (h + 1) * heads / by_head});
    }
  }
  return out;
}

exec::AttentionProblem PartOf(const exec::AttentionProblem& problem,
                              const RowsAndHeads& part) {
  const int64_t group = Group(problem);
  const size_t dim = HeadDim(problem.layout);
  const int64_t rows = part.end_rows - part.rows;
  const int64_t heads = part.end_heads - part.heads;
  const auto main = [&](const Buffer& x, int64_t times) {
    Shape start(x.shape.size(), 0), extent = x.shape;
    start[0] = part.rows;
    extent[0] = rows;
    start[dim] = part.heads * times;
    extent[dim] = heads * times;
    return exec::SliceBlock(x, start, extent);
  };
  exec::AttentionProblem out;
  out.layout = problem.layout;
  out.options = problem.options;
  out.query = main(problem.query, group);
  out.key = main(problem.key, 1);
  out.value = main(problem.value, 1);
  const auto by_row = [&](const std::optional<Buffer>& from) {
    std::optional<Buffer> x;
    if (from) x = exec::SliceDim(*from, 0, part.rows, rows);
    return x;
  };
  const auto broadcast = [&](std::optional<Buffer> x) {
    Cut(x, 0, part.rows, part.end_rows);
    Cut(x, 1, part.heads * group, part.end_heads * group);
    return x;
  };
  out.bias = broadcast(problem.bias);
  out.mask = broadcast(problem.mask);
  out.additive_mask = broadcast(problem.additive_mask);
  out.query_segments = by_row(problem.query_segments);
  out.key_segments = by_row(problem.key_segments);
  out.query_positions = by_row(problem.query_positions);
  out.key_positions = by_row(problem.key_positions);
  out.key_lengths = by_row(problem.key_lengths);
  out.key_starts = by_row(problem.key_starts);
  if (problem.softmax_aux) {
    const bool by_key = problem.softmax_aux->shape.size() == 2;
    const int64_t times = by_key ? 1 : group;
    out.softmax_aux = exec::SliceDim(*problem.softmax_aux, by_key ? 1 : 0,
                                     part.heads * times, heads * times);
  }
  return out;
}

std::optional<ReferenceOfParts> ReferenceInParts(
    const Case& test, const exec::AttentionProblem& problem,
    const dense::Options& options, bool logits, std::string& why) {
  ReferenceOfParts whole;
  const size_t dim = HeadDim(problem.layout);
  whole.output =
      Array::Zeros({problem.query.shape[0], problem.query.shape[3 - dim],
                    problem.query.shape[dim], problem.value.shape[3]});
  for (const RowsAndHeads& part : PartsFor(problem, PartsInTurn(problem))) {
    const dense::Inputs in = InputsOf(test, PartOf(problem, part));
    const auto right = dense::Attention(in, options, why);
    if (!right) return std::nullopt;
    if (logits) {
      whole.largest_logit =
          std::max(whole.largest_logit, dense::LargestLogit(in, options));
    }
    Place(right->output, part, Group(problem), whole.output);
  }
  return whole;
}

bool HasManyParts(const exec::AttentionProblem& problem) {
  return PartsInTurn(problem) > 1;
}

std::optional<Buffer> OutputInParts(const Case& test,
                                    const exec::AttentionProblem& problem,
                                    const OnOneDevice& run) {
  Buffer whole = Buffer::Zeros(OutputShape(problem), OutputDtype(test));
  for (const RowsAndHeads& part : PartsFor(problem, PartsInTurn(problem))) {
    const auto output = run(PartOf(problem, part));
    if (!output) return std::nullopt;
    Place(*output, part, problem, whole);
  }
  return whole;
}

std::optional<JoinedParts> JudgeInParts(const Case& test,
                                        const exec::AttentionProblem& problem,
                                        const dense::Options& options,
                                        bool logits, const OnOneDevice& run,
                                        exec::Transport& transport) {
  const std::vector<RowsAndHeads> parts = PartsFor(problem, transport.ranks());
  const auto ranks = AsIndex(transport.ranks());
  exec::Packet own;
  std::vector<double> largest = {0};
  bool fine = true;
  for (size_t i = AsIndex(transport.rank()); i < parts.size() && fine;
       i += ranks) {
    const exec::AttentionProblem part = PartOf(problem, parts[i]);
    std::string why;
    const dense::Inputs in = InputsOf(test, part);
    const auto right = dense::Attention(in, options, why);
    const auto alone = run(part);
    fine = right && alone;
    if (!fine) break;
    if (logits) {
      largest[0] = std::max(largest[0], dense::LargestLogit(in, options));
    }
    exec::PutAll(right->output.data, own);
    exec::PutAll(alone->real, own);
  }
  exec::PutAll(largest, own);
  for (const exec::Packet& all : transport.Share({std::byte{fine}})) {
    if (all != exec::Packet{std::byte{1}}) return std::nullopt;
  }
  std::vector<exec::Packet> out(ranks);
  out[0] = std::move(own);
  const std::vector<exec::Packet> in = transport.Exchange(std::move(out));
  JoinedParts whole;
  if (transport.rank() != 0) return whole;
  const size_t dim = HeadDim(problem.layout);
  const int64_t group = Group(problem);
  const Shape shape = OutputShape(problem);
  whole.unsharded = Buffer::Zeros(shape, OutputDtype(test));
  Shape canonical = shape;
  if (dim == 1) std::swap(canonical[1], canonical[2]);
  whole.reference = Array::Zeros(canonical);
  std::vector<std::span<const std::byte>> left(in.begin(), in.end());
  for (size_t i = 0; i < parts.size(); ++i) {
    const RowsAndHeads& part = parts[i];
    const size_t rank = i % ranks;
    Shape extent = shape;
    extent[0] = part.end_rows - part.rows;
    extent[dim] = (part.end_heads - part.heads) * group;
    Shape bthd = extent;
    if (dim == 1) std::swap(bthd[1], bthd[2]);
    Array reference = Array::Zeros(bthd);
    Buffer alone = Buffer::Zeros(extent, OutputDtype(test));
    if (!exec::TakeAll(left[rank], reference.data) ||
        !exec::TakeAll(left[rank], alone.real)) {
      transport.Stop("a part of the reference is cut short");
    }
    Place(reference, part, group, whole.reference);
    Place(alone, part, problem, whole.unsharded);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!exec::TakeAll(left[rank], largest)) {
      transport.Stop("a part's largest logit is missing");
    }
    whole.largest_logit = std::max(whole.largest_logit, largest[0]);
  }
  return whole;
}

}  // namespace shardc::verify
