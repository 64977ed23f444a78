// Finds the collectives of a compiled program and computes the bytes that each
// of them sends. An instruction is a collective if CollectiveDef::opcodes
// (comm/collective.h) lists its opcode, or if it is a `send` of a pipeline.
// Computations that the entry does not reach are skipped, because they never
// run.
//
// An asynchronous collective is a pair of instructions, `-start` and `-done`.
// Only the `-start` is counted. Its bytes are computed from the types of its
// operands, because its result is a tuple that repeats the operands. For
// example:
//
//   %s = (f32[4], f32[8]) all-gather-start(%x), replica_groups={{0,1},{2,3}}
//   %x is f32[4]: each device of a group of 2 sends 16 bytes
//
// The report has the bytes of one run of a collective, multiplied by the number
// of its runs (audit/runs.h).
#include "audit/audit.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "audit/flaws.h"
#include "audit/gradients.h"
#include "audit/graph.h"
#include "audit/runs.h"
#include "audit/uses.h"
#include "comm/collective.h"
#include "cost/time.h"
#include "hlo/program.h"
#include "model/mesh_layout.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

using hlo::AttributeOf;
using hlo::MetadataOf;

// Pipelines write a permute as a `send` that is paired with a `recv`. A `send`
// that is marked as a transfer to the host is not a collective.
constexpr XlaOpcode kSend = {"send"};
constexpr std::string_view kSendPairs = "_xla_send_recv_source_target_pairs";

std::optional<CompiledCollective> CollectiveOf(std::string_view name) {
  if (name.ends_with("-start")) name.remove_suffix(6);
  return FindOpcode(name);
}

std::optional<CompiledCollective> CollectiveAt(const hlo::Instruction& at) {
  if (const auto found = CollectiveOf(at.opcode)) return found;
  const bool pipeline =
      at.opcode == "send" &&
      at.attributes.find(kSendPairs) != std::string_view::npos &&
      at.attributes.find("is_host_transfer=true") == std::string_view::npos;
  if (!pipeline) return std::nullopt;
  return CompiledCollective{Collective::kPpermute, &kSend};
}

bool IsHostTransfer(const hlo::Instruction& at) {
  if (at.opcode == "infeed" || at.opcode == "outfeed") return true;
  if (at.opcode == "send" || at.opcode == "recv") {
    return at.attributes.find("is_host_transfer=true") !=
           std::string_view::npos;
  }
  if (at.opcode != "custom-call") return false;
  const auto target = AttributeOf(at.attributes, "custom_call_target");
  return target &&
         (target->find("callback") != std::string_view::npos ||
          *target == "\"MoveToHost\"" || *target == "\"MoveToDevice\"" ||
          *target == "\"HostExecute\"");
}

// Returns whether an instruction of this opcode can be a collective or a
// transfer to the host. Other instructions are not read in full, which saves
// time.
bool MayMatter(std::string_view opcode) {
  constexpr std::string_view kOthers[] = {"send", "recv", "infeed", "outfeed",
                                          "custom-call"};
  return std::ranges::find(kOthers, opcode) != std::end(kOthers) ||
         CollectiveOf(opcode).has_value();
}

// A collective in a computation that the entry reaches. The bytes of its
// operands are those of a single run.
struct Found {
  Node node = 0;
  Block block = 0;
  const XlaOpcode* opcode = nullptr;
  Collective kind = Collective::kAllGather;
  std::shared_ptr<const Members> members = nullptr;
  struct Operand {
    // The type of one operand. If an all-to-all has one operand for each peer,
    // one entry stands for all of them: 4 operands f32[8] become f32[4,8].
    hlo::Array array;
    Node node = 0;
    Size sent = 0;
  };
  std::vector<Operand> operands;
};

class Auditor {
 public:
  Auditor(const Graph& graph, const Settings& settings, Findings& findings)
      : graph_(graph),
        settings_(settings),
        findings_(findings),
        names_(settings.mesh, graph.program().devices),
        tracer_(graph),
        entry_(graph),
        elementwise_(graph) {
    if (settings.mesh != nullptr && settings.profile != nullptr) {
      network_ = cost::NetworkOf(*settings.profile, *settings.mesh);
    }
  }

