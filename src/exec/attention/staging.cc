// Prepares the inputs of an attention operation. Inputs of any layout and dtype
// become tensors [batch, length, heads, dim] of one dtype: they are cast,
// checked against their specs, scattered to devices and transposed there. This
// file also reports inputs that no operation supports, and settings that the
// given operation does not support.
#include "exec/attention/staging.h"

#include <algorithm>
#include <array>
#include <utility>

#include "exec/attention/narrow.h"
#include "floats/convert.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exec {
namespace {

// Converts a spec in `layout` to a spec of [batch, length, heads, dim].
Spec CanonicalSpec(Spec spec, Layout layout) {
  if (layout == Layout::kThd) {
    spec = PadSpec(std::move(spec), 3);
    spec.insert(spec.begin(), AxisGroup{});
  }
  spec = PadSpec(std::move(spec), 4);
  if (layout == Layout::kBhtd) std::swap(spec[1], spec[2]);
  return spec;
}

ShardedTensor Canonical(ShardedTensor tensor, Layout layout) {
  if (layout == Layout::kBhtd) return SwapLengthAndHeads(tensor);
  if (layout == Layout::kThd) {
    tensor.shape.insert(tensor.shape.begin(), 1);
    tensor.spec.insert(tensor.spec.begin(), AxisGroup{});
    for (Buffer& local : tensor.local) {
      local.shape.insert(local.shape.begin(), 1);
    }
  }
  return tensor;
}

// Returns `x` if its dtype is `dtype`. Otherwise stores a copy, rounded to
// `dtype`, in `room` and returns `room`. With `keep_width`, the rounded numbers
// are still stored in the dtype of `x`.
const Buffer& Cast(const Buffer& x, Dtype dtype, bool keep_width,
                   Buffer& room) {
  if (x.dtype == dtype) return x;
  room = x;
  RoundAll(dtype, room.real);
  if (!keep_width) room.dtype = dtype;
  return room;
}

class Stager {
 public:
  Stager(const Machine& machine, const AttentionProblem& problem,
         const AttentionSpecs& specs, const OperationSettings& settings,
         StageOptions options, LayoutError& why,
         std::vector<std::string>& remarks)
      : mesh_(machine.mesh()),
        problem_(problem),
        specs_(specs),
        settings_(settings),
        options_(options),
        why_(why),
        remarks_(remarks) {}

  std::optional<Staged> Run() {
    Staged out;
    out.problem = &problem_;
    out.options = problem_.options;
    if (!Arithmetic(out)) return std::nullopt;
    const bool keep = options_.pages;
    Buffer room;
    Main("query", Cast(problem_.query, out.dtype, false, room), specs_.query,
         out.query);
    Main("key", Cast(problem_.key, out.dtype, keep, room), specs_.key, out.key);
    Main("value", Cast(problem_.value, out.dtype, keep, room), specs_.value,
         out.value);
    if (auto bad = Joined(std::move(bad_))) {
      why_ = std::move(*bad);
      return std::nullopt;
    }
    Shape result = out.query.shape;
    result[3] = out.value.shape[3];
    out.output =
        PadSpec(DropUnit("output",
                         CanonicalSpec(specs_.output, problem_.layout), result),
                4);
    if (auto bad = CheckLayout(mesh_, result, out.output)) {
      return Complain("output", std::move(*bad));
    }
    if (!Extra("bias", problem_.bias, specs_.bias, out.bias) ||
        !Extra("mask", problem_.mask, specs_.mask, out.mask) ||
        !Extra("mask", problem_.additive_mask, specs_.mask,
               out.additive_mask) ||
        !Extra("q_segment_ids", problem_.query_segments, specs_.query_segments,
               out.query_segments) ||
        !Extra("kv_segment_ids", problem_.key_segments, specs_.key_segments,
               out.key_segments) ||
        !Sinks(out)) {
      return std::nullopt;
    }
    out.query_positions =
        QueryPositions(problem_, out.query.shape[0], out.T(), out.S());
    out.key_positions = KeyPositions(problem_, out.key.shape[0], out.S());
    out.key_lengths = problem_.key_lengths;
    out.key_starts = problem_.key_starts;
    return out;
  }

