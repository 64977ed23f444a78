// Finds the flaws of a compiled program: communication that its author probably
// did not intend (the findings SHD601 and following). Most checks look at one
// operand of one collective. They read the report's entry for the collective
// and follow the uses of its result. For example, this program shards the batch
// over dp and fsdp:
//
//   %g = f32[8,16,64] all-gather(%h), groups over fsdp, h an activation
//   ->  an activation is gathered over an axis of the batch: SHD601 at the line
//       of %g
//
// One source line may produce an instruction for each layer. Flaws with the
// same code and line are therefore reported as one finding with the sum of
// their bytes. Flaws of different parameters remain separate.
#include "audit/flaws.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/gradients.h"
#include "audit/uses.h"
#include "comm/collective.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

constexpr int64_t kSmallBytes = 4096;
constexpr size_t kMany = 8;
// A search back from one operand ends after this many instructions.
constexpr int kMostSteps = 256;

bool IsFloat(std::string_view element) {
  return element.starts_with('f') || element.starts_with("bf");
}

// Returns whether an operand of this collective is checked for a cast to a
// wider dtype. This is the case for collectives that only move data, except
// broadcasts.
bool IsMover(Collective kind) {
  return !DefOf(kind).reduces && kind != Collective::kBroadcast;
}

class Search {
 public:
  Search(const Graph& graph, Tracer& tracer, const Entry& entry,
         const Report& report, const LineReader& line_of)
      : graph_(graph),
        tracer_(tracer),
        entry_(entry),
        elementwise_(graph),
        report_(report),
        line_of_(line_of),
        uses_(graph),
        shardings_(graph, tracer, entry, report),
        matmuls_(graph, tracer, entry, report, shardings_) {
    const hlo::Program& program = graph.program();
    optimised_ = program.IsScheduled();
    // CPU and GPU back ends widen dtypes, so their optimised programs do not
    // show the author's dtypes. TPU back ends do not. Only the text of a TPU
    // program has tiled layouts.
    keeps_dtypes_ = !optimised_ || program.HasTiles();
    for (const Traffic& one : report.traffic) {
      passes_ |= 1U << static_cast<int>(one.phase);
      traffic_.emplace(one.node, &one);
    }
  }

  std::vector<Flaw> Run() {
    for (const Traffic& one : report_.traffic) Judge(one);
    FindGatheredTwice();
    if (optimised_) FindManySmall();
    FindUnusedAxes();
    DropConsequences();
    std::vector<Flaw> out;
    for (const FoundFlaw& found : found_) {
      out.push_back(Worded(found, graph_));
    }
    return out;
  }

 private:
  using Key = std::tuple<int, std::string, std::string>;

  void Add(const Code& code, const Traffic& one, std::string detail = {},
           Level level = Level::kWarning) {
    AddOf(one.moved.what == What::kParameter ? one.moved.name : "", code, one,
          std::move(detail), level);
  }

  // Adds a flaw of a parameter, whose name is empty if it is not known. One
  // line may compute the gradients of several parameters, and outputs have no
  // line, so the parameter is a part of the key.
  void AddOf(const std::string& parameter, const Code& code, const Traffic& one,
             std::string detail = {}, Level level = Level::kWarning) {
    const std::string_view metadata = CauseOf(code, one);
    const hlo::SourceLine line =
        metadata == one.metadata ? one.line : line_of_(metadata);
    Key key{code.number, LineText(line), parameter};
    const auto [at, added] = known_.try_emplace(std::move(key), found_.size());
    if (added) {
      found_.push_back({&code,
                        level,
                        &one,
                        0,
                        0,
                        {},
                        one.phase,
                        std::move(detail),
                        parameter,
                        line,
                        metadata});
    }
    FoundFlaw& found = found_[at->second];
    found.times += one.times.value();
    found.sent += one.sent.value();
    if (found.phase != one.phase) found.phase = Phase::kNone;
    const auto over = std::ranges::find_if(found.over, [&](const auto& known) {
      return *known.first == *one.members;
    });
    if (over == found.over.end()) {
      found.over.emplace_back(one.members.get(), one.times.value());
    } else {
      over->second += one.times.value();
    }
    if (one.sent.value() > found.most->sent.value()) found.most = &one;
  }