  std::optional<Report> Run() {
    std::vector<Size> sent(graph_.program().computations.size(), Size(0));
    std::vector<Node> hosts;
    const hlo::Instructions& instructions = graph_.program().instructions;
    // Whether MayMatter accepts the opcode; indexed by the opcode's number.
    std::vector<bool> matters;
    for (const std::string_view opcode : instructions.opcodes()) {
      matters.push_back(MayMatter(opcode));
    }
    for (const Block block : graph_.order()) {
      const hlo::Computation& computation = graph_.BlockAt(block);
      for (Node node = computation.begin; node < computation.end; ++node) {
        if (!matters[instructions.OpcodeNumber(node)]) continue;
        if (IsHostTransfer(graph_.At(node))) hosts.push_back(node);
        if (!Add(node, block, sent[block])) return std::nullopt;
      }
    }
    if (found_.empty() && RefuseUnpartitioned()) return std::nullopt;
    std::ranges::sort(found_, {}, &Found::node);
    ReadProgram();
    const Runs runs = CountRuns(graph_, tracer_, sent);
    Report out;
    out.program = graph_.program().name;
    out.devices = graph_.program().devices;
    out.frames = &graph_.program().frames;
    if (settings_.mesh != nullptr) {
      out.mesh = *settings_.mesh;
      out.profile = settings_.profile;
    }
    Size times_in_all = 0, total = 0;
    size_t operands = 0;
    for (const Found& one : found_) operands += one.operands.size();
    out.traffic.reserve(operands);
    for (Found& one : found_) {
      const Size times = runs.of[one.block];
      if (times.value() == 0) continue;
      times_in_all += times * std::max<int64_t>(1, std::ssize(one.operands));
      AddTraffic(one, times, out, total);
      one.operands = {};  // frees memory: AddTraffic copied the operands
    }
    if (!times_in_all.Fits() || !total.Fits()) {
      findings_.Add(code::kOverflow, {graph_.program().source},
                    "the bytes that this program sends do not fit in 64 bits",
                    "are the trip counts of its loops right?");
      return std::nullopt;
    }
    out.sent = total.value();
    for (const Traffic& one : out.traffic) out.calls += one.calls.value();
    if (out.profile != nullptr) {
      out.seconds = 0;
      for (const Traffic& one : out.traffic) {
        *out.seconds += one.seconds.value_or(0);
      }
    }
    AddRemarks(runs.unknown_loops, out.unknown_loops);
    AddRemarks(runs.conditionals, out.conditionals);
    std::ranges::sort(hosts);
    AddRemarks(hosts, out.host_transfers);
    out.flaws =
        FlawsOf(graph_, tracer_, entry_, out,
                [this](std::string_view metadata) { return LineOf(metadata); });
    return out;
  }

 private:
  bool Refuse(std::string_view at, std::string message) {
    findings_.Add(code::kForeignSyntax, graph_.program().PlaceOf(at),
                  std::move(message),
                  "is the file damaged? If XLA wrote it so, report it");
    return false;
  }

  // Adds a finding and returns true if the program has not been partitioned
  // yet, so that it has no collectives. Before partitioning, operations have a
  // `sharding` attribute. The opcodes of kKept are not checked. Parameters keep
  // the attribute when they are partitioned, and compiler passes copy it to the
  // other opcodes.
  bool RefuseUnpartitioned() {
    if (graph_.program().devices == 1) return false;
    constexpr std::string_view kKept[] = {"parameter",
                                          "copy",
                                          "copy-start",
                                          "copy-done",
                                          "bitcast",
                                          "tuple",
                                          "get-tuple-element",
                                          "opt-barrier",
                                          "while",
                                          "conditional",
                                          "call",
                                          "fusion",
                                          "infeed",
                                          "outfeed",
                                          "send",
                                          "send-done",
                                          "recv",
                                          "recv-done"};
    for (const Block block : graph_.order()) {
      const hlo::Computation& computation = graph_.BlockAt(block);
      for (Node node = computation.begin; node < computation.end; ++node) {
        const hlo::Instruction at = graph_.At(node);
        if (std::ranges::find(kKept, at.opcode) != std::end(kKept)) continue;
        const bool sharded =
            at.opcode == "custom-call"
                ? AttributeOf(at.attributes, "custom_call_target") ==
                      "\"Sharding\""
                : AttributeOf(at.attributes, "sharding").has_value();
        if (!sharded) continue;
        findings_.Add(
            code::kForeignSyntax, graph_.program().PlaceOf(at.name),
            ShortQuote(at.name) +
                " has a sharding: no compiler has partitioned this program yet",
            "write it with `jax.jit(f).lower(...).compile().as_text()`, or "
            "use a file `*after_spmd-partitioning*.txt` or "
            "`*after_optimizations.txt` of --xla_dump_to");
        return true;
      }
    }
    return false;
  }