 private:
  std::nullopt_t Complain(std::string_view name, LayoutError bad) {
    why_ = std::move(bad);
    why_.message = std::string(name) + ": " + why_.message;
    why_.tensor = name;
    return std::nullopt;
  }

  // Sets the dtype in which the operation computes. Returns false, with the
  // reason, if the inputs have no common dtype. Also returns false if the
  // settings request a softmax dtype or quantised matmuls that the operation
  // does not support.
  bool Arithmetic(Staged& out) {
    const Dtype q = problem_.query.dtype, k = problem_.key.dtype;
    auto dtype = ComputeDtype(problem_, settings_);
    if (!dtype) {
      why_.message = "query " + std::string(DtypeName(q)) + " and key " +
                     std::string(DtypeName(k)) + " have no common dtype";
      why_.help = "set runtime_dtype";
      return false;
    }
    out.dtype = *dtype;
    if (q != k || k != problem_.value.dtype) {
      remarks_.push_back("query " + std::string(DtypeName(q)) + " and key " +
                         std::string(DtypeName(k)) + " are computed in " +
                         std::string(DtypeName(out.dtype)));
    }
    if (auto bad = CheckArithmetic(settings_, options_)) {
      why_ = std::move(*bad);
      return false;
    }
    return true;
  }

  // Returns `spec` without the axes of dimensions of size 1, which cannot be
  // split, and adds a remark for each. With `strict_length`, returns `spec`
  // unchanged.
  Spec DropUnit(std::string_view name, Spec spec, const Shape& shape) {
    if (options_.strict_length) return spec;
    for (size_t d = 0; d < spec.size() && d < shape.size(); ++d) {
      if (shape[d] != 1 || mesh_.Parts(spec[d]) == 1) continue;
      remarks_.push_back(std::string(name) + ": dimension " +
                         std::to_string(d) +
                         " has size 1 and is not split "
                         "over " +
                         AxesText(spec[d]));
      spec[d].clear();
    }
    return spec;
  }

  // Scatters the query, key or value. If its spec is illegal, records an error
  // instead.
  void Main(std::string_view name, const Buffer& global, const Spec& spec,
            ShardedTensor& out) {
    const Spec use = DropUnit(name, spec, global.shape);
    if (auto bad = CheckLayout(mesh_, global.shape, use)) {
      // The value's error is not reported if the key has the same error.
      if (name == "value" && key_fault_ == bad->message) return;
      if (name == "key") key_fault_ = bad->message;
      Complain(name, std::move(*bad));
      if (options_.heads_on_keys)
        ExplainKeyHeads(mesh_, problem_, specs_, why_);
      if (options_.strict_length) ExplainLength(global.shape, why_);
      bad_.push_back(std::move(why_));
      return;
    }
    out = Canonical(Scatter(mesh_, global, use), problem_.layout);
  }

  // If `why` states that axes do not divide the query's length, changes its
  // message or adds help. Only operations whose query and key must have the
  // same length axes call this function.
  void ExplainLength(const Shape& shape, LayoutError& why) const {
    const size_t length = problem_.layout == Layout::kBhtd ? 2 : 1;
    if (problem_.layout == Layout::kThd || why.tensor != "query" ||
        why.dimension != length) {
      return;
    }
    if (shape[length] == 1) {
      why.message = "one query cannot be split over " +
                    AxesText(specs_.query[length]) +
                    ", and keys are split as queries are";
      why.help =
          "set decode_query_sequence: [] and decode_key_sequence: [], or "
          "decode with flash_decoding";
      return;
    }
    why.help =
        "split both lengths over axes whose sizes divide them, or set "
        "query_sequence: [] and key_sequence: []";
  }