  // Returns the metadata of the instruction for which the collective is made,
  // if it follows from the result: the sharding constraint that the gathered
  // value gets without being sliced, or the matmul (or the cast) of a
  // parameter, if the operation of the collective is a loop or its slice of a
  // layer. Otherwise returns the metadata of the collective.
  std::string_view CauseOf(const Code& code, const Traffic& one) {
    using Seek = Uses::Seek;
    const bool activation = one.moved.what == What::kActivation;
    const bool caused = &code == &code::kActivationGathered ||
                        &code == &code::kGatheredThenSliced;
    if (activation ? !caused : one.moved.what != What::kParameter) {
      return one.metadata;
    }
    const bool of_loop = !activation && IsOfLoop(one.metadata);
    const bool casts = &code == &code::kSentInWiderDtype;
    const auto found =
        uses_.Find(one.node, ElementOf(one), [&](Node user, size_t index) {
          const hlo::Instruction at = graph_.At(user);
          const std::string_view metadata = hlo::MetadataOf(at);
          const bool cause =
              of_loop ? at.opcode == "dot" || (casts && at.opcode == "convert")
                      : NameOf(metadata).ends_with("/sharding_constraint");
          if (cause && !line_of_(metadata).file.empty()) return Seek::kFound;
          const bool keeps =
              index == 0 && at.opcode != "slice" &&
              (of_loop || at.opcode != "dynamic-slice") &&
              (IsForwarding(at.opcode) || at.opcode == "dynamic-update-slice");
          return keeps || IsArithmetic(at.opcode) ||
                         at.opcode == "all-gather" ||
                         KeepsGathered(one, user, index)
                     ? Seek::kFollow
                     : Seek::kSkip;
        });
    if (found) return hlo::MetadataOf(graph_.At(*found));
    return &code == &code::kActivationGathered ? ConstraintBefore(one)
                                               : one.metadata;
  }

  // Returns the metadata of the sharding constraint that the operand of a
  // gather has got, if axes of the batch shard another dimension of it.
  // Otherwise returns the metadata of the gather.
  std::string_view ConstraintBefore(const Traffic& one) {
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    std::optional<Value> value;
    if (operand && KeepsFirst(one)) value = Value{*operand, {}};
    for (int i = 0; value && i < kMostSteps; ++i) {
      const std::string_view metadata = hlo::MetadataOf(graph_.At(value->node));
      if (NameOf(metadata).ends_with("/sharding_constraint") &&
          !line_of_(metadata).file.empty()) {
        return metadata;
      }
      value = tracer_.Back(*value);
    }
    return one.metadata;
  }

  static std::string_view NameOf(std::string_view metadata) {
    return hlo::MemberOf(metadata, "op_name").value_or("");
  }

  // Returns whether the operation is a loop, or the slice that `lax.scan` takes
  // of the layers. Its line is that of the call of `scan`.
  static bool IsOfLoop(std::string_view metadata) {
    const std::string_view name = NameOf(metadata);
    return name.ends_with("/while") ||
           name.ends_with("while/body/dynamic_slice") ||
           name.ends_with("jit(dynamic_index_in_dim)/dynamic_slice");
  }

  // Returns whether the user is a matmul whose result has the dimension that
  // the gather made. In the backward pass, such a matmul may sum it into the
  // gradient of a parameter, so none is followed there.
  bool KeepsGathered(const Traffic& gather, Node user, size_t index) const {
    const hlo::Instruction at = graph_.At(user);
    const auto operand = graph_.Operand(user, index);
    if (at.opcode != "dot" || !operand || gather.phase == Phase::kBackward ||
        gather.kind != Collective::kAllGather) {
      return false;
    }
    const auto made = hlo::ArraysOf(graph_.At(gather.node).type);
    const auto used = hlo::ArraysOf(graph_.At(*operand).type);
    const auto summed =
        hlo::AttributeOf(at.attributes, index == 0 ? "lhs_contracting_dims"
                                                   : "rhs_contracting_dims");
    return made.size() == 1 && used.size() == 1 && summed &&
           made[0].dims == used[0].dims &&
           summed != hlo::AttributeOf(graph_.At(gather.node).attributes,
                                      "dimensions");
  }