  // If the instruction is a collective, adds the collective to `found_`, and
  // increases `sent` by the bytes that one run sends. Skips a repeated copy of
  // a collective (ContinuesChain). Returns false after a finding.
  bool Add(Node node, Block block, Size& sent) {
    const hlo::Instruction at = graph_.At(node);
    const auto collective = CollectiveAt(at);
    if (!collective || ContinuesChain(at, block)) return true;
    Found found{node, block, collective->opcode, collective->kind, nullptr, {}};
    // TPU programs write a reduce-scatter as a fusion of an all-reduce and of
    // the slice that each device keeps. The name of the fused computation
    // begins with `all-reduce-scatter`.
    if (found.kind == Collective::kAllReduce &&
        graph_.BlockAt(block).name.starts_with("all-reduce-scatter")) {
      found.kind = Collective::kReduceScatter;
    }
    if (!ReadMembers(at, found) || !ReadOperands(found)) return false;
    for (const Found::Operand& one : found.operands) sent += one.sent;
    found_.push_back(std::move(found));
    return true;
  }

  // Returns whether the instruction is a repeated copy of a collective that has
  // been counted already. TPU programs interleave a collective with matrix
  // matmuls as a chain of fusions, and each fusion holds a copy of the
  // collective. Only the copy in the first fusion is counted. The root of the
  // first fusion is marked `AsyncCollectiveStart`.
  bool ContinuesChain(const hlo::Instruction& at, Block block) const {
    const auto attributes = AttributeOf(at.attributes, "frontend_attributes");
    if (!attributes ||
        attributes->find("chain_id=") == std::string_view::npos) {
      return false;
    }
    const hlo::Instruction root = graph_.At(graph_.BlockAt(block).root);
    return root.attributes.find("\"AsyncCollectiveStart\"") ==
           std::string_view::npos;
  }

  bool ReadMembers(const hlo::Instruction& at, Found& found) {
    const bool pairs = DefOf(found.kind).route == Route::kShift;
    std::string_view text;
    if (found.opcode == &kSend) {
      text = at.attributes.substr(at.attributes.find(kSendPairs));
      text.remove_prefix(std::min(text.find('=') + 1, text.size()));
      // Older versions of XLA put the value in quotes.
      if (text.starts_with('"')) text.remove_prefix(1);
    } else if (pairs) {
      text = AttributeOf(at.attributes, "source_target_pairs").value_or("");
    } else if (const auto groups =
                   AttributeOf(at.attributes, "replica_groups")) {
      text = at.attributes.substr(
          static_cast<size_t>(groups->data() - at.attributes.data()));
    }
    auto members = pairs ? names_.OfPairs(text) : names_.OfGroups(text);
    if (members == nullptr) {
      return Refuse(text.empty() ? at.name : text.substr(0, 60),
                    "the devices of this collective cannot be read");
    }
    found.members = std::move(members);
    return true;
  }