  bool Extra(std::string_view name, const std::optional<Buffer>& global,
             const Spec& spec, std::optional<ShardedTensor>& out) {
    if (!global) return true;
    Spec use = PadSpec(spec, global->shape.size());
    // A dimension of size 1 is broadcast and stays unsharded.
    for (size_t d = 0; d < use.size() && d < global->shape.size(); ++d) {
      if (global->shape[d] == 1) use[d].clear();
    }
    if (auto bad = CheckLayout(mesh_, global->shape, use)) {
      Complain(name, std::move(*bad));
      return false;
    }
    out = Scatter(mesh_, *global, std::move(use));
    return true;
  }

  bool Sinks(Staged& out) {
    if (!problem_.softmax_aux) return true;
    Buffer aux = *problem_.softmax_aux;
    Spec spec = PadSpec(specs_.softmax_aux, aux.shape.size());
    const bool by_head = aux.shape.size() == 1 && aux.shape[0] == out.H();
    const bool by_key = aux.shape.size() == 2 && aux.shape[1] == out.K();
    if (!by_head && !by_key) {
      why_.message = "softmax_aux: " + ShapeText(aux.shape) + " is neither [" +
                     std::to_string(out.H()) + "] nor [sinks, " +
                     std::to_string(out.K()) + "]";
      why_.help =
          "one value per query head, or a row of key heads per sink; "
          "sinks that all heads share must be replicated";
      return false;
    }
    if (by_head) {
      aux.shape.insert(aux.shape.begin(), 1);
      spec.insert(spec.begin(), AxisGroup{});
    }
    out.sinks_by_key_head = by_key;
    if (auto bad = CheckLayout(mesh_, aux.shape, spec)) {
      Complain("softmax_aux", std::move(*bad));
      return false;
    }
    out.sinks = Scatter(mesh_, aux, std::move(spec));
    return true;
  }

  const SimMesh& mesh_;
  const AttentionProblem& problem_;
  const AttentionSpecs& specs_;
  const OperationSettings& settings_;
  StageOptions options_;
  LayoutError& why_;
  std::vector<std::string>& remarks_;
  std::vector<LayoutError> bad_;  // layout errors of query, key and value
  std::string key_fault_;
};

// Returns the axes over which one dimension of an extra input, such as a mask,
// is resharded to match the query or key. `host` are the axes of that dimension
// of the query or key, and `own` those of the extra input. The result is `own`
// if it is a prefix of `host`, else `host`. A dimension of size 1 is broadcast
// and has no axes.
AxisGroup Nested(const SimMesh& mesh, int64_t size, const AxisGroup& own,
                 const AxisGroup& host) {
  if (size == 1) return {};
  return IsPrefix(mesh, own, host) ? own : host;
}

void MoveBroadcast(Machine& machine, std::optional<ShardedTensor>& tensor,
                   const Staged& staged, bool unsharded_keys,
                   std::string_view what) {
  if (!tensor) return;
  const SimMesh& mesh = machine.mesh();
  const Spec& q = staged.query.spec;
  const AxisGroup hosts[4] = {q[0], q[2], q[1], staged.key.spec[1]};
  Spec spec(4);
  for (size_t d = 0; d < 4; ++d) {
    spec[d] = Nested(mesh, tensor->shape[d], tensor->spec[d], hosts[d]);
  }
  if (unsharded_keys) spec[3].clear();
  // An axis may shard only one dimension. If two would use the same axis, the
  // later dimension is gathered.
  for (size_t d = 1; d < 4; ++d) {
    for (size_t e = 0; e < d; ++e) {
      if (!Disjoint(spec[d], spec[e])) spec[d].clear();
    }
  }
  Move(machine, *tensor, std::move(spec), what);
}

}  // namespace