  hlo::Array ArrayOf(const Traffic& one) const {
    const auto arrays = hlo::ArraysOf(one.moved.shape);
    return arrays.empty() ? hlo::Array() : arrays[0];
  }

  // A collective with several operands returns a tuple with one result for each
  // operand. Returns the index of the operand's result in this tuple, or
  // nullopt if the collective has a single operand.
  std::optional<int64_t> ElementOf(const Traffic& one) const {
    const bool several = graph_.Operands(one.node).size() > 1;
    return several ? std::optional<int64_t>(one.operand) : std::nullopt;
  }

  // Returns whether a collective is inside of `shard_map`. The author wrote
  // such a collective (`lax.all_gather`) on purpose, so it is not reported as
  // an unnecessary gather or reduction.
  static bool IsExplicit(const Traffic& one) {
    return one.metadata.find("shard_map") != std::string_view::npos;
  }

  void Judge(const Traffic& one) {
    if (one.sent.value() == 0) return;
    if (one.kind == Collective::kAllGather && !IsExplicit(one))
      JudgeGather(one);
    const Route route = DefOf(one.kind).route;
    if ((route == Route::kShift || route == Route::kPairs) && !IsExplicit(one))
      JudgeMove(one);
    if (one.kind == Collective::kAllReduce && !IsExplicit(one)) JudgeSum(one);
    JudgeDtype(one);
  }

  // Reports a parameter that is moved to other devices, and an activation that
  // is moved for its matmul with a parameter. XLA moves neither if the spec of
  // the parameter fits the sharding constraints of the activations.
  void JudgeMove(const Traffic& one) {
    if (one.moved.what == What::kParameter) {
      return Add(code::kWeightResharded, one);
    }
    // In the backward pass, the gradient of an activation is the sum of
    // matmuls with several parameters, and is moved where another spec is
    // wrong.
    if (one.moved.what != What::kActivation || one.phase == Phase::kBackward) {
      return;
    }
    const std::string factor = matmuls_.FactorOf(one.node);
    if (!factor.empty()) return AddOf(factor, code::kWeightResharded, one);
    if (DefOf(one.kind).route != Route::kPairs) return;
    const auto sharders = ShardersOf(one);
    if (sharders.size() != 1) return;
    AddOf(*sharders.begin(), code::kWeightResharded, one,
          std::string(kOfMatmul));
  }

  // Returns the parameters whose matmuls made the operand in shards over the
  // axes of the collective.
  std::set<std::string> ShardersOf(const Traffic& one) {
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    return operand ? matmuls_.ShardersOf(*operand, *one.members)
                   : std::set<std::string>();
  }

  // Drops the activations that are moved at a line where an activation is also
  // gathered over axes of the batch: the constraint of the batch is the cause
  // there, and not the spec of the parameter.
  void DropConsequences() {
    std::set<std::string> lines;
    for (const FoundFlaw& one : found_) {
      if (one.code == &code::kActivationGathered) {
        lines.insert(LineText(one.most->line));
      }
    }
    std::erase_if(found_, [&](const FoundFlaw& one) {
      return one.code == &code::kWeightResharded &&
             one.most->moved.what == What::kActivation &&
             lines.contains(LineText(one.most->line));
    });
  }