  bool ReadOperands(Found& found) {
    const hlo::Instruction at = graph_.At(found.node);
    const auto nodes = graph_.Operands(found.node);
    std::string_view list = at.operands;
    size_t index = 0;
    for (std::string_view item; hlo::NextItem(list, item); ++index) {
      // Of `send` and `ragged-all-to-all`, only operand 0 is sent. The other
      // operands are result buffers, offsets, sizes and tokens.
      const bool first_only = found.opcode == &kSend || found.opcode->at_most;
      if (index > 0 && first_only) break;
      const Node node = nodes[index];
      if (node == kNoNode) {
        return Refuse(item, "the text does not define the operand " +
                                ShortQuote(hlo::NameOfOperand(item)));
      }
      for (hlo::Array& array : hlo::ArraysOf(graph_.At(node).type)) {
        if (array.bits > 0) found.operands.push_back({std::move(array), node});
      }
    }
    // An all-to-all may have one operand for each peer. The operands are then
    // counted as one array.
    if (DefOf(found.kind).route == Route::kPairs && found.operands.size() > 1) {
      Join(found.operands);
    }
    for (Found::Operand& one : found.operands) one.sent = SentOf(found, one);
    return true;
  }

  static void Join(std::vector<Found::Operand>& operands) {
    Found::Operand all = std::move(operands.front());
    const auto count = std::ssize(operands);
    all.array.dims.insert(all.array.dims.begin(), count);
    operands = {std::move(all)};
  }

  static Size SentOf(const Found& found, const Found::Operand& operand) {
    const bool packed = operand.array.bits % 8 != 0;
    const Size elements =
        packed ? operand.array.Bytes() : operand.array.Elements();
    const int64_t width = packed ? 1 : operand.array.bits / 8;
    const Size bytes = elements * width;
    if (!bytes.Fits()) return bytes;
    return CompiledSent(found.kind, elements.value(), width,
                        found.members->size, found.members->edges);
  }

  // Returns the metadata of a collective. If the collective's own metadata have
  // no source line, returns the metadata of the instruction that calls the
  // computation with the collective: a fusion, a call or an asynchronous start.
  std::string_view DescribedBy(const Found& found) const {
    const std::string_view own = MetadataOf(graph_.At(found.node));
    const Call* call = graph_.CallOf(found.block);
    if (call == nullptr || call->kind != CallKind::kOnce) return own;
    if (!graph_.program().frames.StackOf(own).empty()) return own;
    const std::string_view around = MetadataOf(graph_.At(call->from));
    return around.empty() ? own : around;
  }

  // Finds the parameters of gradients, if a collective sums them.
  void ReadProgram() {
    const bool trains = std::ranges::any_of(found_, [&](const Found& one) {
      return PhaseOf(hlo::MemberOf(DescribedBy(one), "op_name").value_or("")) ==
             Phase::kBackward;
    });
    if (trains) gradients_.emplace(graph_, entry_);
  }

  // Returns the user's line of an operation. The helpers that constrain
  // shardings are found when the first line of a constraint is needed.
  hlo::SourceLine LineOf(std::string_view metadata) {
    const auto name = hlo::MemberOf(metadata, "op_name").value_or("");
    if (name.find("sharding_constraint") == std::string_view::npos) {
      return hlo::UserLine(graph_.program().frames.StackOf(metadata));
    }
    if (!helpers_) helpers_.emplace(graph_.program());
    return helpers_->LineOf(metadata);
  }

  void AddTraffic(const Found& found, Size times, Report& out, Size& total) {
    Traffic one;
    one.kind = found.kind;
    one.at_most = found.opcode->at_most;
    one.members = found.members;
    const std::string_view metadata = DescribedBy(found);
    const auto name = hlo::MemberOf(metadata, "op_name").value_or("");
    one.phase = PhaseOf(name);
    one.scope = ScopeOf(name);
    one.metadata = metadata;
    one.line = LineOf(metadata);
    one.node = found.node;
    one.calls = times;
    one.times = times;
    Size all = 0;
    for (const auto& operand : found.operands) all += operand.sent;
    const auto seconds = SecondsOf(found, all);
    for (const auto& operand : found.operands) {
      one.moved = MovedBy(found, one.operand, one.phase, times.value());
      one.sent = operand.sent * times;
      if (operand.sent.value() == 0) one.sent = 0;
      total += one.sent;
      one.seconds.reset();
      if (seconds && all.value() > 0 && times.Fits()) {
        one.seconds = *seconds * static_cast<double>(times.value()) *
                      static_cast<double>(operand.sent.value()) /
                      static_cast<double>(all.value());
      } else if (seconds) {
        one.seconds = 0;
      }
      out.traffic.push_back(one);
      one.calls = 0;
      ++one.operand;
    }
  }