Buffer QueryPositions(const AttentionProblem& problem, int64_t batch,
                      int64_t rows, int64_t keys) {
  if (problem.query_positions) return *problem.query_positions;
  if (problem.IsHollow()) return Buffer::Hollow({batch, rows}, Dtype::kI32);
  Buffer out = Buffer::Zeros({batch, rows}, Dtype::kI32);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length =
        problem.key_lengths ? problem.key_lengths->integers[AsIndex(b)] : keys;
    for (int64_t i = 0; i < rows; ++i) {
      out.integers[AsIndex(b * rows + i)] =
          static_cast<int32_t>(length - rows + i);
    }
  }
  return out;
}

Buffer KeyPositions(const AttentionProblem& problem, int64_t batch,
                    int64_t keys) {
  if (problem.key_positions) return *problem.key_positions;
  if (problem.IsHollow()) return Buffer::Hollow({batch, keys}, Dtype::kI32);
  Buffer out = Buffer::Zeros({batch, keys}, Dtype::kI32);
  for (int64_t i = 0; i < batch * keys; ++i) {
    out.integers[AsIndex(i)] = static_cast<int32_t>(i % keys);
  }
  return out;
}

ShardedTensor SwapLengthAndHeads(const ShardedTensor& tensor) {
  ShardedTensor out;
  out.dtype = tensor.dtype;
  out.shape = tensor.shape;
  out.spec = tensor.spec;
  std::swap(out.shape[1], out.shape[2]);
  std::swap(out.spec[1], out.spec[2]);
  for (const Buffer& local : tensor.local) {
    out.local.push_back(TransposeDims(local, {0, 2, 1, 3}));
  }
  return out;
}

std::optional<LayoutError> Joined(std::vector<LayoutError> errors) {
  if (errors.empty()) return std::nullopt;
  LayoutError out = std::move(errors.front());
  const auto add = [](std::string& to, const std::string& text) {
    if (text.empty() || to.find(text) != std::string::npos) return;
    AppendItem(to, "; ", text);
  };
  for (size_t i = 1; i < errors.size(); ++i) {
    add(out.message, errors[i].message);
    add(out.help, errors[i].help);
  }
  return out;
}

std::optional<Dtype> ComputeDtype(const AttentionProblem& problem,
                                  const OperationSettings& settings) {
  if (settings.runtime_dtype) return settings.runtime_dtype;
  const std::array inputs = {problem.query.dtype, problem.key.dtype,
                             problem.value.dtype};
  return CanonicalDtype(inputs);
}

std::optional<LayoutError> CheckArithmetic(const OperationSettings& settings,
                                           const StageOptions& options) {
  LayoutError why;
  if (settings.softmax_dtype != Dtype::kF32 && !options.narrow_softmax) {
    why.message = "softmax in " +
                  std::string(DtypeName(settings.softmax_dtype)) +
                  ": the running maximum and sum are float32 here";
    why.help = "use vanilla or sdpa, or leave the softmax in float32";
    return why;
  }
  if (settings.dot_bits != 0 && !options.quantised_matmul) {
    why.message = "matmuls quantised to " + std::to_string(settings.dot_bits) +
                  " bits: a row's scale would depend on which keys a "
                  "device sees";
    why.help = "use vanilla, sdpa or flash_attn2, or leave out dot_bits";
    return why;
  }
  return std::nullopt;
}

std::optional<Staged> Stage(const Machine& machine,
                            const AttentionProblem& problem,
                            const AttentionSpecs& specs,
                            const OperationSettings& settings,
                            StageOptions options, LayoutError& why,
                            std::vector<std::string>& remarks) {
  return Stager(machine, problem, specs, settings, options, why, remarks).Run();
}

void Move(Machine& machine, ShardedTensor& tensor, Spec spec,
          std::string_view what) {
  if (PadSpec(spec, tensor.shape.size()) == tensor.spec) return;
  tensor = Reshard(machine, tensor, std::move(spec), what);
}