  void JudgeGather(const Traffic& one) {
    const hlo::Array array = ArrayOf(one);
    if (one.metadata.empty() && array.dims.size() > 1 &&
        uses_.ReachOutput(one.node)) {
      return Add(code::kOutputGathered, one);
    }
    const bool sliced = uses_.AllSlice(one.node, ElementOf(one));
    const bool over_batch = shardings_.GathersBatch(one);
    const bool activation = one.moved.what == What::kActivation;
    const bool parameter = one.moved.what == What::kParameter;
    if (IsOfLookup(one) && !parameter && (sliced || over_batch)) {
      return AddOf(TableOf(one), code::kLookupOfBatch, one);
    }
    if (sliced) return Add(code::kGatheredThenSliced, one);
    if (activation && IsFloat(array.element) && array.dims.size() > 1 &&
        over_batch) {
      return Add(code::kActivationGathered, one,
                 uses_.AllSort(one.node, ElementOf(one)) ? "sorted" : "");
    }
    if (activation && IsFloat(array.element)) {
      JudgeMatmul(one);
      JudgeOfMatmul(one);
    }
    if (parameter && IsFloat(array.element) && !one.metadata.empty()) {
      JudgeIdleAxis(one, array);
    }
    const bool stacked = parameter && one.times.value() == 1 &&
                         array.dims.size() > 2 &&
                         shardings_.IsTripCount(array.dims[0]);
    if (stacked && KeepsFirst(one) && uses_.ReachLoop(one.node))
      Add(code::kWeightHoisted, one);
  }

  // Reports an activation that is gathered over axes which shard the parameter
  // of its matmul. Without a backward pass, results are often gathered on
  // purpose, so only a factor of another matmul is reported.
  void JudgeOfMatmul(const Traffic& one) {
    if (one.phase == Phase::kBackward ||
        uses_.AllSort(one.node, ElementOf(one))) {
      return;
    }
    const std::string factor = matmuls_.FactorOf(one.node);
    if (one.phase == Phase::kNone && factor.empty()) return;
    const auto sharders = ShardersOf(one);
    if (sharders.empty()) return;
    if (!factor.empty() && matmuls_.Keeps(factor, *one.members)) {
      return AddOf(factor, code::kWeightResharded, one);
    }
    AddOf(sharders.size() == 1 ? *sharders.begin() : "",
          code::kActivationGathered, one, std::string(kOfMatmul));
  }

  // Returns whether the result is a matrix of a matmul or a table of a lookup,
  // possibly after moves.
  bool IsFactorOrTable(const Traffic& one) {
    using Seek = Uses::Seek;
    return uses_
        .Find(one.node, ElementOf(one),
              [&](Node user, size_t index) {
                const std::string_view opcode = graph_.At(user).opcode;
                if (opcode == "dot" || (opcode == "gather" && index == 0)) {
                  return Seek::kFound;
                }
                return index == 0 &&
                               (IsForwarding(opcode) || opcode == "all-gather")
                           ? Seek::kFollow
                           : Seek::kSkip;
              })
        .has_value();
  }

  // Reports a matrix that is gathered over an axis which shards no data: each
  // device of the axis then computes the same. Where the axis shards no matmul
  // at all, it is reported once, after all collectives (FindUnusedAxes).
  void JudgeIdleAxis(const Traffic& one, const hlo::Array& array) {
    const auto matrix =
        std::ranges::count_if(array.dims, [](int64_t dim) { return dim > 1; });
    if (matrix < 2 || one.phase == Phase::kBackward ||
        !shardings_.KnowsInputs() || !one.members->named ||
        !IsFactorOrTable(one)) {
      return;
    }
    for (const std::string& axis : one.members->axes) {
      if (shardings_.MayShardData(axis)) continue;
      if (matmuls_.Shards(axis)) {
        return Add(code::kWeightResharded, one, axis);
      }
      idle_.emplace(axis, one.moved.name);
    }
  }

  // Returns whether the primitive of a collective's operation is a lookup.
  static bool IsOfLookup(const Traffic& one) {
    return NameOf(one.metadata).ends_with("/gather");
  }