  // Returns the tensor that a collective moves. Its name is that of an entry
  // parameter: the one from which the operand comes, the one whose gradient the
  // operand is (audit/gradients.h), or the one whose new value is gathered. If
  // none is known, an operand with the shape of a parameter is taken for a
  // parameter in a gather, and for a gradient in a sum of the backward pass,
  // but has no name: other tensors have the same shapes.
  Moved MovedBy(const Found& found, int64_t index, Phase phase, int64_t runs) {
    const Found::Operand& operand = found.operands[AsIndex(index)];
    Moved out = entry_.Of(tracer_.SourceOf({operand.node, {}}).node);
    if (out.what == What::kActivation) {
      if (DefOf(found.kind).reduces) {
        const bool may_be = gradients_ && phase != Phase::kForward &&
                            phase != Phase::kRecomputed;
        const auto parameter =
            may_be ? gradients_->ParameterOf({found.node, index})
                   : std::nullopt;
        if (parameter) {
          out = {What::kGradient, entry_.Of(*parameter).name, {}};
        } else if (phase == Phase::kBackward &&
                   entry_.HasGradient(operand.array, runs,
                                      found.members->size)) {
          out.what = What::kGradient;
        }
      } else if (found.kind == Collective::kAllGather &&
                 operand.array.dims.size() > 1) {
        const auto parameter = UpdatedBy(operand.node);
        if (parameter) out = entry_.Of(*parameter);
        if (!parameter && entry_.HasShape(operand.array, runs)) {
          out.what = What::kParameter;
        }
      }
    }
    out.shape = operand.array.Text();
    return out;
  }

  // Returns the parameter of the entry whose new value this is: the only one
  // from which it is computed by elements, or the only one of several with
  // which the model computes. Returns nullopt if it is not known.
  std::optional<Node> UpdatedBy(Node value) {
    auto arguments = elementwise_.OriginsOf({value, {}}).arguments;
    std::erase_if(arguments, [&](Node argument) {
      return entry_.Of(argument).what != What::kParameter;
    });
    if (arguments.size() == 1) return *arguments.begin();
    return gradients_ ? gradients_->UsedOf(arguments) : std::nullopt;
  }

  std::optional<double> SecondsOf(const Found& found, Size sent) const {
    if (!network_ || !found.members->named || !sent.Fits()) {
      return std::nullopt;
    }
    const auto place =
        cost::SpanOf(*settings_.mesh, *network_, found.members->axes);
    return cost::CollectiveSeconds(*network_, place, found.kind,
                                   static_cast<double>(sent.value()));
  }

  void AddRemarks(const std::vector<Node>& nodes, std::vector<Remark>& out) {
    for (const Node node : nodes) {
      const hlo::Instruction at = graph_.At(node);
      out.push_back(
          {std::string(at.name),
           hlo::UserLine(graph_.program().frames.StackOf(MetadataOf(at))),
           at.name});
    }
  }

  const Graph& graph_;
  const Settings& settings_;
  Findings& findings_;
  MemberNames names_;
  Tracer tracer_;
  Entry entry_;
  Elementwise elementwise_;
  // nullopt without sharding constraints
  std::optional<ConstraintFunctions> helpers_;
  std::optional<Gradients> gradients_;    // nullopt without a backward pass
  std::optional<cost::Network> network_;  // nullopt without a mesh or a profile
  std::vector<Found> found_;
};

}  // namespace

std::optional<Report> Audit(const hlo::Program& program,
                            const Settings& settings, Findings& findings) {
  if (settings.mesh != nullptr && settings.mesh->devices != program.devices) {
    findings.Add(code::kDeviceCount, program.PlaceOf(program.name),
                 "this program runs on " + Counted(program.devices, "device") +
                     ", and the mesh " + MeshText(*settings.mesh) + " has " +
                     CountText(settings.mesh->devices),
                 "give the mesh that the program was compiled for");
    return std::nullopt;
  }
  const auto graph = Graph::Of(program, findings);
  if (!graph) return std::nullopt;
  return Auditor(*graph, settings, findings).Run();
}