void MoveExtras(Machine& machine, Staged& staged, bool unsharded_keys) {
  const SimMesh& mesh = machine.mesh();
  MoveBroadcast(machine, staged.bias, staged, unsharded_keys, "bias");
  MoveBroadcast(machine, staged.mask, staged, unsharded_keys, "mask");
  MoveBroadcast(machine, staged.additive_mask, staged, unsharded_keys, "mask");
  if (staged.query_segments) {
    Move(machine, *staged.query_segments,
         {staged.query.spec[0], staged.query.spec[1]}, "q_segment_ids");
  }
  if (staged.key_segments) {
    Move(machine, *staged.key_segments,
         {staged.key.spec[0], staged.key.spec[1]}, "kv_segment_ids");
  }
  if (staged.sinks) {
    const AxisGroup& host =
        staged.sinks_by_key_head ? staged.key.spec[2] : staged.query.spec[2];
    Move(
        machine, *staged.sinks,
        {{}, Nested(mesh, staged.sinks->shape[1], staged.sinks->spec[1], host)},
        "softmax_aux");
  }
}

AxisGroup CommonPrefix(const SimMesh& mesh, const AxisGroup& a,
                       const AxisGroup& b) {
  const AxisGroup first = DropTrivial(mesh, a);
  const AxisGroup second = DropTrivial(mesh, b);
  AxisGroup out;
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    if (first[i] != second[i]) break;
    out.push_back(first[i]);
  }
  return out;
}

bool SameAxes(const SimMesh& mesh, const AxisGroup& a, const AxisGroup& b) {
  return DropTrivial(mesh, a) == DropTrivial(mesh, b);
}

bool Disjoint(const AxisGroup& a, const AxisGroup& b) {
  return std::none_of(a.begin(), a.end(), [&](const std::string& axis) {
    return IsAmong(axis, b);
  });
}

std::string AxesText(const AxisGroup& axes) {
  if (axes.empty()) return "no axis";
  std::string out = "`";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) out += ", ";
    out += axes[i];
  }
  return out + "`";
}

// Builds the slices of the attention inputs, one for each device, as views of
// the buffers that the device holds. Query, key and value are not copied. A
// bias or mask may be sharded over fewer axes than the query and key. The
// device then holds more of the bias than it needs, and an offset marks where
// its part begins.
//
// A device must also know which of its key heads each of its query heads reads.
// With GroupMap::kGlobal, it computes the global number of the key head and
// converts this number to an index on the device. For example, 8 query heads
// and 2 key heads are sharded over tp=2. Query head t = 0..3 of device 1 is
// global head 4 + t. It reads global key head (4 + t) / 4 = 1, which is key
// head 0 of the device.

namespace {

// Two tensors, such as a query and a mask, have a dimension of `size` elements
// in common. The axes `host` shard it in the first tensor. In the second, only
// the axes `guest` shard it, which are a prefix of `host`. A device's slice of
// the second therefore contains its slice of the first. Returns the offset, in
// elements, of the smaller slice within the larger one.
int64_t Within(const SimMesh& mesh, int device, int64_t size,
               const AxisGroup& host, const AxisGroup& guest) {
  return mesh.Index(device, host) * (size / mesh.Parts(host)) -
         mesh.Index(device, guest) * (size / mesh.Parts(guest));
}

BroadcastView ViewOf(const Machine& machine, const Staged& staged, int device,
                     const std::optional<ShardedTensor>& tensor) {
  BroadcastView view;
  if (!tensor) return view;
  const SimMesh& mesh = machine.mesh();
  view.buffer = &tensor->local[AsIndex(device)];
  const Spec& q = staged.query.spec;
  const Spec& own = tensor->spec;
  view.batch = Within(mesh, device, staged.query.shape[0], q[0], own[0]);
  view.head = Within(mesh, device, staged.H(), q[2], own[1]);
  view.row = Within(mesh, device, staged.T(), q[1], own[2]);
  view.key = Within(mesh, device, staged.S(), staged.key.spec[1], own[3]);
  return view;
}

std::vector<int32_t> KeyHeads(const Machine& machine, const Staged& staged,
                              int device, GroupMap map) {
  const SimMesh& mesh = machine.mesh();
  const int64_t local = staged.query.local[AsIndex(device)].shape[2];
  const int64_t local_keys = staged.key.local[AsIndex(device)].shape[2];
  const int64_t group = staged.H() / staged.K();
  const int64_t first = mesh.Index(device, staged.query.spec[2]) * local;
  const int64_t first_key = mesh.Index(device, staged.key.spec[2]) * local_keys;
  std::vector<int32_t> out;
  for (int64_t t = 0; t < local; ++t) {
    int64_t head = t / std::max<int64_t>(1, local / local_keys);
    if (map == GroupMap::kGlobal) head = (first + t) / group - first_key;
    out.push_back(static_cast<int32_t>(head));
  }
  return out;
}

}  // namespace