  // Returns the name of the parameter in which the gathered indices are looked
  // up, or of which the gathered values are rows. Returns an empty text if
  // there is none or several.
  std::string TableOf(const Traffic& one) {
    std::set<std::string> names;
    if (IsFloat(ArrayOf(one).element)) {
      const auto rows = graph_.Operand(one.node, AsIndex(one.operand));
      if (!rows) return {};
      for (const Node lookup : elementwise_.OriginsOf({*rows, {}}).lookups) {
        if (auto name = TableAt(lookup)) names.insert(std::move(*name));
      }
    } else {
      if (!tables_) ReadTables();
      const auto found = tables_->find({one.node, one.operand});
      if (found != tables_->end()) names = found->second;
    }
    return names.size() == 1 ? *names.begin() : std::string();
  }

  // Returns the name of the parameter that a lookup reads; nullopt if it reads
  // another tensor.
  std::optional<std::string> TableAt(Node lookup) {
    const auto table = graph_.Operand(lookup, 0);
    if (!table) return std::nullopt;
    const Moved moved = entry_.Of(tracer_.SourceOf({*table, {}}).node);
    return moved.what == What::kParameter ? std::optional(moved.name)
                                          : std::nullopt;
  }

  void ReadTables() {
    tables_.emplace();
    for (const Block block : graph_.order()) {
      const hlo::Computation& computation = graph_.BlockAt(block);
      for (Node node = computation.begin; node < computation.end; ++node) {
        if (graph_.At(node).opcode != "gather") continue;
        const auto name = TableAt(node);
        const auto indices = graph_.Operand(node, 1);
        if (!name || !indices) continue;
        const Origins origins = elementwise_.OriginsOf({*indices, {}});
        for (const SentOperand& one : origins.collectives) {
          (*tables_)[one].insert(*name);
        }
      }
    }
  }

  // Reports a weight that is gathered over an axis for a matmul, if the
  // gathered activation `one` is the other operand and is gathered over the
  // same axis: each device along the axis then computes the entire matmul.
  void JudgeMatmul(const Traffic& one) {
    if (!one.members->named) return;
    const auto consumers = uses_.ConsumersOf(one.node, ElementOf(one));
    if (!consumers) return;
    for (const Uses::Consumer& consumer : *consumers) {
      if (graph_.At(consumer.user).opcode != "dot") continue;
      const auto other = graph_.Operand(consumer.user, 1 - consumer.index);
      if (!other) continue;
      std::optional<Value> value = Value{*other, {}};
      for (int i = 0; value && i < kMostSteps; ++i) {
        const auto [first, last] = traffic_.equal_range(value->node);
        for (auto at = first; at != last; ++at) {
          const Traffic& weight = *at->second;
          if (weight.kind != Collective::kAllGather ||
              weight.moved.what != What::kParameter || IsExplicit(weight)) {
            continue;
          }
          for (const std::string& axis : weight.members->axes) {
            if (std::ranges::find(one.members->axes, axis) !=
                one.members->axes.end()) {
              return Add(code::kWeightResharded, weight, axis);
            }
          }
        }
        value = tracer_.Back(*value);
      }
    }
  }

  // Returns whether a gather leaves dimension 0 unchanged and concatenates the
  // shards along another dimension.
  bool KeepsFirst(const Traffic& one) const {
    const auto dims =
        hlo::AttributeOf(graph_.At(one.node).attributes, "dimensions");
    return dims && *dims != "{0}";
  }

  // Reports a gradient that every device sums completely, although each device
  // keeps only a shard of the parameter. An all-reduce over axes that do not
  // shard the batch sums the gradient of an activation, and is not reported.
  void JudgeSum(const Traffic& one) {
    const hlo::Array array = ArrayOf(one);
    if ((one.phase == Phase::kForward || one.phase == Phase::kNone) &&
        one.moved.what == What::kActivation && array.dims.size() > 1 &&
        uses_.AllSlice(one.node, ElementOf(one))) {
      const auto parameter = matmuls_.SlicedFor(one, uses_);
      if (parameter) AddOf(*parameter, code::kWeightResharded, one);
      return;
    }
    const int64_t n = one.members->size;
    if (one.phase != Phase::kBackward || array.dims.size() < 2 || n < 2) return;
    if (!shardings_.MaySumOverBatch(one)) return;
    const int64_t runs = one.times.value();
    const std::string name =
        one.moved.what == What::kGradient ? one.moved.name : std::string();
    if (entry_.HasShape(array, runs, name)) return;
    if (!IsOfShards(array, runs, n, name)) return;
    if (uses_.AllSlice(one.node, ElementOf(one))) return;
    AddOf(name, code::kGradientNotScattered, one);
  }