// Finds the mesh axes that describe groups of devices. On a mesh dp:2,tp:2 the
// groups {0,2},{1,3} differ along dp: device 0 has the coordinates (0,0) and
// device 2 has (1,0). A set of axes describes the groups on two conditions.
// Each group has one member for each coordinate along these axes, and the
// members of a group have the same coordinates along all other axes. The order
// of groups and of members does not matter.

namespace {

// The text of a group without axis names lists at most this many devices.
constexpr size_t kShown = 8;

std::string DevicesText(const std::vector<int64_t>& group) {
  std::string out = "devices";
  for (size_t i = 0; i < std::min(group.size(), kShown); ++i) {
    out += " " + std::to_string(group[i]);
  }
  return group.size() > kShown ? out + " ..." : out;
}

// Marks the axes along which the coordinates of the devices `first` and `other`
// differ.
void MarkDifferent(const Mesh& mesh, int64_t first, int64_t other,
                   std::vector<bool>& differs) {
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i > 0; --i) {
    const int64_t size = mesh.axes[i - 1].size;
    if (first / stride % size != other / stride % size) differs[i - 1] = true;
    stride *= size;
  }
}

// Returns the groups at the beginning of `text`, without the attributes that
// follow. The result is the key of a cache, so that equal groups are read only
// once.
std::string_view GroupsText(std::string_view text) {
  const bool mesh = text.starts_with("mesh") || text.starts_with('@');
  std::string_view rest = text;
  std::string_view item;
  if (!hlo::NextItem(rest, item)) return {};
  if (mesh && item.find('{') == std::string_view::npos) {
    // The axes are in the next item, as in `device_ids=(...) {'a'}`.
    hlo::NextItem(rest, item);
  }
  return text.substr(
      0, static_cast<size_t>(item.data() + item.size() - text.data()));
}

}  // namespace

std::string AxesText(const AxisGroup& axes) {
  std::string out = Join(axes, "+");
  return out.empty() ? "none" : out;
}

bool MemberNames::Afford(std::string_view text) {
  steps_left_ -= devices_ + static_cast<int64_t>(text.size());
  return steps_left_ >= 0;
}

std::shared_ptr<const Members> MemberNames::OfGroups(std::string_view text) {
  text = GroupsText(text);
  const auto [found, added] = groups_.try_emplace(text);
  if (!added) return found->second;
  if (!Afford(text)) return nullptr;
  auto groups = hlo::ReadGroups(text, devices_);
  if (!groups) return nullptr;
  Members out;
  for (auto& group : *groups) {
    std::ranges::sort(group);
    out.size = std::max<int64_t>(out.size, std::ssize(group));
  }
  Name(*groups, out);
  return found->second = std::make_shared<const Members>(std::move(out));
}

void MemberNames::Name(const hlo::Groups& groups, Members& out) const {
  if (!groups.empty())
    out.text = DevicesText(*std::ranges::min_element(groups));
  if (out.size == 1) out.text = "none";
  if (mesh_ == nullptr) return;
  std::vector<bool> differs(mesh_->axes.size(), false);
  for (const auto& group : groups) {
    for (const int64_t device : group) {
      MarkDifferent(*mesh_, group.front(), device, differs);
    }
  }
  AxisGroup axes;
  int64_t size = 1;
  for (size_t i = 0; i < differs.size(); ++i) {
    if (!differs[i]) continue;
    axes.push_back(mesh_->axes[i].name);
    size *= mesh_->axes[i].size;
  }
  // The members of a group are distinct devices that differ only along these
  // axes, so a group has at most `size` members: 4 for the axes dp:2 and tp:2.
  // A group of `size` members therefore has every coordinate along the axes.
  const bool exact = std::ranges::all_of(groups, [&](const auto& group) {
    return std::ssize(group) == size &&
           std::ranges::adjacent_find(group) == group.end();
  });
  if (!exact) return;
  out.named = true;
  out.text = AxesText(axes);
  out.axes = std::move(axes);
}