void See(const Machine& machine, const Staged& staged, Slices& slices) {
  const SliceSeam& seam = machine.Seam<SliceSeam>();
  if (seam.cut) seam.cut(machine, staged, slices);
}

void MakeSlices(const Machine& machine, const Staged& staged, GroupMap map,
                Slices& out) {
  const SimMesh& mesh = machine.mesh();
  const Spec& q = staged.query.spec;
  const Spec& k = staged.key.spec;
  // Every process computes the positions of all tokens and shards them itself,
  // so positions are never sent. In the mesh `whole`, this process therefore
  // holds the devices of all processes.
  const SimMesh whole(mesh.mesh());
  out.query_positions =
      Scatter(whole, staged.query_positions, Spec{q[0], q[1]});
  out.key_positions = Scatter(whole, staged.key_positions, Spec{k[0], k[1]});
  if (staged.key_lengths) {
    out.key_lengths = Scatter(mesh, *staged.key_lengths, Spec{k[0]});
  }
  if (staged.key_starts) {
    out.key_starts = Scatter(mesh, *staged.key_starts, Spec{k[0]});
  }
  out.options.assign(AsIndex(mesh.devices()), staged.options);
  out.at.resize(AsIndex(mesh.devices()));
  for (int device = 0; device < mesh.devices(); ++device) {
    LocalSlice& slice = out.at[AsIndex(device)];
    const size_t d = AsIndex(device);
    slice.query = &staged.query.local[d];
    slice.key = &staged.key.local[d];
    slice.value = &staged.value.local[d];
    slice.key_head = KeyHeads(machine, staged, device, map);
    slice.one_row = staged.T() == 1;
    slice.query_positions = &out.query_positions.local[d];
    slice.key_positions = &out.key_positions.local[d];
    if (staged.query_segments) {
      slice.query_segments = &staged.query_segments->local[d];
      slice.key_segments = &staged.key_segments->local[d];
    }
    if (out.key_lengths) slice.key_lengths = &out.key_lengths->local[d];
    if (out.key_starts) slice.key_starts = &out.key_starts->local[d];
    slice.bias = ViewOf(machine, staged, device, staged.bias);
    slice.mask = ViewOf(machine, staged, device, staged.mask);
    slice.additive_mask = ViewOf(machine, staged, device, staged.additive_mask);
    slice.batch_offset =
        staged.first_row + LocalStart(mesh, staged.query.shape, q, device)[0];
    slice.head_offset = mesh.Index(device, q[2]) * slice.heads();
    slice.scale =
        static_cast<float>(staged.options.ScaleFor(staged.query.shape[3]));
    slice.options = &out.options[d];
    slice.arithmetic = &machine.Seam<Arithmetic>();
  }
  See(machine, staged, out);
}

Buffer FinishRows(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice, SoftmaxState& state, Dtype dtype) {
  const Arithmetic& arithmetic = machine.Seam<Arithmetic>();
  if (staged.sinks) {
    AddSinks(LocalSinks(machine, staged, device, slice), state, arithmetic);
  }
  return FinishState(state, dtype, arithmetic);
}