  // Returns whether the sum `array` over `n` devices may be the entire gradient
  // of a sharded parameter: one of its dimensions is several times as large as
  // that of the parameter's shard. If `name` is not empty, it is the
  // parameter's.
  bool IsOfShards(const hlo::Array& array, int64_t runs, int64_t n,
                  std::string_view name) const {
    hlo::Array part = array;
    // The gradient of one layer may keep the layer dimension, with size 1.
    if (part.dims.size() > 2 && part.dims.front() == 1) {
      part.dims.erase(part.dims.begin());
    }
    // The parameter may be sharded over only some of the axes of the sum. Each
    // divisor of the number of devices is therefore tried as the number of the
    // parameter's shards.
    for (int64_t parts = 2; parts <= n; ++parts) {
      if (n % parts != 0) continue;
      for (int64_t& dim : part.dims) {
        if (dim % parts != 0) continue;
        dim /= parts;
        if (entry_.HasShape(part, runs, name, false)) return true;
        dim *= parts;
      }
    }
    return false;
  }

  void JudgeDtype(const Traffic& one) {
    const hlo::Array array = ArrayOf(one);
    if (!IsFloat(array.element) || array.dims.empty()) return;
    if (!keeps_dtypes_) {
      // The dtype of an argument is the author's on every back end.
      if (IsMover(one.kind) && IsArgument(one, array.bits) &&
          IsCastAfter(one)) {
        Add(code::kSentInWiderDtype, one);
      }
      return;
    }
    if (DefOf(one.kind).reduces) {
      if (IsNarrowed(one, array.bits) ||
          uses_.AllNarrow(one.node, ElementOf(one))) {
        Add(code::kSentInWiderDtype, one, "", Level::kNote);
      }
      return;
    }
    if (!IsMover(one.kind)) return;
    if (const auto narrow = NarrowerBefore(one, array.bits)) {
      Add(code::kSentInWiderDtype, one, *narrow);
    } else if (IsCastAfter(one)) {
      Add(code::kSentInWiderDtype, one);
    }
  }

  // Returns whether every device casts what it receives to a narrower type, so
  // that the sender could have done so.
  bool IsCastAfter(const Traffic& one) {
    return !IsExplicit(one) && uses_.AllNarrow(one.node, ElementOf(one));
  }

  // Returns whether the operand is an entry parameter that was not cast.
  bool IsArgument(const Traffic& one, int64_t bits) {
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    if (!operand) return false;
    const Value source = tracer_.SourceOf({*operand, {}});
    const hlo::Instruction at = graph_.At(source.node);
    const auto arrays = hlo::ArraysOf(at.type, hlo::kOneOrMore);
    return at.opcode == "parameter" && arrays.size() == 1 &&
           arrays[0].bits == bits && !NarrowerBefore(one, bits);
  }

  // Returns whether the result has fewer bits than the operand. TPU programs
  // fuse a reduction with the cast that follows it.
  bool IsNarrowed(const Traffic& one, int64_t bits) const {
    const auto results = hlo::ArraysOf(graph_.At(one.node).type);
    const size_t index = AsIndex(one.operand);
    return index < results.size() && IsFloat(results[index].element) &&
           results[index].bits < bits;
  }