std::shared_ptr<const Members> MemberNames::OfPairs(std::string_view text) {
  const auto [found, added] = pairs_.try_emplace(text);
  if (!added) return found->second;
  if (!Afford(text)) return nullptr;
  const auto pairs = hlo::ReadPairs(text, devices_);
  if (!pairs) return nullptr;
  Members out;
  std::vector<bool> differs(mesh_ == nullptr ? 0 : mesh_->axes.size(), false);
  std::vector<int64_t> sends(AsIndex(devices_), 0);
  for (const auto& [source, target] : *pairs) {
    if (source == target) continue;  // a device sends nothing to itself
    out.edges = std::max(out.edges, ++sends[AsIndex(source)]);
    if (out.text.empty()) out.text = DevicesText({source, target});
    if (mesh_ != nullptr) MarkDifferent(*mesh_, source, target, differs);
  }
  out.size = out.edges == 0 ? 1 : 2;
  if (out.edges == 0) out.text = "none";
  for (size_t i = 0; i < differs.size(); ++i) {
    if (differs[i]) out.axes.push_back(mesh_->axes[i].name);
  }
  out.named = mesh_ != nullptr;
  if (!out.axes.empty()) out.text = AxesText(out.axes);
  return found->second = std::make_shared<const Members>(std::move(out));
}

// Adds up the traffic of a report into the rows of a table. A table is either
// by one property of the collectives, such as their source line, or by all
// properties (By::kAll). By one property, a row is the sum of all collectives
// with the same value of this property. By all properties, a row is the sum of
// the collectives for which all properties are the same except the scope (the
// named scopes of the program, such as `layer/attn`). For example, a table by
// kind has two rows:
//
//   all_gather  12 times,  96 KiB
//   all_reduce  17 times, 265 KiB

namespace {

std::string KeyOf(const Traffic& one, By by) {
  switch (by) {
    case By::kLine:
      return LineText(one.line);
    case By::kParameter:
      return MovedText(one.moved);
    case By::kAxes:
      return one.members->text;
    case By::kKind:
      return std::string(CollectiveName(one.kind));
    case By::kScope:
      return one.scope.empty() ? "-" : one.scope;
    case By::kAll:
      break;
  }
  std::string out;
  for (const std::string& part :
       {std::string(CollectiveName(one.kind)), one.members->text,
        std::string(PhaseName(one.phase)), MovedText(one.moved),
        one.moved.shape, LineText(one.line)}) {
    out += part + '\n';
  }
  return out;
}

}  // namespace

std::optional<By> ParseBy(std::string_view name) {
  const auto* found = std::ranges::find(kByNames, name);
  if (found == std::end(kByNames)) return std::nullopt;
  return static_cast<By>(found - std::begin(kByNames));
}

std::string LineText(const hlo::SourceLine& line) {
  if (line.file.empty()) return "-";
  std::string out = std::string(line.file) + ":" + std::to_string(line.line);
  if (!line.function.empty()) out += " " + std::string(line.function);
  return out;
}

std::string MovedText(const Moved& moved) {
  const std::string what(WhatName(moved.what));
  if (moved.what == What::kGradient && !moved.name.empty()) {
    return what + " of " + moved.name;
  }
  return moved.name.empty() ? what : moved.name;
}

std::vector<Row> Tabulate(const Report& report, By by) {
  std::vector<Row> rows;
  std::unordered_map<std::string, size_t> row_of;
  for (const Traffic& one : report.traffic) {
    const auto [found, added] = row_of.try_emplace(KeyOf(one, by), rows.size());
    if (added) rows.push_back({found->first, &one, 0, 0, 0, {}});
    Row& row = rows[found->second];
    row.times += one.times.value();
    row.calls += one.calls.value();
    row.sent += one.sent.value();
    if (one.seconds) row.seconds = row.seconds.value_or(0) + *one.seconds;
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) {
    return a.sent != b.sent ? a.sent > b.sent : a.key < b.key;
  });
  if (by == By::kAll) {
    for (Row& row : rows) row.key.clear();
  }
  return rows;
}

}  // namespace shardc::audit