void RoundOutput(ShardedTensor& output, Dtype dtype) {
  output.dtype = dtype;
  for (Buffer& local : output.local) {
    local.dtype = dtype;
    RoundAll(dtype, local.real);
  }
}

Buffer LocalSinks(const Machine& machine, const Staged& staged, int device,
                  const LocalSlice& slice) {
  const SimMesh& mesh = machine.mesh();
  const Buffer& held = staged.sinks->local[AsIndex(device)];
  const int64_t count = held.shape[0], width = held.shape[1];
  const AxisGroup& own = staged.sinks->spec[1];
  const int64_t offset =
      staged.sinks_by_key_head
          ? Within(mesh, device, staged.K(), staged.key.spec[2], own)
          : Within(mesh, device, staged.H(), staged.query.spec[2], own);
  Buffer out = Buffer::Zeros({count, slice.heads()}, Dtype::kF32);
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      const int64_t at =
          offset + (staged.sinks_by_key_head ? slice.key_head[AsIndex(h)] : h);
      out.real[AsIndex(a * slice.heads() + h)] =
          held.real[AsIndex(a * width + at)];
    }
  }
  const SliceSeam& seam = machine.Seam<SliceSeam>();
  if (seam.sinks) seam.sinks(machine, staged, out);
  return out;
}

// Implements the steps before and after a local kernel, which computes
// attention on each device without collectives. Before the kernel, the
// dimensions that it needs unsharded are gathered, and the slices of query, key
// and value are checked against each other. After the kernel, the output is
// resharded to the requested spec.

namespace {

LayoutError KeyHeadsComplaint(const SimMesh& mesh, int64_t key_heads,
                              const AxisGroup& axes) {
  LayoutError why;
  why.axis = DropTrivial(mesh, axes).back();
  why.message = std::to_string(key_heads) + " key heads do not divide over " +
                AxesText(axes) + " (" + std::to_string(mesh.Parts(axes)) +
                " parts)";
  why.help =
      "this operation lays key and value out as the query's heads: "
      "repeat key heads, or use vanilla or flash_attn2";
  return why;
}

}  // namespace

void ExplainKeyHeads(const SimMesh& mesh, const AttentionProblem& problem,
                     const AttentionSpecs& specs, LayoutError& why) {
  const size_t dim = problem.layout == Layout::kBthd ? 2 : 1;
  if (why.tensor != "key" || why.dimension != dim) return;
  why = KeyHeadsComplaint(mesh, problem.key.shape[dim], specs.key[dim]);
}

std::optional<LayoutError> KeysOnQueryHeads(Machine& machine, Staged& staged) {
  const SimMesh& mesh = machine.mesh();
  const AxisGroup heads = staged.query.spec[2];
  const int64_t parts = mesh.Parts(heads);
  LayoutError why;
  if (staged.K() % parts != 0) {
    return KeyHeadsComplaint(mesh, staged.K(), heads);
  }
  for (ShardedTensor* t : {&staged.key, &staged.value}) {
    Spec spec = t->spec;
    spec[2] = heads;
    for (size_t d : {size_t{0}, size_t{1}, size_t{3}}) {
      if (Disjoint(spec[d], heads)) continue;
      why.axis = heads.front();
      why.message = "heads on " + AxesText(heads) +
                    " leave no such axis for dimension " + std::to_string(d) +
                    " of key and value";
      return why;
    }
    Move(machine, *t, std::move(spec), t == &staged.key ? "key" : "value");
  }
  return std::nullopt;
}