  // Returns the floating-point type from which the operand was cast to a wider
  // type. Returns nullopt if it was not cast, or if a gather or a computation
  // is between the cast and the collective.
  std::optional<std::string> NarrowerBefore(const Traffic& one, int64_t bits) {
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    if (!operand) return std::nullopt;
    std::optional<Value> value = Value{*operand, {}};
    for (int i = 0; value && i < kMostSteps; ++i) {
      const hlo::Instruction at = graph_.At(value->node);
      if (at.opcode.starts_with("all-gather")) break;
      const auto before = graph_.Operand(value->node, 0);
      if (at.opcode == "convert" && before) {
        const auto arrays =
            hlo::ArraysOf(graph_.At(*before).type, hlo::kOneOrMore);
        const bool narrow = arrays.size() == 1 && IsFloat(arrays[0].element) &&
                            arrays[0].bits < bits;
        return narrow ? std::optional(std::string(arrays[0].element))
                      : std::nullopt;
      }
      value = tracer_.Back(*value);
    }
    return std::nullopt;
  }

  // Returns a text that identifies the value of an operand: its origin and the
  // slices taken of it. Two operands have equal texts only if they are slices
  // of one origin at the same positions.
  std::string WayBack(const Traffic& one) {
    const auto operand = graph_.Operand(one.node, AsIndex(one.operand));
    if (!operand) return {};
    Value value{*operand, {}};
    std::string out;
    for (int i = 0; i < kMostSteps; ++i) {
      const hlo::Instruction at = graph_.At(value.node);
      if (at.opcode == "slice") {
        out += hlo::AttributeOf(at.attributes, "slice").value_or("");
      } else if (at.opcode == "dynamic-slice") {
        // In two fusions, the offsets of different slices may have the same
        // names. The computation is therefore a part of the text.
        std::string_view list = at.operands, item;
        hlo::NextItem(list, item);
        out += std::string(list) + std::to_string(graph_.BlockOf(value.node));
      }
      auto before = tracer_.Back(value);
      if (!before) break;
      value = std::move(*before);
    }
    return out + "@" + std::to_string(value.node);
  }

  // Returns the computation in which an instruction runs. Instructions inside
  // of a fusion or an asynchronous operation run in the computation that
  // contains the fusion or the `async-start`.
  Block RunBy(Node node) const {
    Block block = graph_.BlockOf(node);
    for (const Call* call = graph_.CallOf(block);
         call != nullptr && call->kind == CallKind::kOnce &&
         graph_.At(call->from).opcode != "call";
         call = graph_.CallOf(block)) {
      block = graph_.BlockOf(call->from);
    }
    return block;
  }

  // The gathers of one shard of a parameter in one phase, such as the forward
  // pass.
  struct Gathers {
    std::set<Node> nodes;
    std::set<std::string_view> origins;  // metadata of the gathers
  };

  // Returns how many of the gathers are accepted; each further gather is
  // reported. Usually one gather is accepted. In two cases, an optimised
  // program may gather once in each of its phases (forward, backward,
  // recomputed):
  //
  //   1. All gathers have the same metadata. A back end that does not keep a
  //      gathered weight repeats the gather in the backward pass.
  //   2. The phase of the gathers is unknown, because TPU programs name a
  //      gather after its parameter.
  int64_t MostOf(const Gathers& gathers, Phase phase) const {
    const bool copies = gathers.origins.size() == 1 || phase == Phase::kNone;
    return optimised_ && copies ? std::max(1, std::popcount(passes_ & ~1U)) : 1;
  }

  void FindGatheredTwice() {
    using Once =
        std::tuple<Block, Phase, std::string, std::string, std::string>;
    std::map<Once, Gathers> known;
    for (const Traffic& one : report_.traffic) {
      if (one.kind != Collective::kAllGather || IsExplicit(one) ||
          one.moved.what != What::kParameter || one.moved.name.empty()) {
        continue;
      }
      Gathers& gathers =
          known[{RunBy(one.node), one.phase, one.moved.name,
                 one.moved.shape + one.members->text, WayBack(one)}];
      gathers.origins.insert(one.metadata);
      const bool added = gathers.nodes.insert(one.node).second;
      if (added && std::ssize(gathers.nodes) > MostOf(gathers, one.phase)) {
        Add(code::kWeightGatheredTwice, one);
      }
    }
  }

