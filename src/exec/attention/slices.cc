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
#include "exec/attention/staging.h"

#include <algorithm>
#include <utility>

#include "floats/convert.h"
#include "source/index.h"

namespace shardc::exec {
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

}  // namespace shardc::exec