std::optional<Staged> StageLocal(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings,
                                 StageOptions options,
                                 OperationOutcome& outcome) {
  const SimMesh& mesh = machine.mesh();
  LayoutError why;
  auto staged =
      Stage(machine, problem, specs, settings, options, why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return std::nullopt;
  }
  const AxisGroup length = DropTrivial(mesh, staged->key.spec[1]);
  if (!length.empty()) {
    outcome.remarks.push_back("key and value are gathered over " +
                              AxesText(length) +
                              ": splitting their length saves no memory");
  }
  const auto keep = [&](ShardedTensor& t, std::string_view name) {
    Move(machine, t, {t.spec[0], {}, t.spec[2], {}}, name);
  };
  keep(staged->query, "query");
  keep(staged->key, "key");
  keep(staged->value, "value");
  if (options.heads_on_keys) {
    if (auto bad = KeysOnQueryHeads(machine, *staged)) {
      outcome.unsupported = std::move(*bad);
      return std::nullopt;
    }
  }
  if (auto bad = CheckLocalShapes(mesh, *staged)) {
    outcome.unsupported = std::move(*bad);
    return std::nullopt;
  }
  if (problem.IsHollow()) return std::nullopt;
  MoveExtras(machine, *staged);
  return staged;
}

std::optional<LayoutError> CheckLocalShapes(const SimMesh& mesh,
                                            const Staged& staged) {
  const Shape q = LocalShape(mesh, staged.query.shape, staged.query.spec);
  const Shape k = LocalShape(mesh, staged.key.shape, staged.key.spec);
  const Shape v = LocalShape(mesh, staged.value.shape, staged.value.spec);
  const auto disagree = [&](std::string what, const AxisGroup& a,
                            const AxisGroup& b, std::string help) {
    LayoutError why;
    why.message = std::move(what);
    const AxisGroup first = DropTrivial(mesh, a);
    const AxisGroup second = DropTrivial(mesh, b);
    why.axis = !first.empty()    ? first.back()
               : !second.empty() ? second.back()
                                 : "";
    why.help = std::move(help);
    return why;
  };
  std::vector<LayoutError> bad;
  if (q[0] != k[0] || k[0] != v[0]) {
    bad.push_back(
        disagree("a device holds " + std::to_string(q[0]) +
                     " batch rows of the query and " + std::to_string(k[0]) +
                     " of the key",
                 staged.query.spec[0], staged.key.spec[0],
                 "split the batch of query, key and value over the same axes"));
  }
  if (k[1] != v[1] || k[2] != v[2]) {
    bad.push_back(disagree("a device holds " + ShapeText(k) +
                               " of the key and " + ShapeText(v) +
                               " of the value",
                           staged.key.spec[2], staged.value.spec[2],
                           "give key and value the same spec"));
  }
  if (q[2] % k[2] != 0) {
    bad.push_back(disagree("a device holds " + std::to_string(q[2]) +
                               " query heads and " + std::to_string(k[2]) +
                               " key heads",
                           staged.query.spec[2], staged.key.spec[2],
                           "split key heads over the axes of query heads, or "
                           "repeat them"));
  }
  return Joined(std::move(bad));
}

ShardedTensor EmptyOutput(const Machine& machine, const Staged& staged) {
  const Spec& q = staged.query.spec;
  ShardedTensor out;
  out.shape = staged.query.shape;
  out.shape[3] = staged.value.shape[3];
  out.dtype = staged.dtype;
  out.spec = {q[0], q[1], q[2], {}};
  out.local.resize(AsIndex(machine.devices()));
  return out;
}

namespace {

ShardedTensor InLayout(ShardedTensor output, Layout layout) {
  if (layout == Layout::kBhtd) return SwapLengthAndHeads(output);
  if (layout == Layout::kThd) {
    output.shape.erase(output.shape.begin());
    output.spec.erase(output.spec.begin());
    for (Buffer& local : output.local) {
      local.shape.erase(local.shape.begin());
    }
  }
  return output;
}

}  // namespace

ShardedTensor FinishOutput(Machine& machine, const Staged& staged,
                           ShardedTensor output) {
  ShapeElsewhere(machine.mesh(), output);
  Move(machine, output, staged.output, "output");
  output = InLayout(std::move(output), staged.problem->layout);
  const SliceSeam& seam = machine.Seam<SliceSeam>();
  if (seam.join) seam.join(machine, staged, output);
  return output;
}

}  // namespace shardc::exec