  void FindManySmall() {
    struct Group {
      const Traffic* example = nullptr;
      size_t count = 0;
      std::set<std::string_view> names;
    };
    std::map<std::tuple<Block, Collective, std::string, std::string>, Group>
        groups;
    for (const Traffic& one : report_.traffic) {
      // The permutes of a pipeline depend on each other, so they cannot be
      // combined. They are skipped.
      const bool counts = one.calls.value() > 0 && one.sent.value() > 0 &&
                          DefOf(one.kind).route != Route::kShift;
      if (!counts) continue;
      if (one.sent.value() / one.times.value() >= kSmallBytes) continue;
      Group& group =
          groups[{graph_.BlockOf(one.node), one.kind, one.members->text,
                  std::string(ArrayOf(one).element)}];
      if (group.example == nullptr) group.example = &one;
      ++group.count;
      group.names.insert(NameOf(one.metadata));
    }
    for (const auto& [key, group] : groups) {
      if (group.count < kMany || group.names.size() * 4 > group.count) continue;
      Add(code::kManySmallCollectives, *group.example,
          CountText(static_cast<int64_t>(group.count)));
    }
  }

  void FindUnusedAxes() {
    for (const MeshAxis* axis : shardings_.Unused()) {
      found_.push_back({&code::kAxisUnusedInProgram,
                        Level::kWarning,
                        nullptr,
                        axis->size,
                        0,
                        {},
                        Phase::kNone,
                        axis->name,
                        {},
                        {},
                        {}});
    }
    for (const auto& [axis, parameter] : idle_) {
      if (MovesActivations(axis)) continue;
      found_.push_back({&code::kAxisUnusedInProgram,
                        Level::kWarning,
                        nullptr,
                        report_.mesh->SizeOf(axis),
                        0,
                        {},
                        Phase::kNone,
                        axis,
                        parameter,
                        {},
                        {}});
    }
  }

  // Returns whether a collective over the axis moves more than a scalar that is
  // not a parameter. The axis then may shard activations.
  bool MovesActivations(const std::string& axis) const {
    return std::ranges::any_of(report_.traffic, [&](const Traffic& one) {
      return one.moved.what != What::kParameter && !ArrayOf(one).dims.empty() &&
             std::ranges::find(one.members->axes, axis) !=
                 one.members->axes.end();
    });
  }

  const Graph& graph_;
  Tracer& tracer_;
  const Entry& entry_;
  Elementwise elementwise_;
  const Report& report_;
  const LineReader& line_of_;
  Uses uses_;
  Shardings shardings_;
  Matmuls matmuls_;
  bool optimised_ = false, keeps_dtypes_ = false;
  // One bit for each Phase. It is set if the report has a collective of this
  // phase.
  unsigned passes_ = 0;
  std::multimap<Node, const Traffic*> traffic_;  // by the collective
  // The parameters in which the operands of collectives are looked up; nullopt
  // until the first question.
  std::optional<std::map<SentOperand, std::set<std::string>>> tables_;
  // Axes over which parameters are gathered and which shard no data and no
  // matmul, each with the first of the parameters.
  std::map<std::string, std::string> idle_;
  std::vector<FoundFlaw> found_;
  std::map<Key, size_t> known_;
};

}  // namespace

std::vector<Flaw> FlawsOf(const Graph& graph, Tracer& tracer,
                          const Entry& entry, const Report& report,
                          const LineReader& line_of) {
  std::vector<Flaw> out = Search(graph, tracer, entry, report, line_of).Run();
  std::set<std::string> hosts;
  for (const Remark& remark : report.host_transfers) {
    if (!hosts.insert(LineText(remark.line)).second) continue;
    Flaw flaw;
    flaw.code = &code::kHostTransfer;
    flaw.line = remark.line;
    flaw.at = remark.at;
    flaw.message =
        "the step transfers data to or from the host here, and "
        "waits for it";
    flaw.help =
        "remove callbacks and prints from the compiled step, or run "
        "them every so many steps";
    out.push_back(std::move(flaw));
  }
  return out;
}

}  // namespace shardc::audit
